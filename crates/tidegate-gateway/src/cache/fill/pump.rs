//! The copying of the origin's body into the cache, at the pace of origin and disk, never of a client.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use tidegate_cache::{Committed, Fill, FillWriter, Key, Pending, Store};
use tidegate_core::{Body, BodyError, Chunk};
use tidegate_rt::timer::Deadline;
use tidegate_rt::{clock, yield_now};

use crate::cache::figures::CacheFigures;
use crate::cache::fill::flush::{Flush, flush_threshold};
use crate::cache::fill::origin::{BodyProgress, BodyRest, Resume};
use crate::cache::fill::successor::Successor;
use crate::cache::ranges::part_reader::PartReader;
use crate::cache::ranges::plan::{self, BLOCK_BYTES};
use crate::cache::status::CacheStatus;

/// The longest that readers wait for less than is worth a flush ([`flush_threshold`]): more often follows soon.
const HELD_MAX: Duration = Duration::from_millis(2);

/// How the copying of a body ended.
enum CopyEnd {
    AsFramed,
    /// The fetch has logged the reason.
    Broken,
    TooLong,
    /// No reader is left of what is not kept, or has no file.
    Unwanted,
    /// Another fill fetches the same.
    Replaced(Arc<Fill>),
    /// The next bytes are stored already, as a part that was fetched out of order.
    AtPart,
}

/// Copies a body to its end and stores it; readers follow meanwhile. Returns whether it was stored.
///
/// Invariant: the fill's watermark is the offset of the body's next byte, whatever its source: the first response, a
/// further one for the rest, or a stored part. Each iteration of the loop copies one of them, and the next step
/// depends on how that ended and on the length of the body:
///
/// | copied | complete | short | length unknown | too long |
/// |---|---|---|---|---|
/// | to its end as framed | stored | the rest is requested | stored | broken off |
/// | broken | stored | the rest is requested | the rest is requested | broken off |
/// | up to a stored part | stored | the bytes behind the part are requested | – | broken off |
/// | more than announced | stored | broken off | broken off | broken off |
/// | without a file or a reader, or without a reader of what is not kept | stored | broken off | broken off | broken off |
/// | until a successor fetches the same | its readers move there, whatever has arrived |||
///
/// Broken off means that the readers' responses end visibly incomplete (RFC 9112 section 8) and that nothing is
/// stored (RFC 9111 section 3.3). The rest is requested only with `resume`, by `Range` and `If-Range` (RFC 9110
/// section 13.1.5).
///
/// Cancelling: it runs in a task that belongs to no client. It is dropped only when the thread ends, at any await:
/// then the writer is dropped, and the fill breaks off.
pub(crate) async fn pump(
    writer: FillWriter,
    body: Body,
    resume: Option<Resume>,
    cache: FilledCache,
) -> bool {
    let mut pump = Pump {
        writer,
        resume,
        flush: Flush::of(&cache.store),
        cache,
        held: Deadline::new(),
        successor: Successor::Unknown,
        taken: Vec::new(),
        unreadable: None,
    };
    let mut rest = BodyRest { body, skip: 0, end: None };
    loop {
        let ended = pump.copy(rest).await;
        let by_plan = matches!(ended, CopyEnd::AtPart);
        if by_plan {
            pump.take_parts().await;
        }
        let Pump { writer, resume, flush, successor, .. } = &mut pump;
        let at = writer.fill().watermark();
        let progress = resume.as_ref().map_or(BodyProgress::Open, |resume| resume.progress(at));
        match (ended, progress) {
            (CopyEnd::Replaced(successor), _) => {
                pump.writer.hand_over(&successor);
                return false;
            }
            (CopyEnd::AsFramed, BodyProgress::Open) | (_, BodyProgress::Whole) => break,
            (CopyEnd::TooLong, _) | (_, BodyProgress::TooLong) => {
                pump.writer.abort("the origin sent more than it had announced");
                return false;
            }
            (CopyEnd::Unwanted, _) => {
                pump.writer.abort("no reader is left for a response that cannot be stored");
                return false;
            }
            (CopyEnd::Broken | CopyEnd::AtPart, BodyProgress::Open)
            | (_, BodyProgress::Unfinished) => {}
        }
        // Meanwhile the bytes that have arrived go to the disk and to the readers.
        flush.wakeups.reset();
        flush.begin(writer);
        if let (Some(resume), false) = (&*resume, by_plan)
            && let Some(successor) = successor.with_the_same(resume).await
        {
            pump.writer.hand_over(&successor);
            return false;
        }
        // Only a response with a strong validator can be completed by another one.
        let found = match resume {
            Some(resume) if by_plan => resume.fetch_behind(at).await,
            Some(resume) => resume.fetch_rest(at).await,
            None => None,
        };
        match found {
            Some(found) => rest = found,
            None => {
                pump.writer.abort("the origin's response ended before its end");
                return false;
            }
        }
    }
    pump.finish().await;
    pump.commit().await
}

