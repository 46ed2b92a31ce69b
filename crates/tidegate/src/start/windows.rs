//! Starting one process, which receives its signals (`-s`) by named events.

use std::ffi::OsString;
use std::process::ExitCode;

use tidegate_core::error_log::Level;

use super::service;
use crate::configuration::Origin;
use crate::generation::Built;
use crate::listening::BindError;
use crate::report::Report;
use crate::start_error::StartError;
use crate::{pidfile, single};

/// Runs as a service, or installs or removes one, if the first argument says so.
pub(crate) fn run_other_mode(arguments: &[OsString]) -> Option<ExitCode> {
    let asked = arguments.get(1).is_some_and(|argument| argument == service::ARGUMENT);
    asked.then(|| service::run(arguments))
}

/// Opens the sockets and becomes the server.
///
/// # Errors
/// A resource that was not available.
pub(crate) fn start(
    origin: Origin,
    built: Built,
    _arguments: Vec<OsString>,
    report: &Report,
) -> Result<ExitCode, StartError> {
    let log_failure = |error: &BindError| report.say(Level::Emerg, &error.to_string());
    let opened = built.open_sockets(&mut Vec::new(), log_failure);
    let (first, checked) = opened.map_err(|_| StartError::Bind)?;
    pidfile::check(&first.main.pid).map_err(StartError::PidFile)?;
    // From here on connections are not refused.
    tidegate_os::service::serving();
    single::run(origin, first, checked, false)
}
