//! HPACK, the compression of header blocks (RFC 7541).
//!
//! [`Decoder`] and [`Encoder`] each have a dynamic table, which both ends of a connection keep in step: a block that
//! cannot be decoded ends the connection, and every block is decoded, even of a stream that is refused.

mod decode;
mod encode;
mod static_table;
#[cfg(test)]
mod tests;

pub use decode::{DecodeError, Decoder};
pub use encode::Encoder;
pub use tidegate_fields::{DecodedField, ENTRY_OVERHEAD_BYTES, Indexing, huffman};

/// The size of a dynamic table that both ends begin with, bytes (RFC 9113 section 6.5.2).
pub const TABLE_BYTES_DEFAULT: u32 = 4096;
