//! Buffers that requests of a thread share one after the other, so that a common request allocates none.

use std::cell::RefCell;
use std::thread::LocalKey;

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
    keep(&BUFFERS, buffer);
}

/// Keeps what was given back for the next request of this thread. A thread that ends keeps none.
fn keep<T>(list: &'static LocalKey<RefCell<Vec<T>>>, given: T) {
    let _ = list.try_with(|kept| {
        let mut kept = kept.borrow_mut();
        if kept.len() < KEPT_MAX {
            kept.push(given);
        }
    });
}

/// A buffer whose bytes are on their way to clients; then it is given back to the thread that sent the last of them. So
/// the next read is into memory that is in the processor's cache.
struct LentBuffer(Vec<u8>);

impl AsRef<[u8]> for LentBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for LentBuffer {
    fn drop(&mut self) {
        give_buffer(std::mem::take(&mut self.0));
    }
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
        return Bytes::from_owner(LentBuffer(buffer)).slice(start..);
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
    keep(&HEADS, head);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_rest_keeps_its_buffer_and_gives_it_back() {
        let mut own = buffer();
        let place = own.as_ptr();
        own.resize(COPY_BYTES_MAX + 2, b'x');
        let all = into_bytes(own, 1);
        assert_eq!(all.len(), COPY_BYTES_MAX + 1);
        assert_eq!(all.as_ptr() as usize, place as usize + 1, "not copied");
        let part = all.slice(7..9);
        drop(all);
        let other = buffer();
        assert_ne!(other.as_ptr(), place, "a part is still on its way");
        drop(part);
        let again = buffer();
        assert_eq!((again.as_ptr(), again.len()), (place, 0));
    }

    #[test]
    fn a_small_rest_is_copied() {
        let mut own = buffer();
        let place = own.as_ptr();
        own.extend_from_slice(b"head and body");
        let rest = into_bytes(own, 9);
        assert_eq!(&rest[..], b"body");
        let again = buffer();
        assert_eq!(again.as_ptr(), place);
    }
}
