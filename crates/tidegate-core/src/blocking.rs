//! The process's default thread pool (`thread_pool default`), for disk work that would hold a loop.

use std::io;
use std::sync::OnceLock;

use tidegate_rt::blocking::{JobError, ThreadPool, submit};

/// Threads and queue of `thread_pool default` when the configuration does not name it.
pub const THREADS_DEFAULT: usize = 32;
pub const QUEUE_DEFAULT: usize = 65536;

static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();

/// Sets the size of the default pool; without effect once it is in use.
pub fn configure(threads: usize, max_queue: usize) -> io::Result<()> {
    let pool = ThreadPool::new("default", threads, max_queue)?;
    let _ = POOL.set(Some(pool));
    Ok(())
}

fn pool() -> Option<&'static ThreadPool> {
    POOL.get_or_init(|| ThreadPool::new("default", THREADS_DEFAULT, QUEUE_DEFAULT).ok()).as_ref()
}

/// Runs `work` on a thread of the default pool. A full queue is an error at once.
pub async fn run<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    run_on(pool(), work).await
}

/// Runs `work` on a thread of a pool, if that could be made. A full queue is an error at once.
pub async fn run_on<T: Send + 'static>(
    pool: Option<&ThreadPool>,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let pool = pool.ok_or_else(|| io::Error::other("no thread pool"))?;
    let job = submit(pool, work).map_err(|_| io::Error::other("thread pool queue overflow"))?;
    match job.await {
        Ok(result) => result,
        Err(JobError::Panicked(message)) => Err(io::Error::other(message)),
        Err(JobError::Cancelled) => Err(io::Error::other("thread pool is closed")),
    }
}

/// Runs `work` on a pool thread although nobody waits for it: tidying up. Without a pool, or with a full
/// queue, it is not run.
pub fn detach(work: impl FnOnce() + Send + 'static) {
    if let Some(pool) = pool()
        && let Ok(job) = submit(pool, work)
    {
        job.detach();
    }
}
