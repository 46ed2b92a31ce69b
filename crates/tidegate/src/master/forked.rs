//! The first worker: a copy of the master, made when the configuration has been checked.
//!
//! It has the master's plan, which need not be built again, and every descriptor that the master has opened. Later workers
//! are started as programs and read the configuration that the master sends them: their master has threads, which a copy
//! would lack.
//!
//! ```text
//!   master: check ── fork ── catch signals, pid file ── Begin ──▶ supervise
//!                     └──▶ worker: wait for Begin ──────────▶ give up rights, serve
//! ```
//! Invariant: until `Begin` the copy has no effect outside of itself. A master that gives up its start closes the socket,
//! which ends the copy.

use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::process::ExitCode;

use tidegate_os::process;
use tidegate_os::socket::socketpair;

use super::environment;
use crate::configuration::Origin;
use crate::generation::{CheckedPlan, Generation};
use crate::report::Report;
use crate::worker::process as worker;

/// A worker that waits for its beginning.
pub(super) struct ForkedWorker {
    pub pid: u32,
    /// Its messages. The worker ends when this is closed.
    pub socket: OwnedFd,
}

/// The two results of a fork: in the process that called, with the worker if there is one; in the worker, when it has
/// ended.
pub(super) type Fork = ControlFlow<ExitCode, (Generation, CheckedPlan, Option<ForkedWorker>)>;

/// Forks the first worker, and runs it. There is none where the process has other threads (an application's), or where no
/// process is available: then a worker is started as a program.
pub(super) fn fork(
    origin: &Origin,
    first: Generation,
    checked: CheckedPlan,
    report: &Report,
) -> Fork {
    let variables = environment::of_worker(&first.main.env);
    let Ok((ours, theirs)) = socketpair() else { return Fork::Continue((first, checked, None)) };
    match process::fork() {
        Ok(Some(pid)) => Fork::Continue((first, checked, Some(ForkedWorker { pid, socket: ours }))),
        Ok(None) => {
            drop(ours);
            report.close();
            let set = process::set_environment(&variables);
            Fork::Break(worker::run_forked(theirs, origin, first, checked, set))
        }
        Err(_) => Fork::Continue((first, checked, None)),
    }
}
