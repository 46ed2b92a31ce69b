//! A connection on its way from one thread's loop to another's.

use std::time::{Duration, Instant};

use tidegate_rt::net::Stream;

/// A connection without an event loop.
#[derive(Debug)]
pub(crate) struct PackedConnection {
    pub stream: Stream,
    pub opened: Instant,
    pub requests: u64,
    pub idle_announced: Option<Duration>,
    pub since: Instant,
    pub until: Instant,
}
