//! From a fill's memory into its file, one job at a time, beside the loop.

use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tidegate_cache::{FillFlusher, FillWriter, Store};
use tidegate_rt::worker::{Task, spawn_local};
use tidegate_rt::{clock, timer};

use crate::cache::fill::disk_slots::DiskSlots;
use crate::cache::fill::wakeups::{MANY_READERS, WakeupBatcher};

/// More than this is written as soon as the origin pauses, and before readers get it: then they get it as a
/// range of the file, which costs each of them no copy.
const WRITTEN_FROM_BYTES: u64 = 64 * 1024;

/// The same when there are [`MANY_READERS`].
const WRITTEN_FOR_MANY_FROM_BYTES: u64 = 16 * 1024;

/// The longest that readers wait for bytes that are being written; then they get them out of memory, since a
/// slow disk sets nobody's pace. Writing takes less than a millisecond, but the loop may be busy.
const WRITTEN_MAX: Duration = Duration::from_millis(20);

/// How many bytes are worth to be written for so many readers.
pub(crate) fn written_from(readers: usize) -> u64 {
    if readers < MANY_READERS { WRITTEN_FROM_BYTES } else { WRITTEN_FOR_MANY_FROM_BYTES }
}

/// Flushing in the background, one job at a time.
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
            let flush = flush(slots, writer.flusher(), wakeups, WRITTEN_FROM_BYTES);
            self.running = Some(spawn_local(flush));
        }
    }

    fn is_running(&self) -> bool {
        self.running.as_ref().is_some_and(|task| !task.is_finished())
    }

    /// Ready when nothing is being written.
    pub(crate) fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(running) = &mut self.running {
            let _ = ready!(Pin::new(running).poll(context));
            self.running = None;
        }
        Poll::Ready(())
    }

    /// Writes all that is there.
    pub(crate) async fn finish(&mut self, writer: &FillWriter) {
        if let Some(running) = self.running.take() {
            let _ = running.await;
        }
        // What came after the last look of that job.
        flush(self.slots.clone(), writer.flusher(), self.wakeups.clone(), 0).await;
    }
}

/// Writes until no more than `enough` is left, and gives it to the readers as their wakeups come.
async fn flush(slots: DiskSlots, flusher: FillFlusher, wakeups: Rc<WakeupBatcher>, enough: u64) {
    loop {
        let work = flusher.clone();
        let mut done = pin!(slots.run(move || Ok(work.flush_step())));
        let done = match timer::timeout(WRITTEN_MAX, done.as_mut()).await {
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
