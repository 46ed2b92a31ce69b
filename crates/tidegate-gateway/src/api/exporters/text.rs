//! Writing metrics: families, lines, histograms.

use std::fmt::Display;

use tidegate_core::figures::{BOUNDS_MILLIS, BUCKETS};

use crate::exposition;

/// The type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Counter,
    Gauge,
    Histogram,
}

/// A family whose lines are written.
pub(super) struct Family<'a> {
    name: &'a str,
    out: &'a mut String,
}

impl<'a> Family<'a> {
    /// Begins a family.
    pub(super) fn begin(out: &'a mut String, name: &'a str, kind: Type, help: &str) -> Family<'a> {
        let kind = match kind {
            Type::Counter => "counter",
            Type::Gauge => "gauge",
            Type::Histogram => "histogram",
        };
        exposition::head(name, kind, help, out);
        Family { name, out }
    }

    /// Adds a line. Values of labels may have any characters.
    pub(super) fn line(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.write("", labels, None, value);
    }

    /// Adds a histogram of times.
    pub(super) fn times(&mut self, labels: &[(&str, &str)], counts: &[u64; BUCKETS], micros: u64) {
        let mut below = 0;
        let bounds = BOUNDS_MILLIS.iter().map(|millis| seconds(millis * 1000));
        for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(counts) {
            below += count;
            self.write("_bucket", labels, Some(&bound), below);
        }
        self.write("_sum", labels, None, seconds(micros));
        self.write("_count", labels, None, below);
    }

    /// Adds a histogram of which only number and sum are known.
    pub(super) fn sums(&mut self, labels: &[(&str, &str)], count: u64, sum: u64) {
        self.write("_bucket", labels, Some("+Inf"), count);
        self.write("_sum", labels, None, sum);
        self.write("_count", labels, None, count);
    }

    fn write(
        &mut self,
        end: &str,
        labels: &[(&str, &str)],
        bound: Option<&str>,
        value: impl Display,
    ) {
        let all = labels.iter().copied().chain(bound.map(|bound| ("le", bound)));
        let all: Vec<_> = all.collect();
        exposition::line(&format!("{}{end}", self.name), &all, value, self.out);
    }
}

/// Writes microseconds as seconds.
pub(super) fn seconds(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns the average of a sum in microseconds, in seconds.
pub(super) fn average(micros: u64, count: u64) -> String {
    seconds(micros.checked_div(count).unwrap_or(0))
}
