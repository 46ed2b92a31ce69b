//! The figures of one run, from the records of clients and origin.

use std::time::{Duration, Instant};

use crate::origin::Trace;
use crate::procfs::CpuTime;
use crate::statistics::Spread;
use crate::walk::Visit;

/// Everything that one run brought.
pub(crate) struct Run {
    /// Of each client.
    pub visits: Vec<Vec<Visit>>,
    /// Of each request to the origin.
    pub traces: Vec<Trace>,
    pub started: Instant,
    pub elapsed: Duration,
    /// The server's processor time.
    pub cpu: CpuTime,
    /// Time that other programs used on the server's processor, in microseconds.
    pub others: f64,
    /// The server's memory in bytes, at its highest.
    pub memory: u64,
}

impl Run {
    /// A description of the first wrong response.
    pub(crate) fn first_fault(&self) -> Option<&str> {
        self.visits.iter().flatten().find_map(|visit| visit.fault.as_deref())
    }

    /// The first response of the origin for each requested file, in their order.
    pub(crate) fn fills(&self) -> Vec<&Trace> {
        let mut fills: Vec<&Trace> = Vec::new();
        for trace in &self.traces {
            if !fills.iter().any(|fill| fill.target == trace.target) {
                fills.push(trace);
            }
        }
        fills
    }
}

/// Computes the figures; NaN where there is no data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figures {
    pub origin_requests: f64,
    pub origin_bytes: f64,
    pub origin_megabits_per_second: f64,
    pub client_requests: f64,
    pub client_bytes: f64,
    pub client_megabits_per_second: f64,
    /// Mean over all bytes of the time between the client's request and the byte's arrival.
    pub byte_wait_seconds: f64,
    /// The same directly from the origin: mean over a file's bytes of the time between the
    /// request to the origin and the sending of the byte.
    pub origin_byte_wait_seconds: f64,
    pub first_byte_seconds: f64,
    /// Seconds: median, 99th percentile, maximum.
    pub first_byte: [f64; 3],
    /// The same of the clients that did not begin the fill, since the origin's first byte or since their
    /// request if that was later.
    pub follower_first_byte: [f64; 3],
    /// Requests of clients that were not passed on to the origin.
    pub hit_percent: f64,
    pub cpu_seconds: f64,
    pub cpu_seconds_per_gigabyte: f64,
    /// The same by what nginx needs for plain hits.
    pub cost_by_hits: f64,
    pub memory_mebibytes: f64,
    pub others_percent: f64,
    pub wrong: f64,
}

/// The presentation of a figure.
pub(crate) struct Column {
    /// In JSON.
    pub key: &'static str,
    /// In tables, with the unit.
    pub heading: &'static str,
    pub decimals: usize,
    pub of: fn(&Figures) -> f64,
}

const fn column(
    key: &'static str,
    heading: &'static str,
    decimals: usize,
    of: fn(&Figures) -> f64,
) -> Column {
    Column { key, heading, decimals, of }
}

/// The study's own columns, in its order and units.
pub(crate) const PUBLISHED_COLUMNS: [Column; 9] = [
    column("origin_requests", "origin requests", 0, |f| f.origin_requests),
    column("origin_bytes", "bytes", 0, |f| f.origin_bytes),
    column("origin_megabits_per_second", "Mbps", 2, |f| f.origin_megabits_per_second),
    column("client_requests", "client requests", 0, |f| f.client_requests),
    column("client_bytes", "bytes", 0, |f| f.client_bytes),
    column("client_megabits_per_second", "Mbps", 2, |f| f.client_megabits_per_second),
    column("byte_wait_seconds", "byte wait, s", 3, |f| f.byte_wait_seconds),
    column("first_byte_seconds", "first byte, s", 3, |f| f.first_byte_seconds),
    column("hit_percent", "hits, %", 2, |f| f.hit_percent),
];

/// Columns that the study does not have.
pub(crate) const OWN_COLUMNS: [Column; 13] = [
    column("origin_byte_wait_seconds", "origin's byte wait, s", 3, |f| f.origin_byte_wait_seconds),
    column("first_byte_p50_ms", "first byte p50, ms", 1, |f| f.first_byte[0] * 1e3),
    column("first_byte_p99_ms", "p99", 1, |f| f.first_byte[1] * 1e3),
    column("first_byte_maximum_ms", "max", 1, |f| f.first_byte[2] * 1e3),
    column("follower_first_byte_p50_ms", "followers p50, ms", 1, |f| {
        f.follower_first_byte[0] * 1e3
    }),
    column("follower_first_byte_p99_ms", "p99", 1, |f| f.follower_first_byte[1] * 1e3),
    column("follower_first_byte_maximum_ms", "max", 1, |f| f.follower_first_byte[2] * 1e3),
    column("cpu_seconds", "CPU, s", 2, |f| f.cpu_seconds),
    column("cpu_seconds_per_gigabyte", "CPU, s/GB", 3, |f| f.cpu_seconds_per_gigabyte),
    column("cost_by_hits", "× nginx hits", 2, |f| f.cost_by_hits),
    column("memory_mebibytes", "memory, MiB", 1, |f| f.memory_mebibytes),
    column("others_percent", "others, %", 0, |f| f.others_percent),
    column("wrong", "wrong", 0, |f| f.wrong),
];

