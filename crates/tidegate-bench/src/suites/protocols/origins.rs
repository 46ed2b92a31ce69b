//! HTTP/2 to the origin: streams that share connections, and a client that does not read.

use std::time::{Duration, Instant};

use tidegate_h2::Config;

use super::super::{Better, Context, Measure, Sample};
use super::loads::{WORKER_CONNECTIONS, warm};
use super::serving::{PATIENCE, Serving, Via, start};
use crate::config::protocols::Part;
use crate::h2::client::{Ask, Buffers, Client};
use crate::h2::load::{Load, Plan};
use crate::load::{Bound, Outcome, is_transient};
use crate::server::Binary;
use crate::statistics::Limit;

/// The measures of [`streams`].
pub(super) const STREAMS: [Measure; 4] = [
    Measure::new("connections to the origin", "", 0).required(Limit::MedianAtMost(10.0)),
    Measure::new("streams at the origin", "", 0).better(Better::Higher),
    Measure::new("p50", "ms", 0),
    Measure::new("p99", "ms", 0),
];

/// 10 clients have 100 requests each in flight, all for responses that take a while.
pub(super) fn streams(context: &Context, binary: &Binary) -> Result<Sample, String> {
    let serving = match proxy(context, binary)? {
        Ok(serving) => serving,
        Err(reason) => return Ok(Sample::not_served(STREAMS.len(), &reason)),
    };
    let mut load = load(&serving, "/slow?ms=300&bytes=100&chunks=1", 100, 10, 100)?;
    let bound = Bound { duration: PATIENCE, requests_max: REQUESTS };
    let outcome = load.run(bound).map_err(|error| format!("load: {error}"))?;
    let seen = serving.origin.as_ref().map(|origin| origin.seen());
    let seen = seen.ok_or("there is no origin")?;
    let latency = |part| outcome.latency.quantile(part).as_secs_f64() * 1e3;
    let values =
        vec![seen.connections_max as f64, seen.streams_max as f64, latency(0.5), latency(0.99)];
    Ok(Sample { values, errors: outcome.errors, note: note(&outcome) })
}

/// The measures of [`slow_reader`].
pub(super) const SLOW_READER: [Measure; 4] = [
    Measure::new("p99 beside / alone", "", 2).required(Limit::MedianAtMost(2.0)),
    Measure::new("p99 alone", "µs", 0),
    Measure::new("p99 beside", "µs", 0),
    Measure::new("memory growth", "KiB", 0),
];

/// Small responses alone, then beside clients that request large ones through the same connections to the origin, and
/// read nothing of them.
pub(super) fn slow_reader(context: &Context, binary: &Binary) -> Result<Sample, String> {
    let serving = match proxy(context, binary)? {
        Ok(serving) => serving,
        Err(reason) => return Ok(Sample::not_served(SLOW_READER.len(), &reason)),
    };
    let mut load = load(&serving, "/bytes?n=1024", 1024, 4, 4)?;
    warm(|bound| load.run(bound))?;
    let bound = Bound { duration: context.options.run_time, requests_max: u64::MAX };
    let mut run = || load.run(bound).map_err(|error| format!("load: {error}"));
    let alone = run()?;
    let memory = || serving.server.memory().map_err(|error| format!("memory: {error}"));
    let before = memory()?;
    let slow: Result<Vec<Client>, String> = (0..SLOW_CLIENTS).map(|_| stalled(&serving)).collect();
    let slow = slow?;
    let beside = run()?;
    let growth = memory()?.saturating_sub(before);
    drop(slow);
    let tail = |outcome: &Outcome| outcome.latency.quantile(0.99).as_secs_f64() * 1e6;
    let (alone_tail, beside_tail) = (tail(&alone), tail(&beside));
    let values =
        vec![beside_tail / alone_tail.max(1.0), alone_tail, beside_tail, growth as f64 / 1024.0];
    let errors = alone.errors + beside.errors;
    Ok(Sample { values, errors, note: note(&alone).or_else(|| note(&beside)) })
}

/// A client with the begin of a large response, of which it reads no more: its windows are the protocol's default.
fn stalled(serving: &Serving) -> Result<Client, String> {
    let failed = |error: &dyn std::fmt::Display| format!("slow client: {error}");
    let config = Config { connection_window: WINDOW, stream_window: WINDOW, ..Config::default() };
    let (address, config) = (serving.address(Via::H2c), config.shared());
    let client = Client::connect(address, None, &config, PATIENCE);
    let mut client = client.map_err(|error| failed(&error))?;
    client.ask(&Ask::get(LARGE, 0)).map_err(|error| failed(&error))?;
    let (mut received, mut buffers, end) = (0, Buffers::default(), Instant::now() + PATIENCE);
    while received < WINDOW as usize {
        client.flush().map_err(|error| failed(&error))?;
        let read = client.receive(&mut buffers, |_, event| {
            if let tidegate_h2::Event::Data { bytes, .. } = event {
                received += bytes.len();
            }
        });
        match read {
            Err(error) if is_transient(&error) && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(1));
            }
            other => other.map_err(|error| failed(&error))?,
        }
    }
    Ok(client)
}

fn proxy(context: &Context, binary: &Binary) -> Result<Result<Serving, String>, String> {
    start(context, binary, Part::Proxy, Via::H2c, |scenario| {
        context.job(scenario, WORKER_CONNECTIONS)
    })
}

fn load(
    serving: &Serving,
    target: &str,
    bytes: u64,
    connections: usize,
    streams: u32,
) -> Result<Load, String> {
    let plan = Plan {
        address: serving.address(Via::H2c),
        tls: None,
        asks: vec![Ask::get(target, bytes)],
        connections,
        streams,
    };
    Load::new(plan).map_err(|error| format!("load: {error}"))
}

fn note(outcome: &Outcome) -> Option<String> {
    outcome.first_error.as_ref().map(|error| format!("first error: {error}"))
}

const REQUESTS: u64 = 4_000;
const SLOW_CLIENTS: usize = 8;
const LARGE: &str = "/bytes?n=67108864";
/// The default of the protocol (RFC 9113 section 6.9.2).
const WINDOW: u32 = 65_535;
