//! What a connection reports.

use tidegate_fields::{HeadFault, Priority};

use crate::error::ErrorCode;

/// Something that was received. `'i` is the input's lifetime: bodies are not copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'i> {
    /// The head of a request is in [`Connection::head`](super::Connection::head). The stream counts from now on until
    /// [`Connection::close`](super::Connection::close).
    Head {
        /// The stream.
        stream: u64,
        /// No body and no trailer section follow.
        end: bool,
    },
    /// A piece of a body.
    Data {
        /// The stream.
        stream: u64,
        /// The piece; empty if only the end was left.
        bytes: &'i [u8],
        /// The body ends, and no trailer section follows.
        end: bool,
    },
    /// The trailer section, which ends the message, is in [`Connection::head`](super::Connection::head).
    Trailers {
        /// The stream.
        stream: u64,
    },
    /// The request is malformed (RFC 9114 section 4.1.2): its head, which is in
    /// [`Connection::head`](super::Connection::head) as far as it could be read, its trailer section, or the length
    /// of its body. Nothing more of it is reported. The caller responds or closes; the stream counts as after
    /// [`Event::Head`].
    Malformed {
        /// The stream.
        stream: u64,
        /// The reason.
        fault: HeadFault,
    },
    /// The client has reset the stream, or does not want the response. The caller ends the exchange and calls
    /// [`Connection::close`](super::Connection::close).
    Reset {
        /// The stream.
        stream: u64,
        /// The reason.
        code: ErrorCode,
    },
    /// A stream that was not reported is not served: the caller stops and resets it with this code and drops what is left
    /// of it. The connection has forgotten it.
    Refused {
        /// The stream.
        stream: u64,
        /// The reason.
        code: ErrorCode,
    },
    /// A unidirectional stream of an unknown type: the caller stops it with this code and drops what is left of it. The
    /// connection has forgotten it.
    Stop {
        /// The stream.
        stream: u64,
        /// The reason.
        code: ErrorCode,
    },
    /// The field section of a stream waited for insertions, which are here: the caller passes on what it holds of the
    /// stream, even if that is nothing.
    Unblocked {
        /// The stream.
        stream: u64,
    },
    /// The client's settings are in [`Connection::peer`](super::Connection::peer).
    Settings,
    /// The client has changed the priority of a request.
    Priority {
        /// The stream.
        stream: u64,
        /// The new priority.
        priority: Priority,
    },
    /// The client is about to end the connection; it takes no pushes from this one on.
    GoAway {
        /// The first push that is not accepted.
        push: u64,
    },
}
