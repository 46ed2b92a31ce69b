//! The order of requests that wait for a process of an application. Its processes accept connections in the order in
//! which these arrived, and each serves one at a time: a request on a kept connection overtakes all that wait for a
//! process. That is harmless as long as none waits. As soon as a request was left behind, connections are closed
//! behind their responses, so that requests are served in the order of their arrival, as without kept connections.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tidegate_rt::net::Addr;

/// The requests that go to one address, from all threads and groups.
#[derive(Debug, Default)]
pub(crate) struct ProcessQueue {
    /// Numbers given so far.
    numbers: AtomicU64,
    /// Requests on new connections without any byte of a response yet.
    waiting: AtomicUsize,
    /// Connections to be closed before one is kept again.
    to_close: AtomicUsize,
}

/// A request's place in the order of all.
#[derive(Debug)]
pub(crate) struct QueuePlace {
    queue: Arc<ProcessQueue>,
    number: u64,
    since: Instant,
}

/// A request on a new connection, until the first byte of its response: it may still wait for a process.
#[derive(Debug)]
pub(crate) struct WaitingRequest {
    queue: Arc<ProcessQueue>,
    number: u64,
}

/// Number of connections that are closed for each waiting request when one was left behind, as long as any waits:
/// then fewer than one request in a hundred is left behind before the next detection.
const CLOSED_PER_WAITING: usize = 256;
/// A request that has waited this many times as long as a later one took is left behind. A slow request may be
/// mistaken for one; that costs handshakes.
const BEHIND_TIMES: u32 = 4;

static QUEUES: Mutex<Option<HashMap<Addr, Weak<ProcessQueue>>>> = Mutex::new(None);

thread_local! {
    /// This thread's waiting requests, by line and number, with the start of their wait.
    static HERE: RefCell<BTreeMap<(usize, u64), Instant>> = const { RefCell::new(BTreeMap::new()) };
}

impl ProcessQueue {
    /// Returns the line of an address.
    pub(crate) fn of(address: &Addr) -> Arc<ProcessQueue> {
        let mut queues = QUEUES.lock().unwrap_or_else(PoisonError::into_inner);
        let queues = queues.get_or_insert_default();
        if let Some(known) = queues.get(address).and_then(Weak::upgrade) {
            return known;
        }
        queues.retain(|_, queue| queue.strong_count() > 0);
        let queue = Arc::<ProcessQueue>::default();
        queues.insert(address.clone(), Arc::downgrade(&queue));
        queue
    }

    /// Gives a request its place, as it is sent. `now` is exact: the differences may be shorter than a tick of the
    /// loop's clock.
    pub(crate) fn enter(self: &Arc<ProcessQueue>, now: Instant) -> QueuePlace {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        QueuePlace { queue: self.clone(), number, since: now }
    }

    /// Returns whether others wait, so that a kept connection must not be used.
    pub(crate) fn is_closing(&self) -> bool {
        self.to_close.load(Ordering::Relaxed) > 0
    }
}

impl QueuePlace {
    /// Marks it as sent on a new connection.
    pub(crate) fn wait(&self) -> WaitingRequest {
        self.queue.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = WaitingRequest { queue: self.queue.clone(), number: self.number };
        HERE.with_borrow_mut(|here| here.insert(waiting.key(), self.since));
        waiting
    }

    /// Ends the request after its response; returns whether its connection may be kept. `now` is exact, as that of
    /// [`ProcessQueue::enter`].
    pub(crate) fn may_keep(self, now: Instant) -> bool {
        let queue = &self.queue;
        let key = key(queue);
        let oldest = HERE.with_borrow(|here| {
            let (found, since) = here.range((key, 0)..(key, self.number)).next()?;
            debug_assert!(found.1 < self.number, "came before");
            Some(now.saturating_duration_since(*since))
        });
        let took = now.saturating_duration_since(self.since);
        let waiting = queue.waiting.load(Ordering::Relaxed);
        let to_close = queue.to_close.load(Ordering::Relaxed);
        let left = left_to_close(waiting, to_close, oldest, took);
        // Threads that arrive at once may count one for two.
        queue.to_close.store(left.unwrap_or(0), Ordering::Relaxed);
        left.is_none()
    }
}

/// Returns `None` when this connection may be kept. Else it is closed, and the returned number behind it. `oldest` is
/// the wait of the oldest request that arrived before this one, which `took` its time.
fn left_to_close(
    waiting: usize,
    to_close: usize,
    oldest: Option<Duration>,
    took: Duration,
) -> Option<usize> {
    if waiting == 0 {
        return None;
    }
    if to_close > 0 {
        return Some(to_close - 1);
    }
    let is_behind = oldest.is_some_and(|waited| waited > took * BEHIND_TIMES);
    is_behind.then(|| waiting.saturating_mul(CLOSED_PER_WAITING))
}

impl WaitingRequest {
    fn key(&self) -> (usize, u64) {
        (key(&self.queue), self.number)
    }
}

impl Drop for WaitingRequest {
    fn drop(&mut self) {
        self.queue.waiting.fetch_sub(1, Ordering::Relaxed);
        HERE.with_borrow_mut(|here| here.remove(&self.key()));
    }
}

/// The key of a line is its address in memory: a dropped line has no waiting requests.
fn key(queue: &Arc<ProcessQueue>) -> usize {
    Arc::as_ptr(queue).addr()
}
