//! Envoy's global rate limit beside ours: the same rate, load and clients in the same run. Nothing here is judged.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use super::client::Node;
use super::limits::{self, OFFERED, SPREADS, WAITING_CLIENTS};
use super::{Bed, NODES};
use crate::procfs;

/// The Envoys of `scripts/cluster.sh envoy`.
const ENVOYS: [&str; 3] = ["10.99.0.1:81", "10.99.0.2:81", "10.99.0.3:81"];
/// Pairs of requests that are timed, one without a limit and one with.
const PAIRS: usize = 2000;
/// A load around the beginning of a second of the clock: how long before it, and how long in all.
const AHEAD: Duration = Duration::from_millis(400);
const AROUND: Duration = Duration::from_millis(800);
const SECOND: Duration = Duration::from_secs(1);

/// The programs, as `scripts/envoy.sh` fetches them.
pub(super) struct Programs {
    pub(super) envoy: PathBuf,
    pub(super) ratelimit: PathBuf,
}

/// A limit to measure.
struct Side {
    name: &'static str,
    nodes: [&'static str; 3],
    target: &'static str,
    /// Connections to each server.
    clients: usize,
    /// What `scripts/cluster.sh processes` calls the servers, and what they ask.
    processes: [&'static str; 2],
}

const OURS: [Side; 2] = [
    Side {
        name: "ours",
        nodes: NODES,
        target: "/limited",
        clients: 1,
        processes: ["nodes", "engine"],
    },
    Side {
        name: "ours, sync=wait",
        nodes: NODES,
        target: "/exact",
        clients: WAITING_CLIENTS,
        processes: ["nodes", "engine"],
    },
];

const ENVOY: Side = Side {
    name: "Envoy",
    nodes: ENVOYS,
    target: "/limited",
    clients: WAITING_CLIENTS,
    processes: ["envoys", "ratelimit"],
};

/// Prints what limits admit and cost; one row, that Envoy was not measured, without its programs.
pub(super) fn rows(bed: &mut Bed, seconds: u64, programs: Option<&Programs>) -> Result<(), String> {
    let Some(Programs { envoy, ratelimit }) = programs else {
        bed.row("Envoy with its rate-limit service", "not measured", "--envoy, --ratelimit", true);
        return Ok(());
    };
    let time = Duration::from_secs(seconds);
    for side in &OURS {
        costs(bed, side, time)?;
    }
    bed.script("envoy", &[&envoy.display().to_string(), &ratelimit.display().to_string()])?;
    for address in ENVOYS {
        await_node(&mut Node::new(address))?;
    }
    for (name, spread) in SPREADS {
        let target = format!("{}?k={name}", ENVOY.target);
        let load = (spread, ENVOY.clients);
        let (least, most) = limits::admitted(&ENVOY.nodes.map(Node::new), &target, load, time)?;
        let name = format!("admitted in 10 s, Envoy, {name}");
        bed.row(&name, &format!("{least} to {most}"), "-", true);
    }
    costs(bed, &ENVOY, time)?;
    bed.script("no-envoy", &[])
}

/// Waits until a server admits a request, which Envoy does as soon as it listens.
fn await_node(node: &mut Node) -> Result<(), String> {
    node.until("/free", "abort")?;
    // The connection to the service is made with the first request that is limited.
    node.get("/limited?k=first").map(drop)
}

/// Prints what is admitted around the beginning of a second, the time that a limit adds, and the processor time.
fn costs(bed: &mut Bed, side: &Side, time: Duration) -> Result<(), String> {
    let Side { name, target, .. } = side;
    let nodes = side.nodes.map(Node::new);
    let target_of = |key: &str| format!("{target}?k={key}");
    let count = around_a_second(&nodes, &target_of("boundary"), side.clients)?;
    bed.row(&format!("admitted in 0.8 s of two seconds, {name}"), &count.to_string(), "-", true);

    let (mut free, mut limited) = (Vec::new(), Vec::new());
    let mut node = Node::new(side.nodes[0]);
    for key in 0..PAIRS {
        free.push(timed(&mut node, "/free")?);
        limited.push(timed(&mut node, &target_of(&format!("pair{key}")))?);
    }
    free.sort_unstable();
    limited.sort_unstable();
    let added = |at: usize| limited[at].as_secs_f64() * 1e6 - free[at].as_secs_f64() * 1e6;
    let found = format!("{:.0} / {:.0} us", added(PAIRS / 2), added(PAIRS * 99 / 100));
    bed.row(&format!("added to p50 / p99, {name}"), &found, "-", true);

    let processes = [bed.processes(side.processes[0])?, bed.processes(side.processes[1])?];
    let used = || processes.each_ref().map(|ids| procfs::cpu_time(ids).total());
    let before = used();
    limits::admitted(&nodes, &target_of("cost"), (SPREADS[0].1, side.clients), time)?;
    let after = used();
    let requests = OFFERED * time.as_secs_f64();
    let each = |index: usize| (after[index] - before[index]) / requests;
    let found = format!("{:.0} / {:.0} us", each(0), each(1));
    bed.row(&format!("CPU of servers / store, {name}"), &found, "-", true);
    Ok(())
}

fn timed(node: &mut Node, target: &str) -> Result<Duration, String> {
    let begun = Instant::now();
    node.get(target)?;
    Ok(begun.elapsed())
}

/// Sends the even load for a time in whose middle the clock's second changes; returns how many requests were admitted.
fn around_a_second(nodes: &[Node], target: &str, clients: usize) -> Result<usize, String> {
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let into = Duration::from_nanos(clock.subsec_nanos().into());
    std::thread::sleep(SECOND * 2 - AHEAD - into);
    let admitted = limits::load(nodes, target, (SPREADS[0].1, clients), AROUND)?;
    Ok(admitted.len())
}
