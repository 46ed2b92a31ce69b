//! The length of event-loop iterations: from one poll for events to the next, in which the event loop serves what is
//! ready and sees no new event.
//!
//! Every connection of the thread waits for a long iteration, so it is logged with the work that took most of it
//! (`loop_watchdog`), and with its processor time: the rest is time in which the thread did not run. Work that is better
//! done once for many events waits for the iteration's end ([`at_end`]).
//!
//! Off, this costs a look at a flag for each run of a task; on, a reading of the clock, and for each iteration a system call
//! for the processor time.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use pin_project_lite::pin_project;
use tidegate_os::time::clock_thread_cpu;

use crate::clock;
use crate::share::{self, Waiting};

/// Runs of tasks after which the event loop polls for events although more tasks are ready. Results of thread pools are
/// such runs: at most this number is taken in an iteration.
pub(crate) const RUNS_MAX: u32 = 61;

/// Upper bounds of the buckets in which iterations are counted, in microseconds; one more bucket is unbounded.
pub const BUCKETS_MICROS: [u64; 9] = [50, 100, 500, 1_000, 5_000, 10_000, 50_000, 100_000, 500_000];

/// An iteration that took longer than the limit.
#[derive(Debug)]
pub struct LongIteration<'a> {
    /// From one poll for events to the next.
    pub length: Duration,
    /// The thread's processor time in it: the whole length where the system does not say.
    pub cpu: Duration,
    /// Runs of tasks in it.
    pub runs: u32,
    /// The longest uninterrupted piece of work in it.
    pub longest: Duration,
    /// The description of that work; see [`mark`].
    pub what: &'a str,
}

/// Called for long iterations, on their thread.
pub type Reporter = Box<dyn Fn(&LongIteration<'_>)>;

/// The sums of one thread's iterations.
#[derive(Debug, Default)]
struct Sums {
    buckets: [AtomicU64; BUCKETS_MICROS.len() + 1],
    micros: AtomicU64,
    micros_max: AtomicU64,
    long: AtomicU64,
    long_cpu: AtomicU64,
}

/// One thread's iterations since it was started, as far as they were watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IterationFigures {
    /// The name of the thread.
    pub thread: String,
    /// Iterations by length, each bucket for itself; see [`BUCKETS_MICROS`].
    pub buckets: [u64; BUCKETS_MICROS.len() + 1],
    /// The sum of the lengths.
    pub length: Duration,
    /// The longest iteration.
    pub length_max: Duration,
    /// Iterations that were reported.
    pub long: u64,
    /// Those of them whose processor time was above the limit too: in the others the thread did not run for a while.
    pub long_cpu: u64,
}

static ALL: Mutex<Vec<(String, Arc<Sums>)>> = Mutex::new(Vec::new());

struct IterationWatch {
    limit: Duration,
    report: Reporter,
    sums: Arc<Sums>,
    turn_began: Instant,
    /// The thread's processor time when the iteration began.
    cpu_began: Option<Duration>,
    /// When the current piece of work began.
    piece_began: Instant,
    longest: Duration,
    longest_what: Vec<u8>,
    /// The description of the current piece of work.
    what: Vec<u8>,
}

type Endings = Vec<fn()>;

thread_local! {
    static ON: Cell<bool> = const { Cell::new(false) };
    static WATCH: RefCell<Option<IterationWatch>> = const { RefCell::new(None) };
    /// Work for the end of the iteration; `None` on threads without a worker's event loop.
    static ENDINGS: RefCell<Option<Endings>> = const { RefCell::new(None) };
    /// Runs of tasks in this iteration.
    static RUNS: Cell<u32> = const { Cell::new(0) };
    /// Whether the times of iterations are kept for [`delay`].
    static IS_TIMED: Cell<bool> = const { Cell::new(false) };
    /// When this iteration began; `None` where times are not kept.
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
    /// When the iteration before began, and when it ended.
    static BEFORE_BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
    static BEFORE_ENDED: Cell<Option<Instant>> = const { Cell::new(None) };
    /// The reading of the beginning, as long as it has not been used.
    static FRESH: Cell<Option<Instant>> = const { Cell::new(None) };
    /// The last reading of [`exact_now`] in this iteration, and the run in which it was made. Behind [`end`] it is the time
    /// of the end.
    static LAST: Cell<Option<Instant>> = const { Cell::new(None) };
    static LAST_RUN: Cell<u32> = const { Cell::new(0) };
}

