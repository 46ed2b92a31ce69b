//! Large texts in memory until their clients have read them: all of them together have a limit, so that clients who do not read
//! take no more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

/// Bytes of texts above which no further large one is made. Each is some megabytes where there are thousands of zones.
pub(super) const HELD_BYTES_MAX: usize = 64 << 20;

/// The bytes of texts that are in memory or being made.
#[derive(Clone, Debug, Default)]
pub(super) struct Held(Arc<AtomicUsize>);

/// Bytes that count as long as this is there.
pub(super) struct Share {
    bytes: usize,
    held: Held,
}

/// A text with its share.
struct Text {
    bytes: Vec<u8>,
    _share: Share,
}

impl Held {
    /// Returns a share for a text of about so many bytes; `None` where the limit is reached. One text always has room, however
    /// long it is.
    pub(super) fn reserve(&self, bytes: usize) -> Option<Share> {
        let bytes = bytes.min(HELD_BYTES_MAX);
        let more = |held: usize| (held < HELD_BYTES_MAX).then(|| held + bytes);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Share { bytes, held: self.clone() })
    }
}

impl Share {
    /// Makes the share that of a text, as long as there is a part of it.
    pub(super) fn hold(mut self, mut bytes: Vec<u8>) -> Bytes {
        bytes.shrink_to_fit();
        self.held.0.fetch_add(bytes.len(), Ordering::Relaxed);
        self.held.0.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes.len();
        Bytes::from_owner(Text { bytes, _share: self })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.held.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
