//! A range of a buffer, small and `Copy`, so that a parsed head is numbers into one text.

/// A range of bytes in a buffer that the caller has. Offsets are 32 bits: `large_client_header_buffers`
/// limits heads to far less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The offset of the first byte.
    pub start: u32,
    /// The number of bytes.
    pub len: u32,
}

impl Span {
    /// Makes the range `start..end`; offsets beyond 32 bits saturate, and then contain no bytes.
    pub fn new(start: usize, end: usize) -> Span {
        let start32 = u32::try_from(start).unwrap_or(u32::MAX);
        let len = u32::try_from(end.saturating_sub(start)).unwrap_or(0);
        Span { start: start32, len }
    }

    /// Returns the bytes of this span in `text`; empty when the span is not within it.
    pub fn of(self, text: &[u8]) -> &[u8] {
        let start = self.start as usize;
        text.get(start..start.saturating_add(self.len as usize)).unwrap_or(&[])
    }

    /// Returns whether the span has no bytes.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Returns the offset behind the last byte.
    pub fn end(self) -> usize {
        self.start as usize + self.len as usize
    }
}

/// Returns the span of `part`, which should be a slice of `text`; an empty span when it is not.
pub(crate) fn locate(text: &[u8], part: &[u8]) -> Span {
    let start = (part.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
    match start.checked_add(part.len()) {
        Some(end) if end <= text.len() && !part.is_empty() => Span::new(start, end),
        _ => Span::default(),
    }
}
