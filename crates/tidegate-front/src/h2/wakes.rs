//! Which streams of a connection were woken: a wake-up polls its stream and no other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

/// The wake-ups of one connection. Wakers may be called on any thread.
#[derive(Default)]
pub(super) struct Wakes(Mutex<State>);

#[derive(Default)]
struct State {
    /// Slots whose streams were woken, each once.
    ready: Vec<u32>,
    /// Wakes the driver's task; `None` before it has one.
    driver: Option<Waker>,
    /// The driver runs, and looks at `ready` before it ends.
    running: bool,
}

impl Wakes {
    /// The driver begins to run, with the waker of its task.
    pub(super) fn begin(&self, context: &Context<'_>) {
        let mut state = self.state();
        state.running = true;
        match &state.driver {
            Some(known) if known.will_wake(context.waker()) => {}
            _ => state.driver = Some(context.waker().clone()),
        }
    }

    /// The driver ends its run. Returns `false`, and it goes on, where a stream was woken meanwhile.
    pub(super) fn end(&self) -> bool {
        let mut state = self.state();
        state.running = !state.ready.is_empty();
        !state.running
    }

    /// The driver ends its run whatever is ready: it is polled again.
    pub(super) fn pause(&self) {
        self.state().running = false;
    }

    /// Moves the woken slots to `into`, which is empty.
    pub(super) fn take(&self, into: &mut Vec<u32>) {
        std::mem::swap(&mut self.state().ready, into);
    }

    /// Has the driver look at the protocol's output, unless it runs.
    pub(super) fn wake_driver(&self) {
        let state = self.state();
        if !state.running
            && let Some(driver) = state.driver.clone()
        {
            drop(state);
            driver.wake();
        }
    }

    /// Forgets the driver's task: there is none while the connection is idle.
    pub(super) fn release(&self) {
        *self.state() = State::default();
    }

    fn wake(&self, slot: u32) {
        self.state().ready.push(slot);
        self.wake_driver();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the stream in one slot.
pub(super) struct StreamWaker {
    wakes: Arc<Wakes>,
    slot: u32,
    /// The slot is in the list.
    queued: AtomicBool,
}

impl StreamWaker {
    pub(super) fn new(wakes: Arc<Wakes>, slot: u32) -> Arc<StreamWaker> {
        Arc::new(StreamWaker { wakes, slot, queued: AtomicBool::new(false) })
    }

    /// The stream is about to be polled: later wake-ups count.
    pub(super) fn begin_poll(&self) {
        self.queued.store(false, Ordering::Release);
    }
}

impl Wake for StreamWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.wakes.wake(self.slot);
        }
    }
}
