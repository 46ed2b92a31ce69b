//! The requests to the origin: the first one, and those for the rest of a body.
//!
//! When an origin breaks off in the middle of a body, the rest is requested by `Range` and `If-Range` from the same
//! or another server, and appended to the first part. Readers notice nothing. This requires a strong validator (RFC
//! 9110 section 8.8.1), and every part must carry the same one: a visibly broken response is better than one
//! assembled from two representations.

use std::cmp::Ordering;
use std::sync::Arc;

use tidegate_cache::{Fill, FillHead, TAIL_BYTES_MAX_DEFAULT};
use tidegate_codec::response::ResponseHead;
use tidegate_core::{Body, Level};
use tidegate_upstream::{
    FetchSettings, LogContext, NextUpstream, OriginBody, OriginRequest, OriginResponse,
    PartRequest, Report, SharedReport, fetch,
};

use crate::cache::decide::identity::{Identity, MatchingPart, PartMismatch};
use crate::cache::meta::Meta;

/// Most requests for the rest of one response; `proxy_next_upstream_tries` may allow fewer. An origin that breaks off
/// more often is broken beyond what a cache can mend.
const RESUMES_MAX: u32 = 5;

const READING: &str = "reading upstream";

/// A request to the origin; owns all that it needs.
pub(crate) struct OriginFetch {
    pub request: OriginRequest,
    pub settings: Arc<FetchSettings>,
    pub report: SharedReport,
    pub log: LogContext,
}

/// The means to send further requests to the origin.
#[derive(Clone)]
pub(crate) struct OriginRequester {
    request: PartRequest,
    settings: Arc<FetchSettings>,
    report: SharedReport,
    log: LogContext,
}

impl OriginRequester {
    /// Makes one; `None` where the request cannot be repeated, or `proxy_next_upstream` forbids it.
    pub(crate) fn of(origin_fetch: &OriginFetch) -> Option<OriginRequester> {
        let next = origin_fetch.settings.next_upstream;
        if !next.has(NextUpstream::ERROR) && !next.has(NextUpstream::TIMEOUT) {
            return None;
        }
        Some(OriginRequester {
            request: PartRequest::of(&origin_fetch.request)?,
            settings: origin_fetch.settings.clone(),
            report: origin_fetch.report.clone(),
            log: origin_fetch.log.clone(),
        })
    }
}

/// The request for the rest of a fill, for readers on any thread. Attached to the fill.
struct AttachedRequest {
    request: PartRequest,
    settings: Arc<FetchSettings>,
}

impl OriginRequester {
    /// Lets the readers of a fill send the same requests as the fill itself.
    pub(crate) fn attach(&self, fill: &Fill) {
        let (request, settings) = (self.request.clone(), self.settings.clone());
        fill.attach(AttachedRequest { request, settings });
    }

    /// Makes one for a reader of a fill; its attempts are not listed in any request's variables. `None` where nothing
    /// was attached.
    pub(crate) fn of_fill(fill: &Fill, log: LogContext) -> Option<OriginRequester> {
        let AttachedRequest { request, settings } = fill.attached()?;
        let (request, settings) = (request.clone(), settings.clone());
        Some(OriginRequester { request, settings, report: Report::shared(), log })
    }

    /// Requests the bytes from `at` to `last`.
    pub(crate) async fn fetch(
        &self,
        at: u64,
        last: Option<u64>,
        identity: Option<&Identity>,
    ) -> Option<OriginResponse> {
        let OriginRequester { request, settings, report, log } = self;
        report.borrow_mut().continue_fetch();
        let part = request.part(at, last, identity.map(Identity::validator));
        fetch(part, settings.clone(), report.clone(), log.clone()).await.ok()
    }
}

/// A response that can be completed by parts.
pub(crate) struct Resume {
    origin: OriginRequester,
    identity: Identity,
    left: u32,
    refusals: u32,
    /// An origin has another representation now.
    changed: bool,
}

/// The rest of a body.
pub(crate) struct BodyRest {
    pub body: Body,
    /// Number of bytes at its start that have arrived already.
    pub skip: u64,
    /// Offset of its end in the complete body, if known.
    pub end: Option<u64>,
}

/// The progress of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyProgress {
    /// Its length is not known.
    Open,
    Whole,
    Unfinished,
    /// It has more bytes than announced.
    TooLong,
}

impl Resume {
    /// Makes one for this response of the origin; `None` when nothing would prove that a part belongs to it.
    pub(crate) fn of(
        origin: OriginRequester,
        head: &ResponseHead,
        length: Option<u64>,
    ) -> Option<Resume> {
        // The first request is the first try.
        Resume::after(1, origin, head, length)
    }

    /// Makes one for a response that the origin was not asked for; `None` as with [`Resume::of`].
    pub(crate) fn of_other(
        origin: OriginRequester,
        head: &ResponseHead,
        length: Option<u64>,
    ) -> Option<Resume> {
        Resume::after(0, origin, head, length)
    }

