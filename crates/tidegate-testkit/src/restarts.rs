//! Endurance of a group: one of its servers after the other is killed (`SIGKILL`) and started again while
//! clients make requests that may be repeated. Each of them must get a correct response.
//!
//! Invariant: a request sees one kill at most, since the next one waits for the responses to all requests that were
//! sent before the last restart. A request that met both servers while they died would correctly get a 502.

use std::fmt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::bell::Failure;
use crate::places::free;
use crate::torture::server::{Server, pause};

/// The options of a run.
#[derive(Debug, Clone)]
pub struct RestartOptions {
    /// The server's binary, which the group's servers are as well.
    pub binary: PathBuf,
    /// Length of the run.
    pub time: Duration,
    /// Time between a start and the next kill.
    pub pause: Duration,
    /// Number of clients, each with a kept connection.
    pub clients: usize,
}

/// The results of a run.
#[derive(Debug, Clone, Default)]
pub struct RestartReport {
    /// Number of kills.
    pub kills: u32,
    /// Number of correct responses.
    pub responses: u64,
    /// The first missing or wrong responses.
    pub mistakes: Vec<String>,
}

/// Longest wait for a response.
const PATIENCE: Duration = Duration::from_secs(20);
/// Number of reported failures per client.
const MISTAKES_MAX: usize = 5;
/// The body of the servers' responses.
const BODY: &str = "all of the response";

/// Runs it.
///
/// # Errors
/// A server could not be started.
pub fn restarts(options: &RestartOptions) -> Result<RestartReport, Failure> {
    let directory = tempfile::tempdir().map_err(|error| Failure::new(error.to_string()))?;
    let place = || {
        let taken = free(TcpListener::bind).map_err(|error| Failure::new(error.to_string()));
        taken.map(|(address, _)| address)
    };
    let (front, first, second) = (place()?, place()?, place()?);
    let start = |name: &str, address: SocketAddr, text: &str, group: &str| {
        let directory = directory.path().join(name);
        std::fs::create_dir_all(&directory).map_err(|error| Failure::new(error.to_string()))?;
        start(&options.binary, &directory, address, text, group)
    };
    let origin = format!("location / {{ return 200 \"{BODY}\"; }}");
    let mut servers =
        [Some(start("a", first, &origin, "")?), Some(start("b", second, &origin, "")?)];
    let group =
        format!("upstream u {{ server {first} max_fails=0; server {second} max_fails=0; }}");
    let proxy = start("front", front, "location / { proxy_pass http://u; }", &group)?;
    let progress = Arc::new(Progress::new(options.clients));
    let clients: Vec<_> = (0..options.clients)
        .map(|number| {
            let progress = progress.clone();
            std::thread::spawn(move || client(front, &progress, number))
        })
        .collect();
    let mut report = RestartReport::default();
    let end = Instant::now() + options.time;
    while Instant::now() < end {
        pause(options.pause);
        if !progress.wait() {
            report.mistakes.push("a client waits for its response".to_owned());
            break;
        }
        let at = report.kills as usize % 2;
        if let Some(server) = servers[at].take() {
            server.kill();
        }
        report.kills += 1;
        pause(options.pause);
        let (name, address) = if at == 0 { ("a", first) } else { ("b", second) };
        servers[at] = Some(start(name, address, &origin, "")?);
        // Requests that began before may have met the dead server: the next kill would be their second.
        progress.restarts.store(report.kills, Ordering::SeqCst);
    }
    progress.stop.store(true, Ordering::SeqCst);
    for client in clients {
        match client.join() {
            Ok((responses, mistakes)) => {
                report.responses += responses;
                report.mistakes.extend(mistakes);
            }
            Err(_) => report.mistakes.push("a client panicked".to_owned()),
        }
    }
    report.mistakes.extend(proxy.quit().err());
    servers.into_iter().flatten().for_each(Server::kill);
    Ok(report)
}

/// A server with one address: another one would have port 80, which others may have, too.
fn start(
    binary: &Path,
    directory: &Path,
    address: SocketAddr,
    text: &str,
    group: &str,
) -> Result<Server, Failure> {
    let configuration = format!(
        "daemon off; worker_processes 2; pid nginx.pid; error_log error.log crit; events {{ }}
         http {{ access_log off; {group} server {{ listen {address}; {text} }} }}"
    );
    Server::start(binary, directory, address, &configuration)
}

/// The progress of the clients.
struct Progress {
    stop: AtomicBool,
    /// Servers that were killed and serve again.
    restarts: AtomicU32,
    /// The number of restarts before each client's current request.
    begun_after: Vec<AtomicU32>,
}

impl Progress {
    fn new(clients: usize) -> Self {
        let begun_after = (0..clients).map(|_| AtomicU32::new(0)).collect();
        Self { stop: AtomicBool::new(false), restarts: AtomicU32::new(0), begun_after }
    }

    /// Waits for the end of all requests sent before the last restart; false on timeout.
    fn wait(&self) -> bool {
        let restarts = self.restarts.load(Ordering::SeqCst);
        let deadline = Instant::now() + PATIENCE;
        let is_late = |begun: &AtomicU32| begun.load(Ordering::SeqCst) < restarts;
        while self.begun_after.iter().any(is_late) {
            if Instant::now() > deadline {
                return false;
            }
            pause(Duration::from_millis(1));
        }
        true
    }
}

/// Sends requests until stopped.
fn client(front: SocketAddr, progress: &Progress, number: usize) -> (u64, Vec<String>) {
    let (mut responses, mut mistakes) = (0, Vec::new());
    let mut stream = None;
    while !progress.stop.load(Ordering::SeqCst) {
        let restarts = progress.restarts.load(Ordering::SeqCst);
        progress.begun_after[number].store(restarts, Ordering::SeqCst);
        match ask(front, &mut stream) {
            Ok(()) => responses += 1,
            Err(mistake) => {
                stream = None;
                if mistakes.len() < MISTAKES_MAX {
                    mistakes.push(mistake);
                }
            }
        }
    }
    (responses, mistakes)
}

fn ask(front: SocketAddr, kept: &mut Option<TcpStream>) -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    if kept.is_none() {
        let stream = TcpStream::connect(front).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        *kept = Some(stream);
    }
    let Some(stream) = kept else { return Ok(()) };
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").map_err(failed)?;
    let mut response = Vec::new();
    let mut piece = [0; 4096];
    while !response.ends_with(BODY.as_bytes()) {
        match stream.read(&mut piece).map_err(failed)? {
            0 => return Err("the connection was closed".to_owned()),
            count => response.extend_from_slice(&piece[..count]),
        }
        if !b"HTTP/1.1 200".starts_with(&response[..response.len().min(12)]) {
            return Err(String::from_utf8_lossy(&response).lines().next().unwrap_or("").to_owned());
        }
    }
    // The server closes a connection after a number of requests, with `Connection: close`.
    let closes = response.windows(17).any(|part| part.eq_ignore_ascii_case(b"connection: close"));
    if closes {
        *kept = None;
    }
    Ok(())
}

impl fmt::Display for RestartReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RestartReport { kills, responses, mistakes } = self;
        write!(f, "{kills} kills, {responses} correct responses, {} mistakes", mistakes.len())
    }
}
