//! Three hostile clients: the waiting time of others with and without them, the growth of the server, and the end of
//! their connections.
//!
//! The hostile clients share a processor with the load, and take from it what they can. So that the row shows what they
//! cost the server, three loops without any connection run in their place while the others are alone. Both are measured
//! in turns, and the row shows medians: a machine that is busy with something else disturbs a pair, not the comparison.
//! What the hostile clients cost is shown as processor time too: that of the server beyond the others' requests, as these
//! cost while they are alone. It does not depend on what else the machine does.

use std::io;
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
use crate::h3;
use crate::load::{Bound, Outcome};
use crate::server::Binary;
use crate::statistics::{Limit, Spread};

/// A flood by its protocol.
#[derive(Clone, Copy, Debug)]
pub(super) enum Flood {
    H2(Attack),
    H3(h3::hostile::Attack),
}

impl Flood {
    fn via(self) -> Via {
        match self {
            Flood::H2(_) => Via::H2c,
            Flood::H3(_) => Via::H3,
        }
    }

    /// Whether the server can call it a flood of frames. Else streams fail, or their time runs out; and packets of QUIC
    /// that change nothing may be ignored.
    fn is_of_frames(self) -> bool {
        match self {
            Flood::H2(attack) => !matches!(attack, Attack::HpackBomb | Attack::SlowReader),
            Flood::H3(attack) => {
                matches!(attack, h3::hostile::Attack::RapidReset | h3::hostile::Attack::Control)
            }
        }
    }
}

/// The measures of a flood.
pub(super) fn measures(flood: Flood) -> [Measure; 8] {
    let mut measures = MEASURES;
    if let Flood::H3(_) = flood {
        measures[6].name = "of them H3_EXCESSIVE_LOAD";
    }
    if flood.is_of_frames() {
        measures[6] = measures[6].required(Limit::MedianAtLeast(CALM_PERCENT));
    }
    measures
}

const MEASURES: [Measure; 8] = [
    Measure::new("p99 beside / alone", "", 2).required(Limit::MedianAtMost(2.0)),
    Measure::new("p99 alone", "µs", 0),
    Measure::new("p99 beside", "µs", 0),
    Measure::new("server CPU for them", "%", 1),
    Measure::new("memory growth", "MiB", 1).required(Limit::MedianAtMost(50.0)),
    Measure::new("connections ended", "", 0).better(Better::Neither),
    Measure::new("of them ENHANCE_YOUR_CALM", "%", 0).better(Better::Neither),
    Measure::new("sent by them", "MB/s", 1).better(Better::Neither),
];

/// One run: fresh server, others alone and others beside the hostile clients in turns.
pub(super) fn run(context: &Context, binary: &Binary, flood: Flood) -> Result<Sample, String> {
    let job = |scenario| context.job(scenario, WORKER_CONNECTIONS);
    let serving = match start(context, binary, Part::Impatient, flood.via(), job)? {
        Ok(serving) => serving,
        Err(reason) => return Ok(Sample::not_served(MEASURES.len(), &reason)),
    };
    let address = serving.address(flood.via());
    let ask = Ask::get(TINY, FIXED_BODY.len() as u64);
    match flood {
        Flood::H2(attack) => {
            let plan =
                Plan { address, tls: None, asks: vec![ask], connections: OTHERS, streams: 1 };
            let mut load = Load::new(plan).map_err(|error| format!("load: {error}"))?;
            let attack = |stop: &AtomicBool, seen: &Seen| hostile::run(attack, address, stop, seen);
            compare(context, &serving, &mut |bound| load.run(bound), attack)
        }
        Flood::H3(attack) => {
            let mode = h3::load::Mode::Kept;
            let mut load = serving.h3_load(address, vec![ask], (OTHERS, 1), mode)?;
            let hostile = h3::hostile::Hostile::new(attack, address)?;
            let attack = |stop: &AtomicBool, seen: &Seen| hostile.run(stop, seen);
            compare(context, &serving, &mut |bound| load.run(bound), attack)
        }
    }
}

/// The load of the others.
type Others<'a> = &'a mut dyn FnMut(Bound) -> io::Result<Outcome>;

