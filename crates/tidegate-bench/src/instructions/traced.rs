//! A server under callgrind.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::Visit;
use crate::machine::Place;
use crate::origin::Origin;
use crate::server::{Job, prepare};

/// Instructions for one request of a path, after as many that warm up.
///
/// # Errors
/// In words: the server or valgrind failed, or a response was not the expected one.
pub(super) fn count(tidegate: &Path, path: &super::Path, origin: &Origin) -> Result<u64, String> {
    let directory = tempfile::Builder::new().prefix("tidegate-bench-").tempdir();
    let directory = directory.map_err(|error| format!("no temporary directory: {error}"))?;
    let job = Job {
        scenario: path.scenario,
        origin: origin.address(),
        worker_connections: 1024,
        tempfile_directive: false,
        private_copy: false,
        watchdog: false,
        place: Place::one(0),
    };
    let address = prepare(directory.path(), job).map_err(|error| error.to_string())?;
    let mut traced = Traced::start(tidegate, directory.path())?;
    let stream = traced.connect(address)?;
    let mut visit = Visit::new(stream, address, path.request).map_err(|error| error.to_string())?;
    let mut ask = |count| visit.ask(count).map_err(|error| format!("request: {error}"));
    ask(WARM_UP)?;
    traced.dump()?;
    ask(COUNTED)?;
    traced.dump()?;
    let total = traced.total(2)?;
    Ok(total / COUNTED)
}

/// A running server; dropping it ends it.
struct Traced {
    child: Child,
    out: PathBuf,
    printed: PathBuf,
}

impl Traced {
    fn start(tidegate: &Path, directory: &Path) -> Result<Traced, String> {
        let out = directory.join("callgrind.out");
        let printed = directory.join("output.txt");
        let file = fs::File::create(&printed).map_err(|error| error.to_string())?;
        let errors = file.try_clone().map_err(|error| error.to_string())?;
        let mut command = Command::new("valgrind");
        // Threads take turns: otherwise one that only waits may hold the others up.
        command.args(["--tool=callgrind", "--fair-sched=yes"]);
        command.arg(format!("--callgrind-out-file={}", out.display()));
        command.arg(tidegate).arg("-p").arg(directory).arg("-c").arg(directory.join("nginx.conf"));
        command.arg("-e").arg(directory.join("error.log")).args(["-g", "master_process off;"]);
        command.stdin(Stdio::null()).stdout(file).stderr(errors);
        let child = command.spawn().map_err(|error| format!("valgrind: {error}"))?;
        Ok(Traced { child, out, printed })
    }

    /// Connects as soon as the server listens.
    fn connect(&mut self, address: SocketAddr) -> Result<TcpStream, String> {
        let end = Instant::now() + START_MAX;
        loop {
            if let Ok(stream) = TcpStream::connect(address) {
                return Ok(stream);
            }
            let ended = self.child.try_wait().map_err(|error| error.to_string())?;
            if let Some(status) = ended {
                return Err(format!(
                    "the server ended at its start ({status}): {}",
                    self.printed()
                ));
            }
            if Instant::now() > end {
                return Err(format!("the server does not listen: {}", self.printed()));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Writes the counts since the last dump, and sets them to zero.
    fn dump(&self) -> Result<(), String> {
        let id = self.child.id().to_string();
        let output = Command::new("callgrind_control").args(["--dump", &id]).output();
        let output = output.map_err(|error| format!("callgrind_control: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("callgrind_control: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }

    /// All instructions of a dump.
    fn total(&self, number: u32) -> Result<u64, String> {
        let file = PathBuf::from(format!("{}.{number}", self.out.display()));
        let text =
            fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        total(&text).ok_or_else(|| format!("{}: no total", file.display()))
    }

    fn printed(&self) -> String {
        let text = fs::read(&self.printed).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(4)..].join(" / ")
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let end = Instant::now() + STOP_MAX;
        while Instant::now() < end {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The sum that a dump of callgrind has in its `summary:` or `totals:` line.
pub(super) fn total(dump: &str) -> Option<u64> {
    let line = dump
        .lines()
        .find_map(|line| line.strip_prefix("summary:").or_else(|| line.strip_prefix("totals:")))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Requests before those that are counted: buffers have their sizes then, and what is made once is made.
const WARM_UP: u64 = 300;
/// With those before them fewer than `keepalive_requests` (1000) closes a connection after.
const COUNTED: u64 = 600;
const START_MAX: Duration = Duration::from_secs(120);
const STOP_MAX: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
