//! A server under callgrind.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use super::{Request, Visit};
use crate::config::Scenario;
use crate::machine::{Place, Processors};
use crate::origin::Origin;
use crate::server::{Binary, Job, Server};

/// Instructions for one request of a scenario, after some that warm up.
///
/// # Errors
/// In words: the server or valgrind failed, or a response was not the expected one.
pub(super) fn count(
    tidegate: &Binary,
    scenario: Scenario,
    request: Request,
    origin: &Origin,
) -> Result<u64, String> {
    let server = start(tidegate, scenario, origin)?;
    let address = server.address();
    let visit = TcpStream::connect(address);
    let visit = visit.and_then(|stream| Visit::new(stream, address, request));
    let mut visit = visit.map_err(|error| error.to_string())?;
    between(&server, WARM_UP, COUNTED, |count| {
        visit.ask(count).map_err(|error| format!("request: {error}"))
    })
}

/// Starts a server under callgrind.
///
/// # Errors
/// In words.
pub(super) fn start(
    tidegate: &Binary,
    scenario: Scenario,
    origin: &Origin,
) -> Result<Server, String> {
    let processors = Processors::choose(None, None).map_err(|error| error.to_string())?;
    let job = Job {
        scenario,
        origin: origin.address(),
        worker_connections: 1024,
        tempfile_directive: false,
        private_copy: false,
        counted: true,
        watchdog: false,
        place: Place::one(processors.server),
    };
    Server::start(tidegate, job)
}

/// Instructions of the server for one request, where `ask` sends a number of them: those of `counted` requests behind
/// those of `warm_up`.
///
/// # Errors
/// In words, those of `ask` among them.
pub(super) fn between(
    server: &Server,
    warm_up: u64,
    counted: u64,
    mut ask: impl FnMut(u64) -> Result<(), String>,
) -> Result<u64, String> {
    ask(warm_up)?;
    dump(server)?;
    ask(counted)?;
    dump(server)?;
    Ok(dumped(server, 2)? / counted)
}

/// The beginning of a command that counts the program's instructions, to files in `directory`.
pub(crate) fn counting(program: &Path, directory: &Path) -> Command {
    let mut command = Command::new("valgrind");
    // Threads take turns: otherwise one that only waits may hold the others up.
    command.args(["--tool=callgrind", "--fair-sched=yes"]);
    command.arg(format!("--callgrind-out-file={}", directory.join(OUT_FILE).display()));
    command.arg(program);
    command
}

/// Writes the counts since the last dump, and sets them to zero.
fn dump(server: &Server) -> Result<(), String> {
    let id = server.id().to_string();
    let output = Command::new("callgrind_control").args(["--dump", &id]).output();
    let output = output.map_err(|error| format!("callgrind_control: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("callgrind_control: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// All instructions of a dump.
fn dumped(server: &Server, number: u32) -> Result<u64, String> {
    read_total(&server.directory().join(format!("{OUT_FILE}.{number}")))
}

/// All instructions of a file that callgrind has written.
///
/// # Errors
/// In words: it cannot be read, or has no total.
pub(super) fn read_total(file: &Path) -> Result<u64, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    total(&text).ok_or_else(|| format!("{}: no total", file.display()))
}

/// The sum that a dump of callgrind has in its `summary:` or `totals:` line.
pub(super) fn total(dump: &str) -> Option<u64> {
    let line = dump
        .lines()
        .find_map(|line| line.strip_prefix("summary:").or_else(|| line.strip_prefix("totals:")))?;
    line.split_whitespace().next()?.parse().ok()
}

pub(super) const OUT_FILE: &str = "callgrind.out";
/// Requests before those that are counted: buffers have their sizes then, and what is made once is made.
pub(super) const WARM_UP: u64 = 300;
/// With those before them fewer than `keepalive_requests` (1000) closes a connection after.
pub(super) const COUNTED: u64 = 600;
