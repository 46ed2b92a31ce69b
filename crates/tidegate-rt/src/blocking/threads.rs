//! A thread pool.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::{Job, JobHandle, Pool, QueueFull, submit};
use crate::clock::exact_now;

/// Steps of nice(1) by which a pool's thread is below an event loop: it gets a third of a busy processor. So an event
/// loop that has submitted jobs continues until it has nothing to do, and runs next when a result arrives. Where they
/// share a processor, 10 kB documents of short jobs took 13.3 µs instead of 15.5, with a fifth of the context switches.
const NICE: i32 = 5;

/// Named threads with one bounded queue: the `thread_pool` directive.
pub struct ThreadPool {
    name: String,
    shared: Arc<PoolShared>,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
}

/// The state of a pool, and its sums since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolFigures {
    /// Threads of the pool.
    pub threads: usize,
    /// Jobs that may wait (`thread_pool … max_queue=`).
    pub max_queue: usize,
    /// Jobs that wait for a thread.
    pub queued: usize,
    /// Jobs that run.
    pub running: usize,
    /// Jobs that have ended, including those that panicked.
    pub finished: u64,
    /// Jobs that found the queue full.
    pub refused: u64,
    /// Jobs whose handle was dropped before they were taken, and which so never ran.
    pub cancelled: u64,
    /// The sum of the waiting times of all jobs that have begun.
    pub waited: Duration,
    /// The longest of these waits.
    pub waited_max: Duration,
    /// The sum of the running times of all jobs that have ended.
    pub ran: Duration,
    /// The longest of these runs.
    pub ran_max: Duration,
}

struct PoolShared {
    state: Mutex<State>,
    /// Notified when the queue is empty and no job runs, once the pool is closed.
    quiet: Condvar,
}

/// Open → closed, finally: new jobs are refused, queued jobs still run, then the threads end.
#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    closed: bool,
    /// Threads that wait for work. The thread that became idle last is woken first: its stack and its part of the heap
    /// are still in the caches, and threads that are never needed never touch memory of their own.
    idle: Vec<Thread>,
    /// One of these has been woken and has not taken the lock yet. Until then no other one is woken: a thread that is
    /// already awake may take the job, and one that finds more than one job wakes the next. So short jobs keep few
    /// threads busy, and long jobs still get all of them.
    waking: bool,
    figures: PoolFigures,
}

impl ThreadPool {
    /// Starts `threads` threads (at least one) named after the pool; at most `max_queue` jobs wait.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn new(name: &str, threads: usize, max_queue: usize) -> io::Result<ThreadPool> {
        let threads = threads.max(1);
        let figures = PoolFigures { threads, max_queue, ..PoolFigures::default() };
        let shared = Arc::new(PoolShared {
            state: Mutex::new(State { figures, ..State::default() }),
            quiet: Condvar::new(),
        });
        let pool = ThreadPool { name: name.to_owned(), shared, threads: Mutex::default() };
        for number in 0..threads {
            let shared = Arc::clone(&pool.shared);
            let builder = thread::Builder::new().name(format!("{name}-{number}"));
            let thread = builder.spawn(move || shared.work_loop())?;
            pool.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        Ok(pool)
    }

    /// Returns the name of the pool, after which its threads are named.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the pool's current state and its sums.
    pub fn figures(&self) -> PoolFigures {
        let state = self.shared.lock();
        PoolFigures { queued: state.queue.len(), ..state.figures }
    }

    /// Submits work to the pool; see [`submit`].
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

