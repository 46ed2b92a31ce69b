//! What an endpoint reports of a connection.

use std::fmt;
use std::rc::Rc;

use quinn_proto::{ConnectionError, Dir, VarInt};

use crate::connection::Connection;

/// What serves a connection. It is called by the endpoint's task, and may use the connection at once.
pub trait Served {
    /// Handles an event.
    fn event(&self, connection: &Rc<Connection>, event: Event);
}

/// The number of a stream (RFC 9000 section 2.1): its two lowest bits are the initiator and the direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// The direction of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Both sides send.
    Both,
    /// The initiator sends.
    One,
}

/// Something that has happened to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The server is chosen: [`Connection::handshake`] returns its parameters. Early data may follow.
    Handshake,
    /// The handshake is complete.
    Connected,
    /// The peer has opened streams: [`Connection::accept`] returns them.
    Opened(Direction),
    /// The peer allows more streams: [`Connection::open`] may succeed again.
    Available(Direction),
    /// Bytes, the end or a reset of a stream have arrived.
    Readable(StreamId),
    /// A stream on which less was written than wanted has room, or was stopped.
    Writable(StreamId),
    /// The peer wants no more of a stream; its error code.
    Stopped(StreamId, u64),
    /// All bytes of a finished stream have been acknowledged.
    Finished(StreamId),
    /// The connection has ended: the last event.
    Closed(Closed),
}

/// The side that ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClosedBy {
    /// [`Connection::close`].
    Us,
    /// The peer's application; its code.
    Peer(u64),
    /// The transport of either side, for an error; its code (RFC 9000 section 20.1).
    Transport(u64),
    /// A stateless reset: the peer has lost the connection's state.
    Reset,
    /// Nothing has arrived within the idle timeout.
    IdleTimeout,
}

/// The end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The side, with its error code.
    pub by: ClosedBy,
    /// The reason for the log.
    pub reason: String,
}

impl StreamId {
    /// Returns the stream's direction.
    pub fn direction(self) -> Direction {
        match self.0 & 2 {
            0 => Direction::Both,
            _ => Direction::One,
        }
    }

    /// Whether the server has opened it.
    pub fn is_of_server(self) -> bool {
        self.0 & 1 == 1
    }

    pub(crate) fn library(self) -> quinn_proto::StreamId {
        // Numbers come from the library; any other one is none of a stream.
        VarInt::from_u64(self.0).unwrap_or(VarInt::MAX).into()
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<quinn_proto::StreamId> for StreamId {
    fn from(id: quinn_proto::StreamId) -> StreamId {
        StreamId(VarInt::from(id).into_inner())
    }
}

impl From<Dir> for Direction {
    fn from(direction: Dir) -> Direction {
        match direction {
            Dir::Bi => Direction::Both,
            Dir::Uni => Direction::One,
        }
    }
}

impl From<Direction> for Dir {
    fn from(direction: Direction) -> Dir {
        match direction {
            Direction::Both => Dir::Bi,
            Direction::One => Dir::Uni,
        }
    }
}

impl From<ConnectionError> for Closed {
    fn from(error: ConnectionError) -> Closed {
        let by = match &error {
            ConnectionError::LocallyClosed => ClosedBy::Us,
            ConnectionError::ApplicationClosed(close) => {
                ClosedBy::Peer(close.error_code.into_inner())
            }
            ConnectionError::ConnectionClosed(close) => {
                ClosedBy::Transport(u64::from(close.error_code))
            }
            ConnectionError::TransportError(error) => ClosedBy::Transport(u64::from(error.code)),
            ConnectionError::Reset => ClosedBy::Reset,
            ConnectionError::TimedOut => ClosedBy::IdleTimeout,
            ConnectionError::VersionMismatch | ConnectionError::CidsExhausted => {
                ClosedBy::Transport(0)
            }
        };
        Closed { by, reason: error.to_string() }
    }
}

/// Translates an event of the library; `None` for those of datagrams (RFC 9221), which are not used.
pub(crate) fn translate(event: quinn_proto::Event) -> Option<Event> {
    use quinn_proto::StreamEvent;
    Some(match event {
        quinn_proto::Event::HandshakeDataReady => Event::Handshake,
        quinn_proto::Event::Connected => Event::Connected,
        quinn_proto::Event::ConnectionLost { reason } => Event::Closed(reason.into()),
        quinn_proto::Event::Stream(event) => match event {
            StreamEvent::Opened { dir } => Event::Opened(dir.into()),
            StreamEvent::Available { dir } => Event::Available(dir.into()),
            StreamEvent::Readable { id } => Event::Readable(id.into()),
            StreamEvent::Writable { id } => Event::Writable(id.into()),
            StreamEvent::Finished { id } => Event::Finished(id.into()),
            StreamEvent::Stopped { id, error_code } => {
                Event::Stopped(id.into(), error_code.into_inner())
            }
        },
        quinn_proto::Event::DatagramReceived | quinn_proto::Event::DatagramsUnblocked => {
            return None;
        }
    })
}
