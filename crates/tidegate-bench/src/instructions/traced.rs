//! A server under callgrind.

use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use super::counts::{self, Counts};
use super::{Request, Visit};
use crate::config::Scenario;
use crate::machine::{Place, Processors};
use crate::origin::Origin;
use crate::procfs;
use crate::server::{Binary, Job, Server};

/// The counts of one request of a scenario, after some that warm up.
///
/// # Errors
/// In words: the server or valgrind failed, or a response was not the expected one.
pub(super) fn count(
    tidegate: &Binary,
    scenario: Scenario,
    request: Request,
    origin: &Origin,
) -> Result<Counts, String> {
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

/// The counts of the server for one request, where `ask` sends a number of them: those of `counted` requests behind
/// those of `warm_up`.
///
/// # Errors
/// In words, those of `ask` among them.
pub(super) fn between(
    server: &Server,
    warm_up: u64,
    counted: u64,
    mut ask: impl FnMut(u64) -> Result<(), String>,
) -> Result<Counts, String> {
    ask(warm_up)?;
    rest(server);
    dump(server)?;
    ask(counted)?;
    dump(server)?;
    Ok(dumped(server, 2)?.of_each(counted))
}

/// Waits until the server does nothing: work behind its start, such as random bytes for TLS, is none of a request.
fn rest(server: &Server) {
    let time = || procfs::cpu_time(&[server.id() as i32]).total();
    let mut before = time();
    for _ in 0..RESTS_MAX {
        thread::sleep(REST);
        let now = time();
        if now == before {
            return;
        }
        before = now;
    }
}

/// A time without work after which a server rests, and the number of such times that are waited for.
const REST: Duration = Duration::from_millis(300);
const RESTS_MAX: usize = 200;

/// The beginning of a command that counts what the program executes, to files in `directory`.
pub(crate) fn counting(program: &Path, directory: &Path) -> Command {
    let mut command = Command::new("valgrind");
    // Threads take turns: otherwise one that only waits may hold the others up.
    command.args(["--tool=callgrind", "--fair-sched=yes", "--collect-bus=yes"]);
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

/// The sums of a dump.
fn dumped(server: &Server, number: u32) -> Result<Counts, String> {
    counts::read(&server.directory().join(format!("{OUT_FILE}.{number}")))
}

pub(super) const OUT_FILE: &str = "callgrind.out";
/// Requests before those that are counted: buffers have their sizes then, and what is made once is made.
pub(super) const WARM_UP: u64 = 300;
/// With those before them fewer than `keepalive_requests` (1000) closes a connection after.
pub(super) const COUNTED: u64 = 600;
