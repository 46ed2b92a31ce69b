//! HTTP/2 towards origins: connections of a thread that many requests share, each with a stream of its own.
//!
//! ```text
//! pool/shared ── Seat ──> ready: the connection is open and has room ── begin ──> OriginStream
//!      │                                                                            │ send: Upload
//!      └─ opens: a task per connection, `driver`                                    │ poll_head, poll_body
//!              │                                                                    ▼ drop: the stream is closed
//!         socket ◄──► tidegate_h2::Connection<Client> ──events──> one `Slot` per stream, with its waker
//! ```
//!
//! | file | content |
//! |---|---|
//! | connection | the state that driver and streams share: phases, seats |
//! | slot | what has arrived for one stream |
//! | driver | the task of a connection: connecting, socket, events, timers |
//! | stream | one request's side: seat, head, body |
//! | send | the body of a request |
//!
//! # Invariants
//!
//! - A body's window is opened when its reader takes bytes, not when they arrive. So what is unread of a stream is at
//!   most [`STREAM_WINDOW`], and a slow reader stops only its own stream: the window of the connection is never the
//!   limit.
//! - The driver never waits for a stream, and a stream waits for the driver only by its waker: a command writes into
//!   the core's output and wakes the driver, which sends the output of all commands of an event-loop iteration
//!   together.
//! - A connection takes new streams while it is open, has seats left, and has not said goodbye; after that it ends
//!   once its streams have.
//! - The state is borrowed only between two awaits. Wakers of streams are called when it no longer is; that of the
//!   driver only schedules it.
//!
//! # Cancelling
//!
//! Dropping a [`stream::Seat`] or [`stream::OriginStream`] gives its place back; an incomplete stream is reset with
//! CANCEL and the connection stays usable. The driver is a task of its own and is never dropped before its end, but
//! with the thread's event loop.

mod connection;
mod driver;
pub(crate) mod send;
mod slot;
pub(crate) mod stream;
#[cfg(test)]
mod tests;

pub(crate) use connection::{ConnectionLimits, SharedConnection};
pub(crate) use driver::{OpenRequest, start};
pub(crate) use slot::StreamEnd;
pub(crate) use stream::{HeadEvent, OriginStream, Seat, SeatError};

/// Streams of one connection at once, whatever its origin allows.
pub(crate) const STREAMS_MAX: u32 = 100;
/// Bytes of one response's body that may be unread here. Enough for 5 MB/s at a distance of 50 ms.
const STREAM_WINDOW: u32 = 256 * 1024;
/// Bytes of a response's header list, before and after decoding, that any connection takes; a location's
/// `proxy_buffer_size` may refuse less, or needs connections of its own for more.
pub(crate) const HEAD_BYTES_MIN: usize = 256 * 1024;
