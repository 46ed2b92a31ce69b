//! `cargo xtask fuzz`: the fuzz targets on a stable compiler.
//!
//! Every kept seed is replayed, then a deterministic loop mutates seeds for a bounded number of
//! rounds. It finds less than a coverage-guided fuzzer (`make fuzz`), but needs no nightly, takes
//! a known time, and repeats exactly: the same seed number gives the same inputs.
//!
//! The targets need the product's crates, so they need the feature `fuzz`: without it this
//! task starts itself again with the feature, and `cargo xtask tidy` works even while a crate
//! does not compile.

#[cfg(any(feature = "fuzz", test))]
mod corpus;
#[cfg(any(feature = "fuzz", test))]
mod guard;
#[cfg(any(feature = "fuzz", test))]
mod mutate;
#[cfg(any(feature = "fuzz", test))]
mod rounds;
#[cfg(feature = "fuzz")]
mod targets;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

/// The options of the command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Mutated inputs per target.
    pub iterations: u64,
    /// Time for all targets together; replaying the seeds is not limited.
    pub time: Duration,
    /// The seed of the sequence of mutations.
    pub seed: u64,
    /// The only target, if given.
    pub target: Option<String>,
    /// Write each input to disk before it runs, so that one that aborts the process is kept.
    pub careful: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            iterations: 20_000,
            time: Duration::from_secs(60),
            seed: 1,
            target: None,
            careful: false,
        }
    }
}

impl Options {
    pub(crate) fn parse(arguments: &[String]) -> Result<Options, String> {
        let mut options = Options::default();
        let mut rest = arguments.iter();
        while let Some(option) = rest.next() {
            if option == "--careful" {
                options.careful = true;
                continue;
            }
            let value = rest.next().ok_or(format!("fuzz: {option} needs a value"))?;
            let number = || value.parse().map_err(|_| format!("fuzz: {value} is not a number"));
            match option.as_str() {
                "--iterations" => options.iterations = number()?,
                "--seconds" => options.time = Duration::from_secs(number()?),
                "--seed" => options.seed = number()?,
                "--target" => options.target = Some(value.clone()),
                _ => return Err(format!("fuzz: unknown option {option}")),
            }
        }
        Ok(options)
    }
}

/// The command line's entry. `Ok(false)` when an input broke a target.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<bool, String> {
    let options = Options::parse(arguments)?;
    run_targets(root, arguments, &options)
}

#[cfg(feature = "fuzz")]
fn run_targets(root: &Path, _: &[String], options: &Options) -> Result<bool, String> {
    rounds::run(root, targets::TARGETS, options)
}

#[cfg(not(feature = "fuzz"))]
fn run_targets(root: &Path, arguments: &[String], _: &Options) -> Result<bool, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let status = std::process::Command::new(cargo)
        .args(["run", "--quiet", "--package", "xtask", "--features", "fuzz", "--", "fuzz"])
        .args(arguments)
        .current_dir(root)
        .status()
        .map_err(|error| format!("fuzz: cargo: {error}"))?;
    Ok(status.success())
}
