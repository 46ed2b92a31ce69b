//! `tidegate-h2` alone: the share of a request that is the protocol's.

use std::time::Instant;

use super::super::{Measure, Sample};
use crate::h2::core_loop::{PIECES, record};
use crate::statistics::{Limit, Spread};

/// The measures of the case.
pub(super) const MEASURES: [Measure; 2] = [
    Measure::new("CPU per request", "µs", 3).required(Limit::MedianAtMost(0.35)),
    Measure::new("allocations per request", "", 3).required(Limit::Exactly(0.0)),
];

/// The median of some replays: other programs of the machine disturb few of them.
pub(super) fn run() -> Result<Sample, String> {
    let recorded = record(PIECES)?;
    let (mut costs, mut allocations, mut served) = (Vec::with_capacity(REPLAYS), 0, 0);
    for _ in 0..REPLAYS {
        let mut begun = (Instant::now(), 0);
        let requests =
            recorded.replay(|| begun = (Instant::now(), tidegate_os::counted::allocations()))?;
        served += requests;
        costs.push(begun.0.elapsed().as_secs_f64() * 1e6 / requests as f64);
        allocations += tidegate_os::counted::allocations() - begun.1;
    }
    let cost = Spread::of(&costs).ok_or("no replay")?.median;
    let values = vec![cost, allocations as f64 / served.max(1) as f64];
    Ok(Sample { values, ..Sample::default() })
}

const REPLAYS: usize = 201;
