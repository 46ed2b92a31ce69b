//! Responses from fills: their heads, and their bodies while they are still arriving.
//!
//! A fill may leave a reader behind: when the disk fails in the middle, memory holds the last bytes only, and a
//! reader that is further behind fetches the rest from the origin itself, by the fill's own request. As for the fill
//! this requires a strong validator; otherwise the response ends visibly broken. Nothing is prepared in advance: a
//! disk seldom fails.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tidegate_cache::{BreakReason, Fill, FillHead, FillReader, Head, Piece};
use tidegate_codec::request::Method;
use tidegate_core::generated::{Yielder, generate};
use tidegate_core::timeline::{Cause, blame, waits_for};
use tidegate_core::{Body, BodyError, BodyStream, Chunk, Exchange, FileRange, Level, Step};
use tidegate_rt::{Task, clock, spawn_local};
use tidegate_upstream::LogContext;

use crate::cache::decide::identity::Identity;
use crate::cache::fill::origin::{
    BodyProgress, BodyRest, OriginRequester, Resume, may_leave_readers_behind,
};
use crate::cache::fill::wakeups::MANY_READERS;
use crate::cache::gateway::{Gateway, StoredResponse};
use crate::cache::meta::{Decoded, Meta};
use crate::cache::ring::serve;
use crate::cache::status::{CacheStatus, note};

/// Most bytes handed out in one piece: as many as go into one `sendfile`, small enough that a client that leaves is
/// noticed.
pub(crate) const PIECE_BYTES_MAX: usize = 2 << 20;

/// Most bytes of the first piece of a fill: all waiters are woken at once, and the last of them must not wait for a
/// megabyte to each of the others.
const FIRST_PIECE_BYTES_MAX: usize = 128 << 10;

/// Most bytes of the first piece with [`MANY_READERS`]: each reader lets the others send theirs before it continues.
const FIRST_OF_MANY_BYTES_MAX: usize = 16 << 10;

/// Responds with another request's fill. A fill that is not stored has no followers: it runs at the pace of the
/// request that began it, and would leave slower readers behind.
pub(crate) async fn follow(
    x: &mut Exchange,
    gateway: &dyn Gateway,
    mut reader: FillReader,
    status: CacheStatus,
) -> Result<Step<'static>, BreakReason> {
    let has_head = matches!(blame(Cause::CacheLock, reader.head()).await, Head::Ready(_));
    let of = reader.fill();
    if has_head && !of.has_file() && !of.is_whole() {
        let broken = of.has_ended();
        return Err(if broken { BreakReason::WriterGone } else { BreakReason::Uncacheable });
    }
    respond(x, gateway, reader, status).await
}

/// Responds with a fill as it grows. The error is the reason why it has no head.
pub(crate) async fn respond(
    x: &mut Exchange,
    gateway: &dyn Gateway,
    mut reader: FillReader,
    status: CacheStatus,
) -> Result<Step<'static>, BreakReason> {
    let published = match blame(Cause::CacheLock, reader.head()).await {
        Head::Ready(head) => head,
        Head::Uncacheable => return Err(BreakReason::Uncacheable),
        Head::Failed(reason) => return Err(reason),
    };
    let Some(Decoded { meta, head }) = Decoded::of(&published.metadata) else {
        return Err(BreakReason::WriterGone);
    };
    note(x, |note| {
        note.status = status;
        note.stored_at = if status == CacheStatus::Hit { published.times.created } else { 0 };
    });
    serve::note_terms(x, &meta, published.times, clock::unix_millis());
    gateway.show_head(x, head.clone());
    let fill = reader.fill();
    let whole = fill.is_whole().then(|| fill.watermark());
    let content_length = match x.request.method {
        Method::Head => meta.head_length.or(published.body_bytes).or(whole),
        _ => published.body_bytes.or(whole),
    };
    // A response to HEAD needs no reader, and a fill needs none to continue.
    let body = match (x.request.method, content_length) {
        (Method::Head, Some(_)) | (_, Some(0)) => Body::Empty,
        _ => {
            let fallback = FallbackFetch::of(x, reader.fill(), &published);
            Body::Stream(Box::new(FillBody::new(reader, published.body_bytes.is_none(), fallback)))
        }
    };
    Ok(gateway.respond_stored(x, StoredResponse { head: &head, body, content_length }))
}

/// Returns a piece with bytes as a chunk; `None` for one without, or for a file that the operating system does not
/// have.
pub(crate) fn chunk_of(piece: Piece) -> Option<Chunk> {
    match piece {
        Piece::Bytes(bytes) => Some(Chunk::Bytes(bytes)),
        Piece::File { handle, offset, length, is_fresh } => {
            let file = handle.system_file()?.clone();
            Some(Chunk::File(FileRange { is_fresh, ..FileRange::new(file, offset, length) }))
        }
        Piece::End | Piece::Broken(_) => None,
    }
}

