//! A server that is reloaded every second under load: lost requests, replaced worker processes, growth of
//! memory.
//!
//! Each reload has a configuration with another number, which is then requested from the server: a
//! reload counts when it has taken effect.

use std::thread;
use std::time::{Duration, Instant};

use super::super::quick::{new_load, run_checked};
use super::super::{Better, Context, Measure, Sample};
use super::beside_load;
use crate::config::{GENERATION, PROXIED, SMALL_FILE, Scenario};
use crate::histogram::Histogram;
use crate::load::{Bound, LossPolicy, Mode, Plan, TestRequest};
use crate::probe::{self, Failure};
use crate::server::{Binary, Job, Server};
use crate::statistics::{Limit, Spread};

/// The measures of the case. Memory is that of the worker processes.
pub(crate) const MEASURES: [Measure; 14] = [
    Measure::new("failed requests", "", 0).required(Limit::Exactly(0.0)),
    Measure::new("reconnects", "", 0).required(Limit::Exactly(0.0)),
    Measure::new("reloads", "", 0).better(Better::Fact),
    Measure::new("reload takes p50", "ms", 1),
    Measure::new("reload takes p100", "ms", 1),
    Measure::new("worker pid before", "", 0).better(Better::Fact),
    Measure::new("worker pid after", "", 0).better(Better::Fact),
    Measure::new("worker changes", "", 0).better(Better::Fact).required(Limit::Exactly(0.0)),
    Measure::new("memory at start", "KiB", 0),
    Measure::new("memory in the middle", "KiB", 0),
    Measure::new("memory at the end", "KiB", 0),
    Measure::new("memory growth", "%", 1)
        .better(Better::Fact)
        .required(Limit::Below(GROWTH_PERCENT_MAX)),
    Measure::new("p99", "µs", 0),
    Measure::new("requests/s", "", 0).better(Better::Higher),
];

/// One run: fresh server, warm-up, reloads under load.
pub(crate) fn run(context: &Context, binary: &Binary) -> Result<Sample, String> {
    let job = Job { private_copy: true, ..context.job(Scenario::Reload, WORKER_CONNECTIONS) };
    let server = Server::start(binary, job)?;
    let plan = Plan {
        address: server.address(),
        asks: vec![
            TestRequest::checked(format!("/{}", SMALL_FILE.0), SMALL_FILE.1),
            TestRequest::checked(format!("{PROXIED}?n={PROXIED_BYTES}"), PROXIED_BYTES),
        ],
        connections: context.options.connections,
        mode: Mode::KeepAlive,
        loss_policy: LossPolicy::Retry,
    };
    let mut load = new_load(plan)?;
    run_checked(&mut load, Bound { duration: WARM_UP, requests_max: WARM_UP_REQUESTS })?;
    let before = server.only_worker()?;
    let run_time = context.options.run_time;
    let bound = Bound { duration: run_time + EFFECT_TIMEOUT * 2, requests_max: u64::MAX };
    let (seen, outcome) =
        beside_load(|stop| load.run_until(bound, stop), || reload_repeatedly(&server, run_time))?;
    // Old workers leave with their last connection.
    drop(load);
    let after = server.only_worker()?;
    let changes = seen.worker_changes.max(u32::from(before != after));

    let growth = growth_percent(&seen.memory);
    let too_short = "too few reloads to judge the growth of memory".to_owned();
    let error = outcome.first_error.as_ref().or(seen.first_failure.as_ref());
    let error = error.map(|error| format!("first error: {error}"));
    let kibibytes = |index: usize| seen.memory.get(index).map_or(f64::NAN, |b| *b as f64 / 1024.0);
    let values = vec![
        (outcome.errors + seen.failures) as f64,
        (outcome.reconnects + seen.reconnects) as f64,
        f64::from(seen.reloads),
        milliseconds(seen.durations.quantile(0.5)),
        milliseconds(seen.durations.maximum()),
        f64::from(before),
        f64::from(after),
        f64::from(changes),
        kibibytes(0),
        kibibytes(seen.memory.len() / 2),
        kibibytes(seen.memory.len().saturating_sub(1)),
        growth.unwrap_or(f64::NAN),
        outcome.latency.quantile(0.99).as_secs_f64() * 1e6,
        outcome.requests_per_second(),
    ];
    Ok(Sample { values, errors: 0, note: error.or(growth.is_none().then_some(too_short)) })
}

