//! HPACK, the compression of header blocks (RFC 7541).
//!
//! [`Decoder`] and [`Encoder`] each have a dynamic table, which both ends of a connection keep in step: a block that
//! cannot be decoded ends the connection, and every block is decoded, even of a stream that is refused.

mod decode;
mod encode;
pub mod huffman;
pub(crate) mod integer;
mod static_table;
mod table;
#[cfg(test)]
mod tests;

pub use decode::{DecodeError, DecodedField, Decoder};
pub use encode::{Encoder, Indexing};

/// Bytes that each entry of a table counts beside its name and value (RFC 7541 section 4.1); also what a field of a
/// header list counts (RFC 9113 section 6.5.2).
pub const ENTRY_OVERHEAD_BYTES: usize = 32;

/// The size of a dynamic table that both ends begin with, bytes (RFC 9113 section 6.5.2).
pub const TABLE_BYTES_DEFAULT: u32 = 4096;
