//! From the origin's body into the cache, at the pace of origin and disk, never of a client.

use tidegate_cache::{FillFlusher, FillWriter};
use tidegate_core::{Body, Chunk, blocking};
use tidegate_rt::clock;
use tidegate_rt::worker::{Task, spawn_local};

/// Takes a body to its end and stores it; readers follow meanwhile.
///
/// An origin that breaks off breaks the readers' responses visibly, and nothing is stored. (Asking
/// for the rest by `Range` would begin here: the writer knows how much there is.)
pub async fn pump(writer: FillWriter, mut body: Body) {
    let mut flush = Flush::default();
    while let Some(piece) = body.next().await {
        let bytes = match piece {
            Ok(Chunk::Bytes(bytes)) => bytes,
            Ok(Chunk::Flush | Chunk::File(_)) => continue,
            // The fetch has told the error log why.
            Err(_) => return writer.abort("the origin's response ended before its end"),
        };
        let appended = writer.append(bytes, clock::unix_millis());
        if appended.flush_due {
            flush.begin(&writer);
        }
        if !appended.has_room {
            flush.begin(&writer);
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
    let _ = blocking::run(move || Ok(drop(writer.commit(now)))).await;
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
