//! Who watches the live log, and what waits for each.
//!
//! | a watcher | is | then |
//! |---|---|---|
//! | waits | `next` left its waker | a line wakes it |
//! | writes | its connection takes what `next` returned | lines wait in its queue; those beyond the limits are counted as dropped |
//! | ends | `ended` is set | `next` returns what waits, then `End` |
//! | is dropped | its connection is gone | it is not in the list any more |
//!
//! Invariant: the list is replaced as a whole, under its lock, and `COUNT` is its length. Requests hold no lock of the list
//! while they offer a record, and a watcher's own lock for one push.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::task::{Context, Poll, Waker};

use super::filter::Filter;
use super::record::Record;

/// Most watchers of a process: each costs every request a comparison.
pub(super) const WATCHERS_MAX: usize = 1000;
/// Lines that wait for a watcher. Watchers share the memory of a line.
pub(super) const LINES_MAX: usize = 512;
/// Bytes of all of them.
const BYTES_MAX: usize = 256 * 1024;
/// Bytes that a watcher takes at once.
const PIECE_BYTES: usize = 32 * 1024;

static LIST: RwLock<Option<Arc<List>>> = RwLock::new(None);
static COUNT: AtomicUsize = AtomicUsize::new(0);

type List = Vec<Arc<Shared>>;

/// There are as many watchers as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

/// A watcher; it leaves the list when it is dropped.
#[derive(Debug)]
pub(super) struct Watcher(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    filter: Filter,
    /// The generation that its request began with.
    generation: u64,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    lines: VecDeque<Arc<[u8]>>,
    bytes: usize,
    /// Requests that did not fit since the last line that says so.
    dropped: u64,
    ended: bool,
    waker: Option<Waker>,
}

/// What a watcher gets.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Lines(Vec<u8>),
    End,
}

/// Whether there are watchers.
pub(super) fn exist() -> bool {
    COUNT.load(Ordering::Relaxed) > 0
}

/// Adds a watcher.
///
/// # Errors
/// There are [`WATCHERS_MAX`].
pub(super) fn add(filter: Filter, generation: u64) -> Result<Watcher, TooMany> {
    let shared = Arc::new(Shared { filter, generation, queue: Mutex::default() });
    change(|list| {
        if list.len() >= WATCHERS_MAX {
            return Err(TooMany);
        }
        list.push(shared.clone());
        Ok(())
    })?;
    Ok(Watcher(shared))
}

/// Gives a record to all who want it.
pub(super) fn offer(record: &Record) {
    let list = LIST.read().unwrap_or_else(PoisonError::into_inner).clone();
    let mut line: Option<Arc<[u8]>> = None;
    for watcher in list.iter().flat_map(|list| list.iter()) {
        if watcher.filter.holds(record) {
            let line = line.get_or_insert_with(|| record.line().into());
            watcher.push(line.clone());
        }
    }
}

/// Ends watchers of generations before this one.
pub(super) fn end_before(generation: u64) {
    let list = LIST.read().unwrap_or_else(PoisonError::into_inner).clone();
    for watcher in list.iter().flat_map(|list| list.iter()) {
        if watcher.generation < generation {
            watcher.change(|queue| queue.ended = true);
        }
    }
}

fn change<T>(change: impl FnOnce(&mut List) -> T) -> T {
    let mut list = LIST.write().unwrap_or_else(PoisonError::into_inner);
    let mut next = list.as_deref().cloned().unwrap_or_default();
    let result = change(&mut next);
    COUNT.store(next.len(), Ordering::Relaxed);
    *list = Some(Arc::new(next));
    result
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the queue, and wakes the watcher that waits for it.
    fn change(&self, change: impl FnOnce(&mut Queue)) {
        let waker = {
            let mut queue = self.queue();
            change(&mut queue);
            queue.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn push(&self, line: Arc<[u8]>) {
        self.change(|queue| {
            if queue.ended {
                return;
            }
            let fits = queue.lines.len() < LINES_MAX && queue.bytes + line.len() <= BYTES_MAX;
            match fits {
                true => {
                    queue.bytes += line.len();
                    queue.lines.push_back(line);
                }
                false => queue.dropped += 1,
            }
        });
    }
}

impl Watcher {
    /// Waits for lines, and returns those that fit into a piece. Dropped at its await it has taken none.
    pub(super) async fn next(&self) -> Next {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&self, context: &mut Context<'_>) -> Poll<Next> {
        let mut queue = self.0.queue();
        let mut text = Vec::new();
        while let Some(line) = queue.lines.front() {
            if !text.is_empty() && text.len() + line.len() > PIECE_BYTES {
                break;
            }
            text.extend_from_slice(line);
            queue.bytes -= line.len();
            queue.lines.pop_front();
        }
        // What was lost came behind all that waits.
        if queue.lines.is_empty() && queue.dropped > 0 {
            let dropped = std::mem::take(&mut queue.dropped);
            text.extend_from_slice(format!("{{\"dropped\":{dropped}}}\n").as_bytes());
        }
        match (text.is_empty(), queue.ended) {
            (false, _) => Poll::Ready(Next::Lines(text)),
            (true, true) => Poll::Ready(Next::End),
            (true, false) => {
                queue.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        change(|list| list.retain(|one| !Arc::ptr_eq(one, &self.0)));
    }
}
