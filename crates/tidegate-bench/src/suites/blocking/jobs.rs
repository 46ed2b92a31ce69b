//! A million jobs of a pool: no thread is started for them, and nothing of them stays in memory.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Application, Measure, Sample, Side, Start};
use crate::config::DOCUMENT_BYTES;
use crate::load::Bound;
use crate::server::Binary;
use crate::statistics::Limit;
use crate::suites::quick::{new_load, run_checked};
use crate::suites::{Better, Context};

pub(super) const MEASURES: [Measure; 4] = [
    Measure::new("requests", "", 0).better(Better::Fact),
    Measure::new("threads started meanwhile", "", 0).required(Limit::Exactly(0.0)),
    Measure::new("memory after the first 100000", "KiB", 0),
    Measure::new("memory more after the last", "KiB", 0).required(Limit::Below(GROWTH_KIB_MAX)),
];

/// Acceptable growth of the allocator's memory, for a million requests.
const GROWTH_KIB_MAX: f64 = 2048.0;
const REQUESTS: u64 = 1_000_000;
/// Threads are sampled after each of these; a thread that ends before the next sample is detected by its number.
const PART: u64 = 100_000;

/// One run.
pub(super) fn run(context: &Context, binary: &Binary) -> Result<Sample, String> {
    let side = Side::start(Start::for_waits(context), context, binary, Application::Handlers)?;
    let plan = side.plan(side.target("document"), DOCUMENT_BYTES, context.options.connections);
    let mut load = new_load(plan)?;
    let part = Bound { duration: PART_TIME_MAX, requests_max: PART };
    run_checked(&mut load, part)?;
    let words = |error: std::io::Error| error.to_string();
    let known = side.server.threads().map_err(words)?;
    let memory = side.server.memory().map_err(words)? as f64 / 1024.0;
    let (mut requests, mut errors, mut note) = (0, 0, None);
    let mut started = BTreeSet::<i32>::new();
    while requests < REQUESTS {
        let outcome = load.run(part).map_err(|error| format!("load: {error}"))?;
        if outcome.requests == 0 {
            return Err("no request got a response".to_owned());
        }
        requests += outcome.requests;
        errors += outcome.errors;
        note = note.or(outcome.first_error);
        started.extend(side.server.threads().map_err(words)?.difference(&known));
    }
    let after = side.server.memory().map_err(words)? as f64 / 1024.0;
    let values = vec![requests as f64, started.len() as f64, memory, after - memory];
    Ok(Sample { values, errors, note })
}

const PART_TIME_MAX: Duration = Duration::from_secs(120);
