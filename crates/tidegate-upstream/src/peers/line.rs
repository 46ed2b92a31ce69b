//! Who waits for a process of an application. Its processes take connections in the order in which they came, and
//! each serves one at a time: a request on a kept connection goes before all that wait for a process. That is fine
//! as long as nobody does. As soon as a request was left behind, connections are closed behind their answers, so
//! that whoever came first is served first, as without kept connections.

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
pub(crate) struct Line {
    /// Numbers given so far.
    numbers: AtomicU64,
    /// Requests on new connections that nothing was heard of yet.
    waiting: AtomicUsize,
    /// Connections to be closed before one is kept again.
    to_close: AtomicUsize,
}

/// A request's place in the order of all.
#[derive(Debug)]
pub(crate) struct Place {
    line: Arc<Line>,
    number: u64,
    since: Instant,
}

/// A request on a new connection, until the first is heard of it: it may still wait for a process.
#[derive(Debug)]
pub(crate) struct Waiting {
    line: Arc<Line>,
    number: u64,
}

/// So many connections are closed for each that waits when one was left behind, as long as any waits: then those
/// who are left behind, before that is noticed again, are fewer than one in a hundred.
const CLOSED_PER_WAITING: usize = 256;
/// A request that waits this many times as long as one took that came later is left behind. One that is only
/// slower may be taken for such; that costs handshakes.
const BEHIND_TIMES: u32 = 4;

static LINES: Mutex<Option<HashMap<Addr, Weak<Line>>>> = Mutex::new(None);

thread_local! {
    /// This thread's waiting requests, by line and number: since when.
    static HERE: RefCell<BTreeMap<(usize, u64), Instant>> = const { RefCell::new(BTreeMap::new()) };
}

impl Line {
    /// That of an address.
    pub(crate) fn of(address: &Addr) -> Arc<Line> {
        let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = lines.get_or_insert_default();
        if let Some(known) = lines.get(address).and_then(Weak::upgrade) {
            return known;
        }
        lines.retain(|_, line| line.strong_count() > 0);
        let line = Arc::<Line>::default();
        lines.insert(address.clone(), Arc::downgrade(&line));
        line
    }

    /// A request's place, as it is sent. `now` is exact: what is compared may be shorter than a tick of the loop's clock.
    pub(crate) fn enter(self: &Arc<Line>, now: Instant) -> Place {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        Place { line: self.clone(), number, since: now }
    }

    /// Whether others wait, so that a kept connection must not be used.
    pub(crate) fn is_closing(&self) -> bool {
        self.to_close.load(Ordering::Relaxed) > 0
    }
}

impl Place {
    /// It was sent on a new connection.
    pub(crate) fn wait(&self) -> Waiting {
        self.line.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = Waiting { line: self.line.clone(), number: self.number };
        HERE.with_borrow_mut(|here| here.insert(waiting.key(), self.since));
        waiting
    }

    /// It was answered: whether its connection may be kept. `now` is exact, as that of [`Line::enter`].
    pub(crate) fn may_keep(self, now: Instant) -> bool {
        let line = &self.line;
        let key = key(line);
        let oldest = HERE.with_borrow(|here| {
            let (found, since) = here.range((key, 0)..(key, self.number)).next()?;
            debug_assert!(found.1 < self.number, "came before");
            Some(now.saturating_duration_since(*since))
        });
        let took = now.saturating_duration_since(self.since);
        let waiting = line.waiting.load(Ordering::Relaxed);
        let to_close = line.to_close.load(Ordering::Relaxed);
        let left = left_to_close(waiting, to_close, oldest, took);
        // Threads that come at once may count one for two.
        line.to_close.store(left.unwrap_or(0), Ordering::Relaxed);
        left.is_none()
    }
}

/// `None`: this connection may be kept. Else it is closed, and so many behind it. `oldest` has waited so long that
/// came before this one, which `took` its time.
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

impl Waiting {
    fn key(&self) -> (usize, u64) {
        (key(&self.line), self.number)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.line.waiting.fetch_sub(1, Ordering::Relaxed);
        HERE.with_borrow_mut(|here| here.remove(&self.key()));
    }
}

/// Lines by where they lie: nobody waits in one that is gone.
fn key(line: &Arc<Line>) -> usize {
    Arc::as_ptr(line).addr()
}
