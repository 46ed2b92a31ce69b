//! Starting a master and its worker, or one process (`master_process off`).

use std::ffi::OsString;
use std::process::ExitCode;

use tidegate_core::error_log::Level;
use tidegate_os::held_signals;

use crate::configuration::Origin;
use crate::generation::{Built, Generation};
use crate::listening::{self, BindError};
use crate::master::{self, upgrade};
use crate::report::Report;
use crate::start_error::StartError;
use crate::worker::process;
use crate::{activation, claims, pidfile, single};

/// The first argument of a worker process, which only a master gives.
pub(crate) const WORKER_ARGUMENT: &str = "worker-process-of-a-master";

/// Runs as a worker, if the first argument says so.
pub(crate) fn run_other_mode(arguments: &[OsString]) -> Option<ExitCode> {
    let name = arguments.first()?.to_string_lossy();
    arguments
        .get(1)
        .is_some_and(|argument| argument == WORKER_ARGUMENT)
        .then(|| process::run(&name))
}

/// Opens what needs privileges and becomes the server.
///
/// # Errors
/// A resource that was not available.
pub(crate) fn start(
    origin: Origin,
    built: Built,
    arguments: Vec<OsString>,
    report: &Report,
) -> Result<ExitCode, StartError> {
    tidegate_os::process::ignore_stray_signals();
    // From here on there is something to remove at the end: no signal ends the process before it can react.
    held_signals::hold();
    let mut present = upgrade::inherited()?;
    let inherited = !present.is_empty();
    let passed = activation::passed(|place| built.listens_at(place));
    present.extend(passed.map_err(StartError::Activation)?);
    let log_failure = |error: &BindError| report.say(Level::Emerg, &error.to_string());
    let (mut first, checked) = match built.open_sockets(&mut present, log_failure) {
        Ok(opened) => opened,
        Err(failed) => {
            listening::remove_socket_files(&failed, &[]);
            return Err(StartError::Bind);
        }
    };
    // Sockets of an older binary that this configuration does not use.
    drop(present);
    if let Err(error) = prepare(&mut first) {
        if !inherited {
            listening::remove_socket_files(&first.listening, &[]);
        }
        return Err(error);
    }
    if first.main.daemon && !inherited {
        tidegate_os::daemon::daemonize().map_err(StartError::Daemon)?;
    }
    if first.main.master_process {
        master::run(origin, (first, checked), arguments, inherited, report)
    } else {
        single::run(origin, first, checked, inherited)
    }
}

/// Makes and takes what must succeed before the server reports that it runs.
fn prepare(first: &mut Generation) -> Result<(), StartError> {
    first.give_directories().map_err(StartError::Directory)?;
    first.claims = claims::take(&first.directories.claimed)
        .inspect_err(|error| first.log().say(Level::Emerg, format_args!("{error}")))
        .map_err(StartError::Claim)?;
    pidfile::check(&first.main.pid).map_err(StartError::PidFile)
}
