//! Bytes to be sent, and how much of them has been.

/// A buffer that is written at the end and sent from the begin.
#[derive(Debug, Default)]
pub(super) struct Output {
    bytes: Vec<u8>,
    sent: usize,
}

impl Output {
    /// Where frames are appended.
    #[inline]
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(super) fn unsent(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or(&[])
    }

    /// These bytes have been sent.
    pub(super) fn advance(&mut self, bytes: usize) {
        self.sent = self.sent.saturating_add(bytes).min(self.bytes.len());
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
        }
    }

    /// Moves all to the end of `into`; without copying if that is empty.
    pub(super) fn take(&mut self, into: &mut Vec<u8>) {
        match into.is_empty() && self.sent == 0 {
            true => std::mem::swap(into, &mut self.bytes),
            false => into.extend_from_slice(self.unsent()),
        }
        self.bytes.clear();
        self.sent = 0;
    }

    /// Takes memory, where it has none.
    pub(super) fn adopt(&mut self, memory: Vec<u8>) {
        if self.bytes.capacity() == 0 {
            self.bytes = memory;
        }
    }

    /// Returns its memory; all has been sent.
    pub(super) fn give_up(&mut self) -> Vec<u8> {
        self.sent = 0;
        std::mem::take(&mut self.bytes)
    }

    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    pub(super) fn shrink(&mut self) {
        if self.unsent().is_empty() {
            self.bytes = Vec::new();
            self.sent = 0;
        }
    }
}
