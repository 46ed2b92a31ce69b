//! The serving side of a process: threads, the current generation, housekeeping.

mod housekeeping;
mod local;
#[cfg(unix)]
pub(crate) mod process;
mod quic;
pub(crate) mod threads;

use std::io;
use std::sync::Arc;
use std::time::Instant;

use tidegate_core::error_log::Level;
use tidegate_core::plan::Plan;
use tidegate_modules::flush_logs;
use tidegate_rt::clock::exact_now;

use crate::listening::Listening;
use housekeeping::Housekeeping;
pub(crate) use threads::{EndCallback, Threads};

/// The serving part of this process.
pub(crate) struct WorkerServer {
    threads: Threads,
    housekeeping: Housekeeping,
    plan: Arc<Plan>,
    /// Until when accepted blocking work is waited for at the end.
    jobs_until: JobsUntil,
}

/// How long the end of the process waits for jobs of thread pools.
#[derive(Clone, Copy)]
enum JobsUntil {
    /// A fast end: no wait.
    Now,
    /// A graceful end under `worker_shutdown_timeout`.
    Limit(Instant),
    /// A graceful end.
    Done,
}

impl WorkerServer {
    /// Starts threads for a plan.
    ///
    /// # Errors
    /// No thread or descriptor is available.
    pub(crate) fn start(
        plan: Arc<Plan>,
        listening: &[Listening],
        ended: EndCallback,
    ) -> io::Result<WorkerServer> {
        apply_pools(&plan)?;
        let housekeeping = Housekeeping::start()?;
        let mut threads = Threads::new(ended);
        threads.apply(&plan, listening)?;
        begin(&plan);
        housekeeping.set_plan(plan.clone());
        Ok(WorkerServer { threads, housekeeping, plan, jobs_until: JobsUntil::Now })
    }

    /// Changes to another plan; requests in progress keep theirs. `before` are the sockets of the plan that is served.
    ///
    /// # Errors
    /// No thread or descriptor is available. The plan before is served again.
    pub(crate) fn reload(
        &mut self,
        plan: Arc<Plan>,
        listening: &[Listening],
        before: &[Listening],
    ) -> io::Result<()> {
        let changed = apply_pools(&plan).and_then(|()| self.threads.apply(&plan, listening));
        if let Err(error) = changed {
            let _ = apply_pools(&self.plan);
            let _ = self.threads.apply(&self.plan, before);
            return Err(error);
        }
        begin(&plan);
        self.housekeeping.set_plan(plan.clone());
        self.plan = plan;
        Ok(())
    }

    pub(crate) fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Ends gracefully; `worker_shutdown_timeout` bounds it.
    pub(crate) fn finish(&mut self) {
        let limit = self.plan.main.worker_shutdown_timeout;
        self.jobs_until = match limit {
            Some(limit) => JobsUntil::Limit(exact_now() + limit),
            None => JobsUntil::Done,
        };
        self.plan.services.iter().for_each(|service| service.drain());
        self.threads.finish(limit);
    }

    /// Ends fast.
    pub(crate) fn stop(&mut self) {
        self.jobs_until = JobsUntil::Now;
        self.threads.stop();
    }

    /// Ends the connections of QUIC and stops receiving their packets; [`WorkerServer::resume_quic`] begins again.
    pub(crate) fn leave_quic(&mut self) {
        self.threads.leave_quic();
    }

    /// Receives packets of QUIC again.
    ///
    /// # Errors
    /// No descriptor is available.
    pub(crate) fn resume_quic(&mut self, listening: &[Listening]) -> io::Result<()> {
        self.threads.resume_quic();
        self.threads.apply(&self.plan, listening)
    }

    /// Calls a function once every event loop has turned.
    pub(crate) fn when_all_responded(&self, responded: impl FnOnce() + Send + Sync + 'static) {
        self.threads.when_all_responded(responded);
    }

    /// Ends requests and sessions of generations before `generation`.
    pub(crate) fn abort_older(&self, generation: u64) {
        self.threads.abort_older(generation);
    }

    /// Records the end of a thread; returns whether all have ended. A thread that ended without being asked to is
    /// logged and replaced.
    pub(crate) fn thread_ended(&mut self, number: usize, listening: &[Listening]) -> bool {
        let (asked, panic) = self.threads.collect(number);
        let log = &self.plan.main.error_log;
        if let Some(panic) = panic {
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

    /// Does the last work before the process ends.
    pub(crate) fn close(mut self) {
        self.housekeeping.finish();
        let done = match self.jobs_until {
            JobsUntil::Now => true,
            JobsUntil::Limit(until) => tidegate_core::blocking::drain(Some(until)),
            JobsUntil::Done => tidegate_core::blocking::drain(None),
        };
        if !done {
            let log = &self.plan.main.error_log;
            log.say(Level::Alert, format_args!("jobs of thread pools have not ended in time"));
        }
        flush_logs();
    }
}

/// Lets a plan's services change what outlives plans.
fn begin(plan: &Plan) {
    plan.services.iter().for_each(|service| service.begin());
}

/// Applies a plan's thread pools.
fn apply_pools(plan: &Plan) -> io::Result<()> {
    tidegate_core::blocking::apply(&plan.main.thread_pools).map_err(|error| {
        let message = format!("cannot start the threads of \"thread_pool\": {error}");
        io::Error::new(error.kind(), message)
    })
}