/// The body of a fill: bytes from memory while they are recent, else ranges of its file.
pub(crate) struct FillBody {
    source: BodySource,
    /// The end of the body is delayed until the object is stored, so that the client's next request finds it. Needed
    /// only without a length from the origin: otherwise the client knows the end by itself.
    waits: bool,
    /// The first piece has been handed out.
    begun: bool,
    /// Completed once the tasks that were woken with this reader have run.
    others: Option<Task<()>>,
    /// Used when the fill leaves its reader behind.
    fallback: Option<FallbackFetch>,
}

enum BodySource {
    Fill(FillReader),
    /// The rest of the body, after the fill has left its reader behind.
    Rest(Body),
}

impl FillBody {
    pub(crate) fn new(
        reader: FillReader,
        waits: bool,
        fallback: Option<FallbackFetch>,
    ) -> FillBody {
        FillBody { source: BodySource::Fill(reader), waits, begun: false, others: None, fallback }
    }
}

/// States: the first piece, which is small, and with many readers smaller still, after which the other readers run;
/// all further pieces; the rest, once the fill has left the reader behind (there is no way back). Cancelling:
/// dropping the body drops the reader, and the fill continues.
impl BodyStream for FillBody {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let reader = match &mut self.source {
            BodySource::Fill(reader) => reader,
            BodySource::Rest(body) => return body.poll_chunk(context),
        };
        if let Some(others) = &mut self.others {
            let _ = ready!(Pin::new(others).poll(context));
            self.others = None;
        }
        let is_one_of_many = !self.begun && reader.fill().readers() >= MANY_READERS;
        let most = match self.begun {
            true => PIECE_BYTES_MAX,
            false if is_one_of_many => FIRST_OF_MANY_BYTES_MAX,
            false => FIRST_PIECE_BYTES_MAX,
        };
        let Poll::Ready(piece) = reader.poll_next(context, most) else {
            waits_for(Cause::OriginStream);
            return Poll::Pending;
        };
        self.begun = true;
        if is_one_of_many && piece.length() == most as u64 {
            // Runs behind all tasks that are ready now.
            self.others = Some(spawn_local(async {}));
        }
        if matches!(piece, Piece::Broken(BreakReason::ReaderTooSlow))
            && let Some(fallback) = self.fallback.take()
            && let Some(rest) = fallback.body(reader.fill(), reader.offset())
        {
            // This drops the reader: the fill must not wait for it.
            self.source = BodySource::Rest(rest);
            return self.poll_chunk(context);
        }
        Poll::Ready(match piece {
            piece @ (Piece::Bytes(_) | Piece::File { .. }) => {
                Some(chunk_of(piece).ok_or(BodyError::Incomplete))
            }
            Piece::End => {
                if self.waits && reader.poll_stored(context).is_pending() {
                    waits_for(Cause::Disk);
                    return Poll::Pending;
                }
                None
            }
            Piece::Broken(_) => Some(Err(BodyError::Incomplete)),
        })
    }

    fn skip(&mut self, count: u64) -> u64 {
        match &mut self.source {
            BodySource::Fill(reader) => {
                reader.skip(count);
                count
            }
            BodySource::Rest(_) => 0,
        }
    }
}

/// The means of a reader to continue without the fill.
pub(crate) struct FallbackFetch {
    head: Arc<FillHead>,
    log: LogContext,
}

impl FallbackFetch {
    /// Makes one for a reader of a fill; `None` where it needs none.
    pub(crate) fn of(x: &Exchange, fill: &Fill, head: &Arc<FillHead>) -> Option<FallbackFetch> {
        let is_stored = fill.is_whole() && fill.has_file();
        let may_be_needed = may_leave_readers_behind(head.body_bytes) && !is_stored;
        (may_be_needed && x.request.method == Method::Get)
            .then(|| FallbackFetch { head: head.clone(), log: LogContext::of(x) })
    }

    /// Returns the body of the fill behind `at` bytes; `None` if it cannot be fetched.
    pub(crate) fn body(self, fill: &Fill, at: u64) -> Option<Body> {
        let FallbackFetch { head, log } = self;
        let meta = Meta::decode(&head.metadata)?;
        let Some(identity) = Identity::of(meta.status, &meta.headers, head.body_bytes) else {
            // Without a validator the rest could belong to another representation.
            let text = format!(
                "cannot resume cached response at offset {at}: no cache file and no strong validator"
            );
            log.write(Level::Error, &text, "sending to client", "");
            return None;
        };
        let resume = Resume::in_parts(OriginRequester::of_fill(fill, log)?, identity);
        Some(generate(move |out| yield_rest(resume, at, out)))
    }
}

/// Yields the body behind the first `at` bytes: one response after another, as [`Resume`] gets them.
///
/// Invariant: each byte is yielded once and in its place; the start of a response that repeats known bytes is cut
/// off. Cancelling: when the client leaves, this is dropped at an await, and with it the request to the origin.
async fn yield_rest(mut resume: Resume, mut at: u64, out: Yielder) -> Result<(), BodyError> {
    loop {
        let Some(BodyRest { mut body, mut skip, end }) = resume.fetch_instead(at).await else {
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
            BodyProgress::Whole => return Ok(()),
            BodyProgress::Open if ended => return Ok(()),
            BodyProgress::TooLong => return Err(BodyError::Incomplete),
            BodyProgress::Open | BodyProgress::Unfinished => {}
        }
    }
}