/// The cache that a fill is for.
pub(crate) struct FilledCache {
    pub store: Store,
    pub figures: Arc<CacheFigures>,
    /// `$upstream_cache_status` of the request that began the fill.
    pub status: CacheStatus,
    /// The complete object remains.
    pub keeps: bool,
}

struct Pump {
    writer: FillWriter,
    resume: Option<Resume>,
    cache: FilledCache,
    flush: Flush,
    /// When readers get bytes that are too few for a flush.
    held: Deadline,
    successor: Successor,
    /// Parts that the complete object contains now.
    taken: Vec<Key>,
    /// Start of a stored part that cannot be read.
    unreadable: Option<u64>,
}

impl Pump {
    /// Appends a body to the fill.
    async fn copy(&mut self, rest: BodyRest) -> CopyEnd {
        let BodyRest { mut body, mut skip, end } = rest;
        loop {
            let mut bytes = match self.next(&mut body).await {
                PumpEvent::Piece(None) => return CopyEnd::AsFramed,
                PumpEvent::Piece(Some(Ok(Chunk::Bytes(bytes)))) => bytes,
                PumpEvent::Piece(Some(Ok(Chunk::Flush | Chunk::File(_)))) => continue,
                PumpEvent::Piece(Some(Err(_))) => return CopyEnd::Broken,
                PumpEvent::Successor(successor) => return CopyEnd::Replaced(successor),
                PumpEvent::Abandoned => return CopyEnd::Unwanted,
            };
            // Known bytes count as progress, but not as content.
            let known = usize::try_from(skip).unwrap_or(usize::MAX).min(bytes.len());
            skip -= known as u64;
            bytes.advance(known);
            let at = self.writer.fill().watermark();
            if end.is_some_and(|end| at + bytes.len() as u64 > end) {
                return CopyEnd::TooLong;
            }
            let part = self.next_part(at, bytes.len());
            if let Some(part) = part {
                bytes.truncate(usize::try_from(part - at).unwrap_or(usize::MAX));
            }
            if !self.append(bytes, clock::unix_millis()).await {
                return CopyEnd::Unwanted;
            }
            if part.is_some() {
                return CopyEnd::AtPart;
            }
        }
    }

    /// Appends bytes that arrived at `now`, in Unix milliseconds, and waits for room; false when neither file nor
    /// reader is left.
    async fn append(&mut self, bytes: Bytes, now: u64) -> bool {
        let writer = &self.writer;
        let appended = writer.hold(bytes, now);
        if appended.flush_due {
            self.flush.begin(writer);
        }
        if !appended.has_room {
            self.flush.finish(writer).await;
            writer.backpressure().await;
            if appended.unflushed == 0 && writer.fill().readers() == 0 {
                return false;
            }
        }
        true
    }

    /// Returns the start of a stored part within the next `count` bytes, or directly behind them.
    fn next_part(&self, at: u64, count: usize) -> Option<u64> {
        let resume = self.resume.as_ref()?;
        let id = self.writer.fill().parts_id()?;
        let start = at.checked_next_multiple_of(BLOCK_BYTES)?;
        let is_next = start <= at + count as u64
            && resume.identity().size().is_some()
            && self.unreadable != Some(start);
        let lookup = is_next
            .then(|| self.cache.store.peek(&plan::key(self.writer.fill().key(), id, start)))?;
        (lookup.entry.is_some() || lookup.fill.is_some()).then_some(start)
    }

