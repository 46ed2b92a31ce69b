//! Spans that wait to be exported. It outlives reloads, so that none is lost by one.
//!
//! ```text
//! push ─→ open ── is full ─→ full (at most `batches`) ── take ─→ sending ─→ sent
//!           └──── take, once an interval has passed ───────────────┘  └─→ give_back: the first of `full` again
//! ```
//! Invariants: at most `batches` batches are full, besides one that is given back; a span that has no room is counted in
//! `dropped`. `sending` is true from a `take` to [`Queue::done`], which the guard calls: an exporter that is dropped in
//! between gives its batch back.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_rt::sync::Notify;

/// Encoded spans.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) spans: Vec<u8>,
    pub(super) count: usize,
}

/// The limits of an exporter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Spans of a batch.
    pub(super) spans: usize,
    /// Full batches.
    pub(super) batches: usize,
}

#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// A batch is full, or the process ends.
    changed: Notify,
    /// Nothing is left, and nothing is being sent.
    emptied: Condvar,
}

#[derive(Default)]
struct State {
    full: VecDeque<Batch>,
    open: Batch,
    dropped: u64,
    sending: bool,
    /// The process ends: all that waits is sent at once, and no attempt is repeated.
    ending: bool,
}

/// A batch that is being sent. Dropped without [`Sending::done`], it waits again.
pub(super) struct Sending<'q> {
    queue: &'q Queue,
    batch: Option<Batch>,
}

impl Queue {
    /// Adds a span, unless there is no room.
    pub(super) fn push(&self, span: &[u8], limits: Limits) {
        let mut state = self.state();
        if state.open.count >= limits.spans {
            if state.full.len() >= limits.batches {
                state.dropped += 1;
                return;
            }
            let batch = std::mem::take(&mut state.open);
            state.full.push_back(batch);
        }
        state.open.spans.extend_from_slice(span);
        state.open.count += 1;
        let is_full = state.open.count >= limits.spans && state.full.len() < limits.batches;
        if is_full {
            let batch = std::mem::take(&mut state.open);
            state.full.push_back(batch);
        }
        drop(state);
        if is_full {
            self.changed.notify_one();
        }
    }

    /// Waits until a batch is full, or the process ends.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Takes the next batch: a full one, or with `all` one that is not.
    pub(super) fn take(&self, all: bool) -> Option<Sending<'_>> {
        let mut state = self.state();
        let batch = match state.full.pop_front() {
            Some(batch) => batch,
            None if (all || state.ending) && state.open.count > 0 => {
                std::mem::take(&mut state.open)
            }
            None => return None,
        };
        state.sending = true;
        Some(Sending { queue: self, batch: Some(batch) })
    }

    /// Returns the number of spans that were dropped since the last call.
    pub(super) fn dropped(&self) -> u64 {
        std::mem::take(&mut self.state().dropped)
    }

    pub(super) fn is_ending(&self) -> bool {
        self.state().ending
    }

    /// Waits until all is sent or dropped, at most this time: the process ends. Blocks.
    pub(super) fn finish(&self, time: Duration) {
        let mut state = self.state();
        state.ending = true;
        self.changed.notify_one();
        let waits =
            |state: &mut State| state.sending || state.open.count > 0 || !state.full.is_empty();
        let _ = self.emptied.wait_timeout_while(state, time, waits);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sending<'_> {
    pub(super) fn batch(&self) -> &Batch {
        static NONE: Batch = Batch { spans: Vec::new(), count: 0 };
        self.batch.as_ref().unwrap_or(&NONE)
    }

    /// The batch needs not be sent again.
    pub(super) fn done(mut self) {
        self.batch = None;
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        state.sending = false;
        if let Some(batch) = self.batch.take() {
            state.full.push_front(batch);
        }
        if state.open.count == 0 && state.full.is_empty() {
            self.queue.emptied.notify_all();
        }
    }
}
