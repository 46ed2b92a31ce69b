//! What a connection is doing, where it is parked, and what others want of it: values that know no socket.

use std::time::{Duration, Instant};

use tidegate_core::client::CancelCode;

/// What a connection is doing.
///
/// ```text
///            a request begins                  cancel
///   Idle ──────────────────────▶ Serving ──────────────▶ Cancelled
///     ▲                             │
///     └─────────────────────────────┘
///        nothing more has arrived
/// ```
///
/// Invariant: `Cancelled` is final, the connection ends behind the request. Who drops the future of a request leaves
/// `Serving` behind; the connection is dropped with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    /// No request has begun to arrive since then.
    Idle { since: Instant },
    /// A request is in progress, or several where the protocol has streams.
    Serving,
    /// The only request in progress was given up (`return 444`, a client that is too slow).
    Cancelled { code: CancelCode },
}

impl ConnectionState {
    /// Since when it is idle; `None` while requests are in progress.
    pub(crate) fn idle_since(self) -> Option<Instant> {
        match self {
            ConnectionState::Idle { since } => Some(since),
            ConnectionState::Serving | ConnectionState::Cancelled { .. } => None,
        }
    }

    /// The state once its request is given up. Of several codes the first one counts; without a request nothing
    /// changes.
    pub(crate) fn cancelled(self, code: CancelCode) -> ConnectionState {
        match self {
            ConnectionState::Serving => ConnectionState::Cancelled { code },
            ConnectionState::Idle { .. } | ConnectionState::Cancelled { .. } => self,
        }
    }
}

/// How long a connection may stay, and must.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdleLimits {
    /// When it has been idle too long (`keepalive_timeout`, `client_header_timeout`); looked at by the sweep of
    /// [`crate::parked_loop`], so that an idle connection needs no timer.
    pub until: Instant,
    /// Until when it is not closed for the sake of others (`keepalive_min_timeout`).
    pub kept_until: Instant,
}

impl IdleLimits {
    /// Those of a connection that was `accepted` and has `patience` for its first request.
    pub(crate) fn new(accepted: Instant, patience: Duration) -> IdleLimits {
        IdleLimits { until: accepted + patience, kept_until: accepted }
    }

    /// The limits behind a response. A `keepalive_min_timeout` of zero leaves that of the request before.
    pub(crate) fn renewed(
        self,
        now: Instant,
        timeout: Duration,
        min_timeout: Duration,
    ) -> IdleLimits {
        let kept_until = if min_timeout.is_zero() { self.kept_until } else { now + min_timeout };
        IdleLimits { until: now + timeout, kept_until }
    }
}

/// A connection's relation to the idle poller, the set of sockets that [`crate::parking`] watches without tasks.
///
/// ```text
///                park                    check out (waits for something else than its client)
///   Owned ──────────────────▶ Parked ─────────────────────▶ CheckedOut
///     ▲                        │   ▲                          │   │
///     │  leave, forget         │   └──────────────────────────┘   │
///     ├────────────────────────┘        repark, answered          │
///     └───────────────────────────────────────────────────────────┘
///          leave: its client sends or closes, or it ends
/// ```
///
/// Invariant: the poller's set and its table of members have exactly those that are not `Owned`, under `key`. A task
/// serves those that are not `Parked`, but for the moment in which a parked one is served on the spot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParkState {
    /// A task has it, and watches its socket.
    Owned,
    /// The poller watches its socket; there is no task.
    Parked { key: u32 },
    /// The poller watches its socket, while a task serves one request of it.
    CheckedOut { key: u32 },
}

/// What somebody else wants of a connection that has a task, which sees it when it is polled next. A later one in this
/// list outweighs those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Order {
    #[default]
    None,
    /// Give up the task and wait in the idle poller, once it is idle.
    Park,
    /// Close before the next request: shutdown, or room is needed.
    CloseWhenIdle,
    /// End at once, whatever it does.
    Abort,
}
