//! The head of a fill, and the reasons why a body ends early.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::times::Times;

/// The data that the writer publishes before the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FillHead {
    /// Metadata, opaque to the store. With more than [`crate::METADATA_BYTES_MAX`] bytes the object is not
    /// stored.
    pub metadata: Bytes,
    /// When the object was made, and until when it may be used.
    pub times: Times,
    /// The length of the body that the origin promised, in bytes; `None` when it gave none.
    pub body_bytes: Option<u64>,
}

/// The reason why a fill ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BreakReason {
    /// The writer aborted the fill, with this reason.
    Aborted(Arc<str>),
    /// The writer was dropped.
    WriterGone,
    /// The length of the body is not the promised one.
    LengthMismatch {
        /// Bytes that the head promised.
        promised: u64,
        /// Bytes that have arrived.
        received: u64,
    },
    /// The response may not be cached: each reader has to send its own request.
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

/// The head of a fill, as a reader gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head {
    /// The head has arrived; a body follows.
    Ready(Arc<FillHead>),
    /// The response may not be cached: the reader has to send its own request.
    Uncacheable,
    /// The fill ended without a head.
    Failed(BreakReason),
}
