//! The steady suite: whether anything is lost when a server is reloaded, or a process of it dies,
//! in the middle of its work.
//!
//! Its requirements are about Tidegate alone; nginx's figures are shown beside them.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::{CaseReport, Context, alternate};
use crate::load::Outcome;

mod crash;
pub(crate) mod reload;

/// One case of the suite.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub name: &'static str,
    pub about: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Reload,
    Crash,
}

/// The suite's table.
pub(crate) const CASES: [Case; 2] = [
    Case {
        name: "reload",
        about: "a file and a proxied response under load while the server is reloaded every second",
        kind: Kind::Reload,
    },
    Case {
        name: "crash",
        about: "cached objects under load while the worker process is killed",
        kind: Kind::Crash,
    },
];

impl Case {
    /// Runs both sides.
    pub(crate) fn measure(&self, context: &Context) -> CaseReport {
        match self.kind {
            Kind::Reload => alternate(context, self.name, &reload::MEASURES, |binary, _| {
                reload::run(context, binary)
            }),
            Kind::Crash => alternate(context, self.name, &crash::MEASURES, |binary, _| {
                crash::run(context, binary)
            }),
        }
    }
}

/// Runs a load on a thread of its own for as long as `conduct` takes, at most for its bound.
pub(super) fn beside_load<T>(
    load: impl FnOnce(&AtomicBool) -> io::Result<Outcome> + Send,
    conduct: impl FnOnce() -> Result<T, String>,
) -> Result<(T, Outcome), String> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let running = scope.spawn(|| load(&stop));
        let conducted = conduct();
        stop.store(true, Ordering::Relaxed);
        let outcome = running.join().map_err(|_| "the load panicked".to_owned())?;
        Ok((conducted?, outcome.map_err(|error| format!("load: {error}"))?))
    })
}
