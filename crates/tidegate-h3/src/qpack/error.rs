//! What can be wrong with a section and with the two streams. Each ends the connection (RFC 9204 section 6).

use std::fmt;

use tidegate_fields::integer::IntegerError;
use tidegate_fields::string::StringError;

/// The reason why a section cannot be decoded: QPACK_DECOMPRESSION_FAILED.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DecodeError {
    /// The section ends within a field line or before its first one.
    Truncated,
    /// An integer above the limit.
    Integer,
    /// No entry has this index, or the section does not announce that it uses the entry.
    Index,
    /// A string is no Huffman code.
    Huffman,
    /// A Required Insert Count that the encoder cannot have written (RFC 9204 section 4.5.1.1).
    RequiredInsertCount,
    /// A Base below zero (section 4.5.1.2).
    Base,
    /// More streams are blocked than SETTINGS_QPACK_BLOCKED_STREAMS allows (section 2.1.2).
    BlockedStreams,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DecodeError::Truncated => "the section is incomplete",
            DecodeError::Integer => "integer above the limit",
            DecodeError::Index => "index beyond the tables",
            DecodeError::Huffman => "invalid Huffman code",
            DecodeError::RequiredInsertCount => "invalid required insert count",
            DecodeError::Base => "invalid base",
            DecodeError::BlockedStreams => "too many streams are blocked",
        })
    }
}

impl std::error::Error for DecodeError {}

impl From<IntegerError> for DecodeError {
    fn from(error: IntegerError) -> DecodeError {
        match error {
            IntegerError::Truncated => DecodeError::Truncated,
            IntegerError::Overflow => DecodeError::Integer,
        }
    }
}

impl From<StringError> for DecodeError {
    fn from(error: StringError) -> DecodeError {
        match error {
            StringError::Truncated => DecodeError::Truncated,
            StringError::Integer => DecodeError::Integer,
            StringError::Huffman => DecodeError::Huffman,
        }
    }
}

/// A mistake of the peer on its encoder stream: QPACK_ENCODER_STREAM_ERROR, but for `TooMany`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EncoderStreamError {
    /// A capacity above SETTINGS_QPACK_MAX_TABLE_CAPACITY.
    Capacity,
    /// An entry larger than the table.
    EntrySize,
    /// No entry has this index.
    Index,
    /// An integer above the limit.
    Integer,
    /// A string is no Huffman code.
    Huffman,
    /// More instructions than the budget allows: H3_EXCESSIVE_LOAD.
    TooMany,
}

impl fmt::Display for EncoderStreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EncoderStreamError::Capacity => "table capacity above the announced one",
            EncoderStreamError::EntrySize => "entry larger than the table",
            EncoderStreamError::Index => "index beyond the tables",
            EncoderStreamError::Integer => "integer above the limit",
            EncoderStreamError::Huffman => "invalid Huffman code",
            EncoderStreamError::TooMany => "too many instructions",
        })
    }
}

impl std::error::Error for EncoderStreamError {}

/// A mistake of the peer on its decoder stream: QPACK_DECODER_STREAM_ERROR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DecoderStreamError {
    /// A section is acknowledged that uses no entry, or that was not sent.
    Acknowledgment,
    /// More insertions are confirmed than were sent, or none.
    Increment,
    /// An integer above the limit.
    Integer,
}

impl fmt::Display for DecoderStreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DecoderStreamError::Acknowledgment => "acknowledgment of an unknown section",
            DecoderStreamError::Increment => "invalid insert count increment",
            DecoderStreamError::Integer => "integer above the limit",
        })
    }
}

impl std::error::Error for DecoderStreamError {}
