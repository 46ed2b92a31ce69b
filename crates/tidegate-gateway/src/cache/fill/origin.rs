//! What the origin is asked, the first time and again for the rest.

use std::sync::Arc;

use tidegate_cache::{Fill, TAIL_BYTES_MAX_DEFAULT};
use tidegate_upstream::{
    FetchSettings, LogContext, NextUpstream, OriginBody, OriginRequest, OriginResponse,
    PartRequest, Report, SharedReport, fetch,
};

use crate::cache::decide::identity::Identity;

/// What is asked of the origin; owns all that it needs.
pub(crate) struct OriginFetch {
    pub request: OriginRequest,
    pub settings: Arc<FetchSettings>,
    pub report: SharedReport,
    pub log: LogContext,
}

/// What it takes to ask the origin once more.
#[derive(Clone)]
pub(crate) struct Origin {
    pub request: PartRequest,
    pub settings: Arc<FetchSettings>,
    pub report: SharedReport,
    pub log: LogContext,
}

impl Origin {
    /// `None` where the request cannot be made again, or `proxy_next_upstream` forbids it.
    pub(crate) fn of(origin_fetch: &OriginFetch) -> Option<Origin> {
        let next = origin_fetch.settings.next_upstream;
        if !next.has(NextUpstream::ERROR) && !next.has(NextUpstream::TIMEOUT) {
            return None;
        }
        Some(Origin {
            request: PartRequest::of(&origin_fetch.request)?,
            settings: origin_fetch.settings.clone(),
            report: origin_fetch.report.clone(),
            log: origin_fetch.log.clone(),
        })
    }
}

/// How the rest of a fill is asked for, by a reader on whatever thread. Attached to the fill.
struct AskedOfOrigin {
    request: PartRequest,
    settings: Arc<FetchSettings>,
}

impl Origin {
    /// Lets the readers of a fill ask as it does itself.
    pub(crate) fn attach(&self, fill: &Fill) {
        let (request, settings) = (self.request.clone(), self.settings.clone());
        fill.attach(AskedOfOrigin { request, settings });
    }

    /// For a reader of a fill, whose attempts are listed for nobody. `None` where nothing was attached.
    pub(crate) fn of_fill(fill: &Fill, log: LogContext) -> Option<Origin> {
        let AskedOfOrigin { request, settings } = fill.attached()?;
        let (request, settings) = (request.clone(), settings.clone());
        Some(Origin { request, settings, report: Report::shared(), log })
    }

    /// Asks for the bytes from `at` to `last`.
    pub(crate) async fn ask(
        &self,
        at: u64,
        last: Option<u64>,
        identity: Option<&Identity>,
    ) -> Option<OriginResponse> {
        let Origin { request, settings, report, log } = self;
        report.borrow_mut().continue_fetch();
        let part = request.part(at, last, identity.map(Identity::validator));
        fetch(part, settings.clone(), report.clone(), log.clone()).await.ok()
    }
}

/// Whether a fill of this length may go on without its readers, for want of a file: less than that stays in memory.
pub(crate) fn may_leave_readers_behind(body_bytes: Option<u64>) -> bool {
    body_bytes.is_none_or(|bytes| bytes > TAIL_BYTES_MAX_DEFAULT as u64)
}

/// The length of an answer's body, where it was announced.
pub(crate) fn length_of(response: &OriginResponse) -> Option<u64> {
    match &response.body {
        OriginBody::Whole(bytes) => Some(bytes.len() as u64),
        OriginBody::Stream(reader) => reader.length_left(),
        OriginBody::Upgraded(_) => None,
    }
}
