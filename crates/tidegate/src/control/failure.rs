//! Why a subcommand failed: the line for standard error, and the exit code.

use std::io::Write;
use std::process::ExitCode;

use super::screen::escaped;

/// Why a subcommand has ended before its end.
#[derive(Debug)]
pub(super) enum Failure {
    /// The command line is wrong.
    Usage(String),
    /// No server is configured, or none responds.
    NoServer(String),
    /// The server refused: its status and text.
    Refused { status: u16, text: String },
    /// Anything else that went wrong, or findings of a check, which have been printed if the text is empty.
    Other(String),
    /// The output is closed.
    Closed,
}

impl Failure {
    /// Prints the reason, and returns the exit code.
    pub(super) fn report(&self, command: &str) -> ExitCode {
        let (code, text) = match self {
            Failure::Usage(text) => {
                (2, format!("{text}; \"tidegate {command} --help\" shows its words"))
            }
            Failure::NoServer(text) => (3, text.clone()),
            Failure::Refused { status, text } => (1, format!("{text} ({status})")),
            Failure::Other(text) => (1, text.clone()),
            Failure::Closed => return ExitCode::SUCCESS,
        };
        if !text.is_empty() {
            let _ = writeln!(std::io::stderr(), "tidegate {command}: {}", escaped(&text));
        }
        ExitCode::from(code)
    }
}
