//! `tidegate-torture`: a caching server that is killed repeatedly, or whose files another process changes, while
//! clients compare every byte that it serves.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use tidegate_testkit::{ChangedOptions, TortureOptions, TortureReport, changed, program, torture};

const USAGE: &str = "usage: tidegate-torture [--rounds N | --changes N] [--clients N] [--seed N] [--tidegate PATH]
Starts the server with a cache, kills it (SIGKILL) at a random moment, starts it again, N times (200). With --changes
it is not killed: its files are changed, cut, replaced and removed N times while clients read hits.
The last line has the counts; the exit code is 1 when anything was wrong.";

/// The fault that is applied to the server.
enum Plan {
    Kills(TortureOptions),
    Changes(ChangedOptions),
}

fn main() -> ExitCode {
    match arguments() {
        Ok(Plan::Kills(options)) => kill(options),
        Ok(Plan::Changes(options)) => change(Ok(options)),
        Err(mistake) => change(Err(mistake)),
    }
}

fn kill(options: TortureOptions) -> ExitCode {
    program::run(USAGE, Ok(options), |options| {
        println!("seed {}", options.seed);
        let mut reported = 0;
        let mut print = move |report: &TortureReport| {
            let new = report.mistakes.iter().skip(reported);
            new.for_each(|mistake| println!("round {}: {mistake}", report.rounds));
            reported = report.mistakes.len();
        };
        let on_round = |round: u32, report: &TortureReport| {
            print(report);
            if (round + 1).is_multiple_of(20) {
                println!("{report}");
            }
        };
        let report = torture(options, on_round)?;
        print(&report);
        let right = report.mistakes.is_empty();
        Ok((report, right))
    })
}

fn change(options: Result<ChangedOptions, lexopt::Error>) -> ExitCode {
    program::run(USAGE, options, |options| {
        println!("seed {}", options.seed);
        let report = changed(options)?;
        report.wrong.iter().chain(&report.mistakes).for_each(|mistake| println!("{mistake}"));
        let right = report.is_right();
        Ok((report, right))
    })
}

fn arguments() -> Result<Plan, lexopt::Error> {
    use lexopt::prelude::*;
    let seed = u64::from(std::process::id());
    let mut options = TortureOptions { binary: program::beside(), rounds: 200, clients: 8, seed };
    let mut changes = None;
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("rounds") => options.rounds = parser.value()?.parse()?,
            Long("changes") => changes = Some(parser.value()?.parse()?),
            Long("clients") => options.clients = parser.value()?.parse()?,
            Long("seed") => options.seed = parser.value()?.parse()?,
            Long("tidegate") => options.binary = PathBuf::from(parser.value()?),
            other => return Err(other.unexpected()),
        }
    }
    let TortureOptions { binary, clients, seed, .. } = options.clone();
    Ok(match changes {
        Some(changes) => Plan::Changes(ChangedOptions { binary, changes, clients, seed }),
        None => Plan::Kills(options),
    })
}
