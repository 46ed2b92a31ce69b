//! A worker: one thread with one event loop, whose tasks never move to another thread.

use std::any::Any;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::task::JoinHandle;

use crate::iteration::{self, WatchedTask};
use crate::mail::{MailError, MailSender, Mailbox, mailbox};

/// Closures that may wait for a worker. They are sent by reloads and signals, not by requests.
const REMOTE_QUEUE: usize = 1024;

type RemoteClosure = Box<dyn FnOnce() + Send>;

/// A running worker thread.
#[derive(Debug)]
pub struct Worker {
    thread: thread::JoinHandle<()>,
    remote: Remote,
}

/// The handle that a worker's own code gets.
#[derive(Clone, Debug)]
pub struct Handle {
    remote: Remote,
    name: std::rc::Rc<str>,
}

/// Runs closures on a worker's event loop, from any thread.
#[derive(Clone, Debug)]
pub struct Remote {
    sender: MailSender<RemoteClosure>,
}

/// The worker cannot be reached: its queue is full or its event loop has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteError {
    /// Too many closures wait.
    Full,
    /// The event loop has ended.
    Ended,
}

/// A task on this thread's event loop. Dropping it lets the task continue; see [`Task::abort`].
#[derive(Debug)]
pub struct Task<T> {
    join: JoinHandle<T>,
}

/// A task ended without a result.
#[derive(Debug)]
pub enum TaskError {
    /// It panicked; the panic's message.
    Panicked(String),
    /// It was aborted, or its event loop ended.
    Aborted,
}

/// A panic that ended a thread or a job: its message, empty when it was no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panic(String);

impl Worker {
    /// Starts a thread named `name`, bound to the processors of `pin` (see `tidegate_os::affinity::pin_thread`), which
    /// runs the future that `main` makes until it is complete. Tasks that are left then are dropped.
    ///
    /// A processor mask that the system refuses is reported through `main` never running and the error being returned
    /// from here. Blocks until the thread has begun or failed to.
    ///
    /// ```text
    /// starting ─→ running `main`, and closures beside it ─→ `main` is complete: tasks and closures are dropped ─→ ended
    ///     └─→ failed: no mask, no event loop
    /// ```
    /// Sources: `worker_processes`, `worker_cpu_affinity`.
    ///
    /// # Errors
    /// No thread or event loop can be made, or the mask is refused.
    pub fn run<F, Main>(name: &str, pin: Option<Vec<u64>>, main: F) -> io::Result<Worker>
    where
        F: FnOnce(Handle) -> Main + Send + 'static,
        Main: Future<Output = ()>,
    {
        let (sender, closures) = mailbox::<RemoteClosure>(REMOTE_QUEUE);
        let remote = Remote { sender };
        let (ready_sender, ready) = std::sync::mpsc::sync_channel(1);
        let inner = remote.clone();
        let own_name = name.to_string();
        let thread = thread::Builder::new().name(name.to_string()).spawn(move || {
            let started = pin
                .map_or(Ok(()), |mask| tidegate_os::affinity::pin_thread(&mask))
                .and_then(|()| build_runtime());
            let runtime = match started {
                Ok(runtime) => runtime,
                Err(error) => {
                    let _ = ready_sender.send(Err(error));
                    return;
                }
            };
            let _ = ready_sender.send(Ok(()));
            iteration::take_endings();
            runtime.block_on(async move {
                spawn_local(run_closures(closures));
                main(Handle { remote: inner, name: own_name.into() }).await;
            });
            drop(runtime);
            iteration::end();
        })?;
        ready.recv().unwrap_or_else(|_| Err(io::Error::other("worker thread ended at start")))?;
        Ok(Worker { thread, remote })
    }

    /// Returns a handle to run closures on this worker.
    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// Whether the worker's main future is complete.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the end of the thread (blocking).
    ///
    /// # Errors
    /// The main future panicked.
    pub fn join(self) -> Result<(), Panic> {
        drop(self.remote);
        self.thread.join().map_err(|panic| Panic::of(&*panic))
    }
}

