//! Reloads every second under a load of HTTP/2 or HTTP/3: lost streams, and connections that had to be made anew.

use std::io;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::super::steady::{beside_load, reload};
use super::super::{Better, Context, Measure, Sample};
use super::loads::{WORKER_CONNECTIONS, warm};
use super::serving::{Via, start};
use crate::config::FIXED_BODY;
use crate::config::protocols::{MEDIUM_FILE, Part, TINY};
use crate::h2::client::Ask;
use crate::h2::load::{Load, Plan};
use crate::h3;
use crate::load::{Bound, DRAIN, Outcome};
use crate::server::{Binary, Server};
use crate::statistics::Limit;

/// The measures of the case. Requests that a closing server has not processed are repeated, and no failures.
pub(super) const MEASURES: [Measure; 7] = [
    Measure::new("failed streams", "", 0).required(Limit::Exactly(0.0)),
    Measure::new("new handshakes", "", 0).required(Limit::Exactly(0.0)),
    Measure::new("repeated requests", "", 0),
    Measure::new("reloads", "", 0).better(Better::Fact),
    Measure::new("reload takes p50", "ms", 1),
    Measure::new("p99", "µs", 0),
    Measure::new("requests/s", "", 0).better(Better::Higher),
];

/// One run: fresh server, warm-up, reloads under load.
pub(super) fn run(context: &Context, binary: &Binary) -> Result<Sample, String> {
    let job = |scenario| context.job(scenario, WORKER_CONNECTIONS);
    let serving = match start(context, binary, Part::Front, Via::H2, job)? {
        Ok(serving) => serving,
        Err(reason) => return Ok(Sample::not_served(MEASURES.len(), &reason)),
    };
    let plan = Plan {
        address: serving.address(Via::H2),
        tls: Via::H2.tls()?,
        asks: vec![
            Ask::get(TINY, FIXED_BODY.len() as u64),
            Ask::get(format!("/{}", MEDIUM_FILE.0), MEDIUM_FILE.1),
        ],
        connections: 4,
        streams: 4,
    };
    let mut load = Load::new(plan).map_err(|error| format!("load: {error}"))?;
    warm(|bound| load.run(bound))?;
    conduct(&serving.server, context.options.reload_time, |bound, stop| load.run_until(bound, stop))
}

/// The same of HTTP/3, with [`H3_TIME`] and another number of workers from time to time.
pub(super) fn run_h3(context: &Context, binary: &Binary) -> Result<Sample, String> {
    let job = |scenario| context.job(scenario, WORKER_CONNECTIONS);
    let serving = match start(context, binary, Part::Front, Via::H3Workers, job)? {
        Ok(serving) => serving,
        Err(reason) => return Ok(Sample::not_served(MEASURES.len(), &reason)),
    };
    let asks = vec![
        Ask::get(TINY, FIXED_BODY.len() as u64),
        Ask::get(format!("/{}", MEDIUM_FILE.0), MEDIUM_FILE.1),
    ];
    let address = serving.address(Via::H3Workers);
    let mut load = serving.h3_load(address, asks, (4, 4), h3::load::Mode::Kept)?;
    warm(|bound| load.run(bound))?;
    conduct(&serving.server, H3_TIME, |bound, stop| load.run_until(bound, stop))
}

fn conduct(
    server: &Server,
    time: Duration,
    load: impl FnOnce(Bound, &AtomicBool) -> io::Result<Outcome> + Send,
) -> Result<Sample, String> {
    let bound = Bound { duration: time * 2 + DRAIN, requests_max: u64::MAX };
    let (seen, outcome) =
        beside_load(|stop| load(bound, stop), || reload::reload_repeatedly(server, time))?;
    let error = outcome.first_error.as_ref().or(seen.first_failure.as_ref());
    let values = vec![
        (outcome.errors + seen.failures) as f64,
        outcome.opened as f64,
        outcome.reconnects as f64,
        f64::from(seen.reloads),
        seen.durations.quantile(0.5).as_secs_f64() * 1e3,
        outcome.latency.quantile(0.99).as_secs_f64() * 1e6,
        outcome.requests_per_second(),
    ];
    let note = error.map(|error| format!("first error: {error}"));
    Ok(Sample { values, errors: 0, note })
}

/// One reload each second.
const H3_TIME: Duration = Duration::from_secs(25);
