//! The command line: what is asked for, and the way to it.

use std::process::ExitCode;

use tidegate_conf::FsLoader;

use crate::configuration::{self, Origin};
use crate::options;
use crate::report::Report;
use crate::single;

/// The whole program.
pub fn run() -> ExitCode {
    let options = match options::parse(std::env::args_os().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("nginx: {message}");
            return ExitCode::FAILURE;
        }
    };
    let origin = Origin::new(&options);
    let report = Report::open(&origin, options.quiet);
    let parsed = configuration::parse(&origin, &FsLoader);
    single::run(&origin, parsed, &report, options.test)
}
