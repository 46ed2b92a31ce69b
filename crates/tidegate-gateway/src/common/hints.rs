//! Early hints for the client: an interim head has the fields that the final one may have.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use tidegate_codec::Headers;
use tidegate_codec::request::Version;
use tidegate_core::client::{CancelCode, Client};
use tidegate_core::template::any_is_true;
use tidegate_core::{Exchange, LocalFuture, Template};

use super::settings::GatewaySettings;
use crate::cache::ring::{field, serve};

/// Returns the client, if one of `conditions` (`early_hints`) is true for it. HTTP/1.0 has no interim responses.
pub(crate) fn client(
    x: &mut Exchange,
    conditions: &[Template],
    settings: &Arc<GatewaySettings>,
) -> Option<Rc<dyn Client>> {
    if !any_is_true(conditions, x) || x.request.version() < Version::H11 {
        return None;
    }
    let (client, settings) = (x.client.clone(), settings.clone());
    let has_rings = serve::has_rings(&x.plan);
    Some(Rc::new(HintedClient { client, settings, has_rings }))
}

/// The client, which is sent no interim fields that `*_hide_header` and its defaults hide.
struct HintedClient {
    client: Rc<dyn Client>,
    settings: Arc<GatewaySettings>,
    /// The field of cache peers is never an origin's.
    has_rings: bool,
}

impl Client for HintedClient {
    fn poll_closed(&self, context: &mut Context<'_>) -> Poll<()> {
        self.client.poll_closed(context)
    }

    fn cancel(&self, code: CancelCode) {
        self.client.cancel(code);
    }

    fn body_bytes(&self) -> u64 {
        self.client.body_bytes()
    }

    fn send_interim<'a>(
        &'a self,
        status: u16,
        headers: &'a Headers,
    ) -> LocalFuture<'a, io::Result<()>> {
        let mut shown = headers.clone();
        shown.retain(|known, name, _| !self.settings.hidden.contains(known, name));
        if self.has_rings {
            shown.remove_named(field::NAME);
        }
        Box::pin(async move {
            match shown.is_empty() {
                true => Ok(()),
                false => self.client.send_interim(status, &shown).await,
            }
        })
    }

    fn tcp_info(&self) -> Option<[u32; 4]> {
        self.client.tcp_info()
    }
}
