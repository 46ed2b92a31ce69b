//! Writing from a fill's memory into its file, one job at a time, on pool threads.

use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tidegate_cache::{FillFlusher, FillWriter, Store};
use tidegate_rt::worker::{Task, spawn_local};
use tidegate_rt::{clock, timer};

use crate::cache::fill::disk_slots::DiskSlots;
use crate::cache::fill::wakeups::{MANY_READERS, WakeupBatcher};

/// Bytes from which a flush begins as soon as the origin pauses, and before readers get them: then they get them as a
/// range of the file, which costs each of them no copy.
const FLUSH_BYTES_MIN: u64 = 64 * 1024;

/// The same limit with [`MANY_READERS`].
const FLUSH_FOR_MANY_BYTES_MIN: u64 = 16 * 1024;

/// The longest that readers wait for bytes that are being written; then they get them from memory, so that a slow
/// disk does not slow readers down. Writing takes less than a millisecond, but the event loop may be busy.
const FLUSH_WAIT_MAX: Duration = Duration::from_millis(20);

/// Returns the bytes from which a flush is worthwhile for this number of readers.
pub(crate) fn flush_threshold(readers: usize) -> u64 {
    if readers < MANY_READERS { FLUSH_BYTES_MIN } else { FLUSH_FOR_MANY_BYTES_MIN }
}

/// The background flush of a fill, one job at a time.
pub(crate) struct Flush {
    pub slots: DiskSlots,
    pub wakeups: Rc<WakeupBatcher>,
    running: Option<Task<()>>,
}

impl Flush {
    pub(crate) fn of(store: &Store) -> Flush {
        Flush { slots: DiskSlots::of(store), wakeups: Rc::default(), running: None }
    }

    /// Begins a job, unless one is running.
    pub(crate) fn begin(&mut self, writer: &FillWriter) {
        if !self.is_running() {
            let (slots, wakeups) = (self.slots.clone(), self.wakeups.clone());
            let flush = flush(slots, writer.flusher(), wakeups, FLUSH_BYTES_MIN);
            self.running = Some(spawn_local(flush));
        }
    }

    fn is_running(&self) -> bool {
        self.running.as_ref().is_some_and(|task| !task.is_finished())
    }

    /// Is ready when no job is running.
    pub(crate) fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(running) = &mut self.running {
            let _ = ready!(Pin::new(running).poll(context));
            self.running = None;
        }
        Poll::Ready(())
    }

    /// Writes all bytes that have arrived.
    pub(crate) async fn finish(&mut self, writer: &FillWriter) {
        if let Some(running) = self.running.take() {
            let _ = running.await;
        }
        // Writes the bytes that arrived after that job's last step.
        flush(self.slots.clone(), writer.flusher(), self.wakeups.clone(), 0).await;
    }
}

/// Writes until no more than `enough` bytes are left, and shows them to the readers as their wakeups are due.
async fn flush(slots: DiskSlots, flusher: FillFlusher, wakeups: Rc<WakeupBatcher>, enough: u64) {
    loop {
        let work = flusher.clone();
        let mut done = pin!(slots.run(move || Ok(work.flush_step())));
        let done = match timer::timeout(FLUSH_WAIT_MAX, done.as_mut()).await {
            Ok(done) => done,
            Err(_) => {
                flusher.show_all();
                done.await
            }
        };
        // The pool is full: the writer waits for this, so it is done here rather than never.
        let report = done.unwrap_or_else(|_| flusher.flush_step());
        let now = clock::exact_now();
        if wakeups.wait(flusher.fill().readers(), now).is_zero() {
            wakeups.begin(now);
            flusher.show_flushed();
        }
        flusher.trim();
        if report.unflushed <= enough {
            return;
        }
    }
}
