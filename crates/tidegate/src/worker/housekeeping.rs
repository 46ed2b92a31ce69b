//! The thread for background work of the current plan: cache managers, loaders, watches.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidegate_core::error_log::Level;
use tidegate_core::plan::{Plan, Service};
use tidegate_rt::clock::exact_now;

/// Longest wait without anything to do.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Shortest pause between two steps of a service, so that a mistake in one does not take a processor.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// The running thread; it ends when this is dropped, after its current step.
pub(super) struct Housekeeping {
    plans: Option<Sender<Arc<Plan>>>,
    thread: Option<JoinHandle<()>>,
}

impl Housekeeping {
    /// Starts the thread.
    ///
    /// # Errors
    /// No thread is available.
    pub(super) fn start() -> io::Result<Housekeeping> {
        let (sender, plans) = channel();
        let thread = std::thread::Builder::new()
            .name("housekeeping".to_owned())
            .spawn(move || BackgroundTasks::default().run(&plans))?;
        Ok(Housekeeping { plans: Some(sender), thread: Some(thread) })
    }

    /// Changes to the services of a plan.
    pub(super) fn set_plan(&self, plan: Arc<Plan>) {
        if let Some(plans) = &self.plans {
            let _ = plans.send(plan);
        }
    }

    /// Ends the thread and waits for it, at most for its current step.
    pub(super) fn finish(&mut self) {
        self.plans = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[derive(Default)]
struct BackgroundTasks {
    plan: Option<Arc<Plan>>,
    due: Vec<(Instant, Arc<dyn Service>)>,
}

impl BackgroundTasks {
    fn run(&mut self, plans: &Receiver<Arc<Plan>>) {
        loop {
            let pause = self.work(exact_now());
            match plans.recv_timeout(pause) {
                Ok(plan) => {
                    self.take_over(plan, exact_now());
                    self.work(exact_now());
                    tidegate_tls::entropy::prepare();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.finish(),
            }
        }
    }

    fn finish(&self) {
        for (_, service) in &self.due {
            // A panic of one must not keep the others from their last work.
            let _ = catch_unwind(AssertUnwindSafe(|| service.finish()));
        }
    }

    /// Runs every service that is due once; returns the time until the next one is due.
    ///
    /// Invariant: a service runs on this thread alone, one step at a time, and is next due no sooner than [`PAUSE_MIN`]
    /// after its step, so that none takes a processor; one that panics is tried again in [`PAUSE_MAX`]. Steps are meant
    /// to be short: they delay each other, and the end of the process.
    fn work(&mut self, now: Instant) -> Duration {
        let mut next = now + PAUSE_MAX;
        for (due, service) in &mut self.due {
            if *due <= now {
                let step = catch_unwind(AssertUnwindSafe(|| service.step()));
                let pause = step.unwrap_or_else(|_| {
                    if let Some(plan) = &self.plan {
                        let name = service.name();
                        let log = &plan.main.error_log;
                        log.say(Level::Alert, format_args!("{name} panicked"));
                    }
                    PAUSE_MAX
                });
                *due = exact_now() + pause.max(PAUSE_MIN);
            }
            next = next.min(*due);
        }
        next.saturating_duration_since(exact_now())
    }

    /// Takes over a plan; services that the new plan has as well keep their times.
    fn take_over(&mut self, plan: Arc<Plan>, now: Instant) {
        let before = std::mem::take(&mut self.due);
        for service in &plan.services {
            let known = before.iter().find(|(_, known)| Arc::ptr_eq(known, service));
            let due = known.map_or(now, |(due, _)| *due);
            self.due.push((due, service.clone()));
        }
        self.plan = Some(plan);
    }
}
