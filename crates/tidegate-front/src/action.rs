//! How a connection continues after its requests: the value that a protocol's driver returns to the connection's task.

use std::time::Duration;

use tidegate_core::LocalFuture;
use tidegate_core::settings::Settings;

/// How a connection continues after its requests so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionAction {
    /// Waits for the next request without any buffer.
    Idle,
    /// The next request has begun to arrive.
    Next,
    /// Closes; what the client may still send has not been read.
    Linger(Linger),
    Close,
    /// Closes with a reset (`reset_timedout_connection`).
    Reset,
}

/// How long a connection is read on before it is closed, as the request's location configures it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Linger {
    /// `lingering_time`: the total.
    pub time: Duration,
    /// `lingering_timeout`: the wait for the next bytes.
    pub wait: Duration,
    /// Nothing is read: what a flood still sends stays in the socket, where it costs nothing.
    pub is_deaf: bool,
}

impl Linger {
    /// For a client that has sent a flood. It reads the reason (GOAWAY) meanwhile, and cannot begin the next connection
    /// at once if it waits for the end of this one.
    pub(crate) const DEAF: Linger =
        Linger { time: Duration::from_secs(1), wait: Duration::from_secs(1), is_deaf: true };

    pub(crate) fn of(settings: &Settings) -> Linger {
        Linger { time: settings.lingering_time, wait: settings.lingering_timeout, is_deaf: false }
    }
}

/// Requests in progress.
pub(crate) type Serving = LocalFuture<'static, ConnectionAction>;

/// How serving a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServeResult {
    Closed,
    /// The connection is idle and is to wait without a task.
    Parked,
}