/// The longest time between two iterations in which the event loop has looked for events without waiting for them.
const LOOK_MAX: Duration = Duration::from_micros(200);

/// Runs `work` before this worker's event loop polls for events again, and when the event loop ends. Returns `false` on
/// threads without a worker's event loop, where nothing will be run.
pub fn at_end(work: fn()) -> bool {
    ENDINGS.with_borrow_mut(|endings| {
        let Some(endings) = endings else { return false };
        endings.push(work);
        true
    })
}

/// Declares that this thread runs a worker's event loop; [`end`] is called once more after it.
pub(crate) fn take_endings() {
    ENDINGS.set(Some(Vec::new()));
}

fn run_endings() {
    // The work may register more.
    while let Some(work) = ENDINGS.with_borrow_mut(|endings| endings.as_mut()?.pop()) {
        work();
    }
}

/// Watches the iterations of this thread's event loop from now on: those longer than `limit` are reported. `None` ends
/// that.
pub fn watch(limit: Option<(Duration, Reporter)>) {
    ON.set(limit.is_some());
    RUNS.set(0);
    let watch = limit.map(|(limit, report)| {
        let now = clock::exact_now();
        IterationWatch {
            limit,
            report,
            sums: sums_of_this_thread(),
            turn_began: now,
            cpu_began: clock_thread_cpu(),
            piece_began: now,
            longest: Duration::ZERO,
            longest_what: Vec::new(),
            what: Vec::new(),
        }
    });
    WATCH.set(watch);
}

/// Keeps the times of this thread's iterations from now on, for [`delay`], or no longer.
pub fn keep_times(keep: bool) {
    IS_TIMED.set(keep);
    BEGAN.set(keep.then(clock::exact_now));
    for time in [&BEFORE_BEGAN, &BEFORE_ENDED, &FRESH, &LAST] {
        time.set(None);
    }
}

/// Returns the exact time. The reading serves as the end of the iteration where no other run of a task follows.
#[inline]
pub fn exact_now() -> Instant {
    let now = clock::exact_now();
    LAST.set(Some(now));
    LAST_RUN.set(RUNS.get());
    now
}

/// Returns the time at which this iteration began, once, if it is known and nothing has run in it before this run.
#[inline]
pub(crate) fn beginning() -> Option<Instant> {
    match FRESH.take() {
        Some(began) if RUNS.get() == 0 => Some(began),
        _ => None,
    }
}

/// Returns the part of a wait from `since` to `now` in which its event may have been there while the event loop was busy:
/// this iteration so far, and the one before it if there was no pause between the two. Zero where the times of iterations
/// are not kept.
pub fn delay(since: Instant, now: Instant) -> Duration {
    let Some(this_began) = BEGAN.get() else { return Duration::ZERO };
    let this = now.saturating_duration_since(this_began.max(since));
    let before = match (BEFORE_BEGAN.get(), BEFORE_ENDED.get()) {
        (Some(began), Some(ended)) if this_began.saturating_duration_since(ended) <= LOOK_MAX => {
            ended.saturating_duration_since(began.max(since))
        }
        _ => Duration::ZERO,
    };
    this + before
}

/// Starts another piece of work, which `write` describes; it is that of the task whenever it runs, until the next mark.
/// Does nothing where iterations are not watched.
pub fn mark(write: impl FnOnce(&mut Vec<u8>)) {
    with(|watch| {
        watch.end_piece();
        watch.what.clear();
        write(&mut watch.what);
    });
}

