//! The number of connections that each event loop of a server watches. A loop is an epoll instance, with the nested
//! ones; /proc lists the watched descriptors (proc(5), fdinfo), for threads of one process and for several processes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use super::super::{Context, Sample};
use super::{new_load, origin_at, plan, rows, run_checked};
use crate::config::Scenario;
use crate::config::tuning::Knobs;
use crate::load::{Bound, Plan};
use crate::machine::{Place, raise_descriptor_limit};
use crate::procfs;
use crate::server::{Binary, Job, Server};

/// Measures one run: a new server, all connections with a few requests each, and their distribution.
pub(super) fn run(context: &Context, binary: &Binary, knobs: Knobs) -> Result<Sample, String> {
    let allowed = raise_descriptor_limit(DESCRIPTORS);
    if allowed < DESCRIPTORS {
        return Err(format!("only {allowed} descriptors allowed"));
    }
    let own = Place::one(context.processors.client);
    let origin = origin_at(own)?;
    let job = Job {
        origin: origin.address(),
        place: context.processors.allowed,
        ..context.job(Scenario::Tuning(knobs, None), 0)
    };
    let server = Server::start(binary, job)?;
    let plan = plan(context, server.address(), format!("/bytes?n={}", rows::SMALL), rows::SMALL);
    let mut load = new_load(Plan { connections: CONNECTIONS, ..plan })?;
    run_checked(&mut load, Bound { duration: PATIENCE, requests_max: 3 * CONNECTIONS as u64 })?;
    let mut loops = Vec::new();
    for process in server.processes() {
        loops.extend(watched(process, server.address()));
    }
    let counted: usize = loops.iter().sum();
    if counted < CONNECTIONS * 9 / 10 {
        return Err(format!("of {CONNECTIONS} connections {counted} were found in its loops"));
    }
    Ok(Sample { values: vec![percent(loops, WORKERS), counted as f64], ..Sample::default() })
}

/// Returns by how much the busiest loop exceeds the mean number of connections, in percent of the mean.
pub(crate) fn percent(mut loops: Vec<usize>, workers: usize) -> f64 {
    loops.sort_unstable_by(|a, b| b.cmp(a));
    let total: usize = loops.iter().take(workers).sum();
    let mean = total as f64 / workers as f64;
    (loops.first().copied().unwrap_or_default() as f64 - mean) / mean * 100.0
}

/// Returns the clients of each loop, from the descriptors that each epoll instance watches. An instance may have
/// several descriptors: those that watch the same clients are one loop.
pub(crate) fn shares(epolls: &BTreeMap<i32, Vec<i32>>, clients: &BTreeSet<i32>) -> Vec<usize> {
    let inner: BTreeSet<i32> = epolls.values().flatten().copied().collect();
    let roots = epolls.keys().filter(|epoll| !inner.contains(epoll));
    let share = |root: &i32| -> BTreeSet<i32> {
        let mut found = BTreeSet::new();
        let mut waiting = vec![*root];
        while let Some(descriptor) = waiting.pop() {
            if found.insert(descriptor) {
                waiting.extend(epolls.get(&descriptor).into_iter().flatten());
            }
        }
        found.intersection(clients).copied().collect()
    };
    let shares: BTreeSet<BTreeSet<i32>> = roots.map(share).collect();
    shares.iter().map(BTreeSet::len).filter(|share| *share > 0).collect()
}

/// Connections to an address that each loop of a process watches.
fn watched(process: i32, address: SocketAddr) -> Vec<usize> {
    let sockets = procfs::connections_to(address);
    let (mut epolls, mut clients) = (BTreeMap::new(), BTreeSet::new());
    for (descriptor, target) in procfs::descriptors(process) {
        if target == "anon_inode:[eventpoll]" {
            let text = fs::read_to_string(format!("/proc/{process}/fdinfo/{descriptor}"));
            epolls.insert(descriptor, procfs::parse_watched(&text.unwrap_or_default()));
        } else if sockets.contains(target.as_str()) {
            clients.insert(descriptor);
        }
    }
    shares(&epolls, &clients)
}

const CONNECTIONS: usize = 1000;
/// The server has two for each connection, and inherits the limit.
const DESCRIPTORS: u64 = 3 * CONNECTIONS as u64;
const WORKERS: usize = 2;
const PATIENCE: Duration = Duration::from_secs(10);
