//! The states of a connection (what it is doing, where it is parked) and the orders it is given: values that know no
//! socket.

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
/// Invariant: `Cancelled` is final, the connection ends behind the request. Where the future of a request is dropped
/// the state stays `Serving`; the connection is dropped with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    /// No request has begun to arrive since `since`.
    Idle { since: Instant },
    /// A request is in progress, or several where the protocol has streams.
    Serving,
    /// The only request in progress was given up (`return 444`, a client that is too slow).
    Cancelled { code: CancelCode },
}

impl ConnectionState {
    /// Returns since when it is idle; `None` while requests are in progress.
    pub(crate) fn idle_since(self) -> Option<Instant> {
        match self {
            ConnectionState::Idle { since } => Some(since),
            ConnectionState::Serving | ConnectionState::Cancelled { .. } => None,
        }
    }

    /// Returns the state once its request is given up. Of several codes the first one counts; without a request nothing
    /// changes.
    pub(crate) fn cancelled(self, code: CancelCode) -> ConnectionState {
        match self {
            ConnectionState::Serving => ConnectionState::Cancelled { code },
            ConnectionState::Idle { .. } | ConnectionState::Cancelled { .. } => self,
        }
    }
}

/// How long a connection may stay idle, and how long it must be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdleLimits {
    /// The end of its idle time (`keepalive_timeout`, `client_header_timeout`). The sweep of [`crate::parked_loop`]
    /// compares it, so that an idle connection needs no timer.
    pub until: Instant,
    /// Until then it is not closed to make room for others (`keepalive_min_timeout`).
    pub kept_until: Instant,
}

impl IdleLimits {
    /// Returns the limits of a connection that was `accepted` and may wait `patience` for its first request.
    pub(crate) fn new(accepted: Instant, patience: Duration) -> IdleLimits {
        IdleLimits { until: accepted + patience, kept_until: accepted }
    }

    /// Returns the limits after a response. A `keepalive_min_timeout` of zero leaves the limit of the request before.
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
///   New, its request is there          check out (waits for something other than its client)
///     │   └──────────────────────┬──────────────────────────────────┐
///     ▼                park      ▼     check out                    ▼
///   Owned ──────────────────▶ Parked ─────────────────────▶ CheckedOut
///     ▲                        │   ▲                          │   │
///     │  leave, forget         │   └──────────────────────────┘   │
///     ├────────────────────────┘        repark, responded         │
///     └───────────────────────────────────────────────────────────┘
///          leave: its client sends or closes, or it ends
/// ```
///
/// Invariant: the poller's set and its table of members have exactly the connections that are `Parked` or `CheckedOut`,
/// under `key`. A task serves those that are `Owned` or `CheckedOut`. The others are served on the spot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParkState {
    /// A request of a connection that was just accepted is served on the spot; nothing watches its socket.
    New,
    /// A task owns it, and watches its socket.
    Owned,
    /// The poller watches its socket; there is no task.
    Parked { key: u32 },
    /// The poller watches its socket, while a task serves one of its requests.
    CheckedOut { key: u32 },
}

/// An order for a connection that has a task, which sees it at its next poll. A later variant outweighs the earlier
/// ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Order {
    #[default]
    None,
    /// Give up the task and wait in the idle poller, once the connection is idle.
    Park,
    /// Close before the next request: shutdown, or room is needed.
    CloseWhenIdle,
    /// End at once, in any state.
    Abort,
}
