//! What faults of the engine and of a server cost: responses of the servers meanwhile, and the time until the engine is in use
//! again; what a server that was killed serves afterwards.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::Bed;
use super::client::Node;

/// How long a fault lasts.
const LASTING: Duration = Duration::from_millis(1500);
/// The pause between two requests to a server.
const PAUSE: Duration = Duration::from_millis(5);
const BACK_GOAL: Duration = Duration::from_secs(1);
/// The longest that a request may take.
const WAIT_GOAL: Duration = Duration::from_millis(500);

/// Name, beginning and end of a fault.
type Fault = (&'static str, &'static [&'static str], &'static [&'static str]);

const FAULTS: [Fault; 9] = [
    ("killed", &["kill"], &["start"]),
    ("stopped", &["stop"], &["continue"]),
    ("paused by a client", &["pause", "1500"], &[]),
    ("cut off", &["cut", "node1"], &["heal", "node1"]),
    ("cut off, to it", &["cut", "node2", "out"], &["heal", "node2"]),
    ("cut off, from it", &["cut", "node3", "in"], &["heal", "node3"]),
    ("with another password", &["password"], &["no-password"]),
    ("full", &["full"], &["not-full"]),
    ("replaced by a web server", &["garbage"], &["start"]),
];

pub(super) fn rows(bed: &mut Bed) -> Result<(), String> {
    for (name, begin, end) in FAULTS {
        row(bed, &format!("engine {name}"), 3, |bed| fault(bed, begin, end))?;
    }
    killed_server(bed)
}

/// A server that is killed misses a purge, and does not serve what it had.
fn killed_server(bed: &mut Bed) -> Result<(), String> {
    let target = "/killed";
    for node in &mut bed.nodes {
        node.get(target)?;
    }
    row(bed, "a server killed", 2, |bed| {
        bed.fault(&["kill-node", "node3"])?;
        bed.origin.change(target);
        bed.nodes[0].again().ask("PURGE", target)?;
        std::thread::sleep(LASTING);
        bed.fault(&["start-node", "node3"])?;
        in_use(bed)
    })?;
    let current =
        bed.nodes[2].get(target)?.body == bed.origin.version(target).to_string().as_bytes();
    bed.row("  its stale responses", &usize::from(!current).to_string(), "0", current);
    Ok(())
}

/// What clients have seen meanwhile.
#[derive(Default)]
struct Seen {
    ends: AtomicBool,
    sent: AtomicUsize,
    failed: AtomicUsize,
    longest_micros: AtomicU64,
}

/// Prints what a fault costs the first of the servers, those that serve all the time.
pub(super) fn row(
    bed: &mut Bed,
    name: &str,
    serving: usize,
    cause: impl FnOnce(&Bed) -> Result<Duration, String>,
) -> Result<(), String> {
    let seen = Seen::default();
    let back = std::thread::scope(|scope| {
        for node in &bed.nodes[..serving] {
            let (node, seen) = (node.again(), &seen);
            scope.spawn(move || load(node, seen));
        }
        let back = cause(bed);
        seen.ends.store(true, Ordering::Relaxed);
        back
    })?;
    let (sent, failed) = (seen.sent.into_inner(), seen.failed.into_inner());
    let found = format!("{failed} of {sent}");
    bed.row(&format!("failed, {name}"), &found, "0", failed == 0 && sent > 0);
    let longest = Duration::from_micros(seen.longest_micros.into_inner());
    let found = format!("{} ms", longest.as_millis());
    bed.row("  longest request", &found, "500 ms at most", longest <= WAIT_GOAL);
    let found = format!("{} ms", back.as_millis());
    bed.row("  in use again after", &found, "1000 ms at most", back <= BACK_GOAL);
    settle(bed)
}

/// Waits until all servers use the engine, and have all purges.
pub(super) fn settle(bed: &mut Bed) -> Result<(), String> {
    in_use(bed)?;
    for node in &mut bed.nodes {
        node.until("/api/9/http/caches/pages", "\"state\":\"following\"")?;
    }
    Ok(())
}

/// Causes a fault; returns the time from its end until all servers use the engine.
pub(super) fn fault(bed: &Bed, begin: &[&str], end: &[&str]) -> Result<Duration, String> {
    bed.fault(begin)?;
    std::thread::sleep(LASTING);
    if !end.is_empty() {
        bed.fault(end)?;
    }
    in_use(bed)
}

/// Returns the time until all servers use the engine.
pub(super) fn in_use(bed: &Bed) -> Result<Duration, String> {
    let begun = Instant::now();
    for node in &bed.nodes {
        node.again().until("/api/9/tidegate/stores/default", "\"available\":true")?;
    }
    Ok(begun.elapsed())
}

/// Sends requests of all kinds, and counts those that fail.
fn load(mut node: Node, seen: &Seen) {
    for target in ["/limited?k=fault", "/fault"].iter().cycle() {
        if seen.ends.load(Ordering::Relaxed) {
            return;
        }
        let begun = Instant::now();
        seen.sent.fetch_add(1, Ordering::Relaxed);
        let fine = node.get(target).is_ok_and(|response| response.status < 500);
        seen.failed.fetch_add(usize::from(!fine), Ordering::Relaxed);
        seen.longest_micros.fetch_max(begun.elapsed().as_micros() as u64, Ordering::Relaxed);
        std::thread::sleep(PAUSE);
    }
}
