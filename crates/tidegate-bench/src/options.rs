//! The command line.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use lexopt::prelude::*;

/// What the user asked for.
#[derive(Clone, Debug)]
pub struct Options {
    /// Program to measure; without it the `tidegate` beside this program.
    pub tidegate: Option<PathBuf>,
    /// Program to compare with; without it nginx's usual place.
    pub nginx: Option<PathBuf>,
    pub rounds: u32,
    /// Length of one measured run.
    pub run_time: Duration,
    pub connections: usize,
    pub idle_connections: usize,
    /// Cases to run; all when empty.
    pub only: Vec<String>,
    pub json: Option<PathBuf>,
    pub server_cpu: Option<usize>,
    pub client_cpu: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            tidegate: None,
            nginx: None,
            rounds: 5,
            run_time: Duration::from_secs(3),
            connections: 64,
            idle_connections: 10_000,
            only: Vec::new(),
            json: None,
            server_cpu: None,
            client_cpu: None,
        }
    }
}

/// What to do.
#[derive(Clone, Debug)]
pub enum Command {
    Run(Options),
    List,
    Help,
}

/// The text of `--help`.
pub const HELP: &str = "\
Compares Tidegate with genuine nginx on this machine.

Usage: tidegate-bench [quick] [options]

  --tidegate PATH       program to measure (default: tidegate beside this program)
  --nginx PATH          program to compare with (default: /usr/sbin/nginx or from PATH)
  --only CASE           run this case only; may be repeated
  --list                name the cases
  --rounds N            runs of each side, alternating (1 to 100, default 5)
  --seconds S           length of a run (0.1 to 60, default 3)
  --connections N       connections of the load (1 to 5000, default 64)
  --idle-connections N  connections of the memory case (1 to 200000, default 10000)
  --server-cpu N        processor of the servers (default: the first)
  --client-cpu N        processor of load and origin (default: the last)
  --json FILE           also write every run's figures there
  --help                this text

A ratio is Tidegate's figure divided by nginx's; a target is the largest ratio that is meant to
hold. Spreads are minimum and maximum of the rounds; \"best\" is the ratio of the best rounds,
which a busy machine disturbs least.
";

/// Reads the arguments (without the program's name).
///
/// # Errors
/// In words, for unknown options and values out of bounds.
pub fn parse(arguments: impl IntoIterator<Item = std::ffi::OsString>) -> Result<Command, String> {
    parse_arguments(lexopt::Parser::from_args(arguments)).map_err(|error| error.to_string())
}

fn parse_arguments(mut parser: lexopt::Parser) -> Result<Command, lexopt::Error> {
    let mut options = Options::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("tidegate") => options.tidegate = Some(parser.value()?.into()),
            Long("nginx") => options.nginx = Some(parser.value()?.into()),
            Long("only") => options.only.push(parser.value()?.string()?),
            Long("json") => options.json = Some(parser.value()?.into()),
            Long("rounds") => options.rounds = number(&mut parser, 1, 100)?,
            Long("seconds") => {
                options.run_time = Duration::from_secs_f64(number(&mut parser, 0.1, 60.0)?);
            }
            Long("connections") => options.connections = number(&mut parser, 1, 5000)?,
            Long("idle-connections") => {
                options.idle_connections = number(&mut parser, 1, 200_000)?;
            }
            Long("server-cpu") => options.server_cpu = Some(number(&mut parser, 0, 1023)?),
            Long("client-cpu") => options.client_cpu = Some(number(&mut parser, 0, 1023)?),
            Long("list") => return Ok(Command::List),
            Long("help") | Short('h') => return Ok(Command::Help),
            Value(suite) if suite == "quick" => {}
            other => return Err(other.unexpected()),
        }
    }
    Ok(Command::Run(options))
}

/// A number within bounds (NaN is outside of any).
fn number<T>(parser: &mut lexopt::Parser, minimum: T, maximum: T) -> Result<T, lexopt::Error>
where
    T: FromStr<Err: Into<Box<dyn std::error::Error + Send + Sync>>>
        + PartialOrd
        + std::fmt::Display
        + Send
        + Sync
        + 'static,
{
    let value = parser.value()?;
    let parsed: T = value.parse()?;
    if parsed >= minimum && parsed <= maximum {
        return Ok(parsed);
    }
    Err(format!("{} is not between {minimum} and {maximum}", value.to_string_lossy()).into())
}