/// The others alone and beside the hostile clients, in turns.
fn compare(
    context: &Context,
    serving: &Serving,
    load: Others<'_>,
    attack: impl Fn(&AtomicBool, &Seen) + Sync,
) -> Result<Sample, String> {
    warm(&mut *load)?;
    let before = serving.server.memory().map_err(|error| format!("memory: {error}"))?;
    let time = context.options.run_time.max(TURN_MIN);
    let (seen, most) = (Seen::default(), AtomicU64::new(0));
    let mut turns = Turns::default();
    for _ in 0..TURNS {
        let begin = serving.server.cpu_time();
        let alone = beside(&mut *load, time, idle_loop, || {})?;
        let each = serving.server.cpu_time().since(begin).total() / alone.requests.max(1) as f64;
        turns.alone(alone);
        let attack = |stop: &AtomicBool| attack(stop, &seen);
        let look = || {
            most.fetch_max(serving.server.memory().unwrap_or(0), Ordering::Relaxed);
        };
        let begin = serving.server.cpu_time();
        let beside = beside(&mut *load, time, attack, look)?;
        let spent = serving.server.cpu_time().since(begin).total();
        let for_them = (spent - each * beside.requests as f64).max(0.0);
        turns.for_them.push(for_them / beside.elapsed.as_secs_f64().max(1e-9) / 1e4);
        turns.beside(beside);
    }

    let count = |figure: &AtomicU64| figure.load(Ordering::Relaxed) as f64;
    let ended = count(&seen.ended);
    let values = vec![
        turns.ratio(),
        median(&turns.alone),
        median(&turns.beside),
        median(&turns.for_them),
        most.into_inner().saturating_sub(before) as f64 / 1024.0 / 1024.0,
        ended,
        if ended > 0.0 { count(&seen.calm) / ended * 100.0 } else { f64::NAN },
        count(&seen.bytes) / 1e6 / time.as_secs_f64() / TURNS as f64,
    ];
    let note = turns.error.map(|error| format!("first error of the others: {error}"));
    Ok(Sample { values, errors: turns.errors, note })
}

/// What the others saw, turn by turn: the time in µs that 99 % of the responses did not exceed.
#[derive(Default)]
struct Turns {
    alone: Vec<f64>,
    beside: Vec<f64>,
    /// Processor time of the server for the hostile clients, percent of a processor.
    for_them: Vec<f64>,
    errors: u64,
    error: Option<String>,
}

impl Turns {
    fn alone(&mut self, outcome: Outcome) {
        let tail = self.tail(outcome);
        self.alone.push(tail);
    }

    fn beside(&mut self, outcome: Outcome) {
        let tail = self.tail(outcome);
        self.beside.push(tail);
    }

    fn tail(&mut self, outcome: Outcome) -> f64 {
        self.errors += outcome.errors;
        self.error = self.error.take().or(outcome.first_error);
        outcome.latency.quantile(0.99).as_secs_f64() * 1e6
    }

    /// The median of the pairs' ratios.
    fn ratio(&self) -> f64 {
        let pairs = self.beside.iter().zip(&self.alone);
        median(&pairs.map(|(beside, alone)| beside / alone.max(1.0)).collect::<Vec<_>>())
    }
}

fn median(values: &[f64]) -> f64 {
    Spread::of(values).map_or(f64::NAN, |spread| spread.median)
}

/// Runs the others' load beside threads that work until they are stopped, and looks from time to time.
fn beside(
    load: Others<'_>,
    time: Duration,
    work: impl Fn(&AtomicBool) + Sync,
    look: impl Fn() + Sync,
) -> Result<Outcome, String> {
    let stop = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        for _ in 0..HOSTILE {
            scope.spawn(|| {
                step_back();
                work(&stop);
            });
        }
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                look();
                thread::sleep(LOOK_EVERY);
            }
        });
        let outcome = load(Bound { duration: time, requests_max: u64::MAX });
        stop.store(true, Ordering::Relaxed);
        outcome
    });
    outcome.map_err(|error| format!("load: {error}"))
}

/// Takes processor time as a hostile client does, and sends nothing.
fn idle_loop(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

const HOSTILE: usize = 3;
/// Connections of the others, each with one request at a time.
const OTHERS: usize = 4;
/// Part of the ended connections; the end of one may be seen without its reason.
const CALM_PERCENT: f64 = 90.0;
/// Pairs of turns: alone, beside.
const TURNS: usize = 5;
const TURN_MIN: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(100);
