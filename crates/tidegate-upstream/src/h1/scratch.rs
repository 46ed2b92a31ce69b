//! Buffers that requests of a thread share one after the other, so that a common request allocates none.

use std::cell::RefCell;

use bytes::Bytes;
use tidegate_codec::response::ResponseHead;

/// Bytes of one read from a socket.
pub(crate) const READ_BYTES: usize = 32 * 1024;
/// Fewer bytes than this are copied out of a read buffer, more take the buffer along.
const COPY_BYTES_MAX: usize = 8 * 1024;
/// Buffers and heads kept per thread: as many as are in use within one event-loop iteration.
const KEPT_MAX: usize = 8;
/// A head that grew beyond this is not kept.
const HEAD_BYTES_KEPT: usize = 16 * 1024;

thread_local! {
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    static HEADS: RefCell<Vec<ResponseHead>> = const { RefCell::new(Vec::new()) };
}

/// Returns an empty buffer with room for one read.
pub(crate) fn buffer() -> Vec<u8> {
    BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_else(|| Vec::with_capacity(READ_BYTES))
}

/// Gives a buffer back.
pub(crate) fn give_buffer(mut buffer: Vec<u8>) {
    if buffer.capacity() < READ_BYTES || buffer.capacity() > 2 * READ_BYTES {
        return;
    }
    buffer.clear();
    BUFFERS.with_borrow_mut(|kept| {
        if kept.len() < KEPT_MAX {
            kept.push(buffer);
        }
    });
}

/// The bytes behind a head, still in the buffer that the head was received in.
pub(crate) struct Remainder {
    pub buffer: Vec<u8>,
    /// Offset of the end of the head.
    pub start: usize,
}

impl Remainder {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        into_bytes(self.buffer, self.start)
    }
}

/// Returns the buffer's bytes from `start` on, copied or not as is cheaper.
pub(crate) fn into_bytes(buffer: Vec<u8>, start: usize) -> Bytes {
    let length = buffer.len().saturating_sub(start);
    if length > COPY_BYTES_MAX {
        return Bytes::from(buffer).slice(start..);
    }
    let bytes = Bytes::copy_from_slice(buffer.get(start..).unwrap_or_default());
    give_buffer(buffer);
    bytes
}

/// Returns a cleared head.
pub(crate) fn head() -> ResponseHead {
    HEADS.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// Gives a head back whose fields are no longer needed.
pub fn give_head(mut head: ResponseHead) {
    if head.headers.capacity() > HEAD_BYTES_KEPT {
        return;
    }
    head.clear();
    HEADS.with_borrow_mut(|kept| {
        if kept.len() < KEPT_MAX {
            kept.push(head);
        }
    });
}
