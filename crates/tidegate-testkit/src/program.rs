//! What the programs have in common that try a server out at length: options in, a verdict out.

use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::bell::Failure;

/// The server to try where none is named: the one beside this program.
pub fn beside() -> PathBuf {
    std::env::current_exe().unwrap_or_default().with_file_name("tidegate")
}

/// Does the work with the options, which tells what went wrong as it likes, and ends with its report and
/// whether all was right. The exit code is 1 when it was not, and 2 when the options are wrong or nothing
/// could be found out.
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
