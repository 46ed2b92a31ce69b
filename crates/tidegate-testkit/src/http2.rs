//! What the clients and the origins of scripts have in common on a connection of HTTP/2.

use std::sync::{Condvar, Mutex, MutexGuard};

use tidegate_h2::{Connection, Role, StreamId};

use crate::bell::{Deadline, Failure, locked};
use crate::wire::Stream;

/// A connection, and the socket that it is sent to.
#[derive(Debug)]
pub(crate) struct Line<R: Role> {
    /// The state of the protocol.
    pub core: Connection<R>,
    /// Where its output goes.
    pub out: Stream,
    /// Whether nothing is received any more.
    pub is_over: bool,
}

/// The outcome of sending a part of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// All of it was sent.
    All,
    /// The stream takes no more: it was reset, or has ended.
    Refused,
}

impl<R: Role> Line<R> {
    /// A connection that begins.
    pub(crate) fn new(core: Connection<R>, out: Stream) -> Self {
        Self { core, out, is_over: false }
    }

    /// Sends what the protocol has to send; returns whether the socket took it.
    pub(crate) fn flush(&mut self) -> bool {
        let mut bytes = Vec::new();
        self.core.take_output(&mut bytes);
        bytes.is_empty() || self.out.write_all(&bytes).is_ok()
    }
}

/// Sends a part of a body as windows allow. `changed` is notified when they may have opened, and at the end.
pub(crate) fn send<S, R: Role>(
    state: &Mutex<S>,
    line: impl Fn(&mut S) -> &mut Line<R>,
    changed: &Condvar,
    deadline: Deadline,
    (stream, mut bytes, end): (StreamId, &[u8], bool),
) -> Result<Sent, Failure> {
    let mut state: MutexGuard<'_, S> = locked(state);
    loop {
        let at = line(&mut state);
        let Ok(sent) = at.core.send_data(stream, bytes, end) else { return Ok(Sent::Refused) };
        at.flush();
        bytes = &bytes[sent..];
        if bytes.is_empty() {
            return Ok(Sent::All);
        }
        if at.is_over {
            return Err(Failure::new("the connection has ended"));
        }
        let waited = changed.wait_timeout(state, deadline.remaining()?);
        state = waited.map_err(|_| Failure::new("a thread of the connection panicked"))?.0;
    }
}
