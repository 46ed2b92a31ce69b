//! Three hostile clients: the waiting time of others with and without them, the growth of the server, and the end of
//! their connections.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::super::fairness::step_back;
use super::super::{Better, Context, Measure, Sample};
use super::loads::{WORKER_CONNECTIONS, warm};
use super::serving::{Serving, Via, start};
use crate::config::FIXED_BODY;
use crate::config::protocols::{Part, TINY};
use crate::h2::client::Ask;
use crate::h2::hostile::{self, Attack, Seen};
use crate::h2::load::{Load, Plan};
use crate::load::{Bound, Outcome};
use crate::server::Binary;
use crate::statistics::Limit;

/// The measures of a flood.
pub(super) fn measures(attack: Attack) -> [Measure; 7] {
    let mut measures = MEASURES;
    // The others are no floods of frames: their streams fail, or their time runs out.
    if !matches!(attack, Attack::HpackBomb | Attack::SlowReader) {
        measures[5] = measures[5].required(Limit::MedianAtLeast(CALM_PERCENT));
    }
    measures
}

const MEASURES: [Measure; 7] = [
    Measure::new("p99 beside / alone", "", 2).required(Limit::MedianAtMost(2.0)),
    Measure::new("p99 alone", "µs", 0),
    Measure::new("p99 beside", "µs", 0),
    Measure::new("memory growth", "MiB", 1).required(Limit::MedianAtMost(50.0)),
    Measure::new("connections ended", "", 0).better(Better::Neither),
    Measure::new("of them ENHANCE_YOUR_CALM", "%", 0).better(Better::Neither),
    Measure::new("sent by them", "MB/s", 1).better(Better::Neither),
];

/// One run: fresh server, others alone, then others beside the hostile clients.
pub(super) fn run(context: &Context, binary: &Binary, attack: Attack) -> Result<Sample, String> {
    let job = |scenario| context.job(scenario, WORKER_CONNECTIONS);
    let serving = match start(context, binary, Part::Impatient, Via::H2c, job)? {
        Ok(serving) => serving,
        Err(reason) => return Ok(Sample::not_served(MEASURES.len(), &reason)),
    };
    let plan = Plan {
        address: serving.address(Via::H2c),
        tls: None,
        asks: vec![Ask::get(TINY, FIXED_BODY.len() as u64)],
        connections: OTHERS,
        streams: 1,
    };
    let mut load = Load::new(plan).map_err(|error| format!("load: {error}"))?;
    warm(|bound| load.run(bound))?;
    let time = context.options.run_time;
    let alone = load.run(Bound { duration: time, requests_max: u64::MAX });
    let alone = alone.map_err(|error| format!("load: {error}"))?;
    let before = serving.server.memory().map_err(|error| format!("memory: {error}"))?;
    let time = time.max(ATTACK_MIN);
    let (beside, seen, most) = attacked(&serving, attack, &mut load, time)?;

    let tail = |outcome: &Outcome| outcome.latency.quantile(0.99).as_secs_f64() * 1e6;
    let (alone_tail, beside_tail) = (tail(&alone), tail(&beside));
    let count = |figure: &AtomicU64| figure.load(Ordering::Relaxed) as f64;
    let ended = count(&seen.ended);
    let values = vec![
        beside_tail / alone_tail.max(1.0),
        alone_tail,
        beside_tail,
        most.saturating_sub(before) as f64 / 1024.0 / 1024.0,
        ended,
        if ended > 0.0 { count(&seen.calm) / ended * 100.0 } else { f64::NAN },
        count(&seen.bytes) / 1e6 / time.as_secs_f64(),
    ];
    let error = alone.first_error.or(beside.first_error);
    let note = error.map(|error| format!("first error of the others: {error}"));
    Ok(Sample { values, errors: alone.errors + beside.errors, note })
}

/// The others' load beside the attack, what was seen of it, and the largest size of the server.
fn attacked(
    serving: &Serving,
    attack: Attack,
    load: &mut Load,
    time: Duration,
) -> Result<(Outcome, Seen, u64), String> {
    let (stop, seen, most) = (AtomicBool::new(false), Seen::default(), AtomicU64::new(0));
    let address = serving.address(Via::H2c);
    let outcome = thread::scope(|scope| {
        for _ in 0..HOSTILE {
            scope.spawn(|| {
                step_back();
                hostile::run(attack, address, &stop, &seen);
            });
        }
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                most.fetch_max(serving.server.memory().unwrap_or(0), Ordering::Relaxed);
                thread::sleep(LOOK_EVERY);
            }
        });
        let outcome = load.run(Bound { duration: time, requests_max: u64::MAX });
        stop.store(true, Ordering::Relaxed);
        outcome
    });
    let outcome = outcome.map_err(|error| format!("load: {error}"))?;
    Ok((outcome, seen, most.into_inner()))
}

const HOSTILE: usize = 3;
/// Connections of the others, each with one request at a time.
const OTHERS: usize = 4;
/// Part of the ended connections; the end of one may be seen without its reason.
const CALM_PERCENT: f64 = 90.0;
const ATTACK_MIN: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(100);
