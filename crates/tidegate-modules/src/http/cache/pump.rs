//! From the origin's body into the cache, at the pace of origin and disk, never of a client.

use std::future::poll_fn;

use tidegate_cache::{FillFlusher, FillWriter};
use tidegate_core::{Body, BodyError, Chunk, blocking};
use tidegate_rt::clock;
use tidegate_rt::worker::{Task, spawn_local};

/// More than this is written as soon as the origin pauses.
const FLUSH_WHEN_IDLE_BYTES: u64 = 64 * 1024;

/// Takes a body to its end and stores it; readers follow meanwhile.
///
/// An origin that breaks off breaks the readers' responses visibly, and nothing is stored. (Asking
/// for the rest by `Range` would begin here: the writer knows how much there is.)
pub async fn pump(writer: FillWriter, mut body: Body) {
    let mut flush = Flush::default();
    let mut unflushed = 0;
    while let Some(piece) = next(&mut body, unflushed, &mut flush, &writer).await {
        let bytes = match piece {
            Ok(Chunk::Bytes(bytes)) => bytes,
            Ok(Chunk::Flush | Chunk::File(_)) => continue,
            // The fetch has told the error log why.
            Err(_) => return writer.abort("the origin's response ended before its end"),
        };
        let appended = writer.append(bytes, clock::unix_millis());
        unflushed = appended.unflushed;
        if appended.flush_due {
            flush.begin(&writer);
        }
        if !appended.has_room {
            flush.finish(&writer).await;
            writer.backpressure().await;
            // Neither file nor reader is left: nobody wants the rest.
            if appended.unflushed == 0 && writer.fill().readers() == 0 {
                return writer.abort("nobody reads a response that cannot be stored");
            }
        }
    }
    drop(body);
    let now = clock::unix_millis();
    // Whatever became of it, readers have what arrived; disk errors are counted by the store.
    let _ = blocking::run(move || Ok(writer.commit(now))).await;
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
