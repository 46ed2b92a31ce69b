//! Endurance: another process changes the files of a cache while clients read hits out of it. A response is correct,
//! or visibly broken; a wrong one that seems complete is counted.
//!
//! A change between the server's last check of a file and the moment when the kernel reads its bytes cannot be
//! excluded, so that a few of many hits may be wrong ([`WRONG_PER_MILLION_MAX`]); nor one of a file that is being
//! fetched, which is counted separately.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::judge::{ResponseCheck, TestRequest};
use super::modifier::modify;
use super::object::{self, Random};
use super::server::Server;
use super::{origin, pause};
use crate::bell::Failure;
use crate::places::free;

/// Longest pause between two changes, in microseconds.
const PAUSE_MICROS_MAX: u64 = 4000;

/// Treatment of an object by the configuration: default, other methods to send it, or to revalidate it.
const WAYS: [&str; 4] = ["", "/zip", "/copy", "/old"];

/// Objects that are kept in memory, in files, and in files of more than a megabyte.
const OBJECTS: [(u64, u64, usize); 3] =
    [(1, 60_000, 12), (70_000, 400_000, 24), (1_000_000, 2_000_000, 6)];

/// Accepted number of wrong hits in a million responses: several times that of a busy machine. Without checks all
/// were wrong.
const WRONG_PER_MILLION_MAX: u64 = 20_000;

/// The options of a run.
#[derive(Debug, Clone)]
pub struct ChangedOptions {
    /// The server's binary.
    pub binary: PathBuf,
    /// Number of changes.
    pub changes: u32,
    /// Clients at one time.
    pub clients: u32,
    /// Makes a run repeatable, as far as threads allow.
    pub seed: u64,
}

/// The results of a run.
#[derive(Debug, Clone, Default)]
pub struct ChangedReport {
    /// Number of changes made.
    pub changes: u32,
    /// Responses that were correct to their end.
    pub right: u64,
    /// Truncated or missing responses, 502 and 504.
    pub refused: u64,
    /// Hits that seemed complete and were not the object.
    pub wrong: Vec<String>,
    /// The same of responses that were being fetched.
    pub fetched_wrong: u64,
    /// Other mistakes, as a server that does not end.
    pub mistakes: Vec<String>,
}

/// Runs the server, the clients and the process that changes files.
///
/// # Errors
/// The server cannot be started or does not become ready.
pub fn changed(options: &ChangedOptions) -> Result<ChangedReport, Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("changed files: {error}"));
    let directory =
        tempfile::Builder::new().prefix("tidegate-changed-").tempdir().map_err(failed)?;
    let origin = origin::start().map_err(failed)?;
    let front = free(TcpListener::bind).map_err(failed)?.0;
    let configuration = configuration(front, origin);
    let server = Server::start(&options.binary, directory.path(), front, &configuration)?;
    let objects = objects();
    let stop = AtomicBool::new(false);
    let mut report = ChangedReport::default();
    std::thread::scope(|scope| {
        let clients = (0..options.clients).map(|client| {
            let random = Random::new(options.seed ^ u64::from(client + 1) << 32);
            let (objects, stop) = (&objects[..], &stop);
            scope.spawn(move || visit_all(front, objects, random, stop))
        });
        let clients: Vec<_> = clients.collect();
        let mut random = Random::new(options.seed);
        while report.changes < options.changes {
            modify(&directory.path().join("cache"), &mut random);
            report.changes += 1;
            pause(Duration::from_micros(random.below(PAUSE_MICROS_MAX)));
        }
        stop.store(true, Ordering::SeqCst);
        for client in clients {
            match client.join() {
                Ok(seen) => report.add(seen),
                Err(_) => report.mistakes.push("a client panicked".to_owned()),
            }
        }
    });
    report.sweep(front, &objects);
    report.mistakes.extend(server.quit().err());
    Ok(report)
}

/// An object, and its bytes.
type Object = (u64, Vec<u8>);

/// Runs one client until it is stopped.
fn visit_all(
    front: SocketAddr,
    objects: &[Object],
    mut random: Random,
    stop: &AtomicBool,
) -> ChangedReport {
    let mut report = ChangedReport::default();
    while !stop.load(Ordering::SeqCst) {
        let Some(object) = objects.get(random.below(objects.len() as u64) as usize) else { break };
        report.count(&TestRequest::any(object.0, &WAYS, &mut random), object, front);
    }
    report
}

