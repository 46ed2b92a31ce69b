//! Many clients request one object at once that the origin sends over three seconds, through a
//! cold cache: the number of requests to the origin, and the waiting time of each byte for each client.

use std::time::{Duration, Instant};

use super::{Context, Measure, Sample};
use crate::config::Scenario;
use crate::load::TestRequest;
use crate::server::{Binary, Job, Server};
use crate::statistics::{Spread, average_byte_wait};
use crate::walk::{Visit, walk};

/// The measures of the case. The leader is the client whose bytes waited least.
pub(crate) const MEASURES: [Measure; 6] = [
    Measure::new("origin requests", "", 0),
    Measure::new("first byte p50", "ms", 1),
    Measure::new("first byte p100", "ms", 1),
    Measure::new("byte wait leader", "ms", 1),
    Measure::new("byte wait p50", "ms", 1),
    Measure::new("byte wait p100", "ms", 1),
];

/// Measures one run; `number` separates the objects of different runs.
pub(crate) fn run(
    context: &Context,
    binary: &Binary,
    is_tidegate: bool,
    number: u32,
) -> Result<Sample, String> {
    let job = Job { tempfile_directive: is_tidegate, ..context.job(Scenario::Streaming, 1024) };
    let server = Server::start(binary, job)?;
    let target = format!(
        "/slow?ms={}&bytes={OBJECT_BYTES}&chunks=100&max-age=3600&run={number}",
        OBJECT_TIME.as_millis()
    );
    let ask = TestRequest::checked(&target, OBJECT_BYTES);
    let clients = walk(server.address(), &[ask], CLIENTS);
    let visits: Vec<Visit> =
        clients.map_err(|error| format!("clients: {error}"))?.into_iter().flatten().collect();
    let mut sample = Sample::default();
    if server.without_tempfile {
        sample.note = Some("does not know proxy_cache_tempfile; run without it".to_owned());
    }
    if let Some(fault) = visits.iter().find_map(|visit| visit.fault.clone()) {
        sample.note = Some(format!("first error: {fault}"));
    }
    sample.errors = visits.iter().filter(|visit| visit.fault.is_some()).count() as u64;
    let traces = context.origin.take_traces();
    let traces = traces.iter().filter(|trace| trace.target == target.as_bytes());
    let first = traces.map(|trace| &trace.sent).find_map(|sent| Some((sent.first()?.0, sent)));
    let Some((origin_first, sent)) = first else {
        return Err("the origin sent nothing".to_owned());
    };
    let sent = relative(sent, origin_first);
    let good = visits.iter().filter(|visit| visit.fault.is_none());
    let arrivals: Vec<Vec<(f64, u64)>> =
        good.map(|visit| relative(&visit.arrived, origin_first)).collect();
    sample.values = summarise(context.origin.requests(&target), &sent, &arrivals);
    Ok(sample)
}

/// The figures in the order of [`MEASURES`]. Times are seconds since the origin's first byte.
pub(crate) fn summarise(
    origin_requests: u64,
    sent: &[(f64, u64)],
    arrivals: &[Vec<(f64, u64)>],
) -> Vec<f64> {
    let spread = |values: Vec<f64>| {
        Spread::of(&values).unwrap_or(Spread {
            median: f64::NAN,
            minimum: f64::NAN,
            maximum: f64::NAN,
        })
    };
    let firsts = arrivals.iter().filter_map(|arrived| arrived.first());
    let firsts = spread(firsts.map(|(at, _)| at * 1e3).collect());
    let waits = arrivals.iter().map(|arrived| average_byte_wait(sent, arrived) * 1e3);
    let waits = spread(waits.collect());
    vec![
        origin_requests as f64,
        firsts.median,
        firsts.maximum,
        waits.minimum,
        waits.median,
        waits.maximum,
    ]
}

/// Instants as signed seconds since `base`.
fn relative(points: &[(Instant, u64)], base: Instant) -> Vec<(f64, u64)> {
    let seconds = |at: Instant| {
        at.saturating_duration_since(base).as_secs_f64()
            - base.saturating_duration_since(at).as_secs_f64()
    };
    points.iter().map(|(at, bytes)| (seconds(*at), *bytes)).collect()
}

const CLIENTS: usize = 100;
const OBJECT_TIME: Duration = Duration::from_secs(3);
const OBJECT_BYTES: u64 = 1024 * 1024;
