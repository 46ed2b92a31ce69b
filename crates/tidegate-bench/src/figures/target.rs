//! A server with a configuration of its own, and what is asked of it.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::Context;
use super::config::Addresses;
use crate::load::{Bound, Load, LossPolicy, Mode, Outcome, Plan, TestRequest};
use crate::procfs;
use crate::start::{Started, free_address};

/// The longest wait for a server or a figure.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of the largest responses.
const RESPONSE_BYTES: usize = 32 << 20;
/// The pause between two looks.
pub(super) const PAUSE: Duration = Duration::from_millis(5);

/// A running server.
pub(super) struct Target {
    server: Started,
    pub(super) addresses: Addresses,
    /// Removed when the server has ended.
    _directory: tempfile::TempDir,
}

impl Target {
    /// Starts a server and waits until it responds.
    ///
    /// # Errors
    /// In words, with what the server has logged.
    pub(super) fn start(
        context: &Context,
        write: impl Fn(Addresses, &Path) -> String,
    ) -> Result<Target, String> {
        let failed = |error: std::io::Error| error.to_string();
        let directory =
            tempfile::Builder::new().prefix("tidegate-bench-").tempdir().map_err(failed)?;
        let addresses = Addresses {
            front: free_address().map_err(failed)?,
            figures: free_address().map_err(failed)?,
        };
        let file = directory.path().join("nginx.conf");
        fs::write(&file, write(addresses, directory.path())).map_err(failed)?;
        let mut command = Command::new(&context.tidegate.path);
        command.arg("-c").arg(&file).arg("-p").arg(directory.path()).arg("-e").arg("error.log");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Started(command.spawn().map_err(failed)?);
        let end = Instant::now() + PATIENCE;
        while fetch(addresses.figures, "/api/").is_err() {
            if Instant::now() > end {
                let log = fs::read_to_string(directory.path().join("error.log"));
                return Err(format!("the server does not respond\n{}", log.unwrap_or_default()));
            }
            thread::sleep(PAUSE);
        }
        Ok(Target { server, addresses, _directory: directory })
    }

    pub(super) fn reload(&self) {
        self.server.signal(Signal::HUP);
    }

    /// Returns the processor time of all its processes so far.
    pub(super) fn cpu(&self) -> Duration {
        Duration::from_secs_f64(procfs::cpu_time(&self.server.processes()).total() / 1e6)
    }

    /// Returns the memory of all its processes, in bytes; of shared pages their part.
    pub(super) fn memory(&self) -> Result<u64, String> {
        procfs::proportional_memory(&self.server.processes()).map_err(|error| error.to_string())
    }

    /// Returns the sum of a metric's lines whose labels contain a text.
    pub(super) fn sum(&self, name: &str, labels: &str) -> Result<u64, String> {
        let (text, _) = fetch(self.addresses.figures, "/own")?;
        Ok(sum_of(&String::from_utf8_lossy(&text), name, labels))
    }

    /// Waits until a metric's sum is `wanted`; returns the last one.
    pub(super) fn wait_for(&self, name: &str, labels: &str, wanted: u64) -> Result<u64, String> {
        let end = Instant::now() + PATIENCE;
        loop {
            let found = self.sum(name, labels)?;
            if found == wanted || Instant::now() > end {
                return Ok(found);
            }
            thread::sleep(PAUSE);
        }
    }

    /// Runs requests for these targets, whose responses have one byte.
    pub(super) fn load(
        &self,
        targets: impl IntoIterator<Item = String>,
        connections: usize,
        bound: Bound,
    ) -> Result<Outcome, String> {
        let asks = targets.into_iter().map(|target| TestRequest::counted(target, 1)).collect();
        let plan = Plan {
            address: self.addresses.front,
            asks,
            connections,
            mode: Mode::KeepAlive,
            loss_policy: LossPolicy::Retry,
        };
        let outcome = Load::new(plan).and_then(|mut load| load.run(bound));
        let outcome = outcome.map_err(|error| error.to_string())?;
        match &outcome.first_error {
            Some(error) => Err(format!("{} requests failed: {error}", outcome.errors)),
            None => Ok(outcome),
        }
    }
}

/// Returns the sum of a metric's lines whose labels contain a text.
pub(super) fn sum_of(text: &str, name: &str, labels: &str) -> u64 {
    let lines = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name).filter(|rest| rest.starts_with(['{', ' ']))?;
        let (found, value) = rest.rsplit_once(' ')?;
        found.contains(labels).then(|| value.parse::<u64>().ok()).flatten()
    });
    lines.sum()
}

/// Requests a target over a new connection; returns the body as it was sent, and the time until its end.
///
/// # Errors
/// In words: no connection, or another status than 200.
pub(super) fn fetch(address: SocketAddr, target: &str) -> Result<(Vec<u8>, Duration), String> {
    let begun = Instant::now();
    let read = || -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        // With one call: of several small packets the second one would wait for an acknowledgement.
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        // It does not grow while the time runs.
        let mut response = Vec::with_capacity(RESPONSE_BYTES);
        stream.read_to_end(&mut response)?;
        Ok(response)
    };
    let response = read().map_err(|error| format!("{target}: {error}"))?;
    let time = begun.elapsed();
    if !response.starts_with(b"HTTP/1.1 200 ") {
        let line = response.split(|byte| *byte == b'\r').next().unwrap_or_default();
        return Err(format!("{target}: {}", String::from_utf8_lossy(line)));
    }
    let head = memchr::memmem::find(&response, b"\r\n\r\n").unwrap_or_default();
    Ok((response[head..].to_vec(), time))
}
