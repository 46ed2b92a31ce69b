//! A server under callgrind.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Visit;
use crate::machine::{Place, Processors};
use crate::origin::Origin;
use crate::server::{Binary, Job, Server};

/// Instructions for one request of a path, after some that warm up.
///
/// # Errors
/// In words: the server or valgrind failed, or a response was not the expected one.
pub(super) fn count(tidegate: &Binary, path: &super::Path, origin: &Origin) -> Result<u64, String> {
    let processors = Processors::choose(None, None).map_err(|error| error.to_string())?;
    let job = Job {
        scenario: path.scenario,
        origin: origin.address(),
        worker_connections: 1024,
        tempfile_directive: false,
        private_copy: false,
        counted: true,
        watchdog: false,
        place: Place::one(processors.server),
    };
    let server = Server::start(tidegate, job)?;
    let address = server.address();
    let visit = TcpStream::connect(address);
    let visit = visit.and_then(|stream| Visit::new(stream, address, path.request));
    let mut visit = visit.map_err(|error| error.to_string())?;
    let mut ask = |count| visit.ask(count).map_err(|error| format!("request: {error}"));
    ask(WARM_UP)?;
    dump(&server)?;
    ask(COUNTED)?;
    dump(&server)?;
    Ok(dumped(&server, 2)? / COUNTED)
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
    let file: PathBuf = server.directory().join(format!("{OUT_FILE}.{number}"));
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    total(&text).ok_or_else(|| format!("{}: no total", file.display()))
}

/// The sum that a dump of callgrind has in its `summary:` or `totals:` line.
pub(super) fn total(dump: &str) -> Option<u64> {
    let line = dump
        .lines()
        .find_map(|line| line.strip_prefix("summary:").or_else(|| line.strip_prefix("totals:")))?;
    line.split_whitespace().next()?.parse().ok()
}

const OUT_FILE: &str = "callgrind.out";
/// Requests before those that are counted: buffers have their sizes then, and what is made once is made.
const WARM_UP: u64 = 300;
/// With those before them fewer than `keepalive_requests` (1000) closes a connection after.
const COUNTED: u64 = 600;
