//! `-s`: sends a signal to the master that runs with this configuration.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use tidegate_core::error_log::Level;
use tidegate_core::log_file::LogFile;
use tidegate_os::os_error;
use tidegate_os::process::{self, Signal};
use tidegate_plan::{ReloadState, Resources};

use crate::configuration::{self, Origin, PlanInputs};
use crate::options::SignalCommand;
use crate::pidfile;
use crate::report::Report;

/// Reads files, but neither opens nor creates logs: the sender of a signal may have no permission for that.
struct ConfigReader;

impl Resources for ConfigReader {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn log_file(&self, path: &Path) -> io::Result<Arc<LogFile>> {
        let file = std::fs::File::options().append(true).open(tidegate_os::platform::NULL)?;
        Ok(Arc::new(LogFile::new(path.to_owned(), file)))
    }
}

/// Sends the signal.
pub(crate) fn run(origin: &Origin, command: SignalCommand, report: &Report) -> ExitCode {
    let mut parsed = configuration::read(origin);
    let reload_state = ReloadState::default();
    let inputs = PlanInputs {
        resources: &ConfigReader,
        reload_state: &reload_state,
        parsed: &reload_state,
        generation: 1,
        is_checked: false,
    };
    let plan = parsed.plan(origin, &inputs);
    let Some(plan) = plan else {
        report.diagnostics(&parsed.diagnostics, &parsed.sources);
        return ExitCode::FAILURE;
    };
    // Warnings are for the start, for `-t` and for the log of a reload.
    let (signal, number) = match command {
        SignalCommand::Stop => (Signal::Terminate, 15),
        SignalCommand::Quit => (Signal::Quit, 3),
        SignalCommand::Reload => (Signal::Hangup, 1),
        SignalCommand::Reopen => (Signal::User1, 10),
    };
    let pid = match pidfile::read(&plan.main.pid) {
        Ok(pid) => pid,
        Err(error) => {
            report.say(Level::Error, &error.to_string());
            return ExitCode::FAILURE;
        }
    };
    if let Err(error) = process::kill(pid, signal) {
        report.say(Level::Alert, &format!("kill({pid}, {number}) failed ({})", os_error(&error)));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
