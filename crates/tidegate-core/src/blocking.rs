//! The process's thread pools by name, for work that would block an event loop: disk work, password hashing,
//! handlers.
//!
//! Pools outlive reloads: a pool whose directive is unchanged is kept. A changed one is replaced, and the jobs
//! that the old pool has accepted run there.

#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use arc_swap::ArcSwapOption;
use tidegate_rt::blocking::{JobError, JobHandle, PoolFigures, ThreadPool, submit};

use crate::timeline::{self, Cause};

/// The pool for all work that names no other pool.
pub const DEFAULT: &str = "default";
/// The pool of handlers that name no other pool: they may take long, and file reads should not wait for them.
pub const HANDLERS: &str = "handlers";
/// Threads of these two pools without a `thread_pool` directive.
pub const THREADS_DEFAULT: usize = 32;
/// Longest queue of these two pools without a `thread_pool` directive, in jobs.
pub const QUEUE_DEFAULT: usize = 65536;

/// One `thread_pool` directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// The pool's name.
    pub name: String,
    /// Number of threads.
    pub threads: usize,
    /// Most jobs that may wait for a thread.
    pub max_queue: usize,
}

/// All pools of the process except the default one, which file reads find without a lock.
static NAMED: Mutex<Vec<Arc<ThreadPool>>> = Mutex::new(Vec::new());
static DEFAULT_POOL: ArcSwapOption<ThreadPool> = ArcSwapOption::const_empty();

/// Returns the addresses of a host, which the system looks up on a pool thread unless it is an address.
///
/// # Errors
/// The system finds none.
pub async fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let name = host.to_owned();
    run(move || (name.as_str(), port).to_socket_addrs().map(Vec::from_iter)).await
}

/// Replaces the process's pools by those of a configuration.
///
/// # Errors
/// The system refuses a thread; the pools are unchanged.
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

/// Returns the pool of this name; a pool that needs no directive is created at the first call.
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

/// Returns names and figures of the pools in use.
pub fn figures() -> Vec<(String, PoolFigures)> {
    pools().iter().map(|pool| (pool.name().to_owned(), pool.figures())).collect()
}

fn pools() -> Vec<Arc<ThreadPool>> {
    let named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
    DEFAULT_POOL.load_full().into_iter().chain(named.iter().cloned()).collect()
}

/// Refuses new work and waits for accepted work, at most until `until` if that is given. Returns whether all
/// work is done.
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

/// Returns the default pool; `None` where the system refuses its threads.
pub fn default_pool() -> Option<Arc<ThreadPool>> {
    if let Some(pool) = DEFAULT_POOL.load_full() {
        return Some(pool);
    }
    // One creator at a time: a second pool's threads would be started for nothing.
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

/// Runs `work` on a thread of `pool`. No pool and a full queue are errors at once.
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
        let mut job = job.map_err(io::Error::other)?;
        match poll_fn(|context| poll_job(&mut job, context, Cause::Disk)).await {
            Ok(result) => result,
            Err(JobError::Panicked(message)) => Err(io::Error::other(message)),
            Err(JobError::Cancelled) => Err(io::Error::other("thread pool is closed")),
        }
    }
}

/// Polls for the result of a job. Its wait belongs to `cause`, and that for a thread to the pool.
pub fn poll_job<T>(
    job: &mut JobHandle<T>,
    context: &mut Context<'_>,
    cause: Cause,
) -> Poll<Result<T, JobError>> {
    let polled = Pin::new(&mut *job).poll(context);
    match polled.is_pending() {
        true => timeline::waits_for(cause),
        false => timeline::queued(job.queued()),
    }
    polled
}

/// Runs `work` on a thread of the default pool without waiting for it; without a pool, or with a full queue, runs it
/// at once on the calling thread.
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
