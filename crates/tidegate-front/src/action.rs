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
}

impl Linger {
    pub(crate) fn of(settings: &Settings) -> Linger {
        Linger { time: settings.lingering_time, wait: settings.lingering_timeout }
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