/// Returns the growth of memory after the first [`RELOADS_UNJUDGED`] reloads, in percent, from sizes
/// taken before the first and after each. Medians of up to [`WINDOW`] sizes are compared: a single
/// one depends on what is in flight. `None` when there are too few.
pub(crate) fn growth_percent(memory: &[u64]) -> Option<f64> {
    let judged: Vec<f64> =
        memory.iter().skip(RELOADS_UNJUDGED).map(|bytes| *bytes as f64).collect();
    let window = WINDOW.min(judged.len() / 2);
    let first = Spread::of(&judged[..window])?.median;
    let last = Spread::of(&judged[judged.len() - window..])?.median;
    (first > 0.0).then(|| (last / first - 1.0) * 100.0)
}

/// Observations beside the load.
#[derive(Default)]
pub(crate) struct Seen {
    pub reloads: u32,
    /// From the signal until a new connection gets the new configuration.
    pub durations: Histogram,
    /// Bytes before the first reload, and before each next one is begun.
    memory: Vec<u64>,
    worker_changes: u32,
    pub failures: u64,
    pub first_failure: Option<String>,
    reconnects: u64,
}

impl Seen {
    fn fail(&mut self, reason: String) {
        self.failures += 1;
        self.first_failure.get_or_insert(reason);
    }
}

/// Reloads every second for `run_time`, and waits for the effect of each reload.
///
/// # Errors
/// A reload has no effect, or the server cannot be observed.
pub(crate) fn reload_repeatedly(server: &Server, run_time: Duration) -> Result<Seen, String> {
    let started = Instant::now();
    let mut seen = Seen::default();
    let list = || server.workers().map_err(|error| format!("workers: {error}"));
    let mut workers = list()?;
    loop {
        let due = started + RELOAD_INTERVAL * seen.reloads;
        thread::sleep(due.min(started + run_time).saturating_duration_since(Instant::now()));
        seen.memory.push(server.worker_memory().map_err(|error| format!("memory: {error}"))?);
        let now = list()?;
        seen.worker_changes += u32::from(now != workers);
        workers = now;
        if started.elapsed() >= run_time {
            return Ok(seen);
        }
        let number = seen.reloads + 1;
        let signalled = Instant::now();
        server.reload(number).map_err(|error| format!("reload {number}: {error}"))?;
        wait_effect(server, number, &mut seen)?;
        seen.durations.record(signalled.elapsed());
        seen.reloads = number;
    }
}

/// Sends requests over new connections until the response has the number of the new configuration.
fn wait_effect(server: &Server, number: u32, seen: &mut Seen) -> Result<(), String> {
    let end = Instant::now() + EFFECT_TIMEOUT;
    while Instant::now() < end {
        match probe::ask(server.address(), GENERATION, PROBE_PATIENCE) {
            Ok(response) => {
                let text = String::from_utf8_lossy(&response.body).into_owned();
                match text.parse::<u32>() {
                    Ok(got) if response.status == 200 && got == number => return Ok(()),
                    Ok(got) if response.status == 200 && got < number => {}
                    _ => seen.fail(format!("{GENERATION}: status {}, {text:?}", response.status)),
                }
            }
            Err(Failure::NoResponse) => seen.reconnects += 1,
            Err(Failure::Other(error)) => seen.fail(format!("{GENERATION}: {error}")),
        }
        thread::sleep(PROBE_INTERVAL);
    }
    Err(format!("reload {number} had no effect within {} s", EFFECT_TIMEOUT.as_secs()))
}

pub(super) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

const RELOAD_INTERVAL: Duration = Duration::from_secs(1);
/// Longest time until a reload takes effect.
const EFFECT_TIMEOUT: Duration = Duration::from_secs(10);
const PROBE_PATIENCE: Duration = Duration::from_secs(2);
const PROBE_INTERVAL: Duration = Duration::from_millis(2);
/// The first reloads load code and memory that stay.
const RELOADS_UNJUDGED: usize = 10;
const WINDOW: usize = 5;
const GROWTH_PERCENT_MAX: f64 = 10.0;
const PROXIED_BYTES: u64 = 10 * 1024;
/// Enough for the largest `--connections`, upstream connections included.
const WORKER_CONNECTIONS: u64 = 12_000;
const WARM_UP: Duration = Duration::from_secs(2);
const WARM_UP_REQUESTS: u64 = 5_000;
