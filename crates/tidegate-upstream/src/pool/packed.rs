//! A connection on its way from one thread's loop to another's.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tidegate_rt::net::Stream;
use tidegate_rt::timer::Deadline;

use super::fit::Fit;
use super::shelf::Idle;
use crate::Io;
use crate::connection::OriginConnection;

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

impl PackedConnection {
    /// Deregisters the socket from the loop. `None`: the socket is still in use, and is closed behind that.
    pub(super) fn pack(idle: Idle<Box<OriginConnection>>) -> Option<PackedConnection> {
        let Idle { connection, since, until, .. } = idle;
        let parcel = PackedConnection::of(*connection, since, until)?;
        parcel.stream.unwatch();
        Some(parcel)
    }

    /// Packs a connection that became idle at `since` and is closed at `until`; the loop may still watch its socket.
    /// `None`: the socket is still in use, and is closed behind that.
    pub(super) fn of(
        connection: OriginConnection,
        since: Instant,
        until: Instant,
    ) -> Option<PackedConnection> {
        let OriginConnection { io, opened, requests, idle_announced, .. } = connection;
        let Io::Plain(stream) = io else { return None };
        let stream = Rc::try_unwrap(stream).ok()?;
        Some(PackedConnection { stream, opened, requests, idle_announced, since, until })
    }

    /// Returns the packed connection as an idle one, since it was not wanted.
    pub(super) fn unpack(self, fit: Fit) -> Idle<Box<OriginConnection>> {
        let (since, until) = (self.since, self.until);
        Idle { connection: self.open(), fit, since, until }
    }

    /// Registers the connection with this thread's loop.
    pub(crate) fn open(self) -> Box<OriginConnection> {
        let PackedConnection { stream, opened, requests, idle_announced, .. } = self;
        let io = Io::Plain(Rc::new(stream));
        Box::new(OriginConnection {
            io,
            deadline: Deadline::new(),
            opened,
            requests,
            idle_announced,
            place: None,
        })
    }
}
