//! The results of a run of the load.

use std::time::{Duration, Instant};

use crate::histogram::Histogram;

/// Counts of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// Correct responses.
    pub requests: u64,
    /// Wrong, broken or missing responses.
    pub errors: u64,
    /// Errors that are bodies other than the object's.
    pub damaged: u64,
    /// Requests sent again because their connection ended before the response began; these are not errors.
    pub reconnects: u64,
    /// Connections that were opened.
    pub opened: u64,
    /// Those whose handshake resumed a session of TLS.
    pub resumed: u64,
    /// Correct responses marked `X-Cache: HIT`.
    pub hits: u64,
    /// Body bytes of correct responses.
    pub bytes: u64,
    /// From the first request to the last response.
    pub elapsed: Duration,
    pub latency: Histogram,
    /// Correct responses of each connection of the plan.
    pub served: Vec<u64>,
    /// A description of the first error.
    pub first_error: Option<String>,
    /// When the first [`LOSSES_MAX`] errors happened, and which they were.
    pub losses: Vec<(Instant, Loss)>,
}

/// The reason why a response was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// No connection could be opened.
    Refused,
    /// The connection, opened then, ended before the response's end, or sent invalid data.
    Broken { opened_at: Instant },
    /// Another status or length than expected.
    Wrong,
    /// A body that is not the object's.
    Damaged,
}

impl Outcome {
    /// Correct responses per second.
    pub(crate) fn requests_per_second(&self) -> f64 {
        self.requests as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Counts a correct response to a connection of the plan.
    pub(crate) fn serve(&mut self, connection: usize) {
        self.requests += 1;
        if self.served.len() <= connection {
            self.served.resize(connection + 1, 0);
        }
        self.served[connection] += 1;
    }

    /// Returns the mean of the responses to each of `connections`, divided by those to the slowest one: 1 where all were
    /// served alike.
    pub(crate) fn unevenness(&self, connections: usize) -> f64 {
        let slowest = match self.served.len() < connections {
            true => 0,
            false => self.served.iter().min().copied().unwrap_or(0),
        };
        self.requests as f64 / connections.max(1) as f64 / slowest.max(1) as f64
    }

    /// Errors beside those that the end of a process explains, which lasted from `begin` to `end`:
    /// connections open at that time may break. Errors that were not kept count.
    pub(crate) fn unexplained(&self, begin: Instant, end: Instant) -> u64 {
        let explained = self.losses.iter().filter(|(at, loss)| {
            matches!(loss, Loss::Broken { opened_at } if *opened_at <= end && *at >= begin)
        });
        self.errors - explained.count() as u64
    }

    /// Counts a new connection.
    pub(crate) fn open(&mut self, is_resumed: bool) {
        self.opened += 1;
        self.resumed += u64::from(is_resumed);
    }

    pub(crate) fn lose(&mut self, loss: Loss, at: Instant, reason: impl Into<String>) {
        self.errors += 1;
        self.damaged += u64::from(loss == Loss::Damaged);
        self.first_error.get_or_insert_with(|| reason.into());
        if self.losses.len() < LOSSES_MAX {
            self.losses.push((at, loss));
        }
    }
}

/// More are counted but not kept.
const LOSSES_MAX: usize = 10_000;