    fn after(
        tried: u32,
        origin: OriginRequester,
        head: &ResponseHead,
        length: Option<u64>,
    ) -> Option<Resume> {
        let identity = Identity::of(head.status, &head.headers, length)?;
        let left = match origin.settings.next_upstream_tries {
            0 => RESUMES_MAX,
            tries => tries.saturating_sub(tried).min(RESUMES_MAX),
        };
        Some(Resume { origin, identity, left, refusals: 0, changed: false })
    }

    /// Returns whether this fill's head is of the same representation.
    pub(crate) fn is_same(&self, head: &FillHead) -> bool {
        let size = self.identity.size();
        let Some(meta) = Meta::decode(&head.metadata) else { return false };
        let other = Identity::of(meta.status, &meta.headers, head.body_bytes);
        size.is_some() && other.is_some_and(|other| other == self.identity)
    }

    /// Returns the progress of a body of `at` bytes.
    pub(crate) fn progress(&self, at: u64) -> BodyProgress {
        match self.identity.size().map(|size| at.cmp(&size)) {
            None => BodyProgress::Open,
            Some(Ordering::Equal) => BodyProgress::Whole,
            Some(Ordering::Less) => BodyProgress::Unfinished,
            Some(Ordering::Greater) => BodyProgress::TooLong,
        }
    }

    /// Makes one that only requests parts.
    pub(crate) fn in_parts(origin: OriginRequester, identity: Identity) -> Resume {
        Resume { origin, identity, left: RESUMES_MAX, refusals: 0, changed: false }
    }

    /// Returns whether an origin had another representation.
    pub(crate) fn has_changed(&self) -> bool {
        self.changed
    }

    /// Returns the origin of further requests.
    pub(crate) fn origin(&self) -> &OriginRequester {
        &self.origin
    }

    /// Returns the identity of the representation.
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Requests the bytes behind `at`, since an origin broke off; `None` when no server has them.
    pub(crate) async fn fetch_rest(&mut self, at: u64) -> Option<BodyRest> {
        if self.left > 0 {
            let text = format!("upstream broke off after {at} bytes, asking for the rest");
            self.log(Level::Warn, &text);
        }
        self.fetch(at, None, true).await
    }

    /// Requests the bytes behind `at`, since those before it were read from stored parts.
    pub(crate) async fn fetch_behind(&mut self, at: u64) -> Option<BodyRest> {
        self.left += 1;
        self.fetch(at, None, true).await
    }

    /// Requests the bytes behind `at`, since the fill no longer has them.
    pub(crate) async fn fetch_instead(&mut self, at: u64) -> Option<BodyRest> {
        if self.left > 0 {
            let text =
                format!("cache fill without a file is ahead, asking for the rest after {at} bytes");
            self.log(Level::Warn, &text);
        }
        self.fetch(at, None, true).await
    }

    /// Requests a part, for which a 200 is no substitute.
    pub(crate) async fn fetch_part(&mut self, start: u64, end: u64) -> Option<BodyRest> {
        self.fetch(start, Some(end.checked_sub(1)?), false).await
    }

    async fn fetch(&mut self, at: u64, last: Option<u64>, or_whole: bool) -> Option<BodyRest> {
        while self.left > 0 && self.refusals < self.origin.request.servers() {
            self.left -= 1;
            // All servers were tried, and the failures logged.
            let response = self.origin.fetch(at, last, Some(&self.identity)).await?;
            let (length, headers) = (length_of(&response), &response.head.headers);
            let mismatch = match self.identity.judge(response.head.status, headers, length, at) {
                Ok(MatchingPart { skip, .. }) if skip > 0 && !or_whole => PartMismatch::Status(200),
                Ok(MatchingPart { skip, end }) => {
                    let body = response.body.into_body();
                    return Some(BodyRest { body, skip, end });
                }
                Err(mismatch) => mismatch,
            };
            drop(response);
            self.refused(mismatch);
        }
        None
    }

    fn refused(&mut self, mismatch: PartMismatch) {
        self.refusals += 1;
        self.changed |= matches!(
            mismatch,
            PartMismatch::Validator | PartMismatch::Length | PartMismatch::Status(416)
        );
        let report = self.origin.report.borrow();
        let peer = report.attempts().last().and_then(|attempt| attempt.peer());
        peer.into_iter().for_each(|peer| self.origin.request.exclude(peer));
        drop(report);
        let text = format!("upstream did not send the rest of its response: {mismatch}");
        self.log(Level::Error, &text);
    }

    fn log(&self, level: Level, text: &str) {
        let OriginRequester { request, log, .. } = &self.origin;
        log.write(level, text, READING, &request.url());
    }
}

/// Returns whether a fill of this length may leave readers behind when it has no file: smaller ones stay in memory.
pub(crate) fn may_leave_readers_behind(body_bytes: Option<u64>) -> bool {
    body_bytes.is_none_or(|bytes| bytes > TAIL_BYTES_MAX_DEFAULT as u64)
}

/// Returns the announced length of a response's body in bytes.
pub(crate) fn length_of(response: &OriginResponse) -> Option<u64> {
    match &response.body {
        OriginBody::Whole(bytes) => Some(bytes.len() as u64),
        OriginBody::Stream(reader) => reader.length_left(),
        OriginBody::Upgraded(_) => None,
    }
}
