//! A rate that servers allow together, and what that costs the engine.

use std::time::{Duration, Instant};

use super::client::Node;
use super::{Bed, INTERVAL};

/// The rate of the zone in `scripts/cluster.conf`, and what clients send, in requests a second.
const RATE: usize = 200;
pub(super) const OFFERED: f64 = 600.0;
/// The burst of its rule.
const BURST: usize = 10;
/// Connections to each server for requests that wait, which may take longer than the pause between two of them.
pub(super) const WAITING_CLIENTS: usize = 8;
/// Requests that are timed.
const ALONE: usize = 500;
/// The time that is judged, and the time in front of it, in which the burst is spent.
const WINDOW: Duration = Duration::from_secs(10);
const FIRST: Duration = Duration::from_secs(1);
pub(super) const SECONDS_MIN: u64 = 11;
/// How long a moving load stays at a server.
const STAY: Duration = Duration::from_secs(2);

/// How requests are spread over the servers at a time.
pub(super) type Spread = fn(Duration) -> [f64; 3];

pub(super) const SPREADS: [(&str, Spread); 3] = [
    ("even", |_| [1.0 / 3.0; 3]),
    ("90/5/5", |_| [0.9, 0.05, 0.05]),
    ("moving", |at| {
        let mut shares = [0.05; 3];
        shares[(at.as_millis() / STAY.as_millis()) as usize % 3] = 0.9;
        shares
    }),
];

pub(super) fn rows(bed: &mut Bed, seconds: u64) -> Result<(), String> {
    let rounds = "/api/9/tidegate/stores/default";
    for (name, spread) in SPREADS {
        let mut before = Vec::new();
        for node in &mut bed.nodes {
            before.push(node.number(rounds, "rounds")?);
        }
        let begun = Instant::now();
        let target = format!("/limited?k={name}");
        let time = Duration::from_secs(seconds);
        let found = admitted(&bed.nodes, &target, (spread, 1), time)?;
        row(bed, &format!("admitted in 10 s, {name}"), found);
        let mut worst: f64 = 0.0;
        for (node, before) in bed.nodes.iter_mut().zip(before) {
            let count = node.number(rounds, "rounds")? - before;
            worst =
                worst.max(count as f64 * INTERVAL.as_secs_f64() / begun.elapsed().as_secs_f64());
        }
        let name = format!("rounds for each interval, {name}");
        // The interval at both ends is a part of one.
        bed.row(&name, &format!("{worst:.2}"), "1.02 at most", worst <= 1.02);
    }
    Ok(())
}

/// Prints what was admitted in any window by servers that decide at once.
pub(super) fn row(bed: &mut Bed, name: &str, (least, most): (usize, usize)) {
    let rate = RATE * WINDOW.as_secs() as usize;
    let (low, high) = (rate * 95 / 100, rate * 105 / 100);
    let met = least >= low && most <= high;
    bed.row(name, &format!("{least} to {most}"), &format!("{low} to {high}"), met);
}

/// Lets something happen in the middle of an even load; returns what it has returned, and what was admitted in any window.
pub(super) fn during<T>(
    bed: &Bed,
    target: &str,
    seconds: u64,
    happens: impl FnOnce() -> Result<T, String>,
) -> Result<(T, (usize, usize)), String> {
    let time = Duration::from_secs(seconds);
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| admitted(&bed.nodes, target, (SPREADS[0].1, 1), time));
        std::thread::sleep(time / 2);
        let happened = happens()?;
        let admitted = sending.join().unwrap_or_else(|_| Err("a client has ended".to_owned()));
        Ok((happened, admitted?))
    })
}

/// Where requests await the engine, no window has more than the rate and one burst, and few have less.
pub(super) fn exact(bed: &mut Bed, seconds: u64) -> Result<(), String> {
    for (name, spread) in SPREADS {
        let target = format!("/exact?k={name}");
        let time = Duration::from_secs(seconds);
        let (least, most) = admitted(&bed.nodes, &target, (spread, WAITING_CLIENTS), time)?;
        let rate = RATE * WINDOW.as_secs() as usize;
        let (low, high) = (rate * 99 / 100, rate + BURST + 1);
        let met = (low..=high).contains(&least) && most <= high;
        let name = format!("admitted in 10 s, sync=wait, {name}");
        bed.row(&name, &format!("{least} to {most}"), &format!("{low} to {high}"), met);
    }
    for target in ["/limited", "/exact"] {
        let name = format!("median of a request, {target}");
        let micros = median(bed, target)?;
        bed.row(&name, &format!("{micros} us"), "20000 us at most", micros <= 20_000);
    }
    Ok(())
}

/// Returns the median time of requests that follow each other, each with a key of its own, in microseconds.
fn median(bed: &Bed, path: &str) -> Result<u128, String> {
    let (mut node, mut times) = (bed.nodes[0].again(), Vec::new());
    for key in 0..ALONE {
        let begun = Instant::now();
        node.get(&format!("{path}?k=alone{key}"))?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    Ok(times[times.len() / 2].as_micros())
}

/// Returns the least and the most that were admitted in any window of a load.
pub(super) fn admitted(
    nodes: &[Node],
    target: &str,
    load: (Spread, usize),
    time: Duration,
) -> Result<(usize, usize), String> {
    let all = self::load(nodes, target, load, time)?;
    let (mut least, mut most, mut from) = (usize::MAX, 0, FIRST);
    while from + WINDOW <= time {
        let count = all.iter().filter(|at| (from..from + WINDOW).contains(*at)).count();
        (least, most) = (least.min(count), most.max(count));
        from += Duration::from_millis(100);
    }
    Ok((least, most))
}

/// Sends requests to all servers, by a number of connections to each; returns when they were admitted.
pub(super) fn load(
    nodes: &[Node],
    target: &str,
    (spread, clients): (Spread, usize),
    time: Duration,
) -> Result<Vec<Duration>, String> {
    let begun = Instant::now();
    let parts: Vec<Result<Vec<Duration>, String>> = std::thread::scope(|scope| {
        let send = |index: usize| {
            let node = nodes[index].again();
            let share = move |at| spread(at)[index] / clients as f64;
            scope.spawn(move || send(node, target, begun, time, share))
        };
        let all = (0..nodes.len()).flat_map(|index| std::iter::repeat_n(index, clients));
        let threads: Vec<_> = all.map(send).collect();
        let gone = || Err("a client has ended".to_owned());
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| gone())).collect()
    });
    Ok(parts.into_iter().collect::<Result<Vec<_>, _>>()?.concat())
}

/// Sends a share of the load to one server; returns when requests were admitted.
fn send(
    mut node: Node,
    target: &str,
    begun: Instant,
    time: Duration,
    share: impl Fn(Duration) -> f64,
) -> Result<Vec<Duration>, String> {
    let (mut admitted, mut due) = (Vec::new(), Duration::ZERO);
    while due < time {
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
        match node.get(target)?.status {
            200 => admitted.push(begun.elapsed()),
            429 => {}
            status => return Err(format!("{target}: {status}")),
        }
        due += Duration::from_secs_f64(1.0 / (OFFERED * share(due)));
    }
    Ok(admitted)
}
