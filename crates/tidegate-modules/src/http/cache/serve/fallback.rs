//! A reader whom a fill has left behind: when the disk fails in the middle, memory has what came last, and who
//! is further behind asks the origin for the rest himself.
//!
//! As in `resume` it takes a strong validator; else the response ends visibly broken.

use tidegate_cache::{Fill, FillHead, TAIL_BYTES_MAX_DEFAULT};
use tidegate_core::generated::{Yielder, generate};
use tidegate_core::{Body, BodyError, Chunk, Exchange, Level};
use tidegate_http::request::Method;
use tidegate_upstream::{LogContext, Report};

use crate::http::cache::fill::resume::{Identity, Origin, Progress, Rest, Resume};
use crate::http::cache::fill::task::OriginFetch;
use crate::http::cache::gateway::{FillRequestOptions, Gateway};
use crate::http::cache::meta::Meta;

/// What a reader does without the fill.
pub enum FallbackFetch {
    Ask(Box<Resume>),
    /// Nothing would tell that what comes is the rest of the same.
    Tell(LogContext),
}

impl FallbackFetch {
    /// For a reader of a fill; `None` where it needs none.
    pub async fn of(
        x: &mut Exchange,
        gateway: &dyn Gateway,
        (fill, head, meta): (&Fill, &FillHead, &Meta),
    ) -> Option<FallbackFetch> {
        // So little stays in memory.
        let fits = |bytes: u64| bytes <= TAIL_BYTES_MAX_DEFAULT as u64;
        let is_small = head.body_bytes.is_some_and(fits) || fill.is_whole() && fill.has_file();
        if is_small || x.request.method != Method::Get {
            return None;
        }
        let log = LogContext::of(x);
        let identity = Identity::of(meta.status, &meta.headers, head.body_bytes);
        let Some(identity) = identity else { return Some(FallbackFetch::Tell(log)) };
        let options = FillRequestOptions { convert_head: false, client_waits: false };
        let request = gateway.request(x, options).await.ok()?;
        let origin_fetch = OriginFetch {
            request,
            settings: gateway.fetch_settings(),
            // That of the exchange may be in use: it tells of who fills.
            report: Report::shared(),
            log,
        };
        Some(FallbackFetch::Ask(Box::new(Resume::in_parts(Origin::of(&origin_fetch)?, identity))))
    }

    /// The body behind `at` bytes; `None`: there is none.
    pub fn body(self, at: u64) -> Option<Body> {
        match self {
            FallbackFetch::Ask(resume) => Some(generate(move |out| give(*resume, at, out))),
            FallbackFetch::Tell(log) => {
                let text = format!(
                    "cache fill has no file and is ahead, and nothing tells what the rest after \
                     {at} bytes belongs to"
                );
                log.write(Level::Error, &text, "sending to client", "");
                None
            }
        }
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
