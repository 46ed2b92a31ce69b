//! Tidegate with three handlers of its own: a page made for each request, a response from a database, and work that
//! takes long. Copy this directory to begin an application; README.md shows how to run it.
#![forbid(unsafe_code)]

mod database;
mod document;
#[cfg(test)]
mod tests;

use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use tidegate::{Request, Response, Result, Server, with_variables};

fn main() -> ExitCode {
    Server::new()
        .handler("document", document::respond)
        .handler("query", with_variables(&["example_database"], database::respond))
        .handler("slow", slow)
        .run()
}

/// Blocks its thread for 100 ms, as a slow library would. Only its own client waits.
#[expect(clippy::disallowed_methods, reason = "the loops must not sleep; handlers may")]
fn slow(_: Request) -> Result {
    sleep(Duration::from_millis(100));
    Ok(Response::text("That took 100 ms.\n"))
}
