//! `tidegate-torture`: kills a caching server again and again and compares every byte that it serves.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use tidegate_testkit::{TortureOptions, TortureReport, program, torture};

const USAGE: &str = "usage: tidegate-torture [--rounds N] [--clients N] [--seed N] [--tidegate PATH]
Starts the server with a cache, kills it (SIGKILL) at a random moment, starts it again, N times (200).
The last line has the counts; the exit code is 1 when anything was wrong.";

fn main() -> ExitCode {
    program::run(USAGE, arguments(), |options| {
        println!("seed {}", options.seed);
        let mut told_of = 0;
        let mut tell = move |report: &TortureReport| {
            let new = report.mistakes.iter().skip(told_of);
            new.for_each(|mistake| println!("round {}: {mistake}", report.rounds));
            told_of = report.mistakes.len();
        };
        let told = |round: u32, report: &TortureReport| {
            tell(report);
            if (round + 1).is_multiple_of(20) {
                println!("{report}");
            }
        };
        let report = torture(options, told)?;
        tell(&report);
        let right = report.mistakes.is_empty();
        Ok((report, right))
    })
}

fn arguments() -> Result<TortureOptions, lexopt::Error> {
    use lexopt::prelude::*;
    let seed = u64::from(std::process::id());
    let mut options = TortureOptions { binary: program::beside(), rounds: 200, clients: 8, seed };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("rounds") => options.rounds = parser.value()?.parse()?,
            Long("clients") => options.clients = parser.value()?.parse()?,
            Long("seed") => options.seed = parser.value()?.parse()?,
            Long("tidegate") => options.binary = PathBuf::from(parser.value()?),
            other => return Err(other.unexpected()),
        }
    }
    Ok(options)
}
