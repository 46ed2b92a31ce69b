//! Threads for work that would stop the loop: disk, password hashing, blocking handlers.
//!
//! A pool is a trait, so that a simulated world can run the jobs as tasks of its own.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread;

use tokio::sync::oneshot;

use crate::worker::panic_message;

/// Work for a pool.
pub struct Job {
    cancelled: Arc<AtomicBool>,
    work: Box<dyn FnOnce() + Send>,
}

/// The queue is full (`thread_pool … max_queue=`) or the pool is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull;

/// Runs jobs somewhere else than on the loop.
pub trait Pool: Send + Sync {
    /// Accepts a job.
    ///
    /// # Errors
    /// No more jobs are accepted now.
    fn submit_job(&self, job: Job) -> Result<(), QueueFull>;

    /// Jobs that wait for a thread.
    fn queued(&self) -> usize;

    /// Jobs that run.
    fn running(&self) -> usize;
}

/// The result of a job to come. Dropping it cancels the job if it has not begun.
#[derive(Debug)]
pub struct JobHandle<T> {
    result: oneshot::Receiver<Result<T, String>>,
    cancelled: Arc<AtomicBool>,
}

/// A job ended without result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobError {
    /// It panicked; the message.
    Panicked(String),
    /// The pool was closed before it began.
    Cancelled,
}

/// Gives work to a pool. The result wakes the task that awaits the handle; the wake-up of its loop
/// is a descriptor in the loop's own poll set.
///
/// # Errors
/// No more jobs are accepted now.
pub fn submit<T, F>(pool: &dyn Pool, work: F) -> Result<JobHandle<T>, QueueFull>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let (sender, result) = oneshot::channel();
    let cancelled = Arc::new(AtomicBool::new(false));
    let work = Box::new(move || {
        // The panic ends here: it is this job's result, and nothing is shared with the job but
        // what its author shared.
        let outcome = catch_unwind(AssertUnwindSafe(work));
        // Fails when the handle was dropped meanwhile: nobody wants the result.
        let _ = sender.send(outcome.map_err(|panic| panic_message(&*panic)));
    });
    pool.submit_job(Job { cancelled: Arc::clone(&cancelled), work })?;
    Ok(JobHandle { result, cancelled })
}

impl Job {
    /// Runs the job, unless it was cancelled. Never panics.
    pub fn run(self) {
        if !self.is_cancelled() {
            (self.work)();
        }
    }

    /// Whether nobody waits for the result any more.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

impl<T> Future for JobHandle<T> {
    type Output = Result<T, JobError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.result).poll(context).map(|received| match received {
            Ok(outcome) => outcome.map_err(JobError::Panicked),
            Err(_) => Err(JobError::Cancelled),
        })
    }
}

impl<T> JobHandle<T> {
    /// Lets the job run although nobody waits for its result.
    pub fn detach(mut self) {
        self.cancelled = Arc::default();
    }
}

impl<T> Drop for JobHandle<T> {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

/// Named threads with one bounded queue: the `thread_pool` directive.
pub struct ThreadPool {
    shared: Arc<Shared>,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
}

struct Shared {
    state: Mutex<State>,
    work: Condvar,
    max_queue: usize,
    running: AtomicUsize,
}

struct State {
    queue: VecDeque<Job>,
    closed: bool,
}

impl ThreadPool {
    /// Starts `threads` threads (at least one) named after the pool; at most `max_queue` jobs wait.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn new(name: &str, threads: usize, max_queue: usize) -> io::Result<ThreadPool> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State { queue: VecDeque::new(), closed: false }),
            work: Condvar::new(),
            max_queue,
            running: AtomicUsize::new(0),
        });
        let pool = ThreadPool { shared, threads: Mutex::new(Vec::new()) };
        for number in 0..threads.max(1) {
            let shared = Arc::clone(&pool.shared);
            let builder = thread::Builder::new().name(format!("{name}-{number}"));
            let thread = builder.spawn(move || shared.work_loop())?;
            pool.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        Ok(pool)
    }

    /// Gives work to the pool; see [`submit`].
    ///
    /// # Errors
    /// The queue is full, or the pool is closed.
    pub fn submit<T, F>(&self, work: F) -> Result<JobHandle<T>, QueueFull>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        submit(self, work)
    }

    /// Refuses new jobs, runs those that wait, and ends the threads. Blocks until all are done.
    pub fn drain(&self) {
        self.shared.close(false);
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // Jobs' panics are caught; a thread has nothing else that could fail.
            let _ = thread.join();
        }
    }
}

impl Pool for ThreadPool {
    fn submit_job(&self, job: Job) -> Result<(), QueueFull> {
        let mut state = self.shared.lock();
        if state.closed {
            return Err(QueueFull);
        }
        if state.queue.len() >= self.shared.max_queue {
            // Clients that left must not take room from those that wait.
            state.queue.retain(|job| !job.is_cancelled());
            if state.queue.len() >= self.shared.max_queue {
                return Err(QueueFull);
            }
        }
        state.queue.push_back(job);
        drop(state);
        self.shared.work.notify_one();
        Ok(())
    }

    fn queued(&self) -> usize {
        self.shared.lock().queue.len()
    }

    fn running(&self) -> usize {
        self.shared.running.load(Ordering::Relaxed)
    }
}

/// Jobs that wait are cancelled; those that run end by themselves, unobserved.
impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.close(true);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self, discard: bool) {
        let mut state = self.lock();
        state.closed = true;
        let discarded = if discard { std::mem::take(&mut state.queue) } else { VecDeque::new() };
        drop(state);
        self.work.notify_all();
        // Outside of the lock: dropping a job wakes its waiter and runs the drops of what it owns.
        drop(discarded);
    }

    fn work_loop(&self) {
        while let Some(job) = self.next() {
            job.run();
            self.running.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.queue.pop_front() {
                // Within the lock, so that a job is always counted as queued or as running.
                self.running.fetch_add(1, Ordering::Relaxed);
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("cancelled", &self.cancelled).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ThreadPool")
            .field("queued", &self.queued())
            .field("running", &self.running())
            .finish_non_exhaustive()
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
