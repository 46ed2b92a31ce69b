//! A place in a buffer, small and `Copy`, so that a parsed head is numbers into one text.

/// A range of bytes in a buffer that is named elsewhere. Offsets are 32 bits: heads are limited
/// to far less by `large_client_header_buffers`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub start: u32,
    pub len: u32,
}

impl Span {
    /// The range `start..end`; offsets beyond 32 bits saturate, and then name no bytes.
    pub fn new(start: usize, end: usize) -> Span {
        let start32 = u32::try_from(start).unwrap_or(u32::MAX);
        let len = u32::try_from(end.saturating_sub(start)).unwrap_or(0);
        Span { start: start32, len }
    }

    /// The bytes of this span in `text`; empty when the span does not lie within it.
    pub fn of(self, text: &[u8]) -> &[u8] {
        let start = self.start as usize;
        text.get(start..start.saturating_add(self.len as usize)).unwrap_or(&[])
    }

    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    pub fn end(self) -> usize {
        self.start as usize + self.len as usize
    }
}

/// The span of `part`, which should be a slice of `text`; an empty span when it is not.
pub(crate) fn locate(text: &[u8], part: &[u8]) -> Span {
    let start = (part.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
    match start.checked_add(part.len()) {
        Some(end) if end <= text.len() && !part.is_empty() => Span::new(start, end),
        _ => Span::default(),
    }
}
