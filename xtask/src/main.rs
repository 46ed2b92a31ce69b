//! Tasks of the project, started as `cargo xtask TASK`.
//!
//! - `tidy` checks rules beyond the compiler's: sizes, dependency edges, forbidden calls.
//! - `directives` writes the table of nginx's directives by running the server.
//! - `docs` writes the reference of directives, which the server prints.
//! - `mistakes` shows the diagnostics of the server and of nginx for typical mistakes.
//! - `fuzz` replays the kept fuzz seeds and mutates them, on a stable compiler.
#![forbid(unsafe_code)]

mod directives;
mod docs;
mod fuzz;
mod mistakes;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask TASK

  tidy [--update-ratchet [--add]]
        check sizes, dependency edges, forbidden calls, headers, tests, changelog;
        --update-ratchet lowers and removes entries of xtask/ratchet.toml,
        --add with it also writes new entries (a reviewer should see why)
  directives PROGRAM
        write docs/directives.md by asking PROGRAM about each of nginx's directives
  docs [--check] PROGRAM
        write docs/reference/ as PROGRAM prints it, with --check only compare
  mistakes --nginx PROGRAM --tidegate PROGRAM
        print what both say of each configuration in tests/mistakes
  fuzz [--seconds N] [--iterations N] [--seed N] [--target NAME] [--careful]
        replay fuzz/seeds/* and mutate them: per target at most N iterations (default 20000),
        over all targets at most N seconds (default 60);
        --careful writes each input to target/fuzz-failures/ before it runs, to catch an abort";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.split_first() {
        Some((task, rest)) if task == "tidy" => tidy::run(&repository_root(), rest),
        Some((task, rest)) if task == "directives" => directives::run(&repository_root(), rest),
        Some((task, rest)) if task == "docs" => docs::run(&repository_root(), rest),
        Some((task, rest)) if task == "mistakes" => mistakes::run(&repository_root(), rest),
        Some((task, rest)) if task == "fuzz" => fuzz::run(&repository_root(), rest),
        Some((task, _)) if task == "help" || task == "--help" || task == "-h" => {
            println!("{USAGE}");
            Ok(true)
        }
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

/// The directory that holds the workspace's `Cargo.toml`.
fn repository_root() -> PathBuf {
    let own_directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    own_directory.parent().unwrap_or(own_directory).to_path_buf()
}
