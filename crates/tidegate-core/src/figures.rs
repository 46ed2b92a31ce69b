//! Figures of status zones: requests, statuses, bytes and times, by kind and name (`status_zone`).
//!
//! A zone has a block of counters for each thread that uses it, made at first use. A thread changes its own block by a
//! plain load and store, so that counting costs no locked instruction and moves no cache line; readers sum the blocks.
//! A thread's number, and with it its blocks, passes to another thread when it ends: no count is lost. A reset stores
//! the sums of that moment beside the blocks, and readers subtract them.
//!
//! Zones live as long as the process, like all objects that reloads keep: [`Figures`] holds them by kind and name, and a
//! [`Catalog`] those of one plan.

mod catalog;
mod counts;
mod exemplar;
mod tally;
#[cfg(test)]
mod tests;
mod thread;
mod times;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use exemplar::Exemplars;

pub use catalog::{
    Catalog, Figures, FullestKeys, KeyUse, Kind, OrderState, OrderedCertificate, ServerCertificate,
    Shown, Slab, SlabUse, ZoneGroup,
};
pub use counts::Counts;
pub use exemplar::Exemplar;
pub use tally::{
    HANDSHAKES, LIMIT_CONN, LIMIT_REQ, Tally, VERIFY_FAILURES, handshakes, new_handshakes,
};
pub use times::TimeCounts;

/// Upper bounds of the histogram's buckets, in milliseconds; one more bucket has what is longer. They are those of nginx
/// Plus' `response_time_hist` and of OpenTelemetry's durations of HTTP requests.
pub const BOUNDS_MILLIS: [u64; 14] =
    [5, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10_000];

/// Buckets of a histogram, with that of longer times.
pub const BUCKETS: usize = BOUNDS_MILLIS.len() + 1;

/// Statuses with a counter of their own. Others count in their class alone.
const CODES: [u16; 67] = [
    100, 101, 102, 103, 200, 201, 202, 203, 204, 205, 206, 207, 208, 226, 300, 301, 302, 303, 304,
    305, 307, 308, 400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415,
    416, 417, 418, 421, 422, 423, 424, 425, 426, 428, 429, 431, 451, 494, 495, 496, 497, 499, 500,
    501, 502, 503, 504, 505, 506, 507, 508, 510, 511,
];

/// Counters of statuses: the codes, the other statuses of the five classes, requests without a response, and sessions
/// that went on elsewhere.
const STATUSES: usize = CODES.len() + CLASSES + 2;
const CLASSES: usize = 5;
const DISCARDED: usize = STATUSES - 2;
const PASSED: usize = STATUSES - 1;

/// Counters of statuses that many threads change, for servers of groups.
#[derive(Debug)]
pub struct StatusCounts([AtomicU64; CODES.len()]);

impl Default for StatusCounts {
    fn default() -> StatusCounts {
        StatusCounts([const { AtomicU64::new(0) }; CODES.len()])
    }
}

impl StatusCounts {
    /// Counts a status, where it has a counter of its own.
    pub fn count(&self, status: u16) {
        let counter = CODES.binary_search(&status).ok().and_then(|place| self.0.get(place));
        if let Some(counter) = counter {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the counted statuses in ascending order.
    pub fn codes(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        let counts = self.0.iter().map(|counter| counter.load(Ordering::Relaxed));
        CODES.iter().copied().zip(counts).filter(|(_, count)| *count > 0)
    }

    /// Sets all counters to zero.
    pub fn reset(&self) {
        self.0.iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
    }
}

/// Statuses with an entry in the table of places.
const TABLE_FIRST: u16 = 100;
const TABLE_LENGTH: usize = 500;

/// The place of each status from 100 to 599 among the counters.
static PLACES: [u8; TABLE_LENGTH] = places();

const fn places() -> [u8; TABLE_LENGTH] {
    let mut table = [0; TABLE_LENGTH];
    let mut at = 0;
    while at < TABLE_LENGTH {
        table[at] = (CODES.len() + at / 100) as u8;
        at += 1;
    }
    let mut code = 0;
    while code < CODES.len() {
        table[(CODES[code] - TABLE_FIRST) as usize] = code as u8;
        code += 1;
    }
    table
}

/// The counters of one thread in a zone. Written by that thread alone.
struct Block {
    processing: AtomicU64,
    statuses: [AtomicU64; STATUSES],
    received: AtomicU64,
    sent: AtomicU64,
    /// Sum of the times, in microseconds.
    micros: AtomicU64,
    times: [AtomicU64; BUCKETS],
}

impl Default for Block {
    fn default() -> Block {
        Block {
            processing: AtomicU64::new(0),
            statuses: [const { AtomicU64::new(0) }; STATUSES],
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            micros: AtomicU64::new(0),
            times: [const { AtomicU64::new(0) }; BUCKETS],
        }
    }
}

impl Block {
    #[inline]
    fn count(&self, sample: &Sample) {
        add(&self.statuses[usize::from(sample.status)], 1);
        add(&self.received, sample.received);
        add(&self.sent, sample.sent);
        add(&self.micros, sample.micros);
        add(&self.times[usize::from(sample.bucket)], 1);
    }
}

/// Changes a counter of the calling thread's block. Only that thread writes, so a load and a store suffice. Sums wrap
/// around, so that a subtraction is an addition.
#[inline]
fn add(counter: &AtomicU64, change: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(change), Ordering::Relaxed);
}

/// A finished request or session, as zones count it.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Place among the counters of statuses.
    status: u8,
    bucket: u8,
    received: u64,
    sent: u64,
    micros: u64,
}

