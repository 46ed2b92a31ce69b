//! Threads for work that would block the event loop: disk, password hashing, blocking handlers.
//!
//! A pool is a trait, so that a simulation can run the jobs as tasks of its own.

mod threads;

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::worker::Panic;
pub use threads::{PoolFigures, ThreadPool};

/// Work for a pool.
///
/// ```text
/// queued ─→ running ─→ has replied ─→ ended
///   │          └─ a panic before the reply: the handle's error
///   └─ cancelled (the handle was dropped) before it is taken: never runs
/// ```
/// Invariant: a job that runs is not interrupted when its caller has left; it may check [`Reply::is_abandoned`]. A
/// waiting caller gets the reply, the panic or [`JobError::Cancelled`]: the sender is dropped with the job.
pub struct Job {
    state: Arc<JobState>,
    submitted: Instant,
    work: Box<dyn FnOnce() + Send>,
}

/// What a job and its handle share.
#[derive(Debug)]
struct JobState {
    /// The handle was dropped.
    cancelled: AtomicBool,
    /// The time that the job has waited for a thread, in microseconds; [`WAITING`] until it has begun.
    queued: AtomicU32,
}

/// The job waits for a thread.
const WAITING: u32 = u32::MAX;

impl Default for JobState {
    fn default() -> JobState {
        JobState { cancelled: AtomicBool::new(false), queued: AtomicU32::new(WAITING) }
    }
}

/// The queue is full (`thread_pool … max_queue=`) or the pool is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull;

/// Runs jobs outside of the event loop.
pub trait Pool: Send + Sync {
    /// Accepts a job.
    ///
    /// # Errors
    /// The queue is full, or the pool is closed.
    fn submit_job(&self, job: Job) -> Result<(), QueueFull>;

    /// Returns the number of jobs that wait for a thread.
    fn queued(&self) -> usize;

    /// Returns the number of jobs that run.
    fn running(&self) -> usize;
}

/// The future result of a job. Dropping it cancels the job if it has not begun; a running job continues, and its result
/// is lost.
#[derive(Debug)]
pub struct JobHandle<T> {
    result: oneshot::Receiver<Result<T, Panic>>,
    state: Arc<JobState>,
}

/// A job ended without result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobError {
    /// It panicked; the panic's message.
    Panicked(String),
    /// The pool was closed before it began, or it ended without a reply.
    Cancelled,
}

/// Lets a job give its result before it has ended.
pub struct Reply<T> {
    sender: Rc<RefCell<Option<ResultSender<T>>>>,
}

type ResultSender<T> = oneshot::Sender<Result<T, Panic>>;

/// Submits work to a pool. The result wakes the task that awaits the handle; the event loop is woken through a
/// descriptor in its own poll set. An event loop takes a bounded number of results before it polls its sockets again.
///
/// # Errors
/// The queue is full, or the pool is closed.
pub fn submit<T, F>(pool: &dyn Pool, work: F) -> Result<JobHandle<T>, QueueFull>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    submit_replying(pool, |reply: Reply<T>| reply.send(work()))
}

/// As [`submit`], for work that continues after it has given its result: a handler whose response body follows the
/// head.
///
/// # Errors
/// The queue is full, or the pool is closed.
pub fn submit_replying<T, F>(pool: &dyn Pool, work: F) -> Result<JobHandle<T>, QueueFull>
where
    F: FnOnce(Reply<T>) + Send + 'static,
    T: Send + 'static,
{
    let (sender, result) = oneshot::channel();
    let state = Arc::new(JobState::default());
    let work = Box::new(move || {
        let sender = Rc::new(RefCell::new(Some(sender)));
        let reply = Reply { sender: sender.clone() };
        // The panic ends here: it is this job's result, and nothing is shared with the job but what its author shared.
        let outcome = catch_unwind(AssertUnwindSafe(|| work(reply)));
        if let (Err(panic), Some(sender)) = (outcome, sender.take()) {
            // Fails when the handle was dropped meanwhile: the result is not wanted.
            let _ = sender.send(Err(Panic::of(&*panic)));
        }
    });
    let submitted = crate::clock::exact_now();
    pool.submit_job(Job { state: Arc::clone(&state), submitted, work })?;
    Ok(JobHandle { result, state })
}

/// Runs a future on the calling thread of a pool, which waits for it: for work that is made of futures, and may wait
/// for timers but not for sockets. The thread keeps its event loop for the next call.
///
/// # Errors
/// No event loop can be made.
///
/// # Panics
/// On a thread that already runs an event loop and must not block: a mistake of the program.
pub fn wait<F: Future>(future: F) -> io::Result<F::Output> {
    thread_local! {
        static KEPT: RefCell<Option<Runtime>> = const { RefCell::new(None) };
    }
    let runtime = match KEPT.take() {
        Some(runtime) => runtime,
        None => Builder::new_current_thread().enable_time().build()?,
    };
    let output = runtime.block_on(future);
    KEPT.set(Some(runtime));
    Ok(output)
}

impl Job {
    /// Runs the job, unless it was cancelled. Never panics.
    pub fn run(self) {
        if !self.is_cancelled() {
            (self.work)();
        }
    }

    /// Whether its handle was dropped, so that no result is wanted.
    pub fn is_cancelled(&self) -> bool {
        self.state.cancelled.load(Ordering::Relaxed)
    }

    /// Tells its handle how long it has waited for a thread.
    fn note_queued(&self, waited: Duration) {
        let micros = u32::try_from(waited.as_micros()).unwrap_or(WAITING).min(WAITING - 1);
        self.state.queued.store(micros, Ordering::Relaxed);
    }
}

impl<T> Reply<T> {
    /// Gives the result. It is lost when the handle was dropped.
    pub fn send(self, value: T) {
        if let Some(sender) = self.sender.take() {
            let _ = sender.send(Ok(value));
        }
    }

    /// Whether the handle was dropped, so that the result is not wanted.
    pub fn is_abandoned(&self) -> bool {
        self.sender.borrow().as_ref().is_none_or(oneshot::Sender::is_closed)
    }
}

impl<T> Future for JobHandle<T> {
    type Output = Result<T, JobError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.result).poll(context).map(|received| match received {
            Ok(outcome) => outcome.map_err(|panic| JobError::Panicked(panic.into_text())),
            Err(_) => Err(JobError::Cancelled),
        })
    }
}

impl<T> JobHandle<T> {
    /// Lets the job run although its result is not wanted.
    pub fn detach(mut self) {
        self.state = Arc::default();
    }

    /// Returns how long the job has waited for a thread; without a limit where it has not begun.
    pub fn queued(&self) -> Duration {
        match self.state.queued.load(Ordering::Relaxed) {
            WAITING => Duration::MAX,
            micros => Duration::from_micros(micros.into()),
        }
    }
}

impl<T> Drop for JobHandle<T> {
    fn drop(&mut self) {
        self.state.cancelled.store(true, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("state", &self.state).finish_non_exhaustive()
    }
}

impl<T> std::fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reply").field("abandoned", &self.is_abandoned()).finish_non_exhaustive()
    }
}

impl std::fmt::Display for QueueFull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the queue of the thread pool is full")
    }
}

impl std::error::Error for QueueFull {}

impl std::fmt::Display for JobError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            JobError::Panicked(message) => write!(f, "the job panicked: {message}"),
            JobError::Cancelled => f.write_str("the job was cancelled"),
        }
    }
}

impl std::error::Error for JobError {}