    /// Takes up the stored parts that follow.
    async fn take_parts(&mut self) {
        loop {
            let at = self.writer.fill().watermark();
            let size = self.resume.as_ref().and_then(|resume| resume.identity().size());
            let (Some(size), Some(id)) = (size, self.writer.fill().parts_id()) else { return };
            if at >= size || !at.is_multiple_of(BLOCK_BYTES) {
                return;
            }
            let key = plan::key(self.writer.fill().key(), id, at);
            let length = plan::block_of(at, size).len();
            let part =
                PartReader::open(&self.cache.store, &key, length, clock::unix_millis()).await;
            let Some(mut part) = part else {
                self.unreadable = Some(at);
                return;
            };
            while let Some(bytes) = part.next().await {
                if !self.append(bytes, clock::unix_millis()).await {
                    return;
                }
            }
            if self.writer.fill().watermark() == at {
                self.unreadable = Some(at);
                return;
            }
            self.taken.push(key);
        }
    }

    /// Returns the next piece of a body. While the origin pauses, the bytes that have arrived are written, unless
    /// they are so few that they are written at the end, or the fill is replaced. What does not remain, since another
    /// server keeps it or it is too large, ends with its last reader.
    async fn next(&mut self, body: &mut Body) -> PumpEvent {
        poll_fn(|context| {
            let piece = body.poll_chunk(context);
            // A body that has ended gives its connection back.
            let goes_on = !matches!(piece, Poll::Ready(None));
            let remains = self.cache.keeps && self.writer.fill().has_file();
            if goes_on && !remains && pin!(self.writer.abandoned()).poll(context).is_ready() {
                return Poll::Ready(PumpEvent::Abandoned);
            }
            if let Poll::Ready(piece) = piece {
                return Poll::Ready(PumpEvent::Piece(piece));
            }
            self.pause(context, clock::exact_now());
            let Some(resume) = &self.resume else { return Poll::Pending };
            self.successor.poll(context, &self.writer, resume).map(PumpEvent::Successor)
        })
        .await
    }

    /// Handles a pause of the origin: the bytes that have arrived are written to the file if that is worthwhile, and
    /// readers get the rest from memory.
    fn pause(&mut self, context: &mut Context<'_>, now: Instant) {
        let Pending { unflushed, held } = self.writer.pending();
        let readers = self.writer.fill().readers();
        let wait = self.flush.wakeups.wait(readers, now);
        let is_much = unflushed > flush_threshold(readers);
        if is_much && wait.is_zero() {
            self.flush.begin(&self.writer);
        }
        if self.flush.poll_end(context).is_pending() {
            // The end of the flush calls this function again.
            return self.held.clear();
        }
        // The bytes of a single reader are copied once in either case.
        let at_once = readers < 2 || held == self.writer.fill().watermark();
        if held > 0 && !at_once {
            if self.held.at().is_none() {
                let is_little = unflushed > 0 && !is_much;
                let wait = if is_little { wait.max(HELD_MAX) } else { wait };
                self.held.set(now + wait);
            }
            if self.held.poll_elapsed(context).is_pending() {
                return;
            }
        }
        self.held.clear();
        if is_much {
            self.flush.wakeups.reset();
            self.flush.begin(&self.writer);
            // Registers the waker for the end of the flush.
            let _ = self.flush.poll_end(context);
        } else if held > 0 {
            self.flush.wakeups.begin(now);
            self.writer.show();
        }
    }

    /// Stores the object and counts it; returns whether it was stored.
    async fn commit(self) -> bool {
        let Pump { writer, cache, taken, flush, .. } = self;
        let FilledCache { store, figures, status, keeps } = cache;
        if !keeps {
            writer.abort("another server of the ring stores it");
            return false;
        }
        let (now, bytes) = (clock::unix_millis(), writer.fill().watermark());
        // In every case the readers have the bytes that arrived; disk errors are counted by the store.
        let committed = move || {
            let committed = writer.commit(now);
            taken.iter().for_each(|key| drop(store.remove(key)));
            Ok(committed)
        };
        let is_stored = matches!(flush.slots.run(committed).await, Ok(Committed::Stored));
        if is_stored {
            figures.written(status, bytes);
        }
        is_stored
    }

    /// Ends the body: readers get the rest of it, and time to be served before the background work on the object
    /// begins.
    async fn finish(&mut self) {
        if self.writer.pending().held > flush_threshold(self.writer.fill().readers()) {
            self.flush.finish(&self.writer).await;
        }
        self.writer.offer();
        // The commit reports a body whose length is not the announced one.
        let _ = self.writer.finish();
        yield_now().await;
    }
}

/// The next event of the copying.
enum PumpEvent {
    Piece(Option<Result<Chunk, BodyError>>),
    Successor(Arc<Fill>),
    Abandoned,
}
