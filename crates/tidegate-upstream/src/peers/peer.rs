//! One server's address with all that is counted of it. Lives on over reloads.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use tidegate_rt::net::Addr;

use super::options::TimeKind;

/// One address that requests can go to.
#[derive(Debug)]
pub struct Peer {
    /// Different from all others in the process, those that are gone included.
    pub id: u64,
    pub address: Addr,
    /// As `$upstream_addr` shows it: `127.0.0.1:80`, `unix:/path`.
    pub text: Box<str>,
    /// The server as written, of which this is one address.
    pub server: Box<str>,
    pub figures: Figures,
    active: AtomicU32,
    /// There are failures that a success would end.
    troubled: AtomicBool,
    health: AtomicU8,
    times: Times,
}

/// What is counted of a server, for status pages. All since the process began.
#[derive(Debug, Default)]
pub struct Figures {
    pub requests: AtomicU64,
    /// By the first digit of their status.
    pub responses: [AtomicU64; 5],
    pub sent: AtomicU64,
    pub received: AtomicU64,
    pub fails: AtomicU64,
    /// Times that it became unavailable by failures.
    pub unavailable: AtomicU64,
    pub checks: AtomicU64,
    pub checks_failed: AtomicU64,
    /// Times that it became unhealthy by checks.
    pub unhealthy: AtomicU64,
    /// 0: no check yet; 1: the last one failed; 2: it passed.
    pub last_check: AtomicU8,
    /// Milliseconds since 1970 of the last request; 0: none.
    pub selected: AtomicU64,
    /// Milliseconds since 1970 since which it is unavailable; 0: it is not.
    pub down_since: AtomicU64,
    /// Milliseconds of former unavailability.
    pub down_time: AtomicU64,
}

/// What checks say of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Nobody checks it, or the last checks passed.
    Fine,
    /// The first check is still to come, and it has to pass (`mandatory`).
    Checking,
    Unhealthy,
}

/// Average times in microseconds, 0 before the first.
#[derive(Debug, Default)]
struct Times {
    header: AtomicU64,
    last_byte: AtomicU64,
}

/// A new time counts for so much of an average: one part in so many.
const AVERAGE_OVER: u64 = 8;

impl Peer {
    pub fn new(server: &str, address: Addr) -> Peer {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Peer {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            text: address_text(&address).into(),
            address,
            server: server.into(),
            figures: Figures::default(),
            active: AtomicU32::new(0),
            troubled: AtomicBool::new(false),
            health: AtomicU8::new(0),
            times: Times::default(),
        }
    }

    /// Requests in progress, where the group counts them.
    pub fn active(&self) -> u32 {
        self.active.load(Ordering::Relaxed)
    }

    pub(super) fn enter(&self) {
        self.active.fetch_add(1, Ordering::Relaxed);
        self.figures.requests.fetch_add(1, Ordering::Relaxed);
        self.figures.selected.store(tidegate_rt::clock::unix_millis(), Ordering::Relaxed);
    }

    pub(super) fn leave(&self) {
        self.active.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn is_troubled(&self) -> bool {
        self.troubled.load(Ordering::Relaxed)
    }

    pub(super) fn set_troubled(&self, troubled: bool) {
        self.troubled.store(troubled, Ordering::Relaxed);
    }

    pub fn health(&self) -> Health {
        match self.health.load(Ordering::Relaxed) {
            0 => Health::Fine,
            1 => Health::Checking,
            _ => Health::Unhealthy,
        }
    }

    pub(super) fn set_health(&self, health: Health) {
        let number = match health {
            Health::Fine => 0,
            Health::Checking => 1,
            Health::Unhealthy => 2,
        };
        self.health.store(number, Ordering::Relaxed);
    }

    /// A head came so many milliseconds after the request.
    pub fn note_header(&self, millis: u32) {
        average(&self.times.header, millis);
    }

    /// An answer ended so many milliseconds after the request.
    pub fn note_last_byte(&self, millis: u32) {
        average(&self.times.last_byte, millis);
    }

    /// The time that the next request will take, in microseconds, as far as the past tells.
    pub(super) fn expected_time(&self, kind: TimeKind) -> u64 {
        match kind {
            TimeKind::Header { .. } => self.header_time(),
            TimeKind::LastByte { .. } => self.last_byte_time(),
        }
    }

    /// Failures keep it from being tried from now on.
    pub(super) fn became_unavailable(&self) {
        self.figures.unavailable.fetch_add(1, Ordering::Relaxed);
        let now = tidegate_rt::clock::unix_millis();
        let since = &self.figures.down_since;
        let _ = since.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(super) fn became_available(&self) {
        let since = self.figures.down_since.swap(0, Ordering::Relaxed);
        if since > 0 {
            let passed = tidegate_rt::clock::unix_millis().saturating_sub(since);
            self.figures.down_time.fetch_add(passed, Ordering::Relaxed);
        }
    }

    /// Average time to the head, in microseconds.
    pub fn header_time(&self) -> u64 {
        self.times.header.load(Ordering::Relaxed)
    }

    /// Average time to the last byte, in microseconds.
    pub fn last_byte_time(&self) -> u64 {
        self.times.last_byte.load(Ordering::Relaxed)
    }
}

/// Threads that come at once may lose one another's time: it is an average.
fn average(place: &AtomicU64, millis: u32) {
    let new = u64::from(millis) * 1000;
    let old = place.load(Ordering::Relaxed);
    let next = match old {
        0 => new.max(1),
        old => (old * (AVERAGE_OVER - 1) + new) / AVERAGE_OVER,
    };
    place.store(next.max(1), Ordering::Relaxed);
}

/// An address as logs and variables show it.
pub fn address_text(address: &Addr) -> String {
    match address {
        Addr::Inet(address) => address.to_string(),
        Addr::Unix(path) => format!("unix:{}", path.display()),
    }
}
