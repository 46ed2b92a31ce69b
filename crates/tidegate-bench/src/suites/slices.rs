//! Several loads of one server, each for a slice of time in turn, so that other programs affect all of them alike.

use super::quick::measure_on;
use super::{Context, Sample};
use crate::load::Load;
use crate::server::Server;

/// The figures of the loads.
#[derive(Default)]
pub(super) struct Sliced {
    /// Processor time of a request in microseconds, and requests per second, of each load.
    pub figures: Vec<[f64; 2]>,
    /// The mean share of the processor that other programs took, in percent.
    pub others: f64,
    /// Wrong responses, and the first of them.
    pub sample: Sample,
}

/// Measures each load for the time of a run in all.
///
/// # Errors
/// In words: a load itself failed.
pub(super) fn measure(
    context: &Context,
    server: &Server,
    loads: &mut [Load],
) -> Result<Sliced, String> {
    let mut sums: Vec<Sum> = loads.iter().map(|_| Sum::default()).collect();
    let mut sliced = Sliced::default();
    for _ in 0..SLICES {
        for (load, sum) in loads.iter_mut().zip(&mut sums) {
            let slice = context.options.run_time / SLICES;
            let (values, outcome) = measure_on(context, server, load, slice)?;
            let [cost, _, rate, .., other] = values[..] else {
                return Err("the figures are others".to_owned());
            };
            sum.add(outcome.requests as f64, cost, rate);
            sliced.others += other;
            sliced.sample.errors += outcome.errors;
            let note = outcome.first_error.map(|error| format!("first error: {error}"));
            sliced.sample.note = sliced.sample.note.take().or(note);
        }
    }
    sliced.others /= sums.len().max(1) as f64 * f64::from(SLICES);
    sliced.figures = sums.iter().map(Sum::figures).collect();
    Ok(sliced)
}

/// The sum of the slices of one load.
#[derive(Default)]
struct Sum {
    requests: f64,
    cpu: f64,
    rates: f64,
}

impl Sum {
    fn add(&mut self, requests: f64, cost: f64, rate: f64) {
        self.requests += requests;
        self.cpu += cost * requests;
        self.rates += rate;
    }

    /// Cost of a request, and requests a second.
    fn figures(&self) -> [f64; 2] {
        [self.cpu / self.requests.max(1.0), self.rates / f64::from(SLICES)]
    }
}

/// Loads alternate within a run.
const SLICES: u32 = 5;
