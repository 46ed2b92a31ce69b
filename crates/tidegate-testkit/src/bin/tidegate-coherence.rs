//! `tidegate-coherence`: changes files at full speed while clients request them, and detects responses that are
//! stale, mixed or truncated without reason.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use tidegate_testkit::{CoherenceOptions, coherence, program};

const USAGE: &str =
    "usage: tidegate-coherence [--changes N] [--readers N] [--seed N] [--settings LINES] \
[--tidegate PATH]
Renames, cuts, replaces and removes files and directories N times (20000) while clients ask for them.
The last line has the counts; the exit code is 1 when anything was wrong.";

fn main() -> ExitCode {
    program::run(USAGE, arguments(), |options| {
        println!("seed {}", options.seed);
        let report = coherence(options)?;
        report.mistakes.iter().for_each(|mistake| println!("{mistake}"));
        let right = report.mistakes.is_empty();
        Ok((report, right))
    })
}

fn arguments() -> Result<CoherenceOptions, lexopt::Error> {
    use lexopt::prelude::*;
    let binary = program::beside();
    let seed = u64::from(std::process::id());
    let settings = String::new();
    let mut options = CoherenceOptions { binary, changes: 20_000, readers: 4, seed, settings };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("changes") => options.changes = parser.value()?.parse()?,
            Long("readers") => options.readers = parser.value()?.parse()?,
            Long("seed") => options.seed = parser.value()?.parse()?,
            Long("settings") => options.settings = parser.value()?.string()?,
            Long("tidegate") => options.binary = PathBuf::from(parser.value()?),
            other => return Err(other.unexpected()),
        }
    }
    Ok(options)
}
