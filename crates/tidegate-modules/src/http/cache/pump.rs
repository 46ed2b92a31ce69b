//! From the origin's body into the cache, at the pace of origin and disk, never of a client.

use std::future::poll_fn;

use bytes::Buf;
use tidegate_cache::{FillFlusher, FillWriter};
use tidegate_core::{Body, BodyError, Chunk, blocking};
use tidegate_rt::clock;
use tidegate_rt::worker::{Task, spawn_local};

use super::resume::{Progress, Rest, Resume};

/// More than this is written as soon as the origin pauses.
const FLUSH_WHEN_IDLE_BYTES: u64 = 64 * 1024;

/// How the copying of a body ended.
enum Ended {
    AsFramed,
    /// The fetch has told the error log why.
    Broken,
    TooLong,
    /// Neither file nor reader is left: nobody wants the rest.
    Unwanted,
}

/// Takes a body to its end and stores it; readers follow meanwhile.
///
/// When an origin breaks off, the rest is asked for where `resume` is there; else, and when nobody has
/// it, the readers' responses are broken visibly, and nothing is stored.
pub async fn pump(writer: FillWriter, body: Body, mut resume: Option<Resume>) {
    let mut flush = Flush::default();
    let mut rest = Rest { body, skip: 0, end: None };
    loop {
        let ended = copy(&writer, rest, &mut flush).await;
        let at = writer.fill().watermark();
        let progress = resume.as_ref().map_or(Progress::Open, |resume| resume.progress(at));
        match (ended, progress) {
            (Ended::AsFramed, Progress::Open) | (_, Progress::Whole) => break,
            (Ended::TooLong, _) | (_, Progress::TooLong) => {
                return writer.abort("the origin sent more than it had announced");
            }
            (Ended::Unwanted, _) => {
                return writer.abort("nobody reads a response that cannot be stored");
            }
            (Ended::Broken, Progress::Open) | (_, Progress::Unfinished) => {}
        }
        // What is there goes to the disk meanwhile.
        flush.begin(&writer);
        let found = match &mut resume {
            Some(resume) => resume.rest(at).await,
            None => None,
        };
        match found {
            Some(found) => rest = found,
            None => return writer.abort("the origin's response ended before its end"),
        }
    }
    let now = clock::unix_millis();
    // Whatever became of it, readers have what arrived; disk errors are counted by the store.
    let _ = blocking::run(move || Ok(writer.commit(now))).await;
}

/// Appends a body to a fill.
async fn copy(writer: &FillWriter, rest: Rest, flush: &mut Flush) -> Ended {
    let Rest { mut body, mut skip, end } = rest;
    let mut unflushed = 0;
    while let Some(piece) = next(&mut body, unflushed, flush, writer).await {
        let mut bytes = match piece {
            Ok(Chunk::Bytes(bytes)) => bytes,
            Ok(Chunk::Flush | Chunk::File(_)) => continue,
            Err(_) => return Ended::Broken,
        };
        // What is known already counts as progress, but not as content.
        let known = usize::try_from(skip).unwrap_or(usize::MAX).min(bytes.len());
        skip -= known as u64;
        bytes.advance(known);
        if end.is_some_and(|end| writer.fill().watermark() + bytes.len() as u64 > end) {
            return Ended::TooLong;
        }
        let appended = writer.append(bytes, clock::unix_millis());
        unflushed = appended.unflushed;
        if appended.flush_due {
            flush.begin(writer);
        }
        if !appended.has_room {
            flush.finish(writer).await;
            writer.backpressure().await;
            if appended.unflushed == 0 && writer.fill().readers() == 0 {
                return Ended::Unwanted;
            }
        }
    }
    Ended::AsFramed
}

/// The next piece of a body. An origin that lets us wait leaves time for writing what is there, unless
/// that is so little that it goes out with the end.
async fn next(
    body: &mut Body,
    unflushed: u64,
    flush: &mut Flush,
    writer: &FillWriter,
) -> Option<Result<Chunk, BodyError>> {
    poll_fn(|context| {
        let piece = body.poll_chunk(context);
        if piece.is_pending() && unflushed > FLUSH_WHEN_IDLE_BYTES {
            flush.begin(writer);
        }
        piece
    })
    .await
}

/// Flushing in the background, one job at a time.
#[derive(Default)]
struct Flush(Option<Task<()>>);

impl Flush {
    fn begin(&mut self, writer: &FillWriter) {
        if self.0.as_ref().is_none_or(Task::is_finished) {
            self.0 = Some(spawn_local(flush(writer.flusher())));
        }
    }

    /// Writes all that is there.
    async fn finish(&mut self, writer: &FillWriter) {
        if let Some(running) = self.0.take() {
            let _ = running.await;
        }
        // What came after the last look of that job.
        flush(writer.flusher()).await;
    }
}

/// Writes until nothing is left that was there.
async fn flush(flusher: FillFlusher) {
    let work = flusher.clone();
    let done = blocking::run(move || {
        while work.flush_step().unflushed > 0 {}
        Ok(())
    });
    if done.await.is_err() {
        // The pool is full: the writer waits for this, so it is done here rather than never.
        while flusher.flush_step().unflushed > 0 {}
    }
}
