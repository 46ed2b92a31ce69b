//! Buffers that requests of a thread use in turn, so that the common request allocates none.

use std::cell::RefCell;

use bytes::Bytes;
use tidegate_codec::response::ResponseHead;

/// Bytes asked from a socket at once.
pub(crate) const READ_BYTES: usize = 32 * 1024;
/// Less than this is copied out of a read buffer, more takes the buffer along.
const COPY_BYTES_MAX: usize = 8 * 1024;
/// Buffers and heads kept per thread: as many as are in use within one turn of the loop.
const KEPT_MAX: usize = 8;
/// A head that grew beyond this is not kept.
const HEAD_BYTES_KEPT: usize = 16 * 1024;

thread_local! {
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    static HEADS: RefCell<Vec<ResponseHead>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer with room for one read.
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

/// What came behind a head, still in the buffer that the head came in.
pub(crate) struct Behind {
    pub buffer: Vec<u8>,
    /// Where the head ends.
    pub start: usize,
}

impl Behind {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        into_bytes(self.buffer, self.start)
    }
}

/// The buffer's bytes from `start` on, copied or not as is cheaper.
pub(crate) fn into_bytes(buffer: Vec<u8>, start: usize) -> Bytes {
    let length = buffer.len().saturating_sub(start);
    if length > COPY_BYTES_MAX {
        return Bytes::from(buffer).slice(start..);
    }
    let bytes = Bytes::copy_from_slice(buffer.get(start..).unwrap_or_default());
    give_buffer(buffer);
    bytes
}

/// A cleared head.
pub(crate) fn head() -> ResponseHead {
    HEADS.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// Gives a head back once nobody asks for its fields any more.
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
