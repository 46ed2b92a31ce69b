//! The common part of the endurance programs: options, report, exit code.

use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::bell::Failure;

/// Returns the default server: the one beside this program.
pub fn beside() -> PathBuf {
    std::env::current_exe().unwrap_or_default().with_file_name("tidegate")
}

/// Runs the work with the options; it returns its report and whether all checks passed. The exit code is 1
/// when a check failed, and 2 when the options are wrong or the run could not start.
pub fn run<O, R: Display>(
    usage: &str,
    options: Result<O, lexopt::Error>,
    work: impl FnOnce(&O) -> Result<(R, bool), Failure>,
) -> ExitCode {
    let options = match options {
        Ok(options) => options,
        Err(mistake) => {
            eprintln!("{mistake}\n{usage}");
            return ExitCode::from(2);
        }
    };
    match work(&options) {
        Ok((report, right)) => {
            println!("{report}");
            if right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::from(2)
        }
    }
}
