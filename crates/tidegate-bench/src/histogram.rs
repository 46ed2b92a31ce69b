//! A latency histogram with logarithmic buckets.
//!
//! Values are nanoseconds. Each power of two is split into 64 buckets, so that a reported
//! quantile is at most 1/64 (1.6 %) above the true one; recording costs a few instructions.

use std::time::Duration;

/// Counts of latencies; quantiles are exact to 1.6 %, the maximum is exact.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    maximum: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: vec![0; BUCKETS], total: 0, maximum: 0 }
    }
}

impl Histogram {
    /// Counts one latency. Anything above 2^40 ns (18 minutes) falls into the last bucket.
    pub(crate) fn record(&mut self, latency: Duration) {
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket(nanoseconds)] += 1;
        self.total += 1;
        self.maximum = self.maximum.max(nanoseconds);
    }

    /// The longest latency recorded; zero when there is none.
    pub(crate) fn maximum(&self) -> Duration {
        Duration::from_nanos(self.maximum)
    }

    /// The latency that `fraction` (0 to 1) of the requests did not exceed; zero when empty.
    pub(crate) fn quantile(&self, fraction: f64) -> Duration {
        let wanted = ((self.total as f64) * fraction.clamp(0.0, 1.0)).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Duration::from_nanos(bucket_upper(index).min(self.maximum));
            }
        }
        self.maximum()
    }
}

/// The bucket of a value: values below 64 have one each, then 64 for each power of two.
pub(crate) fn bucket(value: u64) -> usize {
    if value < SUB_BUCKETS {
        return value as usize;
    }
    let exponent = 63 - value.leading_zeros();
    let shift = exponent - SUB_BUCKET_BITS;
    let index = u64::from(shift + 1) * SUB_BUCKETS + (value >> shift) - SUB_BUCKETS;
    (index as usize).min(BUCKETS - 1)
}

/// The largest value that falls into a bucket.
pub(crate) fn bucket_upper(index: usize) -> u64 {
    let index = index as u64;
    if index < SUB_BUCKETS {
        return index;
    }
    let shift = index / SUB_BUCKETS - 1;
    ((index % SUB_BUCKETS + SUB_BUCKETS + 1) << shift) - 1
}

const SUB_BUCKET_BITS: u32 = 6;
const SUB_BUCKETS: u64 = 1 << SUB_BUCKET_BITS;
/// Values of up to 40 bits; the shift is at most 40 - 6 - 1, and the linear part is one more row.
const BUCKETS: usize = ((40 - SUB_BUCKET_BITS as usize) + 1) * SUB_BUCKETS as usize;
