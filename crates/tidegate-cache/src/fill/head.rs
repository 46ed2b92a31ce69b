//! What comes before a body, and why one may end before its end.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::times::Times;

/// What the writer published before the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FillHead {
    /// Opaque to the store; of at most [`crate::METADATA_BYTES_MAX`] bytes, or the object is not stored.
    pub metadata: Bytes,
    /// When the object was made, and until when it may be used.
    pub times: Times,
    /// The promised length of the body, where the origin gave one.
    pub body_bytes: Option<u64>,
}

/// Why a fill ended before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BreakReason {
    /// The writer gave up, with its own words.
    Aborted(Arc<str>),
    /// The writer was dropped.
    WriterGone,
    /// The body is not as long as was promised.
    LengthMismatch {
        /// Bytes, by the head.
        promised: u64,
        /// Bytes that have arrived.
        received: u64,
    },
    /// The response may not be cached: readers must go their own way.
    Uncacheable,
    /// This reader fell behind a fill that could not be written to disk.
    ReaderTooSlow,
}

impl fmt::Display for BreakReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BreakReason::Aborted(words) => formatter.write_str(words),
            BreakReason::WriterGone => formatter.write_str("cache fill was dropped"),
            BreakReason::LengthMismatch { promised, received } => {
                write!(formatter, "response has {received} bytes of promised {promised}")
            }
            BreakReason::Uncacheable => formatter.write_str("response is not cacheable"),
            BreakReason::ReaderTooSlow => {
                formatter.write_str("reader is too slow for a cache fill without a file")
            }
        }
    }
}

impl std::error::Error for BreakReason {}

/// What a reader learns of the head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head {
    /// The head is there; a body follows.
    Ready(Arc<FillHead>),
    /// The response may not be cached: go your own way.
    Uncacheable,
    /// The fill ended without a head.
    Failed(BreakReason),
}
