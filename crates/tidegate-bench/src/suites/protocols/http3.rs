//! HTTP/3: handshakes, idle connections, and a path that loses datagrams.

use std::thread;
use std::time::Duration;

use super::super::idle::settled_memory;
use super::super::quick::{REQUESTS_MAX, measured};
use super::super::{Better, Context, Measure, Sample};
use super::loads::{HANDSHAKES_AT_ONCE, WORKER_CONNECTIONS, sample, warm};
use super::serving::{Serving, Via, start};
use crate::config::protocols::{Part, TINY};
use crate::config::{FIXED_BODY, LARGE_FILE};
use crate::h2::client::Ask;
use crate::h3::load::Mode;
use crate::h3::relay::{Path, Relay};
use crate::load::Bound;
use crate::server::Binary;

fn tiny() -> Ask {
    Ask::get(TINY, FIXED_BODY.len() as u64)
}

/// Connections with one request each, a few at a time.
pub(super) fn handshakes(context: &Context, serving: &Serving) -> Result<Sample, String> {
    let size = (HANDSHAKES_AT_ONCE, 1);
    let mut load = serving.h3_load(serving.address(Via::H3), vec![tiny()], size, Mode::Close)?;
    warm(|bound| load.run(bound))?;
    let bound = Bound { duration: context.options.run_time, requests_max: REQUESTS_MAX };
    let (values, outcome) = measured(context, &serving.server, || load.run(bound))?;
    Ok(sample(values, &outcome))
}

/// Memory of idle connections after one request each: the figures of the other idle cases.
pub(super) fn idle(context: &Context, serving: &Serving) -> Result<Sample, String> {
    let server = &serving.server;
    let wanted = context.options.idle_connections.min(IDLE_MAX);
    let address = serving.address(Via::H3);
    let mut load = serving.h3_load(address, vec![tiny()], (wanted, 1), Mode::Once)?;
    // `start` has had a request: code and buffers that every server needs once are there.
    let before = settled_memory(server)?;
    let bound = Bound { duration: OPENING, requests_max: wanted as u64 };
    let outcome = load.run(bound).map_err(|error| format!("load: {error}"))?;
    thread::sleep(SETTLE);
    let after = settled_memory(server)?;
    let open = load.open();
    let growth = after.saturating_sub(before) as f64 / open.max(1) as f64;
    let mut sample = sample(vec![growth, before as f64 / 1024.0, after as f64 / 1024.0], &outcome);
    let closed = (outcome.opened as usize).saturating_sub(open);
    if closed > 0 {
        sample.errors += closed as u64;
        sample
            .note
            .get_or_insert_with(|| format!("{closed} connections were closed by the server"));
    }
    Ok(sample)
}

/// The measures of the lossy path. The first one is the time for a byte, so that its ratio has the direction of costs.
pub(super) const LOSSY: [Measure; 5] = [
    Measure::new("time per MB", "ms", 1),
    Measure::new("goodput", "Mbit/s", 2).better(Better::Higher),
    Measure::new("p99", "ms", 0),
    Measure::new("CPU per request", "µs", 0),
    Measure::new("lost", "%", 2).better(Better::Neither),
];

/// One run over the relay.
pub(super) fn lossy(context: &Context, binary: &Binary) -> Result<Sample, String> {
    let job = |scenario| context.job(scenario, WORKER_CONNECTIONS);
    let serving = match start(context, binary, Part::Front, Via::H3, job)? {
        Ok(serving) => serving,
        Err(reason) => return Ok(Sample::not_served(LOSSY.len(), &reason)),
    };
    let relay = Relay::start(serving.address(Via::H3), LOSSY_PATH);
    let relay = relay.map_err(|error| format!("relay: {error}"))?;
    let asks = vec![Ask::get(format!("/{}", LARGE_FILE.0), LARGE_FILE.1)];
    let mut load = serving.h3_load(relay.address(), asks, LOSSY_SIZE, Mode::Kept)?;
    let bound = Bound { duration: context.options.run_time * LOSSY_TIMES, requests_max: u64::MAX };
    let before = serving.server.cpu_time();
    let outcome = load.run(bound).map_err(|error| format!("load: {error}"))?;
    let cpu = serving.server.cpu_time().since(before).total();
    let (seconds, bytes) = (outcome.elapsed.as_secs_f64(), (outcome.bytes as f64).max(1.0));
    let values = vec![
        seconds * 1e3 / (bytes / 1e6),
        bytes * 8.0 / 1e6 / seconds.max(1e-9),
        outcome.latency.quantile(0.99).as_secs_f64() * 1e3,
        cpu / outcome.requests.max(1) as f64,
        relay.lost_percent(),
    ];
    Ok(sample(values, &outcome))
}

/// With 5 ms each way a window is larger than a few packets, and the relay is not what limits.
const LOSSY_PATH: Path = Path { lost_per_thousand: 10, delay: Duration::from_millis(5) };
/// Connections and streams.
const LOSSY_SIZE: (usize, usize) = (4, 2);
/// A run is longer than others: windows grow slowly, and losses are few.
const LOSSY_TIMES: u32 = 5;
const IDLE_MAX: usize = 1_000;
/// For all handshakes, on a slow machine.
const OPENING: Duration = Duration::from_secs(30);
/// Tidegate gives memory back a second after the last request.
const SETTLE: Duration = Duration::from_millis(2_500);
