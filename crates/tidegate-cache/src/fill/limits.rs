//! How much memory a fill may take.

/// Default limit of a fill's memory: unflushed bytes while it is stored, unread bytes otherwise.
/// A megabyte is some milliseconds of a fast origin, which a flush on a pool thread needs.
pub const TAIL_BYTES_MAX_DEFAULT: usize = 1 << 20;

/// Limits of a fill's memory, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FillLimits {
    pub tail_bytes_max: u64,
    /// Bodies up to this size stay in memory to the end, for the memory tier.
    pub kept_bytes_max: u64,
}

impl FillLimits {
    /// Without a file: how far the writer may be ahead of the foremost reader, and how far behind that one a
    /// reader is not slow.
    pub(crate) fn lead_bytes_max(self) -> u64 {
        self.tail_bytes_max / 2
    }
}