    /// Refuses new jobs, runs the queued ones, and ends the threads. Blocks until all are done.
    pub fn drain(&self) {
        self.shared.close();
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // Jobs' panics are caught; a thread has nothing else that could fail.
            let _ = thread.join();
        }
    }

    /// As [`ThreadPool::drain`], but blocks until `until` at most. Returns whether all are done.
    pub fn drain_until(&self, until: Instant) -> bool {
        self.shared.close();
        let mut state = self.shared.lock();
        while !state.is_quiet() {
            let Some(left) = until.checked_duration_since(exact_now()) else { return false };
            let waited = self.shared.quiet.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Pool for ThreadPool {
    fn submit_job(&self, job: Job) -> Result<(), QueueFull> {
        let mut state = self.shared.lock();
        let mut left = Vec::new();
        if state.queue.len() >= state.figures.max_queue && !state.closed {
            left = state.remove_cancelled();
        }
        if state.closed || state.queue.len() >= state.figures.max_queue {
            state.figures.refused += 1;
            return Err(QueueFull);
        }
        state.queue.push_back(job);
        let woken = state.wakes_one();
        drop(state);
        woken.iter().for_each(Thread::unpark);
        // Outside of the lock: this runs the drops of what the jobs own.
        drop(left);
        Ok(())
    }

    fn queued(&self) -> usize {
        self.shared.lock().queue.len()
    }

    fn running(&self) -> usize {
        self.shared.lock().figures.running
    }
}

/// Queued jobs still run, except those whose handle was dropped; then the threads end.
impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl State {
    /// Removes the jobs whose handle was dropped: they must not take room from others.
    fn remove_cancelled(&mut self) -> Vec<Job> {
        let queue = std::mem::take(&mut self.queue);
        let (cancelled, kept): (Vec<_>, Vec<_>) = queue.into_iter().partition(Job::is_cancelled);
        self.queue = kept.into();
        self.figures.cancelled += cancelled.len() as u64;
        cancelled
    }

    /// Returns the thread that is to be woken now, if any; from then on it counts as woken.
    fn wakes_one(&mut self) -> Option<Thread> {
        let woken = if self.waking || self.queue.is_empty() { None } else { self.idle.pop() };
        self.waking |= woken.is_some();
        woken
    }

    fn is_quiet(&self) -> bool {
        self.queue.is_empty() && self.figures.running == 0
    }
}

impl PoolShared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        idle.iter().for_each(Thread::unpark);
    }

    fn work_loop(&self) {
        // Without these the pool works as well.
        let _ = tidegate_os::affinity::use_batch_policy();
        let _ = tidegate_os::affinity::lower_priority(NICE);
        let mut ran = None;
        while let Some(job) = self.next(ran.take()) {
            let begun = exact_now();
            job.run();
            ran = Some(exact_now().saturating_duration_since(begun));
        }
    }

    /// Returns the next job; `None` when the pool is closed and its queue empty. `ran` is the running time of the job
    /// before, if there was one.
    ///
    /// Each round of the loop takes a job, drops a cancelled one, or sleeps until this thread is woken.
    ///
    /// Invariant: a thread is in `idle` exactly while it sleeps and has not been woken, and `waking` is set from the
    /// wake-up until it takes the lock. The waking thread takes it off the list, so a spurious wake-up is recognized. A
    /// job that is to run is in the queue or counted as running at any moment outside of the lock. Cancelled jobs are
    /// dropped without the lock: their drops may take other locks. Sources: `thread_pool NAME threads= max_queue=`.
    fn next(&self, ran: Option<Duration>) -> Option<Job> {
        let mut state = self.lock();
        if let Some(ran) = ran {
            let figures = &mut state.figures;
            figures.running -= 1;
            figures.finished += 1;
            figures.ran += ran;
            figures.ran_max = figures.ran_max.max(ran);
        }
        loop {
            if let Some(job) = state.queue.pop_front() {
                let woken = state.wakes_one();
                let cancelled = job.is_cancelled();
                let figures = &mut state.figures;
                if cancelled {
                    figures.cancelled += 1;
                } else {
                    // Within the lock, so that a job is always counted as queued or as running.
                    figures.running += 1;
                    let waited = exact_now().saturating_duration_since(job.submitted);
                    job.note_queued(waited);
                    figures.waited += waited;
                    figures.waited_max = figures.waited_max.max(waited);
                }
                drop(state);
                woken.iter().for_each(Thread::unpark);
                if !cancelled {
                    return Some(job);
                }
                drop(job);
                state = self.lock();
                continue;
            }
            if state.closed {
                // Only then: it is a system call within the lock, for which event loops may wait.
                if state.is_quiet() {
                    self.quiet.notify_all();
                }
                return None;
            }
            let own = thread::current();
            let number = own.id();
            state.idle.push(own);
            while state.idle.iter().any(|idle| idle.id() == number) {
                drop(state);
                thread::park();
                state = self.lock();
            }
            // The waking thread takes it off the list.
            state.waking = false;
        }
    }
}

impl std::fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ThreadPool")
            .field("name", &self.name)
            .field("figures", &self.figures())
            .finish_non_exhaustive()
    }
}
