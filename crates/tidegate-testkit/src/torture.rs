//! Endurance: a caching server is killed (`SIGKILL`, master and worker at once) at random moments and
//! started again, while clients compare every byte that they get with what the origin would send.
//!
//! Bodies follow from their URL ([`object`]), so nothing has to be stored. A response may be truncated
//! by the kill; received bytes must be correct nevertheless, and a regular end means a complete body.

mod changed;
mod client;
mod judge;
mod modifier;
pub(crate) mod object;
mod origin;
pub(crate) mod server;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::bell::Failure;
use crate::places::free;
pub use changed::{ChangedOptions, ChangedReport, changed};
use client::{Outcome, request_object};
use object::Random;
use server::{Server, pause};

/// Longest time of a round before the kill, in milliseconds.
const ROUND_MILLIS_MAX: u64 = 400;

/// Number of objects checked after each start, without a kill in between.
const SWEPT: usize = 12;

/// `max_size` of the cache, in bytes: enough for a third of the popular objects.
const SIZE_MAX: u64 = 16 << 20;

/// Number of failures that are reported in full.
const MISTAKES_MAX: usize = 20;

/// The options of a run.
#[derive(Debug, Clone)]
pub struct TortureOptions {
    /// The server's binary.
    pub binary: PathBuf,
    /// Kills and starts.
    pub rounds: u32,
    /// Clients at one time.
    pub clients: u32,
    /// Makes a run repeatable, as far as threads allow.
    pub seed: u64,
}

/// The results of a run.
#[derive(Debug, Clone, Default)]
pub struct TortureReport {
    /// Kills and starts.
    pub rounds: u32,
    /// Responses that were correct to their end.
    pub whole: u64,
    /// Truncated responses with correct bytes.
    pub cut: u64,
    /// Connections that gave no response.
    pub refused: u64,
    /// Complete responses from the cache.
    pub hits: u64,
    /// Hits after a start, before a new response could be stored.
    pub kept: u64,
    /// Bytes of bodies that were compared.
    pub bytes: u64,
    /// Descriptions of the failures.
    pub mistakes: Vec<String>,
}

/// Runs the server, kills it, checks.
///
/// # Errors
/// The server cannot be started or does not become ready.
pub fn torture(
    options: &TortureOptions,
    mut on_round: impl FnMut(u32, &TortureReport),
) -> Result<TortureReport, Failure> {
    let directory = tempfile::Builder::new()
        .prefix("tidegate-torture-")
        .tempdir()
        .map_err(|error| Failure::new(format!("cannot make a directory: {error}")))?;
    let origin = origin::start().map_err(|error| Failure::new(format!("origin: {error}")))?;
    // The system never uses such a port for outgoing connections: a client that retries could otherwise
    // connect to itself, and keep the server from its port.
    let front = free(TcpListener::bind).map_err(|error| Failure::new(format!("port: {error}")))?.0;
    let run = Run { options, directory: directory.path(), origin, front };
    let mut report = TortureReport::default();
    let mut random = Random::new(options.seed);
    for round in 0..options.rounds {
        let server = run.start(round)?;
        run.sweep(&mut random, SWEPT, true, &mut report);
        let clients = run.clients(round);
        let time = Duration::from_millis(random.below(ROUND_MILLIS_MAX));
        pause(time);
        server.kill();
        clients.finish(&mut report);
        report.rounds += 1;
        on_round(round, &report);
        if report.mistakes.len() > MISTAKES_MAX {
            return Ok(report);
        }
    }
    let server = run.start(options.rounds)?;
    run.sweep(&mut random, 200, false, &mut report);
    report.mistakes.extend(server.quit().err());
    run.check_directory(&mut report);
    Ok(report)
}

struct Run<'a> {
    options: &'a TortureOptions,
    directory: &'a Path,
    origin: SocketAddr,
    front: SocketAddr,
}

struct Clients {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Outcome>>>,
}

