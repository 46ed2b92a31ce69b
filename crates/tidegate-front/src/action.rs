//! How a connection goes on, as a protocol's driver tells those who have the connection.

use std::time::Duration;

use tidegate_core::LocalFuture;
use tidegate_core::settings::Settings;

/// How the connection goes on after its requests so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionAction {
    /// Wait for the next request without any memory.
    Idle,
    /// The next request has begun to arrive.
    Next,
    /// Close; what the client may still send was not read.
    Linger(Linger),
    Close,
    /// Close without a word (`reset_timedout_connection`).
    Reset,
}

/// How long is read on before a connection is closed, as the request's location says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Linger {
    /// `lingering_time`: in all.
    pub time: Duration,
    /// `lingering_timeout`: for the next bytes.
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
    /// It is idle and shall wait without a task.
    Parked,
}
