//! How long the turns of a loop take: from the moment it has looked for events until it looks again, it
//! serves what is there and hears nothing new. A turn that takes long is one that every connection of the
//! thread waits for, so it is reported with what took most of it (`loop_watchdog`). What is better done once for
//! many events waits for the turn's end ([`at_end`]).
//!
//! Off, this costs a look at a flag for each run of a task; on, a reading of the clock.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use pin_project_lite::pin_project;

use crate::clock::exact_now;
use crate::share::{self, Waiting};

/// Runs of tasks after which the loop looks for events although there is more to do. Results of thread
/// pools are such runs: so many at most are taken in a turn.
pub(crate) const RUNS_MAX: u32 = 61;

/// Upper bounds of the buckets in which turns are counted, in microseconds; one more is without bound.
pub const BUCKETS_MICROS: [u64; 9] = [50, 100, 500, 1_000, 5_000, 10_000, 50_000, 100_000, 500_000];

/// A turn that took too long.
#[derive(Debug)]
pub struct LongTurn<'a> {
    /// From the moment when the loop had looked for events to the next look.
    pub length: Duration,
    /// Runs of tasks in it.
    pub runs: u32,
    /// The longest uninterrupted piece of work in it.
    pub longest: Duration,
    /// What that was; see [`mark`].
    pub what: &'a str,
}

/// Told of long turns, on the thread that they were on.
pub type Reporter = Box<dyn Fn(&LongTurn<'_>)>;

/// Sums of one thread's turns.
#[derive(Debug, Default)]
struct Sums {
    buckets: [AtomicU64; BUCKETS_MICROS.len() + 1],
    micros: AtomicU64,
    micros_max: AtomicU64,
    long: AtomicU64,
}

/// One thread's turns since it was started, as far as they were watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The name of the thread.
    pub thread: String,
    /// Turns by length, each bucket for itself; see [`BUCKETS_MICROS`].
    pub buckets: [u64; BUCKETS_MICROS.len() + 1],
    /// All turns together.
    pub length: Duration,
    /// The longest turn.
    pub length_max: Duration,
    /// Turns that were reported.
    pub long: u64,
}

static ALL: Mutex<Vec<(String, Arc<Sums>)>> = Mutex::new(Vec::new());

struct Watch {
    limit: Duration,
    report: Reporter,
    sums: Arc<Sums>,
    turn_began: Instant,
    /// Where the piece of work at hand began.
    piece_began: Instant,
    longest: Duration,
    longest_what: Vec<u8>,
    /// What the piece of work at hand is.
    what: Vec<u8>,
}

type Endings = Vec<fn()>;

thread_local! {
    static ON: Cell<bool> = const { Cell::new(false) };
    static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) };
    /// What is to be done at the end of the turn; nothing is taken on threads without a worker's loop.
    static ENDINGS: RefCell<Option<Endings>> = const { RefCell::new(None) };
    /// Runs of tasks in this turn.
    static RUNS: Cell<u32> = const { Cell::new(0) };
}

/// Has `work` done before this worker's loop looks for events again, and when the loop ends. Answers false on
/// threads without a worker's loop, where nothing will be done.
pub fn at_end(work: fn()) -> bool {
    ENDINGS.with_borrow_mut(|endings| {
        let Some(endings) = endings else { return false };
        endings.push(work);
        true
    })
}

/// This thread runs a worker's loop; [`end`] is called once more behind it.
pub(crate) fn take_endings() {
    ENDINGS.set(Some(Vec::new()));
}

fn run_endings() {
    // What is done may ask for more.
    while let Some(work) = ENDINGS.with_borrow_mut(|endings| endings.as_mut()?.pop()) {
        work();
    }
}

/// Watches the turns of this thread's loop from now on: those longer than `limit` are reported. `None`
/// ends that.
pub fn watch(limit: Option<(Duration, Reporter)>) {
    ON.set(limit.is_some());
    RUNS.set(0);
    let watch = limit.map(|(limit, report)| {
        let now = exact_now();
        Watch {
            limit,
            report,
            sums: sums_of_this_thread(),
            turn_began: now,
            piece_began: now,
            longest: Duration::ZERO,
            longest_what: Vec::new(),
            what: Vec::new(),
        }
    });
    WATCH.set(watch);
}

/// What comes now is another piece of work, which `write` describes; the task goes on with it whenever it
/// runs, until the next mark. Nothing is done where turns are not watched.
pub fn mark(write: impl FnOnce(&mut Vec<u8>)) {
    with(|watch| {
        watch.end_piece();
        watch.what.clear();
        write(&mut watch.what);
    });
}

