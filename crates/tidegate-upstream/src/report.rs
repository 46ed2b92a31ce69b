//! The attempts of a request, for the `$upstream_*` variables.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use crate::peers::{Group, InFlight, Peer};

/// A report shared by a request's log variables and the body that is still read.
pub type SharedReport = Rc<RefCell<Report>>;

/// One attempt at one server.
pub struct Attempt {
    at: AttemptPeer,
    /// The first one behind an internal redirect: separated by ` : `.
    first_of_fetch: bool,
    started: Instant,
    /// `$upstream_status`; 0 while there is none.
    pub status: u16,
    /// Milliseconds from the start until the connection was established; `u32::MAX` is none.
    pub connect_millis: u32,
    /// Milliseconds from the start until the head had arrived.
    pub header_millis: u32,
    /// Milliseconds from the start until the attempt ended.
    pub response_millis: u32,
    /// Bytes of the body, without its framing.
    pub response_length: u64,
    /// Bytes sent, the head included.
    pub bytes_sent: u64,
    /// Bytes received, the head included.
    pub bytes_received: u64,
    /// Measures the request's time for `least_time`.
    in_flight: Option<InFlight>,
    /// The balancing method measures times.
    is_measured: bool,
    /// The server's requests are counted.
    is_counted: bool,
}

/// The destination of an attempt.
enum AttemptPeer {
    Peer(Arc<Peer>),
    /// No server of this group was available.
    NoPeer(Arc<Group>),
}

/// No value.
pub(crate) const NONE: u32 = u32::MAX;

/// All attempts of a request.
#[derive(Default)]
pub struct Report {
    /// Most requests need one.
    attempts: SmallVec<[Attempt; 1]>,
    next_is_first: bool,
    /// The next fetch is for the rest of a response: it counts as one with the fetch before it.
    continues: bool,
    /// The URL sent to the last server, for log lines of another location that responds in its place; empty
    /// otherwise.
    pub request_url: String,
}

impl Report {
    /// Makes an empty report.
    pub fn shared() -> SharedReport {
        Rc::default()
    }

    /// Begins another fetch of the same request.
    pub fn begin_fetch(&mut self) {
        let continues = std::mem::take(&mut self.continues);
        self.request_url.clear();
        self.next_is_first = !self.attempts.is_empty() && !continues;
    }

    /// Marks the next fetch as one for the rest of a response that broke off.
    pub fn continue_fetch(&mut self) {
        self.continues = true;
    }

    /// Begins an attempt; without a server it is one that found none.
    pub fn begin(&mut self, group: &Arc<Group>, peer: Option<&Arc<Peer>>, now: Instant) {
        let first_of_fetch = std::mem::take(&mut self.next_is_first);
        self.attempts.push(Attempt {
            at: match peer {
                Some(peer) => AttemptPeer::Peer(peer.clone()),
                None => AttemptPeer::NoPeer(group.clone()),
            },
            first_of_fetch,
            started: now,
            status: 0,
            connect_millis: NONE,
            header_millis: NONE,
            response_millis: NONE,
            response_length: 0,
            bytes_sent: 0,
            bytes_received: 0,
            in_flight: group
                .method
                .time()
                .zip(peer)
                .map(|(kind, peer)| InFlight::begin(peer, kind, now)),
            is_measured: group.method.time().is_some(),
            is_counted: group.is_changing(),
        });
    }

    /// Returns the attempt in progress.
    pub fn last(&mut self) -> Option<&mut Attempt> {
        self.attempts.last_mut()
    }

    /// Returns all attempts so far, in order.
    pub fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// Writes a list: values of one fetch separated by `, `, fetches by ` : `. `false` without attempts.
    pub fn list(&self, out: &mut Vec<u8>, mut value: impl FnMut(&Attempt, &mut Vec<u8>)) -> bool {
        for (index, attempt) in self.attempts.iter().enumerate() {
            if index > 0 {
                out.extend_from_slice(if attempt.first_of_fetch { b" : " } else { b", " });
            }
            value(attempt, out);
        }
        !self.attempts.is_empty()
    }
}

impl Attempt {
    /// Returns the milliseconds since the attempt began.
    fn passed(&self, now: Instant) -> u32 {
        let passed = now.saturating_duration_since(self.started).as_millis();
        u32::try_from(passed).unwrap_or(NONE - 1)
    }

    /// Records that the connection was established (`$upstream_connect_time`).
    pub fn connected(&mut self, now: Instant) {
        self.connect_millis = self.passed(now);
        if self.in_flight.as_ref().is_some_and(|request| request.connected(now)) {
            self.in_flight = None;
        }
    }

    /// Records that the head has arrived (`$upstream_header_time`).
    pub fn header_received(&mut self, status: u16, now: Instant) {
        self.status = status;
        self.header_millis = self.passed(now);
        if self.in_flight.as_ref().is_some_and(|request| request.header(now)) {
            self.in_flight = None;
        }
    }

    /// Records that the first byte of a session has arrived (`$upstream_first_byte_time`).
    pub fn first_byte_received(&mut self, now: Instant) {
        self.header_received(self.status, now);
    }

    /// Records the end of the attempt (`$upstream_response_time`, `$upstream_session_time`). Only the first call
    /// counts.
    pub fn finished(&mut self, now: Instant) {
        if self.response_millis == NONE {
            self.response_millis = self.passed(now);
            if let Some(in_flight) = self.in_flight.take() {
                in_flight.last_byte(now);
            }
        }
    }

    /// Returns when the attempt began.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Returns how long after its begin the connection was established, the head had arrived, and the attempt ended; each is
    /// `None` where it did not come to that. The resolution is a millisecond.
    pub fn times(&self) -> [Option<Duration>; 3] {
        let times = [self.connect_millis, self.header_millis, self.response_millis];
        times.map(|millis| (millis != NONE).then(|| Duration::from_millis(u64::from(millis))))
    }

    /// Returns the server of the attempt; `None` when none was available.
    pub fn peer(&self) -> Option<&Arc<Peer>> {
        match &self.at {
            AttemptPeer::Peer(peer) => Some(peer),
            AttemptPeer::NoPeer(_) => None,
        }
    }

    /// Returns the server's address, or the group's name when no server was available.
    pub fn address(&self) -> &str {
        match &self.at {
            AttemptPeer::Peer(peer) => &peer.text,
            AttemptPeer::NoPeer(group) => &group.name,
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let (true, AttemptPeer::Peer(peer)) = (self.is_counted, &self.at) {
            peer.statistics.add(self.status, self.bytes_sent, self.bytes_received);
            peer.count_times(self.started, self.times(), !self.is_measured);
        }
    }
}

/// Writes milliseconds as seconds with three digits; `-` for none.
pub fn write_millis(millis: u32, out: &mut Vec<u8>) {
    if millis == NONE {
        out.push(b'-');
        return;
    }
    out.extend_from_slice(format!("{}.{:03}", millis / 1000, millis % 1000).as_bytes());
}
