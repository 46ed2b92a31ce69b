//! From the origin's body into the cache, at the pace of origin and disk, never of a client.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use tidegate_cache::{Fill, FillWriter, Key, Pending, Store};
use tidegate_core::{Body, BodyError, Chunk};
use tidegate_rt::timer::Deadline;
use tidegate_rt::{clock, yield_now};

use crate::cache::fill::flush::{Flush, written_from};
use crate::cache::fill::origin::{Progress, Rest, Resume};
use crate::cache::fill::successor::Successor;
use crate::cache::ranges::part_reader::PartReader;
use crate::cache::ranges::plan::{self, BLOCK_BYTES};

/// The longest that readers wait for less than is worth to be written ([`written_from`]): it is often soon followed by
/// more.
const HELD_MAX: Duration = Duration::from_millis(2);

/// How the copying of a body ended.
enum Ended {
    AsFramed,
    /// The fetch has told the error log why.
    Broken,
    TooLong,
    /// Neither file nor reader is left: nobody wants the rest.
    Unwanted,
    /// Another fill brings the same.
    Replaced(Arc<Fill>),
    /// What comes next is there already, since somebody has fetched it out of turn.
    AtPart,
}

/// Takes a body to its end and stores it; readers follow meanwhile.
///
/// Invariant: the fill's watermark is where the next byte of the body belongs, whoever sends it: the first response, a
/// further one that was asked for the rest, or a part that is stored already. Each round of the loop copies one of
/// them, and what comes next depends on how that ended and on how long the body is by its length:
///
/// | copied | whole | short | length unknown | too long |
/// |---|---|---|---|---|
/// | to its end as framed | stored | the rest is asked for | stored | broken off |
/// | broken | stored | the rest is asked for | the rest is asked for | broken off |
/// | up to a part that is there | stored | what is behind the part is asked for | – | broken off |
/// | it was longer than it may be | stored | broken off | broken off | broken off |
/// | nobody wants more | stored | broken off | broken off | broken off |
/// | a successor brings the same | its readers go there, whatever has come |||
///
/// Broken off means that the readers' responses end visibly incomplete (RFC 9112 section 8) and that nothing is stored
/// (RFC 9111 section 3.3). The rest is asked for only with `resume`, by `Range` and `If-Range` (RFC 9110 section
/// 13.1.5).
///
/// Cancelling: it runs in a task that belongs to no client. Only the end of the thread drops it, at whatever await:
/// then the writer is dropped, and the fill breaks off.
pub(crate) async fn pump(writer: FillWriter, body: Body, resume: Option<Resume>, store: Store) {
    let mut pump = Pump {
        writer,
        resume,
        flush: Flush::of(&store),
        store,
        held: Deadline::new(),
        successor: Successor::Unknown,
        taken: Vec::new(),
        unreadable: None,
    };
    let mut rest = Rest { body, skip: 0, end: None };
    loop {
        let ended = pump.copy(rest).await;
        let by_plan = matches!(ended, Ended::AtPart);
        if by_plan {
            pump.take_parts().await;
        }
        let Pump { writer, resume, flush, successor, .. } = &mut pump;
        let at = writer.fill().watermark();
        let progress = resume.as_ref().map_or(Progress::Open, |resume| resume.progress(at));
        match (ended, progress) {
            (Ended::Replaced(successor), _) => return pump.writer.hand_over(&successor),
            (Ended::AsFramed, Progress::Open) | (_, Progress::Whole) => break,
            (Ended::TooLong, _) | (_, Progress::TooLong) => {
                return pump.writer.abort("the origin sent more than it had announced");
            }
            (Ended::Unwanted, _) => {
                return pump.writer.abort("nobody reads a response that cannot be stored");
            }
            (Ended::Broken | Ended::AtPart, Progress::Open) | (_, Progress::Unfinished) => {}
        }
        // What is there goes to the disk meanwhile, and to the readers.
        flush.wakeups.reset();
        flush.begin(writer);
        if let (Some(resume), false) = (&*resume, by_plan)
            && let Some(successor) = successor.with_the_same(resume).await
        {
            return pump.writer.hand_over(&successor);
        }
        let found = match resume {
            Some(resume) if by_plan => resume.behind(at).await,
            Some(resume) => resume.rest(at).await,
            None => None,
        };
        match found {
            Some(found) => rest = found,
            None => return pump.writer.abort("the origin's response ended before its end"),
        }
    }
    pump.finish().await;
    let Pump { writer, store, taken, flush, .. } = pump;
    let now = clock::unix_millis();
    // Whatever became of it, readers have what arrived; disk errors are counted by the store.
    let committed = move || {
        let committed = writer.commit(now);
        taken.iter().for_each(|key| drop(store.remove(key)));
        Ok(committed)
    };
    let _ = flush.slots.run(committed).await;
}

