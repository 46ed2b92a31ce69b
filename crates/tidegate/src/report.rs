//! Messages before the configured error log exists: to standard error as in nginx, and to the log of `-e`.

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;

use tidegate_conf::{Diagnostic, Severity, SourceMap};
use tidegate_core::error_log::{ErrorLog, Level, LogSink};
use tidegate_core::log_file::{LogFile, open_append};
use tidegate_core::settings::full_path;
use tidegate_os::os_error;

use crate::configuration::Origin;

/// The destination of messages of the start.
pub(crate) struct Report {
    log: ErrorLog,
    /// The file of `log`.
    file: Option<Arc<LogFile>>,
    /// `-q`: only errors are printed on standard error.
    quiet: bool,
}

impl Report {
    /// Opens the log of `-e`. A failure is reported and ignored, as in nginx.
    pub(crate) fn open(origin: &Origin, quiet: bool) -> Report {
        let mut report = Report { log: ErrorLog::default(), file: None, quiet };
        if origin.error_log == "stderr" || origin.error_log.starts_with("syslog:") {
            return report;
        }
        let path = full_path(&origin.prefix, &origin.error_log);
        match open_append(&path) {
            Ok(file) => {
                let file = Arc::new(LogFile::new(path, file));
                report.log = ErrorLog::new(vec![(LogSink::File(file.clone()), Level::Notice)]);
                report.file = Some(file);
            }
            Err(error) => {
                let failed = open_failed(&path, &error);
                print(&format!("nginx: [alert] could not open error log file: {failed}"));
            }
        }
        report
    }

    /// Closes the log: the server runs, and has logs of its own, which are reopened when this one is moved away.
    pub(crate) fn close(&self) {
        if let Some(file) = &self.file
            && let Ok(nothing) = File::options().append(true).open(tidegate_os::platform::NULL)
        {
            file.replace(nothing);
        }
    }

    /// Reports a message of the program itself.
    pub(crate) fn say(&self, level: Level, message: &str) {
        if !self.quiet || level <= Level::Error {
            print(&format!("nginx: [{}] {message}", level.name()));
        }
        self.log.say(level, format_args!("{message}"));
    }

    /// Prints a line on standard error only.
    pub(crate) fn line(&self, message: &str) {
        if !self.quiet {
            print(&format!("nginx: {message}"));
        }
    }

    /// Prints the line of a failure: even `-q` does not hide it.
    pub(crate) fn failure(&self, message: &str) {
        print(&format!("nginx: {message}"));
    }

    /// Reports all diagnostics with their excerpts; their first lines are also logged.
    pub(crate) fn diagnostics(&self, diagnostics: &[Diagnostic], sources: &SourceMap) {
        let color = std::io::stderr().is_terminal();
        for diagnostic in diagnostics {
            if !self.quiet || diagnostic.severity <= Severity::Error {
                let _ = std::io::stderr().write_all(diagnostic.render(sources, color).as_bytes());
            }
            log_diagnostic(&self.log, diagnostic, sources);
        }
    }
}

/// Writes a diagnostic's first line to an error log.
pub(crate) fn log_diagnostic(log: &ErrorLog, diagnostic: &Diagnostic, sources: &SourceMap) {
    let level = match diagnostic.severity {
        Severity::Emerg => Level::Emerg,
        Severity::Crit => Level::Crit,
        Severity::Error => Level::Error,
        Severity::Warn => Level::Warn,
        Severity::Notice => Level::Notice,
    };
    log.say(level, format_args!("{}", diagnostic.first_line(sources)));
}

/// Formats nginx's line `open() "FILE" failed (2: No such file or directory)`.
pub(crate) fn open_failed(path: &Path, error: &std::io::Error) -> String {
    format!("open() \"{}\" failed ({})", path.display(), os_error(error))
}

fn print(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