impl Figures {
    pub(crate) fn of(run: &Run) -> Figures {
        let visits: Vec<&Visit> = run.visits.iter().flatten().collect();
        let elapsed = run.elapsed.as_secs_f64().max(1e-9);
        let received = |visit: &&Visit| last_bytes(&visit.arrived);
        let client_bytes = visits.iter().map(received).sum::<u64>() as f64;
        let sent = run.traces.iter().map(|trace| last_bytes(&trace.sent));
        let origin_bytes = sent.sum::<u64>() as f64;
        let (asked, passed_on) = (visits.len() as f64, run.traces.len() as f64);
        let first_wait = |visit: &&Visit| Some(since(visit.requested_at, first(visit)?));
        let first_waits: Vec<f64> = visits.iter().filter_map(first_wait).collect();
        let fills = run.fills();
        let cpu_seconds = run.cpu.total() / 1e6;
        Figures {
            origin_requests: passed_on,
            origin_bytes,
            origin_megabits_per_second: origin_bytes * 8.0 / 1e6 / elapsed,
            client_requests: asked,
            client_bytes,
            client_megabits_per_second: client_bytes * 8.0 / 1e6 / elapsed,
            byte_wait_seconds: mean_wait(visits.iter().map(|v| (v.requested_at, &v.arrived[..]))),
            origin_byte_wait_seconds: mean_wait(fills.iter().map(|f| (f.begun, &f.sent[..]))),
            first_byte_seconds: first_waits.iter().sum::<f64>() / first_waits.len() as f64,
            first_byte: quantiles(first_waits),
            follower_first_byte: quantiles(follower_waits(run)),
            hit_percent: (asked - passed_on) / asked * 100.0,
            cpu_seconds,
            cpu_seconds_per_gigabyte: cpu_seconds / (client_bytes / 1e9),
            cost_by_hits: f64::NAN,
            memory_mebibytes: run.memory as f64 / 1024.0 / 1024.0,
            others_percent: run.others / elapsed / 1e4,
            wrong: visits.iter().filter(|visit| visit.fault.is_some()).count() as f64,
        }
    }
}

/// The middle of a column over all rounds; NaN without any.
pub(crate) fn median(runs: &[Figures], column: &Column) -> f64 {
    let values: Vec<f64> = runs.iter().map(column.of).collect();
    Spread::of(&values).map_or(f64::NAN, |spread| spread.median)
}

/// Mean over all bytes of the time from a request to their arrival, in seconds.
pub(crate) fn mean_wait<'a>(
    requests: impl Iterator<Item = (Instant, &'a [(Instant, u64)])>,
) -> f64 {
    let (mut waited, mut bytes) = (0.0, 0);
    for (requested_at, arrived) in requests {
        let mut before = 0;
        for &(at, by_then) in arrived {
            waited += since(requested_at, at) * by_then.saturating_sub(before) as f64;
            before = by_then;
        }
        bytes += before;
    }
    waited / bytes as f64
}

/// Waiting times for the first byte of all clients but the first of each file.
fn follower_waits(run: &Run) -> Vec<f64> {
    let mut waits = Vec::new();
    // Clients request the files in their order, so the fills are in it, too.
    for (file, fill) in run.fills().into_iter().enumerate() {
        let Some(&(first_sent, _)) = fill.sent.first() else { continue };
        let of_file = run.visits.iter().filter_map(|visits| visits.get(file));
        let leader = of_file.clone().map(|visit| visit.requested_at).min();
        let followers = of_file.filter(|visit| Some(visit.requested_at) != leader);
        let wait = |visit: &Visit| Some(since(visit.requested_at.max(first_sent), first(visit)?));
        waits.extend(followers.filter_map(wait));
    }
    waits
}

/// Median, 99th percentile (nearest rank) and maximum; NaN of nothing.
pub(crate) fn quantiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [0.5, 0.99, 1.0].map(|fraction| {
        let rank = (values.len() as f64 * fraction).ceil() as usize;
        values.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    })
}

fn last_bytes(points: &[(Instant, u64)]) -> u64 {
    points.last().map_or(0, |(_, bytes)| *bytes)
}

fn first(visit: &Visit) -> Option<Instant> {
    visit.arrived.first().map(|(at, _)| *at)
}

/// Seconds between two moments; none when the second is the earlier.
fn since(begin: Instant, end: Instant) -> f64 {
    end.saturating_duration_since(begin).as_secs_f64()
}
