//! A connection on its way from one thread's loop to another's.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tidegate_rt::net::Stream;
use tidegate_rt::timer::Deadline;

use super::fit::Fit;
use super::shelf::Idle;
use crate::Io;
use crate::connection::OriginConnection;

/// A connection that can be sent to another thread; [`PackedConnection::detach`] takes it from its loop before. Boxed, as
/// it goes through many hands.
#[derive(Debug)]
pub(crate) struct PackedConnection {
    pub stream: Stream,
    pub deadline: Deadline,
    pub opened: Instant,
    pub requests: u64,
    pub idle_announced: Option<Duration>,
    pub since: Instant,
    pub until: Instant,
}

impl PackedConnection {
    /// Packs an idle connection for another thread. `None`: the socket is still in use, and is closed behind that.
    pub(super) fn pack(idle: Idle<Box<OriginConnection>>) -> Option<Box<PackedConnection>> {
        let Idle { connection, since, until, .. } = idle;
        let parcel = PackedConnection::of(*connection, since, until)?;
        parcel.detach();
        Some(parcel)
    }

    /// Packs a connection that became idle at `since` and is closed at `until`; its loop may still watch the socket, and
    /// have its timer. `None`: the socket is still in use, and is closed behind that.
    pub(super) fn of(
        connection: OriginConnection,
        since: Instant,
        until: Instant,
    ) -> Option<Box<PackedConnection>> {
        let OriginConnection { io, deadline, opened, requests, idle_announced, .. } = connection;
        let Io::Plain(stream) = io else { return None };
        let stream = Rc::try_unwrap(stream).ok()?;
        deadline.clear();
        let packed =
            PackedConnection { stream, deadline, opened, requests, idle_announced, since, until };
        Some(Box::new(packed))
    }

    /// Deregisters the connection from the loop of this thread.
    pub(crate) fn detach(&self) {
        self.stream.unwatch();
        self.deadline.release();
    }

    /// Returns the packed connection as an idle one, since it was not wanted.
    pub(super) fn unpack(self, fit: Fit) -> Idle<Box<OriginConnection>> {
        let (since, until) = (self.since, self.until);
        Idle { connection: self.open(), fit, since, until }
    }

    /// Returns the connection for use by this thread's loop.
    pub(crate) fn open(self) -> Box<OriginConnection> {
        let PackedConnection { stream, deadline, opened, requests, idle_announced, .. } = self;
        let io = Io::Plain(Rc::new(stream));
        Box::new(OriginConnection { io, deadline, opened, requests, idle_announced, place: None })
    }
}
