//! The streams that this end begins, and the bytes that wait to be sent on them.

/// A unidirectional stream of this end. The caller begins it when there is first something to be sent on it, sends it
/// before all responses, and never ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OwnStream {
    /// The control stream.
    Control,
    /// The insertions of our encoder. Without a table nothing is ever sent on it.
    Encoder,
    /// The confirmations of our decoder.
    Decoder,
}

impl OwnStream {
    /// All of them, in the order in which they are to be sent.
    pub const ALL: [OwnStream; 3] = [OwnStream::Control, OwnStream::Encoder, OwnStream::Decoder];

    /// The type that the stream begins with (RFC 9114 section 6.2, RFC 9204 section 4.2).
    pub(super) fn kind(self) -> u8 {
        match self {
            OwnStream::Control => 0x0,
            OwnStream::Encoder => 0x2,
            OwnStream::Decoder => 0x3,
        }
    }
}

/// A buffer that is written at the end and sent from the begin.
#[derive(Debug, Default)]
pub(super) struct Output {
    bytes: Vec<u8>,
    sent: usize,
    has_begun: bool,
}

impl Output {
    /// Where bytes are appended, behind the stream's type.
    pub(super) fn bytes(&mut self, stream: OwnStream) -> &mut Vec<u8> {
        if !self.has_begun {
            self.has_begun = true;
            self.bytes.push(stream.kind());
        }
        &mut self.bytes
    }

    pub(super) fn unsent(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or(&[])
    }

    /// These bytes have been sent.
    pub(super) fn advance(&mut self, bytes: usize) {
        self.sent = self.sent.saturating_add(bytes).min(self.bytes.len());
        // What was sent is dropped once it is half of the buffer, so that a slow reader costs no more than twice the
        // bytes that wait.
        if self.sent * 2 >= self.bytes.len() {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    pub(super) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
    }
}
