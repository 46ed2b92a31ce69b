//! `tidegate-restarts`: kills and restarts the servers of a group while clients send requests.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use tidegate_testkit::{RestartOptions, program, restarts};

const USAGE: &str = "usage: tidegate-restarts [--seconds N] [--clients N] [--tidegate PATH]
Passes requests to a group of two servers, of which one after the other is killed (SIGKILL) and started
again, one a second, for N seconds (60). The exit code is 1 when a client saw a mistake.";

fn main() -> ExitCode {
    program::run(USAGE, arguments(), |options| {
        let report = restarts(options)?;
        report.mistakes.iter().for_each(|mistake| println!("{mistake}"));
        let right = report.mistakes.is_empty();
        Ok((report, right))
    })
}

fn arguments() -> Result<RestartOptions, lexopt::Error> {
    use lexopt::prelude::*;
    let mut options = RestartOptions {
        binary: program::beside(),
        time: Duration::from_secs(60),
        pause: Duration::from_millis(500),
        clients: 8,
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("seconds") => options.time = Duration::from_secs(parser.value()?.parse()?),
            Long("clients") => options.clients = parser.value()?.parse()?,
            Long("tidegate") => options.binary = PathBuf::from(parser.value()?),
            other => return Err(other.unexpected()),
        }
    }
    Ok(options)
}
