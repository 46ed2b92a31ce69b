//! What a connection reports.

use crate::error::ErrorCode;
use crate::frame::StreamId;
use tidegate_fields::HeadFault;

/// Something that was received, at most one for each frame. `'i` is the input's lifetime: bodies are not copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'i> {
    /// The head of a request, or the final head of a response, is in
    /// [`Connection::head`](super::Connection::head). A request's stream counts from now on until
    /// [`Connection::close`](super::Connection::close).
    Head {
        /// Where.
        stream: StreamId,
        /// No body and no trailer section follow.
        end: bool,
    },
    /// An interim response's head, 1xx, is in [`Connection::head`](super::Connection::head).
    Interim {
        /// Where.
        stream: StreamId,
    },
    /// A piece of a body, which counts as unread until [`Connection::consumed`](super::Connection::consumed).
    Data {
        /// Where.
        stream: StreamId,
        /// The piece; empty if only the end was left.
        bytes: &'i [u8],
        /// The body ends, and no trailer section follows.
        end: bool,
    },
    /// The trailer section, which ends the message, is in [`Connection::head`](super::Connection::head).
    Trailers {
        /// Where.
        stream: StreamId,
    },
    /// A message is malformed (RFC 9113 section 8.1.1): its head, which is in
    /// [`Connection::head`](super::Connection::head) as far as it could be read, its trailer section, or the length
    /// of its body. Nothing more of it is reported. A server responds or resets the stream, a client resets it; a
    /// request's stream counts as after [`Event::Head`].
    Malformed {
        /// Where.
        stream: StreamId,
        /// Why.
        fault: HeadFault,
    },
    /// The stream was reset. The caller ends the exchange and calls
    /// [`Connection::close`](super::Connection::close).
    Reset {
        /// Where.
        stream: StreamId,
        /// Why.
        code: ErrorCode,
        /// By the peer; else by this end, for a mistake of the peer.
        by_peer: bool,
    },
    /// A window that was used up is open again: of a stream, or of the connection (stream 0).
    Window {
        /// Whose.
        stream: StreamId,
    },
    /// The peer's settings have changed; windows of streams may be open again.
    Settings,
    /// The peer has acknowledged our settings.
    Acknowledged,
    /// The reply to [`Connection::ping`](super::Connection::ping).
    Pong {
        /// What was sent.
        data: [u8; 8],
    },
    /// The peer takes no new streams; those of ours above `last` were not processed and may be sent again elsewhere
    /// ([`Connection::is_unprocessed`](super::Connection::is_unprocessed)).
    GoAway {
        /// The last stream that the peer may have processed.
        last: StreamId,
        /// Why.
        code: ErrorCode,
    },
}
