//! One server's address with its counters. Survives reloads.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tidegate_core::figures::{StatusCounts, Tally, TimeCounts, new_handshakes};
use tidegate_rt::net::Addr;

use super::options::TimeKind;
use super::process_queue::ProcessQueue;
use crate::address::address_text;
use crate::moment;

/// One address of a server.
#[derive(Debug)]
pub struct Peer {
    /// Different from all others in the process, including removed ones.
    pub id: u64,
    /// Its address.
    pub address: Addr,
    /// As `$upstream_addr` shows it: `127.0.0.1:80`, `unix:/path`.
    pub text: Box<str>,
    /// The server as written, of which this is one address.
    pub server: Box<str>,
    /// Its statistics.
    pub statistics: Statistics,
    active: AtomicU32,
    /// There are failures that a success would clear.
    has_failures: AtomicBool,
    times: Times,
    queue: OnceLock<Arc<ProcessQueue>>,
}

/// The statistics of a server, for status pages, since the process began.
#[derive(Debug, Default)]
pub struct Statistics {
    /// Requests that it was chosen for, if the group counts them.
    pub requests: AtomicU64,
    /// Responses by the first digit of their status.
    pub responses: [AtomicU64; 5],
    /// Responses by status, once there was one.
    pub codes: OnceLock<Box<StatusCounts>>,
    /// Times to the heads and to the ends of its responses, once there was one.
    pub times: OnceLock<Box<ResponseTimes>>,
    /// TLS handshakes with it, once there was one, by the names of `HANDSHAKES` and `VERIFY_FAILURES`.
    pub handshakes: OnceLock<Arc<Tally>>,
    /// Bytes sent to it.
    pub sent: AtomicU64,
    /// Bytes received from it.
    pub received: AtomicU64,
    /// Attempts that failed.
    pub fails: AtomicU64,
    /// Number of times that it became unavailable by failures.
    pub unavailable: AtomicU64,
    /// Checks of it (`health_check`).
    pub checks: AtomicU64,
    /// Checks that it failed.
    pub checks_failed: AtomicU64,
    /// Number of times that it became unhealthy by checks.
    pub unhealthy: AtomicU64,
    /// 0: no check yet; 1: the last one failed; 2: it passed.
    pub last_check: AtomicU8,
    /// The last request, as [`moment::millis`]; 0: none.
    selected: AtomicU64,
    /// Since when it is unavailable, as [`moment::millis`]; 0: it is not.
    down_since: AtomicU64,
    /// Milliseconds of earlier unavailability.
    down_time: AtomicU64,
}

/// Histograms of a server's times.
#[derive(Debug, Default)]
pub struct ResponseTimes {
    /// To the head of a response, or to the first byte of a session.
    pub header: TimeCounts,
    /// To the end.
    pub response: TimeCounts,
}

/// Response times, for `least_time` and for status pages.
#[derive(Debug, Default)]
struct Times {
    header: Average,
    last_byte: Average,
    connect: Average,
    /// Requests whose time is running, and the sum of their start times ([`moment::millis`]).
    running: AtomicU64,
    begun: AtomicU64,
}

/// An average that fades: a server that was slow has to be tried again.
#[derive(Debug, Default)]
struct Average {
    /// Microseconds, 0 before the first.
    value: AtomicU64,
    /// When it was set, as [`moment::millis`].
    at: AtomicU64,
}

/// Weight of a new time in an average: one part in this number.
const AVERAGE_OVER: u64 = 2;
/// Times below this are equal: it is the precision of the clock.
const TIME_MIN: u64 = 20_000;
/// An average without new times halves in this time, once it has rested. A server that was probed is left alone for
/// as long.
const HALVING_MILLIS: u64 = 1000;

impl Times {
    fn of(&self, kind: TimeKind) -> &Average {
        match kind {
            TimeKind::Header { .. } => &self.header,
            TimeKind::LastByte { .. } => &self.last_byte,
            TimeKind::Connect { .. } => &self.connect,
        }
    }
}

impl Average {
    /// Concurrent threads may lose one another's time: it is an average.
    fn add(&self, millis: u64, now: u64) {
        let new = millis * 1000;
        let next = match self.at(now, Duration::ZERO) {
            0 => new,
            old => (old * (AVERAGE_OVER - 1) + new) / AVERAGE_OVER,
        };
        self.value.store(next.max(1), Ordering::Relaxed);
        self.at.store(now, Ordering::Relaxed);
    }

