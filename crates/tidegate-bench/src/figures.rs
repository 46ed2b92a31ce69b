//! Measures what figures cost, and whether they are right: counting, memory of zones, large responses of `api` and
//! `metrics`, viewers of the live page, a collector of traces that does not respond, frequent scrapes.
//!
//! A row has a goal and says whether it was met. Rows that compare two ways alternate between them, so that a slow drift
//! of the machine affects both alike.

mod collector;
mod config;
mod rows;
mod target;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use crate::server::{Binary, Kind};

/// What the command line asks for.
#[derive(Debug, PartialEq)]
struct Arguments {
    tidegate: Option<PathBuf>,
    /// Rows to measure; empty for all.
    only: Vec<String>,
    scale: Scale,
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scale {
    /// Requests that are counted exactly.
    requests: u64,
    /// Reloads meanwhile.
    reloads: u32,
    /// Rounds of each side.
    rounds: usize,
    /// Length of a round by time.
    time: Duration,
}

const SCALE: Scale =
    Scale { requests: 1_000_000, reloads: 20, rounds: 9, time: Duration::from_secs(5) };

/// A measured row.
#[derive(Debug)]
struct Row {
    name: &'static str,
    goal: String,
    figure: String,
    met: bool,
}

/// The program that is measured, and how much.
struct Context {
    tidegate: Binary,
    scale: Scale,
}

/// Measures the rows of one name.
type Measure = fn(&Context) -> Result<Vec<Row>, String>;

const ROWS: [(&str, Measure); 7] = [
    ("sums", rows::sums),
    ("counting", rows::counting),
    ("memory", rows::memory),
    ("responses", rows::responses),
    ("viewers", rows::viewers),
    ("collector", rows::collector),
    ("scrapes", rows::scrapes),
];

/// Runs `tidegate-bench figures …`; `None` for any other command line. `Some(Ok(false))`: a goal was missed.
///
/// # Errors
/// In words: a wrong argument, a program that does not serve.
pub(crate) fn run(
    arguments: impl IntoIterator<Item = std::ffi::OsString>,
) -> Option<Result<bool, String>> {
    let parser = crate::options::subcommand("figures", arguments)?;
    Some(parse(parser).map_err(|error| error.to_string()).and_then(|arguments| measure(&arguments)))
}

fn parse(mut parser: lexopt::Parser) -> Result<Arguments, lexopt::Error> {
    use lexopt::prelude::*;
    let mut arguments = Arguments { tidegate: None, only: Vec::new(), scale: SCALE };
    let scale = &mut arguments.scale;
    while let Some(argument) = parser.next()? {
        match argument {
            Long("tidegate") => arguments.tidegate = Some(parser.value()?.into()),
            Long("only") => arguments.only.push(parser.value()?.string()?),
            Long("requests") => scale.requests = parser.value()?.parse()?,
            Long("reloads") => scale.reloads = parser.value()?.parse()?,
            Long("rounds") => scale.rounds = parser.value()?.parse()?,
            Long("seconds") => {
                let seconds: f64 = parser.value()?.parse()?;
                if !(0.1..=60.0).contains(&seconds) {
                    return Err("--seconds is not between 0.1 and 60".into());
                }
                scale.time = Duration::from_secs_f64(seconds);
            }
            other => return Err(other.unexpected()),
        }
    }
    if arguments.scale.rounds == 0 || arguments.scale.requests == 0 {
        return Err("--rounds and --requests are at least 1".into());
    }
    let known = |wanted: &&String| !ROWS.iter().any(|(name, _)| name == wanted);
    if let Some(unknown) = arguments.only.iter().find(known) {
        let names = ROWS.map(|(name, _)| name).join(", ");
        return Err(format!("no row is named \"{unknown}\"; there are {names}").into());
    }
    Ok(arguments)
}

fn measure(arguments: &Arguments) -> Result<bool, String> {
    let tidegate = arguments.tidegate.clone();
    let tidegate = tidegate.unwrap_or_else(|| crate::beside_this_program("tidegate"));
    let tidegate = crate::named(&tidegate, Binary::probe(Kind::Nginx, &tidegate))?;
    let context = Context { tidegate, scale: arguments.scale };
    let mut all_met = true;
    println!("{:<34} {:<38} {:<40} result", "row", "goal", "figure");
    for (name, measure) in ROWS {
        if !arguments.only.is_empty() && !arguments.only.iter().any(|wanted| wanted == name) {
            continue;
        }
        for row in measure(&context).map_err(|error| format!("{name}: {error}"))? {
            println!("{}", shown(&row));
            all_met &= row.met;
        }
    }
    Ok(all_met)
}

fn shown(row: &Row) -> String {
    let Row { name, goal, figure, met } = row;
    format!("{name:<34} {goal:<38} {figure:<40} {}", if *met { "met" } else { "MISSED" })
}
