//! The settings of a group and its servers.

use std::time::Duration;

use tidegate_rt::net::Addr;

/// Parameters of `server` in an `upstream` block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerOptions {
    /// Its share of the requests relative to the other servers'.
    pub weight: u32,
    /// Most requests at once; 0 for no limit.
    pub max_conns: u32,
    /// Failures within `fail_timeout` that make it unavailable; 0 never.
    pub max_fails: u32,
    /// Span in which failures are counted, and for which the server then is unavailable.
    pub fail_timeout: Duration,
    /// Span in which a server that has recovered grows to its weight; zero: at once.
    pub slow_start: Duration,
    /// It is used only when no other server is available.
    pub backup: bool,
    /// It is never used.
    pub down: bool,
    /// It gets only requests that are bound to it (`sticky`).
    pub drain: bool,
    /// Its route for `sticky`; without one a hash of its address.
    pub route: Option<Box<str>>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            weight: 1,
            max_conns: 0,
            max_fails: 1,
            fail_timeout: Duration::from_secs(10),
            slow_start: Duration::ZERO,
            backup: false,
            down: false,
            drain: false,
            route: None,
        }
    }
}

/// One address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PeerSpec<'a> {
    /// The server as written, of which this is one address.
    pub server: &'a str,
    pub address: &'a Addr,
    pub options: ServerOptions,
    /// Id of the server, if it is one with a name.
    pub parent: Option<u32>,
}

/// How a group chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BalancingMethod {
    /// Smooth weighted round robin.
    #[default]
    RoundRobin,
    /// Fewest requests in progress by weight.
    LeastConnections,
    /// Shortest average time and fewest requests in progress by weight.
    LeastTime(TimeKind),
    /// By the client's address: the first three bytes of IPv4, all of IPv6.
    IpHash,
    /// By a key.
    Hash,
    /// By a key on a ring (ketama).
    HashConsistent,
    /// At random by weight.
    Random,
    /// The less busy of two random ones.
    RandomTwo,
    /// The faster of two random ones.
    RandomTwoTime(TimeKind),
}

/// The time that `least_time` compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeKind {
    /// Until the head of the response (`header`).
    Header {
        /// Requests in progress count as well.
        inflight: bool,
    },
    /// Until its last byte (`last_byte`).
    LastByte {
        /// Requests in progress count as well.
        inflight: bool,
    },
    /// Until a session's connection is established (`connect`).
    Connect {
        /// Requests in progress count as well.
        inflight: bool,
    },
}

impl TimeKind {
    /// Returns whether requests in progress count (`inflight`).
    pub fn inflight(self) -> bool {
        match self {
            TimeKind::Header { inflight }
            | TimeKind::LastByte { inflight }
            | TimeKind::Connect { inflight } => inflight,
        }
    }
}

impl BalancingMethod {
    /// Returns the time that the choice depends on.
    pub fn time(self) -> Option<TimeKind> {
        match self {
            BalancingMethod::LeastTime(kind) | BalancingMethod::RandomTwoTime(kind) => Some(kind),
            _ => None,
        }
    }

    /// Returns whether the requests in progress decide.
    pub fn counts(self) -> bool {
        let busy_matters =
            matches!(self, BalancingMethod::LeastConnections | BalancingMethod::RandomTwo);
        busy_matters || self.time().is_some()
    }
}

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The peer responded.
    Success,
    /// It counts towards `max_fails`.
    Failure,
    /// Neither (such as a 404 after which another server was tried).
    Neutral,
}

/// Whether requests can be bound to servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stickiness {
    /// Requests cannot be bound.
    #[default]
    None,
    /// By the server's route, or the hash of its address.
    Routes,
}

/// How servers may change while the group exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mutability {
    /// They never change.
    #[default]
    Fixed,
    /// By name servers, health checks or commands; their requests are counted.
    Changing,
}

/// `keepalive` and its companions of an `upstream` block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Idle connections kept per thread; 0 keeps none. More are kept only for a moment.
    pub idle_max: usize,
    /// `keepalive … local`: only the location that opened a connection uses it again.
    pub local: bool,
    /// `keepalive_requests`.
    pub requests_max: u64,
    /// `keepalive_time`: age after which a connection is closed behind its request.
    pub age_max: Duration,
    /// `keepalive_timeout`: idle time after which it is closed.
    pub idle_time_max: Duration,
}

impl Keepalive {
    /// No connection is kept.
    pub const OFF: Keepalive = Keepalive { idle_max: 0, ..Keepalive::DEFAULT };
    /// nginx's defaults since 1.29.7, except for the number: 32 idle connections are fewer than the requests that a
    /// busy thread has in progress, and each one too many is a handshake with every request.
    pub const DEFAULT: Keepalive = Keepalive {
        idle_max: 512,
        local: true,
        requests_max: 1000,
        age_max: Duration::from_secs(3600),
        idle_time_max: Duration::from_secs(60),
    };
}
