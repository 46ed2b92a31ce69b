//! The HTTP/3 driver (RFC 9114): the requests of a QUIC connection are streams of it.
//!
//! QUIC is `tidegate-quic`'s, the protocol is `tidegate-h3`'s: bytes in, events out. Here are requests and time limits.
//!
//! | file | contents |
//! |---|---|
//! | `port` | a UDP socket: which connections begin on it, until when it is served |
//! | `threads` | the threads that have sockets of the same address |
//! | `connection` | one connection: its properties, its protocol, its requests in progress |
//! | `events` | what has been received: heads, bodies, resets, the end |
//! | `stream` | one stream: the request's [`Client`](tidegate_core::client::Client), and what waits in each direction |
//! | `held` | bytes of streams that wait for insertions of QPACK |
//! | `head` | from a received head to an exchange |
//! | `hq` | HTTP/0.9 over QUIC: from a line to an exchange |
//! | `exchange` | the future of a request: phases, response, logs |
//! | `respond`, `send` | the response's head; its body |
//! | `tunnel` | extended CONNECT: WebSocket (RFC 9220) |
//! | `closing` | time limits, the graceful end, errors |
//! | `directives` | `http3*` and `quic_*` |
//!
//! # Who runs what
//!
//! ```text
//! the endpoint's task: datagrams → QuicLink::event → head → exchange, polled once
//!                                        │                    │ waits
//!                                        │ wakes              ▼
//!                                        └──────────▶ a task of its own: poll_bytes, send
//! ```
//!
//! A connection has no task. A request is polled once where its head was received; one that waits gets a task, which
//! events wake. Time limits of connections are checked by the thread's sweep, those of requests by their own timers.
//!
//! # Back-pressure
//!
//! A body is read from QUIC only as far as its reader has taken what was read before; QUIC then holds the client back. A
//! response is pulled only once QUIC has taken what was pulled before (`http3_stream_buffer_size`, the client's windows).
//!
//! # Cancelling
//!
//! A stream ends alone: a reset by its client makes its [`Client::poll_closed`](tidegate_core::client::Client) ready and
//! its writes fail; a request that is given up resets its stream; a panic does so too. Where the connection ends, all of
//! its streams see their client leave, and their tasks go on until each is logged.
//!
//! # Invariants
//!
//! - The protocol's state is borrowed for single calls only: never while a request is polled.
//! - One stream of a connection is read at a time; one that is to be read meanwhile comes behind it.
//! - A request holds the properties of its connection as they were when it began: a migration makes new ones.

mod beginnings;
mod closing;
pub(crate) mod connection;
pub(crate) mod directives;
mod events;
mod exchange;
mod head;
mod held;
mod hq;
mod port;
mod respond;
mod send;
pub(crate) mod stream;
#[cfg(test)]
mod tests;
pub(crate) mod threads;
mod tunnel;

pub use port::serve_packets;