    /// Returns the average at `now`: it is constant for `rest`, then it fades.
    fn at(&self, now: u64, rest: Duration) -> u64 {
        let rest = u64::try_from(rest.as_millis()).unwrap_or(u64::MAX);
        let until = self.at.load(Ordering::Relaxed).saturating_add(rest);
        let halved = now.saturating_sub(until) / HALVING_MILLIS;
        self.value.load(Ordering::Relaxed) >> halved.min(63)
    }

    /// Returns whether its last time is older than `pause`: then it says little about the server now.
    fn is_old(&self, now: u64, pause: Duration) -> bool {
        let value = self.value.load(Ordering::Relaxed);
        let pause = pause.max(Duration::from_micros(value));
        let since = now.saturating_sub(self.at.load(Ordering::Relaxed));
        let since = Duration::from_millis(since);
        value > TIME_MIN && since > pause.max(Duration::from_millis(HALVING_MILLIS))
    }
}

/// A request whose time is running, until this is dropped.
#[derive(Debug)]
pub(crate) struct InFlight {
    peer: Arc<Peer>,
    kind: TimeKind,
    begun: u64,
}

impl InFlight {
    /// Starts the time of a request to `peer` at `now`.
    pub(crate) fn begin(peer: &Arc<Peer>, kind: TimeKind, now: Instant) -> InFlight {
        let begun = moment::millis(now);
        peer.times.running.fetch_add(1, Ordering::Relaxed);
        peer.times.begun.fetch_add(begun, Ordering::Relaxed);
        InFlight { peer: peer.clone(), kind, begun }
    }

    /// Records the connection. `true`: that was the time that counts.
    pub(crate) fn connected(&self, now: Instant) -> bool {
        let counts = matches!(self.kind, TimeKind::Connect { .. });
        if counts {
            let now = moment::millis(now);
            self.peer.times.connect.add(now.saturating_sub(self.begun), now);
        }
        counts
    }

    /// Records the head. `true`: that was the time that counts.
    pub(crate) fn header(&self, now: Instant) -> bool {
        let now = moment::millis(now);
        self.peer.times.header.add(now.saturating_sub(self.begun), now);
        matches!(self.kind, TimeKind::Header { .. })
    }

    /// Records the last byte.
    pub(crate) fn last_byte(&self, now: Instant) {
        let now = moment::millis(now);
        self.peer.times.last_byte.add(now.saturating_sub(self.begun), now);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.peer.times.running.fetch_sub(1, Ordering::Relaxed);
        self.peer.times.begun.fetch_sub(self.begun, Ordering::Relaxed);
    }
}

impl Statistics {
    /// Resets all counters.
    pub fn reset(&self) {
        let counts = [
            &self.requests,
            &self.sent,
            &self.received,
            &self.fails,
            &self.unavailable,
            &self.checks,
            &self.checks_failed,
            &self.unhealthy,
            &self.down_time,
        ];
        let all = counts.into_iter().chain(&self.responses);
        all.for_each(|count| count.store(0, Ordering::Relaxed));
        if let Some(codes) = self.codes.get() {
            codes.reset();
        }
        if let Some(handshakes) = self.handshakes.get() {
            handshakes.reset();
        }
        if let Some(times) = self.times.get() {
            times.header.reset();
            times.response.reset();
        }
    }

    /// Returns the time since the last request.
    pub fn since_selected(&self, now: Instant) -> Option<Duration> {
        since(&self.selected, now)
    }

    /// Returns how long it has been unavailable, if it is.
    pub fn down_for(&self, now: Instant) -> Option<Duration> {
        since(&self.down_since, now)
    }

    /// Returns the total time of unavailability, until now.
    pub fn down_time(&self, now: Instant) -> Duration {
        let former = Duration::from_millis(self.down_time.load(Ordering::Relaxed));
        former + self.down_for(now).unwrap_or_default()
    }

    /// Returns the counters of TLS handshakes with it.
    pub fn handshakes(&self) -> &Arc<Tally> {
        self.handshakes.get_or_init(|| Arc::new(new_handshakes()))
    }

    /// Counts an attempt that has ended.
    pub fn add(&self, status: u16, sent: u64, received: u64) {
        let class = usize::from(status / 100).wrapping_sub(1);
        if let Some(count) = self.responses.get(class) {
            count.fetch_add(1, Ordering::Relaxed);
            self.codes.get_or_init(Box::default).count(status);
        }
        self.sent.fetch_add(sent, Ordering::Relaxed);
        self.received.fetch_add(received, Ordering::Relaxed);
    }
}

/// Returns the time since a recorded one; `None` where none is recorded.
fn since(noted: &AtomicU64, now: Instant) -> Option<Duration> {
    let then = Some(noted.load(Ordering::Relaxed)).filter(|then| *then > 0)?;
    Some(Duration::from_millis(moment::millis(now).saturating_sub(then)))
}

