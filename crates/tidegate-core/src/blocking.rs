//! The process's thread pools by name, for what would hold a loop: disk work, password hashing, handlers.
//!
//! They outlive reloads: one whose directive stays the same goes on, another one is replaced, and what was
//! given to the old one is done there.

#[cfg(test)]
mod tests;

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwapOption;
use tidegate_rt::blocking::{Figures, JobError, ThreadPool, submit};

/// The pool of everything that names no other one.
pub const DEFAULT: &str = "default";
/// The pool of handlers that name no other one: they may take long, and files should not wait for them.
pub const HANDLERS: &str = "handlers";
/// Threads and queue of these two when the configuration does not say.
pub const THREADS_DEFAULT: usize = 32;
pub const QUEUE_DEFAULT: usize = 65536;

/// One `thread_pool`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    pub name: String,
    pub threads: usize,
    /// Most jobs that wait for a thread.
    pub max_queue: usize,
}

/// All pools of the process but the default one, which file reads find without a lock.
static NAMED: Mutex<Vec<Arc<ThreadPool>>> = Mutex::new(Vec::new());
static DEFAULT_POOL: ArcSwapOption<ThreadPool> = ArcSwapOption::const_empty();

/// Makes the process's pools those of a configuration.
///
/// # Errors
/// The system refuses a thread; the pools are as before.
pub fn apply(wanted: &[PoolSettings]) -> io::Result<()> {
    let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
    let mut next = Vec::new();
    let mut default = None;
    for settings in wanted {
        if settings.name == DEFAULT {
            let present = DEFAULT_POOL.load_full();
            default = Some(kept_or_made(present.as_ref(), settings)?);
        } else {
            let present = named.iter().find(|pool| pool.name() == settings.name);
            next.push(kept_or_made(present, settings)?);
        }
    }
    let unnamed = |pool: &&Arc<ThreadPool>| {
        pool.name() == HANDLERS && wanted.iter().all(|settings| settings.name != HANDLERS)
    };
    next.extend(named.iter().find(unnamed).cloned());
    *named = next;
    if let Some(default) = default {
        DEFAULT_POOL.store(Some(default));
    }
    Ok(())
}

fn kept_or_made(
    present: Option<&Arc<ThreadPool>>,
    settings: &PoolSettings,
) -> io::Result<Arc<ThreadPool>> {
    let PoolSettings { name, threads, max_queue } = settings;
    let same = present.filter(|pool| {
        let figures = pool.figures();
        (figures.threads, figures.max_queue) == (*threads, *max_queue)
    });
    match same {
        Some(pool) => Ok(pool.clone()),
        None => Ok(Arc::new(ThreadPool::new(name, *threads, *max_queue)?)),
    }
}

/// The pool of this name; those that need no directive are made when they are first asked for.
pub fn pool(name: &str) -> Option<Arc<ThreadPool>> {
    if name == DEFAULT {
        return default_pool();
    }
    let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = named.iter().find(|pool| pool.name() == name).cloned();
    if known.is_some() || name != HANDLERS {
        return known;
    }
    let pool = Arc::new(ThreadPool::new(HANDLERS, THREADS_DEFAULT, QUEUE_DEFAULT).ok()?);
    named.push(pool.clone());
    Some(pool)
}

/// Names and figures of the pools in use.
pub fn figures() -> Vec<(String, Figures)> {
    pools().iter().map(|pool| (pool.name().to_owned(), pool.figures())).collect()
}

fn pools() -> Vec<Arc<ThreadPool>> {
    let named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
    DEFAULT_POOL.load_full().into_iter().chain(named.iter().cloned()).collect()
}

/// Refuses new work and waits for what was accepted, if there is a limit until then. Answers whether all
/// is done.
pub fn drain(until: Option<Instant>) -> bool {
    let mut all_done = true;
    for pool in pools() {
        match until {
            Some(until) => all_done &= pool.drain_until(until),
            None => pool.drain(),
        }
    }
    all_done
}

/// The default pool; `None` where the system has no threads for it.
pub fn default_pool() -> Option<Arc<ThreadPool>> {
    if let Some(pool) = DEFAULT_POOL.load_full() {
        return Some(pool);
    }
    // One maker at a time: threads of a pool made in vain would be a waste.
    let _named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
    if DEFAULT_POOL.load().is_none() {
        let pool = ThreadPool::new(DEFAULT, THREADS_DEFAULT, QUEUE_DEFAULT).ok()?;
        DEFAULT_POOL.store(Some(Arc::new(pool)));
    }
    DEFAULT_POOL.load_full()
}

/// Runs `work` on a thread of the default pool. A full queue is an error at once.
pub fn run<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> impl Future<Output = io::Result<T>> + 'static {
    run_on(default_pool().as_deref(), work)
}

/// Runs `work` on a thread of a pool, if that could be made. A full queue is an error at once.
pub fn run_on<T: Send + 'static, W: FnOnce() -> io::Result<T> + Send + 'static>(
    pool: Option<&ThreadPool>,
    work: W,
) -> impl Future<Output = io::Result<T>> + 'static + use<T, W> {
    let job = match pool.map(|pool| submit(pool, work)) {
        None => Err("no thread pool"),
        Some(Err(_)) => Err("thread pool queue overflow"),
        Some(Ok(job)) => Ok(job),
    };
    async move {
        match job.map_err(io::Error::other)?.await {
            Ok(result) => result,
            Err(JobError::Panicked(message)) => Err(io::Error::other(message)),
            Err(JobError::Cancelled) => Err(io::Error::other("thread pool is closed")),
        }
    }
}

/// Runs `work` on a thread of the default pool although nobody waits for it; without a pool, or with a full queue,
/// at once.
pub fn detach<W: FnOnce() + Send + 'static>(work: W) {
    let work = Arc::new(Mutex::new(Some(work)));
    let run = |work: &Mutex<Option<W>>| {
        let work = work.lock().unwrap_or_else(PoisonError::into_inner).take();
        work.into_iter().for_each(|work| work());
    };
    let given = work.clone();
    match default_pool().and_then(|pool| submit(&*pool, move || run(&given)).ok()) {
        Some(job) => job.detach(),
        None => run(&work),
    }
}