/// The turns of all threads that were watched.
pub fn figures() -> Vec<Figures> {
    let all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    let load = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
    let figures = all.iter().map(|(thread, sums)| Figures {
        thread: thread.clone(),
        buckets: std::array::from_fn(|place| load(&sums.buckets[place])),
        length: Duration::from_micros(load(&sums.micros)),
        length_max: Duration::from_micros(load(&sums.micros_max)),
        long: load(&sums.long),
    });
    figures.collect()
}

/// The loop found events, or none and waited.
pub(crate) fn begin() {
    share::begin_turn();
    with(|watch| {
        watch.turn_began = exact_now();
        watch.piece_began = watch.turn_began;
    });
}

/// The loop is going to look for events, or has ended.
pub(crate) fn end() {
    run_endings();
    let runs = RUNS.take();
    with(|watch| {
        if runs > 0 {
            watch.end_turn(exact_now(), runs);
        }
    });
}

/// A task has run. After so many runs the loop looks for events without a word.
fn count_run() {
    RUNS.set(RUNS.get() + 1);
    if RUNS.get() == RUNS_MAX {
        end();
    }
}

fn with(work: impl FnOnce(&mut Watch)) {
    if !ON.get() {
        return;
    }
    WATCH.with(|watch| {
        // Borrowed only while a report is written, which marks nothing.
        if let Ok(mut watch) = watch.try_borrow_mut()
            && let Some(watch) = watch.as_mut()
        {
            work(watch);
        }
    });
}

/// A thread that is started again goes on with the sums of its name.
fn sums_of_this_thread() -> Arc<Sums> {
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, sums)) = all.iter().find(|(known, _)| *known == name) {
        return sums.clone();
    }
    let sums = Arc::<Sums>::default();
    all.push((name, sums.clone()));
    sums
}

impl Watch {
    fn end_piece(&mut self) {
        let now = exact_now();
        let length = now.saturating_duration_since(self.piece_began);
        if length > self.longest {
            self.longest = length;
            if length > self.limit / 2 {
                self.longest_what.clone_from(&self.what);
            }
        }
        self.piece_began = now;
    }

    fn end_turn(&mut self, now: Instant, runs: u32) {
        let length = now.saturating_duration_since(self.turn_began);
        self.sums.count(length);
        if length > self.limit {
            self.sums.long.fetch_add(1, Ordering::Relaxed);
            (self.report)(&LongTurn {
                length,
                runs,
                longest: self.longest,
                what: &String::from_utf8_lossy(&self.longest_what),
            });
        }
        self.turn_began = now;
        self.longest = Duration::ZERO;
        self.longest_what.clear();
    }
}

impl Sums {
    fn count(&self, length: Duration) {
        let micros = u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
        let place = BUCKETS_MICROS.partition_point(|bound| *bound < micros);
        self.buckets[place].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
        self.micros_max.fetch_max(micros, Ordering::Relaxed);
    }
}

pin_project! {
    // Each run of the task: with the mark of its work, a share of the turn and a reading of the clock of its own.
    //
    // Invariant: what the thread keeps of a run is as before when the run ends; that holds for a panic too as far as
    // shares and clock go. A run behind `share::later` says that the loop has looked for events, which the runtime does
    // not: the first such run of a turn ends that turn and begins the next.
    /// A task whose runs are watched.
    pub(crate) struct Watched<F> {
        #[pin]
        future: F,
        // What it works on.
        what: Vec<u8>,
        // It goes on when the loop has looked for events; see `share`.
        waiting: Option<Waiting>,
    }
}

impl<F> Watched<F> {
    pub(crate) fn new(future: F) -> Watched<F> {
        Watched { future, what: Vec::new(), waiting: None }
    }
}

impl<F: Future> Future for Watched<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        if this.waiting.take().is_some_and(Waiting::begins_turn) {
            // The runtime says nothing of looks at events between runs; that it runs says there was one.
            end();
            begin();
        }
        with(|watch| std::mem::swap(&mut watch.what, this.what));
        let (poll, waiting) = share::run(|| crate::clock::run(|| this.future.poll(context)));
        *this.waiting = waiting;
        with(|watch| {
            watch.end_piece();
            std::mem::swap(&mut watch.what, this.what);
        });
        count_run();
        poll
    }
}
