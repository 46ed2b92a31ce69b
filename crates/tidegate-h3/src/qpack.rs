//! QPACK, the compression of field sections (RFC 9204).
//!
//! Each direction of a connection has an encoder and a decoder with a dynamic table of the same content. Insertions
//! travel on a stream of their own, so that sections may arrive before them: such a section is blocked until they are
//! received. The decoder confirms sections and insertions on another stream, and the encoder evicts only what is
//! confirmed.
//!
//! ```text
//!   Encoder ── take_output ── encoder stream ──► receive ── Decoder
//!      │  begin, field, finish ── section ──────► decode       │
//!      └─ receive ◄───────────── decoder stream ── take_output ┘
//! ```
//!
//! A section that cannot be decoded ends the connection. Other than in HPACK, a section may be dropped unread if its
//! stream is cancelled ([`Decoder::cancel`]).

mod decode;
mod dynamic;
mod encode;
mod error;
mod static_table;
#[cfg(test)]
mod tests;

pub use decode::{Decoded, Decoder};
pub use encode::Encoder;
pub use error::{DecodeError, DecoderStreamError, EncoderStreamError};
pub use tidegate_fields::{DecodedField, FieldEncoder, Indexing};
