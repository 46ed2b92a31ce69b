//! The serving side of a process: threads, the current generation, housekeeping.

mod housekeeping;
mod local;
pub mod process;
pub mod threads;

use std::io;
use std::sync::Arc;

use tidegate_core::error_log::Level;
use tidegate_core::plan::Plan;
use tidegate_modules::http::log::flush_all;

use crate::listening::Listening;
use housekeeping::Housekeeping;
pub use threads::{Ended, Threads};

/// What concerns the whole process, once: the size of the pool for blocking work.
pub fn prepare_process(plan: &Plan) {
    for (name, threads, queue) in &plan.main.thread_pools {
        if name == "default"
            && let Err(error) = tidegate_core::blocking::configure(*threads, *queue)
        {
            let log = &plan.main.error_log;
            log.say(Level::Alert, format_args!("cannot start thread pool \"{name}\": {error}"));
        }
    }
}

/// What serves requests in this process.
pub struct Server {
    threads: Threads,
    housekeeping: Housekeeping,
    plan: Arc<Plan>,
}

impl Server {
    /// Starts threads for a plan.
    ///
    /// # Errors
    /// No thread or descriptor can be had.
    pub fn start(plan: Arc<Plan>, listening: &[Listening], ended: Ended) -> io::Result<Server> {
        let housekeeping = Housekeeping::start()?;
        let mut threads = Threads::new(ended);
        threads.apply(&plan, listening)?;
        housekeeping.set_plan(plan.clone());
        Ok(Server { threads, housekeeping, plan })
    }

    /// Goes over to another plan; requests in progress keep theirs.
    ///
    /// # Errors
    /// No thread or descriptor can be had: some threads may have gone over already.
    pub fn reload(&mut self, plan: Arc<Plan>, listening: &[Listening]) -> io::Result<()> {
        self.threads.apply(&plan, listening)?;
        self.housekeeping.set_plan(plan.clone());
        self.plan = plan;
        Ok(())
    }

    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Graceful end; `worker_shutdown_timeout` bounds it.
    pub fn finish(&mut self) {
        self.threads.finish(self.plan.main.worker_shutdown_timeout);
    }

    /// Fast end.
    pub fn stop(&mut self) {
        self.threads.stop();
    }

    /// Ends what still serves requests of generations before the current one.
    pub fn abort_older(&self) {
        self.threads.abort_older(self.plan.generation);
    }

    /// Takes note of an ended thread; answers whether all have ended. One that ended unasked is
    /// logged and replaced.
    pub fn thread_ended(&mut self, number: usize, listening: &[Listening]) -> bool {
        let (asked, result) = self.threads.collect(number);
        let log = &self.plan.main.error_log;
        if let Err(panic) = &result {
            log.say(Level::Alert, format_args!("worker thread {number} panicked: {panic}"));
        }
        if !asked {
            log.say(Level::Alert, format_args!("worker thread {number} is started again"));
            if let Err(error) = self.threads.apply(&self.plan, listening) {
                log.say(Level::Emerg, format_args!("cannot start a worker thread: {error}"));
            }
        }
        self.threads.is_empty()
    }

    /// Last work before the process ends.
    pub fn close(mut self) {
        self.housekeeping.finish();
        flush_all();
    }
}
