//! In one process, whose orders (`-s`) come by named events.

use std::ffi::OsString;
use std::process::ExitCode;

use tidegate_core::error_log::Level;

use crate::configuration::Origin;
use crate::generation::Built;
use crate::listening::BindError;
use crate::report::Report;
use crate::{pidfile, single};

/// There are no worker processes.
pub fn worker(_argument: &str) -> Option<ExitCode> {
    None
}

/// Opens the sockets and becomes the server.
///
/// # Errors
/// What could not be had.
pub fn start(
    origin: Origin,
    built: Built,
    _arguments: Vec<OsString>,
    report: &Report,
) -> Result<ExitCode, String> {
    let tell = |error: &BindError| report.say(Level::Emerg, &error.to_string());
    let first = built
        .open_sockets(&mut Vec::new(), tell)
        .map_err(|_| "still could not bind()".to_owned())?;
    pidfile::check(&first.main.pid)?;
    single::run(origin, first)
}