impl Run<'_> {
    fn start(&self, round: u32) -> Result<Server, Failure> {
        let configuration = self.configuration(round);
        Server::start(&self.options.binary, self.directory, self.front, &configuration)
    }

    /// Parameters alternate: each must handle the files of the others.
    fn configuration(&self, round: u32) -> String {
        let temporary = if round.is_multiple_of(2) { "on" } else { "off" };
        let sync = ["off", "off", "data", "all"][round as usize % 4];
        let (front, origin) = (self.front, self.origin);
        format!(
            "daemon off; worker_processes 2; pid nginx.pid; error_log error.log warn;
events {{ }}
http {{
  access_log off;
  proxy_cache_path cache keys_zone=z:1m levels=1:2 max_size={SIZE_MAX} inactive=1h
    use_temp_path={temporary} fsync={sync};
  server {{
    listen {front};
    location / {{
      proxy_pass http://{origin};
      proxy_cache z;
      proxy_cache_key $uri;
      proxy_cache_lock on;
      proxy_cache_tempfile on;
      proxy_cache_revalidate on;
      add_header X-Cache $upstream_cache_status;
    }}
  }}
}}
"
        )
    }

    /// Requests some objects, one after the other: none may be truncated.
    fn sweep(&self, random: &mut Random, count: usize, fresh: bool, report: &mut TortureReport) {
        for _ in 0..count {
            let outcome = request_object(self.front, object::popular(random), random, false);
            if fresh && outcome.is_hit {
                report.kept += 1;
            }
            if !outcome.is_whole && outcome.mistake.is_none() {
                let Outcome { name, bytes, has_head, .. } = &outcome;
                let seen = format!("head {has_head}, {bytes} bytes");
                report.mistakes.push(format!("{name}: truncated without a kill ({seen})"));
            }
            report.count(outcome);
        }
    }

    fn clients(&self, round: u32) -> Clients {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..self.options.clients).map(|client| {
            let (stop, front) = (stop.clone(), self.front);
            let mut random =
                Random::new(self.options.seed ^ u64::from(round) << 32 ^ u64::from(client) << 16);
            std::thread::spawn(move || {
                let mut outcomes = Vec::new();
                while !stop.load(Ordering::SeqCst) {
                    let number = object::any(&mut random);
                    let outcome = request_object(front, number, &mut random, true);
                    if !outcome.has_head {
                        pause(Duration::from_millis(1));
                    }
                    outcomes.push(outcome);
                }
                outcomes
            })
        });
        Clients { threads: threads.collect(), stop }
    }

    /// Checks the directory after a graceful end: no temporary file, and at most `max_size`.
    fn check_directory(&self, report: &mut TortureReport) {
        let mut sizes = BTreeMap::new();
        collect(&self.directory.join("cache"), &mut sizes);
        let blocks: u64 = sizes.values().map(|size| size.next_multiple_of(4096)).sum();
        if blocks > SIZE_MAX {
            report.mistakes.push(format!("{blocks} bytes of at most {SIZE_MAX} are on disk"));
        }
        let is_temporary = |path: &&PathBuf| path.extension().is_some();
        let left: Vec<_> = sizes.keys().filter(is_temporary).collect();
        // Those of the last kill wait for the loader, which has had no time: of one round at most.
        let most = self.options.clients as usize;
        if left.len() > most {
            report.mistakes.push(format!("{} temporary files are left", left.len()));
        }
    }
}

impl Clients {
    fn finish(self, report: &mut TortureReport) {
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads {
            match thread.join() {
                Ok(outcomes) => outcomes.into_iter().for_each(|outcome| report.count(outcome)),
                Err(_) => report.mistakes.push("a client panicked".to_owned()),
            }
        }
    }
}

impl TortureReport {
    fn count(&mut self, outcome: Outcome) {
        self.bytes += outcome.bytes;
        self.whole += u64::from(outcome.is_whole);
        self.hits += u64::from(outcome.is_whole && outcome.is_hit);
        self.cut += u64::from(!outcome.is_whole && outcome.has_head);
        self.refused += u64::from(!outcome.has_head);
        if let Some(mistake) = outcome.mistake {
            self.mistakes.push(format!("{}: {mistake}", outcome.name));
        }
    }
}

impl std::fmt::Display for TortureReport {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let TortureReport { rounds, whole, cut, refused, hits, kept, bytes, mistakes } = self;
        write!(
            formatter,
            "{rounds} kills; {whole} responses whole ({hits} hits, {kept} of them right after a \
             start), {cut} cut by a kill or left, {refused} refused; {bytes} bytes compared; {} mistakes",
            mistakes.len()
        )
    }
}

fn collect(directory: &Path, sizes: &mut BTreeMap<PathBuf, u64>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let own = entry.file_name().as_encoded_bytes().starts_with(b".");
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => collect(&entry.path(), sizes),
            Ok(metadata) if !own => drop(sizes.insert(entry.path(), metadata.len())),
            _ => {}
        }
    }
}