struct Pump {
    writer: FillWriter,
    resume: Option<Resume>,
    store: Store,
    flush: Flush,
    /// When readers get what is too little to be written.
    held: Deadline,
    successor: Successor,
    /// Parts that are in the whole now.
    taken: Vec<Key>,
    /// Where a part begins that is there, and cannot be read all the same.
    unreadable: Option<u64>,
}

impl Pump {
    /// Appends a body to the fill.
    async fn copy(&mut self, rest: Rest) -> Ended {
        let Rest { mut body, mut skip, end } = rest;
        loop {
            let mut bytes = match self.next(&mut body).await {
                Next::Piece(None) => return Ended::AsFramed,
                Next::Piece(Some(Ok(Chunk::Bytes(bytes)))) => bytes,
                Next::Piece(Some(Ok(Chunk::Flush | Chunk::File(_)))) => continue,
                Next::Piece(Some(Err(_))) => return Ended::Broken,
                Next::Successor(successor) => return Ended::Replaced(successor),
            };
            // What is known already counts as progress, but not as content.
            let known = usize::try_from(skip).unwrap_or(usize::MAX).min(bytes.len());
            skip -= known as u64;
            bytes.advance(known);
            let at = self.writer.fill().watermark();
            if end.is_some_and(|end| at + bytes.len() as u64 > end) {
                return Ended::TooLong;
            }
            let part = self.next_part(at, bytes.len());
            if let Some(part) = part {
                bytes.truncate(usize::try_from(part - at).unwrap_or(usize::MAX));
            }
            if !self.append(bytes, clock::unix_millis()).await {
                return Ended::Unwanted;
            }
            if part.is_some() {
                return Ended::AtPart;
            }
        }
    }

    /// Appends what came at `now`, in Unix milliseconds, and waits for room; false when nobody wants more.
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

    /// Where within the next `count` bytes, or right behind them, a part begins that is there already.
    fn next_part(&self, at: u64, count: usize) -> Option<u64> {
        let resume = self.resume.as_ref()?;
        let id = self.writer.fill().parts_id()?;
        let start = at.checked_next_multiple_of(BLOCK_BYTES)?;
        let is_next = start <= at + count as u64
            && resume.identity().size().is_some()
            && self.unreadable != Some(start);
        let lookup =
            is_next.then(|| self.store.peek(&plan::key(self.writer.fill().key(), id, start)))?;
        (lookup.entry.is_some() || lookup.fill.is_some()).then_some(start)
    }

    /// Takes up the parts that are there, as far as they join.
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
            let part = PartReader::open(&self.store, &key, length, clock::unix_millis()).await;
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

    /// The next piece of a body. An origin that lets us wait leaves time for writing what is there,
    /// unless that is so little that it goes out with the end, and may be replaced.
    async fn next(&mut self, body: &mut Body) -> Next {
        poll_fn(|context| {
            let piece = body.poll_chunk(context);
            if let Poll::Ready(piece) = piece {
                return Poll::Ready(Next::Piece(piece));
            }
            self.pause(context, clock::exact_now());
            let Some(resume) = &self.resume else { return Poll::Pending };
            self.successor.poll(context, &self.writer, resume).map(Next::Successor)
        })
        .await
    }

    /// The origin lets us wait: what has come goes to the file if it is worth it, and readers get the
    /// rest out of memory.
    fn pause(&mut self, context: &mut Context<'_>, now: Instant) {
        let Pending { unflushed, held } = self.writer.pending();
        let readers = self.writer.fill().readers();
        let wait = self.flush.wakeups.wait(readers, now);
        let is_much = unflushed > written_from(readers);
        if is_much && wait.is_zero() {
            self.flush.begin(&self.writer);
        }
        if self.flush.poll_end(context).is_pending() {
            // Then there is another look.
            return self.held.clear();
        }
        // One reader's bytes are copied once, one way or the other.
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
            // Whoever is told of its end looks again.
            let _ = self.flush.poll_end(context);
        } else if held > 0 {
            self.flush.wakeups.begin(now);
            self.writer.show();
        }
    }

    /// The body has ended: readers get the rest of it, and time to be served before the work on the
    /// object begins that nobody waits for.
    async fn finish(&mut self) {
        if self.writer.pending().held > written_from(self.writer.fill().readers()) {
            self.flush.finish(&self.writer).await;
        }
        self.writer.offer();
        // The commit tells of a body that is not as long as was promised.
        let _ = self.writer.finish();
        yield_now().await;
    }
}

/// What comes next.
enum Next {
    Piece(Option<Result<Chunk, BodyError>>),
    Successor(Arc<Fill>),
}
