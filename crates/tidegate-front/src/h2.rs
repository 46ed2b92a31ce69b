//! The HTTP/2 driver (RFC 9113): the requests of a connection are streams, many at once.
//!
//! The protocol is `tidegate-h2`'s: bytes in, events out. Here are its socket, its requests and its timers.
//!
//! | file | contents |
//! |---|---|
//! | `connection` | what a link keeps of the protocol between requests |
//! | `driver` | reads, runs streams, sends: one future for each busy connection |
//! | `events` | what has been received: heads, bodies, resets, settings |
//! | `table`, `wakes` | the streams that wait, and which of them were woken |
//! | `stream` | one stream: the request's [`Client`](tidegate_core::client::Client), and what waits in each direction |
//! | `head` | from a received head to an exchange |
//! | `exchange` | the future of a request: phases, response, logs |
//! | `respond`, `send` | the response's head; its body |
//! | `output` | what waits to be sent |
//! | `tunnel` | extended CONNECT: WebSocket (RFC 8441) |
//! | `closing` | timeouts, the graceful end, errors |
//! | `directives` | `http2_*` |
//!
//! # States of a connection
//!
//! ```text
//!              preface (h1/head) or ALPN
//!                     │
//!     bytes           ▼   no stream, nothing to send         a sweep later
//!   ┌──────────▶ driver runs ────────────────────────▶ Idle ─────────────▶ parked, memory released
//!   │                 │ ▲  │                             │                       │
//!   └─────────────────│─│──│─────────────────────────────┴───────────────────────┘
//!        a stream waits │ all done                      idle too long: GOAWAY, closed
//!                     ▼ │  │
//!                  pending │ GOAWAY sent and streams over; the client closed; an error
//!                          ▼
//!                        ends
//! ```
//!
//! # Cancelling
//!
//! A stream ends alone: a reset by its client makes its [`Client::poll_closed`](tidegate_core::client::Client) ready and
//! its writes fail; a request that is given up resets its stream; a panic does so too. Where the connection ends, all of
//! its streams see their client leave, and the driver goes on until the last one has ended, so that each is logged.
//! Dropped, the driver drops its requests unlogged: this is how an abort and the end of the thread work.
//!
//! # Invariants
//!
//! - A request is polled once where its head was received, and by its own waker from then on.
//! - The protocol's state is borrowed for single calls only: never while a request is polled.
//! - All output of one run of the driver leaves with one write, unless it is more than `output_bytes_max`.
//! - Nothing is pulled and nothing is read while that much waits to be sent.

mod closing;
pub(crate) mod connection;
pub(crate) mod directives;
mod driver;
mod events;
mod exchange;
mod head;
mod output;
mod respond;
mod send;
pub(crate) mod stream;
mod table;
mod tunnel;
mod wakes;

pub(crate) use driver::serve;
