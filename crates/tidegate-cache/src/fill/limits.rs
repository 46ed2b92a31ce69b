//! Limits of the memory that a fill may take.

/// Default limit of a fill's memory in bytes: unflushed bytes while it is stored, unread bytes otherwise. A
/// megabyte is some milliseconds of a fast origin, about the time of a flush on a pool thread.
pub const TAIL_BYTES_MAX_DEFAULT: usize = 1 << 20;

/// Limits of a fill's memory, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FillLimits {
    pub tail_bytes_max: u64,
    /// Bodies up to this number of bytes stay in memory to the end, for the memory tier.
    pub kept_bytes_max: u64,
}

impl FillLimits {
    /// Returns how far the writer of a fill without a file may be ahead of the foremost reader, and how far
    /// behind that reader another one is not slow.
    pub(crate) fn lead_bytes_max(self) -> u64 {
        self.tail_bytes_max / 2
    }
}
