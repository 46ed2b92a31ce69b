//! Bytes that cannot be read yet: their stream's field section waits for insertions of QPACK (RFC 9204 section 2.1.2).

use bytes::Bytes;

/// The bytes by stream, and whether they are the last ones.
pub(super) type Held = Vec<(u64, Bytes, bool)>;

/// Adds bytes to those that are held of their stream. `false` where none are held.
pub(super) fn is_behind(held: &mut Held, id: u64, bytes: &Bytes, end: bool) -> bool {
    let Some((_, before, last)) = held.iter_mut().find(|(stream, ..)| *stream == id) else {
        return false;
    };
    // One more piece at most: a stream is not read while bytes of it are held.
    *before = [&before[..], bytes].concat().into();
    *last |= end;
    true
}
