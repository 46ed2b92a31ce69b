//! What is counted of a cache: responses and their bytes, by what the cache did for the request.

use tidegate_core::Exchange;
use tidegate_core::figures::Counts;

use super::config::settings::{CacheSettings, ZoneSelection};
use super::status::{CacheNote, CacheStatus};

/// The values of `$upstream_cache_status`, in the order of their counters.
const STATUSES: [CacheStatus; 7] = [
    CacheStatus::Miss,
    CacheStatus::Bypass,
    CacheStatus::Expired,
    CacheStatus::Stale,
    CacheStatus::Updating,
    CacheStatus::Revalidated,
    CacheStatus::Hit,
];

/// Counters of a status: responses and their bytes, responses written to the cache and their bytes.
const WIDTH: usize = 4;

/// Counters of fetches and of those that follow one, behind those of the statuses.
const FILLS: usize = WIDTH * STATUSES.len();
const FOLLOWERS: usize = FILLS + 1;

/// Counters of a cache, by status, and of fills.
#[derive(Default)]
pub(crate) struct CacheFigures(Counts<{ FOLLOWERS + 1 }>);

impl CacheFigures {
    fn count(&self, status: CacheStatus, bytes: u64) {
        self.0.add_all(place(status), [1, bytes]);
    }

    /// Counts a response that was written to the cache.
    pub(crate) fn written(&self, status: CacheStatus, bytes: u64) {
        self.0.add_all(place(status) + 2, [1, bytes]);
    }

    /// Counts a fetch for the cache.
    pub(crate) fn fill_begun(&self) {
        self.0.add_all(FILLS, [1]);
    }

    /// Counts a request that reads the fetch of another one.
    pub(crate) fn followed(&self) {
        self.0.add_all(FOLLOWERS, [1]);
    }

    /// Returns the fetches since the last reset.
    pub(crate) fn fills(&self) -> u64 {
        self.0.totals()[FILLS]
    }

    /// Returns the requests that have read fetches of others since the last reset.
    pub(crate) fn followers(&self) -> u64 {
        self.0.totals()[FOLLOWERS]
    }

    /// Returns responses, their bytes, written responses and their bytes of each status since the last reset.
    pub(crate) fn totals(&self) -> impl Fn(CacheStatus) -> [u64; WIDTH] + use<> {
        let totals = self.0.totals();
        move |status| std::array::from_fn(|counter| totals[place(status) + counter])
    }

    /// Lets all sums start at zero again.
    pub(crate) fn reset(&self) {
        self.0.reset();
    }
}

fn place(status: CacheStatus) -> usize {
    WIDTH * STATUSES.iter().position(|one| *one == status).unwrap_or_default()
}

/// Counts a request of a location with a cache when it has ended.
pub(crate) fn log(x: &mut Exchange, cache: &CacheSettings) {
    let Some(status) = x.modules.extensions.of::<CacheNote>().map(|note| note.status) else {
        return;
    };
    if let ZoneSelection::Zone(zone) = cache.zone(x) {
        zone.figures.count(status, x.outcome.body_bytes_sent);
    }
}