impl Handle {
    /// Returns a handle to run closures on this worker from other threads.
    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// Returns the worker's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Remote {
    /// Runs a closure on the worker in its next event-loop iteration. Tasks can be started from there with
    /// [`spawn_local`]. A panic in it is contained.
    ///
    /// # Errors
    /// Too many closures wait, or the worker has ended.
    pub fn run(&self, closure: impl FnOnce() + Send + 'static) -> Result<(), RemoteError> {
        self.sender.send(Box::new(closure)).map_err(|error| match error {
            MailError::Full(_) => RemoteError::Full,
            MailError::Closed(_) => RemoteError::Ended,
        })
    }
}

/// Starts a task on this thread's event loop.
///
/// # Panics
/// Outside of [`Worker::run`] and [`block_on`]: a mistake of the program.
#[track_caller]
pub fn spawn_local<F>(future: F) -> Task<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    Task { join: tokio::task::spawn_local(WatchedTask::new(future)) }
}

/// Runs a future without the runtime's forced yields: for one that yields by itself, and polls others that must not
/// have to wait without a reason.
pub async fn unconstrained<F: Future>(future: F) -> F::Output {
    tokio::task::unconstrained(future).await
}

/// Lets the other tasks of this event loop run first.
pub async fn yield_now() {
    tokio::task::yield_now().await;
}

/// Runs a future with an event loop of its own on the calling thread: for tools, tests and the master.
///
/// # Errors
/// No event loop can be made.
pub fn block_on<F: Future>(future: F) -> io::Result<F::Output> {
    Ok(build_runtime()?.block_on(future))
}

impl<T> Task<T> {
    /// Ends the task at its next `await`; its values are dropped.
    pub fn abort(&self) {
        self.join.abort();
    }

    /// Whether the task is complete.
    pub fn is_finished(&self) -> bool {
        self.join.is_finished()
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.join).poll(context).map_err(|error| match error.try_into_panic() {
            Ok(panic) => TaskError::Panicked(Panic::of(&*panic).into_text()),
            Err(_) => TaskError::Aborted,
        })
    }
}

impl std::fmt::Display for RemoteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            RemoteError::Full => "too many closures wait for the worker",
            RemoteError::Ended => "the worker has ended",
        })
    }
}

impl std::error::Error for RemoteError {}

impl std::fmt::Display for TaskError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TaskError::Panicked(message) => write!(f, "the task panicked: {message}"),
            TaskError::Aborted => f.write_str("the task was aborted"),
        }
    }
}

impl std::error::Error for TaskError {}

impl Panic {
    /// Makes the value of what a thread or `catch_unwind` has caught.
    pub(crate) fn of(caught: &(dyn Any + Send)) -> Panic {
        let text = caught.downcast_ref::<&str>().map(|text| (*text).to_string());
        Panic(text.or_else(|| caught.downcast_ref::<String>().cloned()).unwrap_or_default())
    }

    /// Returns its message.
    pub fn into_text(self) -> String {
        self.0
    }
}

impl std::fmt::Display for Panic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Panic {}

/// Runs closures one after the other, until all senders were dropped. It is dropped with the event loop, and closures
/// that wait then are not run ([`RemoteError::Ended`] from then on).
async fn run_closures(mut closures: Mailbox<RemoteClosure>) {
    while let Some(closure) = closures.receive().await {
        // A panic of one closure must not affect the later ones; what it shares with others is behind its own locks and
        // counters.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(closure));
    }
}

fn build_runtime() -> io::Result<LocalRuntime> {
    Builder::new_current_thread()
        .enable_all()
        .event_interval(iteration::RUNS_MAX)
        .on_thread_park(iteration::end)
        .on_thread_unpark(iteration::begin)
        .build_local(LocalOptions::default())
}