impl Peer {
    /// Returns the order of requests to its address, where its processes serve one connection each.
    pub(crate) fn process_queue(&self) -> &Arc<ProcessQueue> {
        self.queue.get_or_init(|| ProcessQueue::of(&self.address))
    }

    /// Makes a server without a history. `server` is as written in the configuration.
    pub(super) fn new(server: &str, address: Addr) -> Peer {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Peer {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            text: address_text(&address).into(),
            address,
            server: server.into(),
            statistics: Statistics::default(),
            active: AtomicU32::new(0),
            has_failures: AtomicBool::new(false),
            times: Times::default(),
            queue: OnceLock::new(),
        }
    }

    /// Returns the requests in progress, where the group counts them.
    pub fn active(&self) -> u32 {
        self.active.load(Ordering::Relaxed)
    }

    pub(super) fn enter(&self, now: Instant) {
        self.active.fetch_add(1, Ordering::Relaxed);
        self.statistics.requests.fetch_add(1, Ordering::Relaxed);
        self.statistics.selected.store(moment::millis(now), Ordering::Relaxed);
    }

    pub(super) fn leave(&self) {
        self.active.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn is_troubled(&self) -> bool {
        self.has_failures.load(Ordering::Relaxed)
    }

    pub(super) fn set_troubled(&self, has_failures: bool) {
        self.has_failures.store(has_failures, Ordering::Relaxed);
    }

    /// Returns the expected time of the next request in microseconds, by the past: averages are constant for `rest`
    /// (`fail_timeout`), then they fade.
    pub(super) fn expected_time(&self, kind: TimeKind, rest: Duration, now: Instant) -> u64 {
        let times = &self.times;
        let now = moment::millis(now);
        let past = times.of(kind).at(now, rest);
        let running = times.running.load(Ordering::Relaxed);
        if !kind.inflight() || running == 0 {
            return past.max(TIME_MIN);
        }
        let begun = times.begun.load(Ordering::Relaxed);
        let present = now.saturating_mul(running).saturating_sub(begun) / running * 1000;
        past.max(present).max(TIME_MIN)
    }

    /// Returns whether a slow server that was left alone for long is to be tried once: it may have become faster.
    pub(super) fn is_to_be_probed(&self, kind: TimeKind, pause: Duration, now: Instant) -> bool {
        self.times.of(kind).is_old(moment::millis(now), pause)
    }

    /// Returns whether it is known as slower than the clock's precision.
    pub(super) fn is_slow(&self, kind: TimeKind, rest: Duration, now: Instant) -> bool {
        self.expected_time(kind, rest, now) > TIME_MIN
    }

    /// Records that failures make it unavailable from now on.
    pub(super) fn became_unavailable(&self, now: Instant) {
        self.statistics.unavailable.fetch_add(1, Ordering::Relaxed);
        self.note_down(now);
    }

    pub(super) fn note_down(&self, now: Instant) {
        let now = moment::millis(now);
        let since = &self.statistics.down_since;
        let _ = since.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(super) fn became_available(&self, now: Instant) {
        let since = self.statistics.down_since.swap(0, Ordering::Relaxed);
        if since > 0 {
            let passed = moment::millis(now).saturating_sub(since);
            self.statistics.down_time.fetch_add(passed, Ordering::Relaxed);
        }
    }

    /// Counts the times of an attempt that began at `started`, each as far as it came. `averages`: no request's time is
    /// measured for the balancing method, so the averages are those of finished attempts.
    pub(crate) fn count_times(
        &self,
        started: Instant,
        [connect, header, response]: [Option<Duration>; 3],
        averages: bool,
    ) {
        let times = self.statistics.times.get_or_init(Box::default);
        if let Some(time) = header {
            times.header.count(time);
        }
        if let Some(time) = response {
            times.response.count(time);
        }
        if !averages {
            return;
        }
        let of = &self.times;
        for (average, time) in
            [(&of.connect, connect), (&of.header, header), (&of.last_byte, response)]
        {
            if let Some(time) = time {
                let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
                average.add(millis, moment::millis(started + time));
            }
        }
    }

    /// Returns the average time to the head, in microseconds.
    pub fn header_time(&self) -> u64 {
        self.times.header.value.load(Ordering::Relaxed)
    }

    /// Returns the average time until it is connected, in microseconds.
    pub fn connect_time(&self) -> u64 {
        self.times.connect.value.load(Ordering::Relaxed)
    }

    /// Returns the average time to the last byte, in microseconds.
    pub fn last_byte_time(&self) -> u64 {
        self.times.last_byte.value.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