/// Returns the iterations of all threads that were watched.
pub fn figures() -> Vec<IterationFigures> {
    let all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    let load = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
    let figures = all.iter().map(|(thread, sums)| IterationFigures {
        thread: thread.clone(),
        buckets: std::array::from_fn(|place| load(&sums.buckets[place])),
        length: Duration::from_micros(load(&sums.micros)),
        length_max: Duration::from_micros(load(&sums.micros_max)),
        long: load(&sums.long),
        long_cpu: load(&sums.long_cpu),
    });
    figures.collect()
}

/// Begins an iteration: the event loop has found events, or has waited.
pub(crate) fn begin() {
    share::begin_iteration();
    if IS_TIMED.get() {
        let now = Some(clock::exact_now());
        begin_at(now);
        FRESH.set(now);
    }
    with(|watch| {
        watch.turn_began = clock::exact_now();
        watch.cpu_began = clock_thread_cpu();
        watch.piece_began = watch.turn_began;
    });
}

/// Ends an iteration: the event loop is going to poll for events, or has ended.
pub(crate) fn end() {
    run_endings();
    let runs = RUNS.take();
    if IS_TIMED.get() && runs > 0 && (LAST.get().is_none() || LAST_RUN.get() + 1 != runs) {
        // The last run has not read the clock.
        LAST.set(Some(clock::exact_now()));
    }
    with(|watch| {
        if runs > 0 {
            watch.end_iteration(clock::exact_now(), runs);
        }
    });
}

/// Begins another iteration. One in which nothing ran had no end: then the one before it stays.
#[inline]
fn begin_at(now: Option<Instant>) {
    if let Some(ended) = LAST.take() {
        BEFORE_BEGAN.set(BEGAN.get());
        BEFORE_ENDED.set(Some(ended));
    }
    BEGAN.set(now);
}

/// Counts a run of a task. After [`RUNS_MAX`] runs the event loop polls for events without a callback.
fn count_run() {
    RUNS.set(RUNS.get() + 1);
    if RUNS.get() == RUNS_MAX {
        end();
        with(|watch| watch.cpu_began = clock_thread_cpu());
        if IS_TIMED.get() {
            begin_at(LAST.get());
            FRESH.set(None);
        }
    }
}

fn with(work: impl FnOnce(&mut IterationWatch)) {
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

/// Returns the sums for this thread's name: a thread that is started again continues them.
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

impl IterationWatch {
    fn end_piece(&mut self) {
        let now = clock::exact_now();
        let length = now.saturating_duration_since(self.piece_began);
        if length > self.longest {
            self.longest = length;
            if length > self.limit / 2 {
                self.longest_what.clone_from(&self.what);
            }
        }
        self.piece_began = now;
    }

    fn end_iteration(&mut self, now: Instant, runs: u32) {
        let length = now.saturating_duration_since(self.turn_began);
        self.sums.count(length);
        if length > self.limit {
            let cpu = clock_thread_cpu().zip(self.cpu_began);
            let cpu = cpu.map_or(length, |(now, began)| now.saturating_sub(began).min(length));
            self.sums.long.fetch_add(1, Ordering::Relaxed);
            self.sums.long_cpu.fetch_add(u64::from(cpu > self.limit), Ordering::Relaxed);
            (self.report)(&LongIteration {
                length,
                cpu,
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
    // Each run of the task has the mark of its work, a time share and a reading of the clock of its own.
    //
    // Invariant: what the thread keeps of a run is as before when the run ends; that holds for a panic too, for shares
    // and clock. A run behind `share::later` shows that the event loop has polled for events, which the runtime does
    // not report: the first such run of an iteration ends it and begins the next.
    /// A task whose runs are watched.
    pub(crate) struct WatchedTask<F> {
        #[pin]
        future: F,
        // The description of its work.
        what: Vec<u8>,
        // It continues when the event loop has polled for events; see `share`.
        waiting: Option<Waiting>,
    }
}

impl<F> WatchedTask<F> {
    pub(crate) fn new(future: F) -> WatchedTask<F> {
        WatchedTask { future, what: Vec::new(), waiting: None }
    }
}

impl<F: Future> Future for WatchedTask<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        if this.waiting.take().is_some_and(Waiting::begins_iteration) {
            // The runtime does not report polls between runs; that this task runs shows that there was one.
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
