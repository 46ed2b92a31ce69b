//! The background work of groups: names are resolved again, servers checked. One thread does it for all groups, so
//! that a slow name server or origin delays no request; it is started with the first task.

pub mod checks;
pub mod names;

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_core::plan::Service;
use tidegate_rt::{Task, Worker, spawn_local};

/// Work that runs as long as a plan is in use.
pub trait BackgroundTask: Send + Sync {
    /// Does the work; dropped at any await when the plan goes out of use.
    fn run(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()>>>;

    /// Whether the work ends when a graceful end begins: another process does it from then on. Work for the requests that
    /// are still in progress goes on.
    fn ends_with_listeners(&self) -> bool {
        false
    }
}

/// The background thread; one for the process, over all plans.
#[derive(Default)]
pub struct BackgroundWorker {
    worker: Mutex<Option<Worker>>,
}

/// The tasks of one plan, collected while it is built.
#[derive(Clone, Default)]
pub struct BackgroundTasks(Arc<Mutex<Vec<Arc<dyn BackgroundTask>>>>);

/// Starts a plan's tasks, and ends those of the one before, when the plan comes into use.
pub struct PlanCare {
    background: Arc<BackgroundWorker>,
    tasks: BackgroundTasks,
    begun: AtomicBool,
}

/// A task that ends when this is dropped.
struct RunningTask(Task<()>);

impl RunningTask {
    fn begin(future: impl Future<Output = ()> + 'static) -> RunningTask {
        RunningTask(spawn_local(future))
    }
}

impl Drop for RunningTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

thread_local! {
    static TASKS: RefCell<Vec<RunningTask>> = const { RefCell::new(Vec::new()) };
}

/// There is nothing to do twice.
const PAUSE: Duration = Duration::from_secs(3600);
/// Delay before another attempt to start the thread.
const RETRY: Duration = Duration::from_secs(1);

impl BackgroundTasks {
    /// Adds a task for the plan that is being built.
    pub fn add(&self, task: Arc<dyn BackgroundTask>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(task);
    }

    fn all(&self) -> Vec<Arc<dyn BackgroundTask>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl PlanCare {
    /// Makes the background work of the plan with these `tasks`, done by the thread of the process.
    pub fn new(background: Arc<BackgroundWorker>, tasks: BackgroundTasks) -> PlanCare {
        PlanCare { background, tasks, begun: AtomicBool::new(false) }
    }
}

impl Service for PlanCare {
    fn name(&self) -> String {
        "upstreams".to_owned()
    }

    fn drain(&self) {
        let tasks = self.tasks.all();
        let count = tasks.len();
        let left: Vec<_> = tasks.into_iter().filter(|task| !task.ends_with_listeners()).collect();
        if left.len() < count {
            self.background.take_over(left);
        }
    }

    fn step(&self) -> Duration {
        if self.begun.swap(true, Ordering::Relaxed) {
            return PAUSE;
        }
        let began = self.background.take_over(self.tasks.all());
        self.begun.store(began, Ordering::Relaxed);
        if began { PAUSE } else { RETRY }
    }
}

impl BackgroundWorker {
    /// Ends the running tasks and starts others. `false`: the thread could not be started.
    fn take_over(&self, tasks: Vec<Arc<dyn BackgroundTask>>) -> bool {
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        if worker.is_none() {
            if tasks.is_empty() {
                return true;
            }
            *worker = Worker::run("upstreams", None, |_| std::future::pending()).ok();
        }
        let Some(worker) = &*worker else { return false };
        let begin = move || {
            // This ends those of the plan before.
            TASKS.replace(tasks.into_iter().map(|task| RunningTask::begin(task.run())).collect());
        };
        worker.remote().run(begin).is_ok()
    }
}
