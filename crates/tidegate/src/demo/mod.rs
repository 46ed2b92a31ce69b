//! `tidegate demo`.

use std::ffi::OsString;
use std::process::ExitCode;

pub fn run(_arguments: &[OsString]) -> ExitCode {
    ExitCode::FAILURE
}
