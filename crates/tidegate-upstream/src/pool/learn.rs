//! Learned idle timeouts of origins. A connection that is used at the moment when its origin closes it costs a
//! repeated request, or an error where the request cannot be repeated: so it is closed before.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The idle timeouts that a thread has learned, by the servers' ids.
#[derive(Default)]
pub(crate) struct IdleTimeouts(HashMap<u64, IdleTimeoutEstimate>);

#[derive(Clone, Copy)]
struct IdleTimeoutEstimate {
    /// Idle time of a connection that was found closed, and when.
    idle: Duration,
    at: Instant,
    /// It was closed at the same idle time before: the timeout is confirmed.
    is_confirmed: bool,
}

/// Connections that were closed earlier say nothing: they are checked once a second.
const AGE_MIN: Duration = Duration::from_secs(2);
/// Idle times that differ by no more are the same.
const SAME: Duration = Duration::from_millis(1500);
/// Age after which a timeout may have changed.
const FORGET: Duration = Duration::from_secs(600);
/// Most servers whose timeouts are kept.
const SERVERS_MAX: usize = 4096;

impl IdleTimeouts {
    /// Records a connection that its origin closed after this idle time.
    pub(crate) fn closed(&mut self, server: u64, idle: Duration, now: Instant) {
        if idle < AGE_MIN {
            return;
        }
        if self.0.len() >= SERVERS_MAX {
            self.0.clear();
        }
        // Connections that are closed at the same moment may have had the same idle time by chance.
        let is_confirmed = self.0.get(&server).is_some_and(|before| {
            let apart = now.saturating_duration_since(before.at);
            before.idle.abs_diff(idle) <= SAME && apart > SAME && apart < FORGET
        });
        let shortest =
            self.0.get(&server).filter(|_| is_confirmed).map_or(idle, |b| b.idle.min(idle));
        self.0.insert(server, IdleTimeoutEstimate { idle: shortest, at: now, is_confirmed });
    }

    /// Returns the longest idle time of connections to a server, where it is known.
    pub(crate) fn limit(&self, server: u64, now: Instant) -> Option<Duration> {
        let estimate = self.0.get(&server).filter(|estimate| estimate.is_confirmed)?;
        let holds = now.saturating_duration_since(estimate.at) < FORGET;
        // It was closed up to a second before it was found so.
        holds.then(|| before(estimate.idle.saturating_sub(Duration::from_secs(1))))
    }
}

/// Returns the idle timeout that the origin announces (field `Keep-Alive`, RFC 2068 section 19.7.1.1: `timeout=5`).
pub(crate) fn announced(field: &[u8]) -> Option<Duration> {
    let text = std::str::from_utf8(field).ok()?;
    let number = text.split(',').find_map(|part| part.trim().strip_prefix("timeout="))?;
    Some(before(Duration::from_secs(number.trim().parse().ok()?)))
}

/// Returns a second less, or half of a short time.
fn before(time: Duration) -> Duration {
    time.saturating_sub(Duration::from_secs(1)).max(time / 2)
}
