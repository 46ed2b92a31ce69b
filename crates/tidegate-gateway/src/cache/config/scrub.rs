//! The pace of a cache's scrubber (`scrub=`): files are read on the housekeeping thread in small steps.

use std::time::Duration;

use tidegate_cache::Store;
use tidegate_core::Level;
use tidegate_core::error_log::ErrorLog;
use tidegate_core::plan::Service;
use tidegate_rt::clock;

/// Bytes that a step reads: other services wait for it.
const STEP_BYTES: u64 = 256 * 1024;

/// Most bytes that are read in a second, whatever a round would take: requests have priority on the disk.
const SECOND_BYTES_MAX: u64 = 4 << 20;

/// Longest rest, so that changes of the cache's size are noticed.
const REST_MAX: Duration = Duration::from_secs(3600);

/// The scrubber of one cache.
pub(super) struct CacheScrubber {
    name: String,
    store: Store,
    log: ErrorLog,
    /// Duration of a round.
    round: Duration,
}

impl CacheScrubber {
    pub(super) fn new(name: &str, store: Store, log: ErrorLog, round: Duration) -> CacheScrubber {
        CacheScrubber { name: name.to_owned(), store, log, round }
    }
}

impl Service for CacheScrubber {
    fn name(&self) -> String {
        format!("cache {} scrubber", self.name)
    }

    fn step(&self) -> Duration {
        let stats = self.store.stats();
        if !stats.loaded {
            return rest(0, 0, self.round);
        }
        let report = self.store.scrub_step(STEP_BYTES, clock::unix_millis());
        for path in &report.damaged {
            let (name, path) = (&self.name, path.display());
            let message = format!("cache \"{name}\": file \"{path}\" is damaged and is removed");
            self.log.say(Level::Error, format_args!("{message}"));
        }
        rest(report.bytes, stats.disk_bytes, self.round)
    }
}

/// Returns the pause after a step that has read `bytes` of a cache with `all` bytes.
fn rest(bytes: u64, all: u64, round: Duration) -> Duration {
    let at_least = Duration::from_secs_f64(bytes as f64 / SECOND_BYTES_MAX as f64);
    let steps = all.div_ceil(STEP_BYTES).max(1);
    let share = round / u32::try_from(steps).unwrap_or(u32::MAX);
    share.min(REST_MAX).max(at_least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_takes_its_time_and_the_disk_is_spared() {
        let (day, second) = (Duration::from_secs(86_400), Duration::from_secs(1));
        for (bytes, all, round, expected) in [
            (0, 0, second, second),
            (0, 0, day, REST_MAX),
            (STEP_BYTES, STEP_BYTES * 86_400, day, second),
            (STEP_BYTES, STEP_BYTES * 86_400, second, second / 16),
            (STEP_BYTES, u64::MAX, second, second / 16),
        ] {
            assert_eq!(rest(bytes, all, round), expected, "{bytes} {all} {round:?}");
        }
    }
}
