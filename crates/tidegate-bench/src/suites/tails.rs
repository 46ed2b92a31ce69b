//! The latencies of a load: the middle and the tails, at saturation and in an open loop at a part of nginx's capacity.
//!
//! At saturation a closed loop waits for each response, so a server that stalls is asked less in that time. In the open
//! loop requests are due at even times and their latencies begin then, so that what a stall holds up is counted.

use std::time::Duration;

use super::Measure;
use super::quick::REQUESTS_MAX;
use crate::load::{Bound, Load, Outcome};

/// The rate of the open loop, as a part of nginx's requests per second at saturation.
pub(super) const PACED_PART: f64 = 0.8;
/// Figures of a closed loop.
pub(super) const SATURATED: [Measure; 4] = [
    Measure::new("p50", "µs", 0),
    Measure::new("p99", "µs", 0),
    Measure::new("p99.9", "µs", 0),
    Measure::new("longest", "µs", 0),
];
/// The same of the open loop.
pub(super) const PACED: [Measure; 4] = [
    Measure::new("p50 at 80 %", "µs", 0),
    Measure::new("p99 at 80 %", "µs", 0),
    Measure::new("p99.9 at 80 %", "µs", 0),
    Measure::new("longest at 80 %", "µs", 0),
];

/// Gives the tails their goals: the largest acceptable ratio Tidegate/nginx. The middle at saturation says the same as
/// the rate, and the longest latency is one request's, so they have none.
pub(super) fn with_goals(mut measures: Vec<Measure>) -> Vec<Measure> {
    for measure in &mut measures {
        let goal = GOALS.iter().find(|(name, _)| *name == measure.name);
        measure.target = goal.map(|(_, ratio)| *ratio).or(measure.target);
    }
    measures
}

const GOALS: [(&str, f64); 5] = [
    (SATURATED[1].name, 1.0),
    (SATURATED[2].name, 1.1),
    (PACED[0].name, 1.0),
    (PACED[1].name, 1.0),
    (PACED[2].name, 1.1),
];

/// The figures of [`SATURATED`] or [`PACED`], in microseconds.
pub(super) fn values(outcome: &Outcome) -> [f64; 4] {
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let latency = &outcome.latency;
    let [middle, tail, far] = [0.5, 0.99, 0.999].map(|part| micros(latency.quantile(part)));
    [middle, tail, far, micros(latency.maximum())]
}

/// An open loop of `rate` requests per second.
///
/// # Errors
/// In words: the loop itself failed.
pub(super) fn paced(load: &mut Load, time: Duration, rate: f64) -> Result<Outcome, String> {
    let bound = Bound { duration: time, requests_max: REQUESTS_MAX };
    load.run_paced(bound, rate).map_err(|error| format!("load: {error}"))
}