fn objects() -> Vec<Object> {
    let of = |(least, most, count): (u64, u64, usize)| {
        let quick = (0..).filter(|number| !object::is_slow(*number));
        let sized = quick.map(|number| (number, object::length(number)));
        let fitting = sized.filter(move |(_, length)| (least..most).contains(length)).take(count);
        fitting.map(|(number, length)| (number, object::bytes(number, 0, length as usize)))
    };
    OBJECTS.into_iter().flat_map(of).collect()
}

fn configuration(front: SocketAddr, origin: SocketAddr) -> String {
    format!(
        "daemon off; worker_processes 2; pid nginx.pid; error_log error.log warn;
events {{ }}
http {{
  access_log off; sendfile on; add_header X-Cache $upstream_cache_status; open_file_cache max=100;
  proxy_cache_path cache keys_zone=z:1m levels=1:2 inactive=1h use_temp_path=off scrub=2s;
  proxy_cache z; proxy_cache_key $number; proxy_cache_revalidate on; proxy_cache_lock on;
  proxy_cache_purge PURGE from all;
  server {{
    listen {front};
    location ~ ^/(?<number>[0-9]+)$ {{ proxy_pass http://{origin}/$number; }}
    location ~ ^/zip/(?<number>[0-9]+)$ {{ gzip on; gzip_types *; gzip_comp_level 1; proxy_pass http://{origin}/$number; }}
    location ~ ^/copy/(?<number>[0-9]+)$ {{ sendfile off; proxy_pass http://{origin}/$number; }}
    location ~ ^/old/(?<number>[0-9]+)$ {{
      proxy_cache_use_stale updating error timeout; proxy_cache_background_update on;
      proxy_pass http://{origin}/$number;
    }}
  }}
}}
"
    )
}

impl ChangedReport {
    /// Whether the number of wrong responses is acceptable.
    pub fn is_right(&self) -> bool {
        let wrong = self.wrong.len() as u64;
        let all = self.right + self.refused + wrong;
        self.mistakes.is_empty() && wrong * 1_000_000 <= all * WRONG_PER_MILLION_MAX
    }

    fn count(&mut self, ask: &TestRequest, object: &Object, front: SocketAddr) {
        let Ok(response) = ask.send(front) else {
            self.refused += 1;
            return;
        };
        match ask.judge(&response, &object.1) {
            ResponseCheck::Correct => self.right += 1,
            ResponseCheck::Refused => self.refused += 1,
            ResponseCheck::Wrong(_) if TestRequest::is_fetched(&response) => {
                self.fetched_wrong += 1
            }
            ResponseCheck::Wrong(how) => self.wrong.push(format!("{ask:?}: {how}")),
        }
    }

    /// Checks after the last change that all responses are correct: earlier damage is detected.
    fn sweep(&mut self, front: SocketAddr, objects: &[Object]) {
        let mut last = ChangedReport::default();
        for object in objects {
            // The first response may hit damage in the middle of a large file.
            for _ in 0..2 {
                last.count(&TestRequest::whole(object.0), object, front);
            }
        }
        if !last.wrong.is_empty() || last.refused > objects.len() as u64 {
            self.mistakes.push(format!("behind the last change: {last}: {:?}", last.wrong));
        }
    }

    fn add(&mut self, other: ChangedReport) {
        self.right += other.right;
        self.refused += other.refused;
        self.wrong.extend(other.wrong);
        self.fetched_wrong += other.fetched_wrong;
        self.mistakes.extend(other.mistakes);
    }
}

impl std::fmt::Display for ChangedReport {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ChangedReport { changes, right, refused, wrong, fetched_wrong, mistakes } = self;
        let (wrong, mistakes) = (wrong.len(), mistakes.len());
        write!(
            formatter,
            "{changes} changes of files; {right} responses right, {refused} refused or cut, {wrong} hits wrong, \
             {fetched_wrong} wrong as they were fetched; {mistakes} mistakes"
        )
    }
}