impl Sample {
    /// Makes a sample; `status` is `None` when no response was sent.
    #[inline]
    pub fn new(status: Option<u16>, received: u64, sent: u64, time: Duration) -> Sample {
        let micros = time.as_secs() * 1_000_000 + u64::from(time.subsec_micros());
        let status = match status {
            None => DISCARDED as u8,
            Some(status) => {
                let place = usize::from(status.wrapping_sub(TABLE_FIRST)).min(TABLE_LENGTH - 1);
                PLACES[place]
            }
        };
        Sample { status, bucket: bucket(micros), received, sent, micros }
    }

    /// Makes it one of a session that another listening address took over (`pass`).
    pub fn passed(self) -> Sample {
        Sample { status: PASSED as u8, ..self }
    }
}

/// Returns the bucket of a time.
#[inline]
fn bucket(micros: u64) -> u8 {
    // Most requests are fast, so the first comparison ends most searches.
    match BOUNDS_MILLIS.iter().position(|bound| micros <= bound * 1000) {
        Some(place) => place as u8,
        None => BUCKETS as u8 - 1,
    }
}

/// The sums of a zone at one moment. Each is exact; those of requests in progress need not agree with each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Requests or sessions in progress.
    pub processing: u64,
    statuses: [u64; STATUSES],
    /// Bytes received from clients.
    pub received: u64,
    /// Bytes sent to clients.
    pub sent: u64,
    /// Sum of the times, in microseconds.
    pub micros: u64,
    /// Finished requests by time: not above each of [`BOUNDS_MILLIS`] and above the one before, and longer ones.
    pub times: [u64; BUCKETS],
}

impl Default for Totals {
    fn default() -> Totals {
        Totals {
            processing: 0,
            statuses: [0; STATUSES],
            received: 0,
            sent: 0,
            micros: 0,
            times: [0; BUCKETS],
        }
    }
}

impl Totals {
    /// Returns the responses by class, from 1xx to 5xx.
    pub fn classes(&self) -> [u64; CLASSES] {
        let mut classes = [0; CLASSES];
        for (code, count) in CODES.iter().zip(&self.statuses) {
            classes[usize::from(code / 100) - 1] += count;
        }
        for (class, count) in classes.iter_mut().zip(&self.statuses[CODES.len()..DISCARDED]) {
            *class += count;
        }
        classes
    }

    /// Returns the counted statuses that have a counter of their own, in ascending order.
    pub fn codes(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        let pairs = CODES.iter().copied().zip(self.statuses.iter().copied());
        pairs.filter(|(_, count)| *count > 0)
    }

