//! Medians and spreads of a few runs, and their comparison with a target.

/// The middle and the extremes of the runs of one side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub median: f64,
    pub minimum: f64,
    pub maximum: f64,
}

impl Spread {
    /// Summary of the runs; `None` when there is none that is a number.
    pub(crate) fn of(values: &[f64]) -> Option<Spread> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (minimum, maximum) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            (sorted[middle - 1] + sorted[middle]) / 2.0
        };
        Some(Spread { median, minimum, maximum })
    }

    /// Spread of the quotients of runs made next to each other, so that a slow drift of the
    /// machine (frequency, neighbours) cancels out. `None` when no pair can be divided.
    pub(crate) fn of_ratios(numerators: &[f64], denominators: &[f64]) -> Option<Spread> {
        let ratios: Vec<f64> = numerators
            .iter()
            .zip(denominators)
            // A run that is not served has an infinite figure.
            .filter(|(numerator, denominator)| {
                **denominator != 0.0 && numerator.is_finite() && denominator.is_finite()
            })
            .map(|(numerator, denominator)| numerator / denominator)
            .collect();
        Spread::of(&ratios)
    }
}

/// The result of comparing a ratio with its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TargetResult {
    /// The ratio is at most the target.
    Met,
    /// The ratio is above the target.
    Missed,
    /// Some response was wrong, so that the figures do not count.
    Errors,
    /// No target, or nothing to compare with.
    None,
}

impl TargetResult {
    /// Compares the median ratio; any failed request makes the figures void.
    pub(crate) fn of(ratio: Option<Spread>, target: Option<f64>, errors: u64) -> TargetResult {
        if errors > 0 {
            return TargetResult::Errors;
        }
        match (ratio, target) {
            (Some(ratio), Some(target)) if ratio.median <= target => TargetResult::Met,
            (Some(_), Some(_)) => TargetResult::Missed,
            _ => TargetResult::None,
        }
    }

    /// The word in the table and in JSON.
    pub(crate) fn word(self) -> &'static str {
        match self {
            TargetResult::Met => "met",
            TargetResult::Missed => "missed",
            TargetResult::Errors => "errors",
            TargetResult::None => "-",
        }
    }
}

/// A requirement on one side's figure, independent of the other side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Limit {
    Exactly(f64),
    Below(f64),
    /// Of all runs together, the middle one.
    MedianAtMost(f64),
    /// Likewise, where more is better.
    MedianAtLeast(f64),
}

impl Limit {
    pub(crate) fn holds(self, value: f64) -> bool {
        match self {
            Limit::Exactly(wanted) => value == wanted,
            Limit::Below(bound) => value < bound,
            Limit::MedianAtMost(bound) => value <= bound,
            Limit::MedianAtLeast(bound) => value >= bound,
        }
    }

    /// A figure that a busy machine can spoil: missing it is a failure where targets are.
    pub(crate) fn is_goal(self) -> bool {
        matches!(self, Limit::MedianAtMost(_) | Limit::MedianAtLeast(_))
    }

    /// Checks each run of a side; NaN is a run that was too short to measure, infinite one that was not served.
    pub(crate) fn judge(self, values: &[f64]) -> TargetResult {
        let mut numbers: Vec<f64> =
            values.iter().copied().filter(|value| value.is_finite()).collect();
        if let (true, Some(spread)) = (self.is_goal(), Spread::of(&numbers)) {
            numbers = vec![spread.median];
        }
        if numbers.is_empty() && !values.is_empty() {
            TargetResult::None
        } else if !numbers.is_empty() && numbers.iter().all(|value| self.holds(*value)) {
            TargetResult::Met
        } else {
            TargetResult::Missed
        }
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Limit::Exactly(value) => write!(out, "= {value}"),
            Limit::Below(value) => write!(out, "< {value}"),
            Limit::MedianAtMost(value) => write!(out, "≤ {value}"),
            Limit::MedianAtLeast(value) => write!(out, "≥ {value}"),
        }
    }
}

/// Returns the mean waiting time of a byte, in seconds, between being sent by the origin and being
/// read by a client. Both lists are (seconds, total bytes by then), in order. Bytes that never
/// arrived are left out; zero when there is none at all.
pub(crate) fn average_byte_wait(sent: &[(f64, u64)], arrived: &[(f64, u64)]) -> f64 {
    let (mut sent_index, mut done) = (0, 0u64);
    let mut waited = 0.0;
    for &(arrival, arrived_total) in arrived {
        while done < arrived_total && sent_index < sent.len() {
            let (departure, sent_total) = sent[sent_index];
            let until = sent_total.min(arrived_total).max(done);
            waited += (arrival - departure) * (until - done) as f64;
            done = until;
            if sent_total <= arrived_total {
                sent_index += 1;
            }
        }
    }
    if done == 0 { 0.0 } else { waited / done as f64 }
}
