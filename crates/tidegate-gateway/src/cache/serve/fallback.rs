//! A reader whom a fill has left behind: when the disk fails in the middle, memory has what came last, and who
//! is further behind asks the origin for the rest himself, as the fill would have asked.
//!
//! As in `resume` it takes a strong validator; else the response ends visibly broken. Nothing is made ready before
//! it is needed: a disk seldom fails.

use std::sync::Arc;

use tidegate_cache::{Fill, FillHead};
use tidegate_core::generated::{Yielder, generate};
use tidegate_core::{Body, BodyError, Chunk, Exchange, Level};
use tidegate_http::request::Method;
use tidegate_upstream::LogContext;

use crate::cache::decide::identity::Identity;
use crate::cache::fill::origin::{Origin, may_leave_readers_behind};
use crate::cache::fill::resume::{Progress, Rest, Resume};
use crate::cache::meta::Meta;

/// What a reader does without the fill.
pub(crate) struct FallbackFetch {
    head: Arc<FillHead>,
    log: LogContext,
}

impl FallbackFetch {
    /// For a reader of a fill; `None` where it needs none.
    pub(crate) fn of(x: &Exchange, fill: &Fill, head: &Arc<FillHead>) -> Option<FallbackFetch> {
        let is_stored = fill.is_whole() && fill.has_file();
        let may_be_needed = may_leave_readers_behind(head.body_bytes) && !is_stored;
        (may_be_needed && x.request.method == Method::Get)
            .then(|| FallbackFetch { head: head.clone(), log: LogContext::of(x) })
    }

    /// The body of the fill behind `at` bytes; `None`: there is none.
    pub(crate) fn body(self, fill: &Fill, at: u64) -> Option<Body> {
        let FallbackFetch { head, log } = self;
        let meta = Meta::decode(&head.metadata)?;
        let Some(identity) = Identity::of(meta.status, &meta.headers, head.body_bytes) else {
            // Nothing would tell that what comes is the rest of the same.
            let text = format!(
                "cache fill has no file and is ahead, and nothing tells what the rest after {at} \
                 bytes belongs to"
            );
            log.write(Level::Error, &text, "sending to client", "");
            return None;
        };
        let resume = Resume::in_parts(Origin::of_fill(fill, log)?, identity);
        Some(generate(move |out| give(resume, at, out)))
    }
}

async fn give(mut resume: Resume, mut at: u64, out: Yielder) -> Result<(), BodyError> {
    loop {
        let Some(Rest { mut body, mut skip, end }) = resume.instead(at).await else {
            return Err(BodyError::Incomplete);
        };
        let ended = loop {
            let bytes = match body.next().await {
                None => break true,
                Some(Err(_)) => break false,
                Some(Ok(Chunk::Bytes(bytes))) => bytes,
                Some(Ok(Chunk::Flush | Chunk::File(_))) => continue,
            };
            let known = usize::try_from(skip).unwrap_or(usize::MAX).min(bytes.len());
            skip -= known as u64;
            let bytes = bytes.slice(known..);
            at += bytes.len() as u64;
            if end.is_some_and(|end| at > end) {
                return Err(BodyError::Incomplete);
            }
            if !bytes.is_empty() {
                out.put(Chunk::Bytes(bytes)).await;
            }
        };
        match resume.progress(at) {
            Progress::Whole => return Ok(()),
            Progress::Open if ended => return Ok(()),
            Progress::TooLong => return Err(BodyError::Incomplete),
            Progress::Open | Progress::Unfinished => {}
        }
    }
}