    /// Returns the responses by class, from 1xx to 5xx, whose statuses have no counter of their own.
    pub fn other_codes(&self) -> impl Iterator<Item = u64> + '_ {
        self.statuses[CODES.len()..DISCARDED].iter().copied()
    }

    /// Returns the responses of all statuses.
    pub fn responses(&self) -> u64 {
        self.statuses[..DISCARDED].iter().sum()
    }

    /// Returns the requests that ended without a response.
    pub fn discarded(&self) -> u64 {
        self.statuses[DISCARDED]
    }

    /// Returns the sessions that another listening address took over.
    pub fn passed(&self) -> u64 {
        self.statuses[PASSED]
    }

    /// Returns the finished requests and those in progress.
    pub fn requests(&self) -> u64 {
        self.responses() + self.discarded() + self.passed() + self.processing
    }

    /// Adds a thread's counters.
    fn add(&mut self, block: &Block) {
        let Block { processing, statuses, received, sent, micros, times } = block;
        let load = |sum: &mut u64, counter: &AtomicU64| {
            *sum = sum.wrapping_add(counter.load(Ordering::Relaxed));
        };
        load(&mut self.processing, processing);
        load(&mut self.received, received);
        load(&mut self.sent, sent);
        load(&mut self.micros, micros);
        self.statuses.iter_mut().zip(statuses).for_each(|(sum, counter)| load(sum, counter));
        self.times.iter_mut().zip(times).for_each(|(sum, counter)| load(sum, counter));
    }

    /// Subtracts what was counted before a reset; what is in progress stays.
    fn subtract(&mut self, before: &Totals) {
        let Totals { processing: _, statuses, received, sent, micros, times } = before;
        let less = |sum: &mut u64, before: &u64| *sum = sum.wrapping_sub(*before);
        less(&mut self.received, received);
        less(&mut self.sent, sent);
        less(&mut self.micros, micros);
        self.statuses.iter_mut().zip(statuses).for_each(|(sum, before)| less(sum, before));
        self.times.iter_mut().zip(times).for_each(|(sum, before)| less(sum, before));
    }
}

/// A status zone.
#[derive(Default)]
pub struct Zone {
    blocks: thread::Slots<Block>,
    /// The sums at the last reset.
    before: Mutex<Option<Box<Totals>>>,
    /// TLS handshakes of a zone of servers, once there was one.
    handshakes: OnceLock<Tally>,
    /// Whether any of its servers listens with TLS.
    secure: AtomicBool,
    /// Traced requests, once there was one.
    exemplars: OnceLock<Box<Exemplars>>,
}

impl Zone {
    /// Makes a zone for the process's lifetime.
    fn forever() -> &'static Zone {
        Box::leak(Box::default())
    }

    /// Counts a finished request in the calling thread's block.
    #[inline]
    pub fn count(&self, sample: &Sample) {
        if let Some(block) = self.blocks.own() {
            block.count(sample);
        }
    }

    /// Counts a request as in progress until the returned value is dropped, which must be on the same thread.
    #[inline]
    pub fn begin(&'static self) -> Option<Processing> {
        let block = self.blocks.own()?;
        add(&block.processing, 1);
        Some(Processing { block, not_send: std::marker::PhantomData })
    }

    /// Returns the sums of all threads since the last reset.
    pub fn totals(&self) -> Totals {
        let before = self.before();
        let mut totals = self.sums();
        if let Some(before) = before.as_deref() {
            totals.subtract(before);
        }
        totals
    }

    /// Lets all sums start at zero again, but what is in progress.
    pub fn reset(&self) {
        let mut before = self.before();
        *before = Some(Box::new(self.sums()));
        if let Some(handshakes) = self.handshakes.get() {
            handshakes.reset();
        }
    }

    /// Keeps a traced request as an example of those in its bucket.
    pub fn exemplify(&self, exemplar: Exemplar) {
        self.exemplars.get_or_init(Box::default).keep(exemplar);
    }

    /// Returns the latest traced request of each bucket; `None` where there was none.
    pub fn exemplars(&self) -> Option<[Option<Exemplar>; BUCKETS]> {
        Some(self.exemplars.get()?.all())
    }

    /// Returns the counters of TLS handshakes, by the names of [`HANDSHAKES`] and [`VERIFY_FAILURES`].
    pub fn handshakes(&self) -> &Tally {
        self.handshakes.get_or_init(tally::new_handshakes)
    }

    /// Records that one of its servers listens with TLS.
    pub fn set_secure(&self) {
        self.secure.store(true, Ordering::Relaxed);
        self.handshakes();
    }

    /// Returns whether any of its servers listens with TLS.
    pub fn is_secure(&self) -> bool {
        self.secure.load(Ordering::Relaxed)
    }

    /// Returns the counters of TLS handshakes, where there are any.
    pub fn shown_handshakes(&self) -> Option<&Tally> {
        self.handshakes.get()
    }

    fn before(&self) -> MutexGuard<'_, Option<Box<Totals>>> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sums(&self) -> Totals {
        let mut totals = Totals::default();
        self.blocks.all().for_each(|block| totals.add(block));
        totals
    }
}

/// A request in progress, counted in its zone.
pub struct Processing {
    block: &'static Block,
    /// The counters are the thread's own.
    not_send: std::marker::PhantomData<*const ()>,
}

impl Processing {
    /// Counts the request as finished.
    #[inline]
    pub fn finish(self, sample: &Sample) {
        self.block.count(sample);
    }
}

impl Drop for Processing {
    #[inline]
    fn drop(&mut self) {
        add(&self.block.processing, 1_u64.wrapping_neg());
    }
}
