//! HTTP/3 and QPACK without I/O and without a clock (RFC 9114, 9204, 9218, 9220).
//!
//! The connection is the server's end; QPACK and frames are there for both ends. `tidegate-front` has the driver between it
//! and `tidegate-quic`.
//!
//! The input is bytes of streams by their QUIC numbers, and commands; the output is events and bytes to be sent. QUIC,
//! sockets, tasks, timers and the memory of bodies are the caller's. Errors are values, and no input can cause a panic.
//!
//! ```text
//!   bytes of a stream                                    bytes for streams of this end
//!        │ receive(stream, &mut input, end, now)               ▲ output(OwnStream)
//!   ┌────▼──────────────────────────────── Connection ─────────┴───────────────────────┐
//!   │ connection/request          request streams      connection/send   heads, data   │
//!   │ connection/unidirectional   control stream …     connection/end    resets, GOAWAY│
//!   │ stream   states of requests                      config, flood     limits        │
//!   ├──────────────────────────────────────────────────────────────────────────────────┤
//!   │ qpack    Decoder, Encoder, their streams         frame    types, parse, write    │
//!   │ settings                                         varint                          │
//!   ├──────────────────────────────────────────────────────────────────────────────────┤
//!   │ tidegate-fields   heads, checked; Huffman code, dynamic table, priorities        │
//!   └──────────────────────────────────────────────────────────────────────────────────┘
//!        │ Event: head, data, trailers, reset …                ▲ respond, send_data_header …
//!        ▼                        the caller                   │ → a buffer of the caller, for its QUIC stream
//! ```
//!
//! # Use
//!
//! ```
//! use std::time::Duration;
//! use tidegate_h3::{Config, Connection, ErrorCode, Event, OwnStream};
//!
//! let mut server = Connection::new(Config::default().shared());
//! assert!(!server.output(OwnStream::Control).is_empty());
//!
//! // HEADERS with `:method: GET`, `:scheme: https`, `:path: /`, `:authority: a`, all of the static table.
//! let mut input = &b"\x01\x08\x00\x00\xd1\xd7\xc1\x50\x01a"[..];
//! while let Some(event) = server.receive(0, &mut input, true, Duration::ZERO)? {
//!     if let Event::Head { stream, end: true } = event {
//!         let head = server.head();
//!         assert_eq!(head.text(head.line), b"GET / HTTP/3.0");
//!         let mut bytes = Vec::new();
//!         server.respond(stream, 204, true, &mut bytes, |fields| fields.push(b"server", b"tidegate"))?;
//!         // The caller writes these bytes to QUIC stream 0, and ends it.
//!         assert_eq!(bytes.get(..5), Some(&b"\x01\x0f\x00\x00\xff"[..]));
//!         server.close(stream, ErrorCode::INTERNAL_ERROR);
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What a caller does with each event
//!
//! | [`Event`] | action |
//! |---|---|
//! | `Head` | swaps [`Head::headers`] with its own, begins an exchange, gives QUIC the stream's [`Connection::priority`] |
//! | `Data`, `Trailers` | keeps them for the exchange |
//! | `Malformed` | responds with [`HeadFault::status`], or `close` |
//! | `Reset` | ends the exchange (499), then `close` |
//! | `Refused` | resets and stops the stream with the code |
//! | `Stop` | stops the unidirectional stream with the code |
//! | `Unblocked` | calls `receive` for that stream with what it holds of it |
//! | `Priority` | gives QUIC the new priority |
//! | `Settings`, `GoAway` | nothing |
//!
//! After each `receive` that returned `None`, and after commands, the caller sends the output of [`OwnStream::ALL`], before
//! anything on request streams: a response may need the insertions of [`OwnStream::Encoder`] (RFC 9204 section 2.1.3). An
//! error is the end: the caller closes with [`ConnectionError::code`]. Flow control is QUIC's: the caller reads a request
//! stream only as fast as its exchange uses the body. It calls [`Connection::close`] exactly once for each stream that
//! `Head` or `Malformed` named, when no work on it is left, and does what [`Closing`] says.
//!
//! # Invariants
//!
//! - No name or value with CR, LF, NUL or upper case in its name leaves this crate, in either direction.
//! - A request counts until the caller closes it, even after a reset: work in progress has a limit.
//! - A stream that waits for insertions is not read, and its field section is kept within the limits.
//! - Our encoder evicts no entry that is unconfirmed or in use, and blocks no more streams than the client allows.
//! - Nothing is written for a closed stream, and no message in part: commands out of order are refused as a whole.
//! - A common request allocates nothing once the buffers have grown, if its HEADERS frame arrives in one piece; an idle
//!   connection gives them back ([`Connection::release_memory`]).
//!
//! # Limits
//!
//! All are fields of [`Config`]; names in the third column are nginx's directives or settings of the protocol.
//!
//! | field | default | source | beyond it |
//! |---|---|---|---|
//! | `streams_max` | 128 | `http3_max_concurrent_streams` | H3_REQUEST_REJECTED |
//! | `decoder_table_bytes` | 4,096 | SETTINGS_QPACK_MAX_TABLE_CAPACITY | QPACK_ENCODER_STREAM_ERROR |
//! | `blocked_streams_max` | 16 | SETTINGS_QPACK_BLOCKED_STREAMS | QPACK_DECOMPRESSION_FAILED |
//! | `encoder_table_bytes` | 0 | the client's setting as well | – |
//! | `list_bytes_max` | 33 KiB | `large_client_header_buffers` | 431 |
//! | `field_bytes_max` | 33 KiB | `large_client_header_buffers` | 431 |
//! | `fields_max` | 1,000 | `max_headers` | 431 |
//! | `section_bytes_max` | 64 KiB | – | 431 |
//! | `sections_bytes_max` | 1 MiB, of all streams | – | H3_EXCESSIVE_LOAD |
//! | `control_frames_max` | 1,000; 16 back per head, 1 per 256 body bytes | CVE-2019-9512, 9515, 9518 | H3_EXCESSIVE_LOAD |
//! | `instructions_max` | 1,000; 32 back per head | RFC 9204 7.3 | H3_EXCESSIVE_LOAD |
//! | `resets_max` | 2 x `streams_max`; 1 back per message sent | CVE-2023-44487, CVE-2025-8671 | H3_EXCESSIVE_LOAD |
//! | `flood_window` | 10 s | – | the three budgets are full again |
//! | `output_bytes_max` | 64 KiB of confirmations | CVE-2019-9517 | H3_EXCESSIVE_LOAD |
//!
//! Without a setting: 62 bits for an integer, 4,096 bytes for a frame of the control stream, 6 unidirectional streams, 128
//! streams (or `streams_max`) whose packets are late, 16 early priorities, 128 sections of ours that are not acknowledged.
//!
//! # What is not there
//!
//! The client's end of a connection. Push, in either direction: MAX_PUSH_ID is checked and has no effect. Datagrams (RFC
//! 9297): SETTINGS_H3_DATAGRAM is checked and never sent. In the encoder, copies of entries that are about to be evicted.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod config;
mod connection;
mod error;
mod flood;
pub mod frame;
#[doc(hidden)]
pub mod fuzzing;
pub mod qpack;
pub mod settings;
mod stream;
pub mod varint;

pub use config::Config;
pub use connection::{Closing, Connection, Event, OwnStream};
pub use error::{ConnectionError, ErrorCode, Fault, Flood, SendError};
pub use settings::Settings;
pub use tidegate_fields::{Head, HeadFault, Priority};

/// Takes the fields of a section and encodes them by QPACK.
pub type Fields<'a> = tidegate_fields::Fields<'a, qpack::Encoder>;
