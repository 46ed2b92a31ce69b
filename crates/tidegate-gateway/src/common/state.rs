//! The state of a request towards its origins, for variables and logs.

use std::cell::RefCell;
use std::rc::Rc;

use smallvec::SmallVec;
use tidegate_codec::Headers;
use tidegate_codec::response::ResponseHead;
use tidegate_core::Exchange;
use tidegate_upstream::{Report, SharedReport};

use crate::upstream::sticky::BoundSession;

/// The state; in the exchange's extensions from the first fetch to the end of the request.
pub(crate) struct GatewayState {
    pub report: SharedReport,
    /// The last origin's head as received.
    pub head: Option<ResponseHead>,
    pub trailers: Option<Rc<RefCell<Headers>>>,
    /// `$proxy_host` and `$proxy_port`.
    pub host: SmallVec<[u8; 32]>,
    pub port: SmallVec<[u8; 8]>,
    /// The `sticky` session that the request belongs to.
    pub bound: Option<BoundSession>,
}

/// Returns the attempts of a request at servers; `None` where there were none.
pub fn attempts(x: &Exchange) -> Option<SharedReport> {
    x.modules.extensions.of::<GatewayState>().map(|state| state.report.clone())
}

impl GatewayState {
    /// Returns the request's state, made at its first fetch.
    pub(crate) fn of(x: &mut Exchange) -> &mut GatewayState {
        if x.modules.extensions.of::<GatewayState>().is_none() {
            x.modules.extensions.insert(GatewayState {
                report: Report::shared(),
                head: None,
                trailers: None,
                host: SmallVec::new(),
                port: SmallVec::new(),
                bound: None,
            });
        }
        match x.modules.extensions.of_mut::<GatewayState>() {
            Some(state) => state,
            // It was inserted above.
            None => unreachable!("extensions keep what was inserted"),
        }
    }

    /// Prepares for another location that responds in the origin's place: log lines keep naming the request to the
    /// origin.
    pub(crate) fn leave(x: &mut Exchange) {
        let asked = std::mem::take(&mut GatewayState::of(x).report.borrow_mut().request_url);
        x.progress.upstream = asked;
    }
}

impl Drop for GatewayState {
    fn drop(&mut self) {
        if let Some(head) = self.head.take() {
            tidegate_upstream::give_head(head);
        }
    }
}
