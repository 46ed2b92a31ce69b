//! HTTP/2 and HPACK for servers and clients, without I/O and without a clock (RFC 9113, 7541, 9218, 8441, and
//! the priorities of 7540).
//!
//! The input is received bytes and commands; the output is events and bytes to be sent. Sockets, tasks, timers
//! and the memory of bodies are the caller's. Errors are values, and no input can cause a panic.
//!
//! ```text
//!   received bytes                                            bytes to be sent
//!        │ receive(&mut input, now)                                  ▲ take_output
//!   ┌────▼────────────────────────── Connection<Server | Client> ────┴─────────────────┐
//!   │ connection/receive   pieces → frames          connection/send   heads, data      │
//!   │ connection/frames    SETTINGS, PING, …        priority          order of sending │
//!   │ connection/blocks    header blocks            connection/end    GOAWAY, memory   │
//!   │ connection/data      bodies, windows          config, flood     limits, budgets  │
//!   ├──────────────────────────────────────────────────────────────────────────────────┤
//!   │ hpack   Decoder, Encoder, static table                     stream   states       │
//!   │ frame   9 bytes and a payload: parse, write                flow     windows      │
//!   │                                                            settings              │
//!   ├──────────────────────────────────────────────────────────────────────────────────┤
//!   │ tidegate-fields   heads, checked; Huffman code, dynamic table, priorities        │
//!   └──────────────────────────────────────────────────────────────────────────────────┘
//!        │ Event: head, data, trailers, reset, window …              ▲ respond, request, send_data …
//!        ▼                       the caller                          │
//! ```
//!
//! # Use
//!
//! ```
//! use std::time::Duration;
//! use tidegate_h2::{Client, Config, Connection, ErrorCode, Event, RequestLine, Server};
//!
//! let config = Config::default().shared();
//! let mut client = Connection::<Client>::new(config.clone());
//! let mut server = Connection::<Server>::new(config);
//! let line = RequestLine {
//!     method: b"GET",
//!     scheme: b"https",
//!     authority: b"example.com",
//!     path: b"/",
//!     protocol: None,
//! };
//! client.request(&line, true, |fields| fields.push(b"accept", b"*/*"))?;
//!
//! let mut bytes = Vec::new();
//! client.take_output(&mut bytes);
//! let mut input = bytes.as_slice();
//! while let Some(event) = server.receive(&mut input, Duration::ZERO)? {
//!     if let Event::Head { stream, end: true } = event {
//!         let head = server.head();
//!         assert_eq!(head.text(head.line), b"GET / HTTP/2.0");
//!         server.respond(stream, 204, true, |fields| fields.push(b"server", b"tidegate"))?;
//!         server.close(stream, ErrorCode::INTERNAL_ERROR);
//!     }
//! }
//! assert!(!server.output().is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What a caller does with each event
//!
//! | [`Event`] | a server | a client |
//! |---|---|---|
//! | `Head` | swaps [`Head::headers`] with its own, begins an exchange | passes the response on |
//! | `Interim` | – | passes it on, or drops it |
//! | `Data` | keeps the bytes for the exchange, or drops them and calls `consumed` | the same |
//! | `Trailers` | keeps them behind the body | the same |
//! | `Malformed` | responds with [`HeadFault::status`], or `reset` | `reset`, 502 |
//! | `Reset` | ends the exchange (499), then `close` | tries again if [`ErrorCode::REFUSED_STREAM`], then `close` |
//! | `Window`, `Settings` | sends while `next_to_send` returns a stream | the same, and may begin more streams |
//! | `Acknowledged` | ends its timer for SETTINGS_TIMEOUT | the same |
//! | `Pong` | the second step of a graceful end | a sign of life |
//! | `GoAway` | closes once `is_drained` | tries unprocessed streams elsewhere, then as the server |
//!
//! After each `receive` that returned `None`, and after commands, the caller sends the output. An error of `receive` is
//! the end: it sends the output, which has GOAWAY, and closes. As long as [`Connection::output_is_full`], it neither
//! reads nor adds bodies. It calls [`Connection::consumed`] when a handler has used bytes of a body, not when they
//! arrive: that is the back-pressure. It calls [`Connection::close`] exactly once for each stream that an event
//! named or that it has begun, when no work on it is left.
//! Timers are the caller's: `client_header_timeout` before the first head and while [`Connection::is_in_block`],
//! `client_body_timeout`, `send_timeout` for a stream whose window stays shut, `keepalive_timeout` while
//! [`Connection::is_quiet`].
//!
//! # States
//!
//! The state of a stream is [`State`]; its file draws RFC 9113 section 5.1. Its transitions are a table in a test. What
//! is received next on the connection is the enum `Reading`: preface, frame header, payload, data, padding, bytes to
//! be skipped, or nothing after an error.
//!
//! # Invariants
//!
//! - Every header block is decoded, whatever becomes of its stream: both tables stay in step.
//! - No name or value with CR, LF, NUL or upper case in its name leaves this crate, in either direction.
//! - One frame is at most one event, and each event is returned as soon as it is known.
//! - A stream counts until the caller closes it, even after a reset: work in progress has a limit.
//! - Windows open by what the caller has used. `left + unread + credit` of a window is constant.
//! - Nothing is sent on a closed stream, and no message is sent in part: commands out of order are refused as a whole.
//! - What is kept is a part of one frame, one header block, two tables, the streams, and the output.
//! - A common request allocates nothing once the buffers have grown; an idle connection gives them back
//!   ([`Connection::take_back`], [`Connection::release_memory`]).
//!
//! # Limits
//!
//! All are fields of [`Config`]; names in the middle column are nginx's directives or settings of the protocol.
//!
//! | field | default | source | beyond it |
//! |---|---|---|---|
//! | `streams_max` | 128 | `http2_max_concurrent_streams` | REFUSED_STREAM |
//! | `frame_bytes_max` | 16,384 | SETTINGS_MAX_FRAME_SIZE; DATA alone | FRAME_SIZE_ERROR |
//! | `stream_window` | 65,536 | `http2_body_preread_size` | FLOW_CONTROL_ERROR for the stream; in one frame for the connection |
//! | `stream_window_max` | `stream_window` | – | windows of streams that are used at once grow no more |
//! | `grown_bytes_max` | 4 MiB | – | the same, for all streams together |
//! | `connection_window` | 2^31-1 | RFC 9113 6.9 | FLOW_CONTROL_ERROR |
//! | `unread_bytes_max` | 1 MiB | – | windows of streams stay shut |
//! | `decoder_table_bytes` | 4,096 | SETTINGS_HEADER_TABLE_SIZE | COMPRESSION_ERROR |
//! | `encoder_table_bytes` | 0 | the peer's setting as well | – |
//! | `list_bytes_max` | 33 KiB | `large_client_header_buffers` | 431 |
//! | `field_bytes_max` | 33 KiB | `large_client_header_buffers` | 431 |
//! | `fields_max` | 1,000 | `max_headers` | 431 |
//! | `block_bytes_max` | 64 KiB | – | ENHANCE_YOUR_CALM |
//! | `continuations_max` | 64, empty ones 8 each | CVE-2024-27316 | ENHANCE_YOUR_CALM |
//! | `control_frames_max` | 1,000; 16 back per head, 1 per 256 body bytes | CVE-2019-9512, 9515, 9518 | ENHANCE_YOUR_CALM |
//! | `resets_max` | 2 x `streams_max`; 1 back per message sent | CVE-2023-44487, CVE-2025-8671 | ENHANCE_YOUR_CALM |
//! | `replies_max` | 256 | CVE-2019-9512, 9515 | ENHANCE_YOUR_CALM |
//! | `flood_window` | 10 s | – | the two budgets are full again |
//! | `output_bytes_max` | 64 KiB | CVE-2019-9517 | the caller stops |
//!
//! Without a setting: a header list that is 64 KiB beyond `list_bytes_max`, which only references to the table can
//! make, is ENHANCE_YOUR_CALM; 5 bytes for an integer of HPACK, 2 size updates for each block, 16 early priorities, 128
//! streams whose end is remembered; in the tree of RFC 7540 32 closed streams and 32 that have not begun.
//!
//! # What is not there
//!
//! Push, in either direction. `Upgrade: h2c`. Settings that change during a connection.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod config;
mod connection;
mod error;
mod flood;
mod flow;
pub mod frame;
#[doc(hidden)]
pub mod fuzzing;
pub mod hpack;
mod priority;
pub mod settings;
mod stream;

pub use config::Config;
pub use connection::{Buffers, Client, Connection, Event, Role, Server};
pub use error::{ConnectionError, ErrorCode, Fault, Flood, SendError};
pub use flow::{ReceiveWindow, SendWindow, WINDOW_LIMIT, WindowError};
pub use frame::StreamId;
pub use priority::Priority;
pub use settings::Settings;
pub use stream::state::{Closed, State, StateError};
pub use tidegate_fields::{Head, HeadFault, RequestLine};

/// Takes the fields of a section and encodes them by HPACK.
pub type Fields<'a> = tidegate_fields::Fields<'a, hpack::Encoder>;
