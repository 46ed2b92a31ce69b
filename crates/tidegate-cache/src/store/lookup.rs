//! Lookup of keys, in memory only.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::handle::Store;
use super::inner::StoreInner;
use crate::fill::Fill;
use crate::hot::OpenEntry;
use crate::index::NodeView;
use crate::key::Key;

/// The data in memory about a key.
#[derive(Clone)]
pub struct Lookup {
    /// The file, if there is one, fresh or stale: the caller decides.
    pub entry: Option<EntryInfo>,
    /// The open entry, if the file is open: then no blocking call is needed.
    pub open: Option<OpenEntry>,
    /// The running fill, if there is one.
    pub fill: Option<Arc<Fill>>,
    /// A fill that was made stale when its last byte had arrived: its stale file is stored in a moment.
    pub placing: Option<Arc<Fill>>,
    /// The number of lookups of the key, this one included (`proxy_cache_min_uses`).
    pub uses: u32,
    /// The moment, in Unix milliseconds, until which requests of this key should not wait for each other,
    /// since its responses were not cacheable ([`Store::mark_uncacheable`]); 0: no such mark.
    pub uncacheable_until: u64,
    /// Whether the loader has not finished and the index does not have the key: `open_entry` may find a file.
    pub cold: bool,
}

/// A whole object, as the index has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryInfo {
    /// Differs for each file of the key and each renewal of its metadata.
    pub generation: u64,
    /// The length of the body.
    pub body_bytes: u64,
    /// Room taken on disk in bytes.
    pub disk_bytes: u64,
    /// The metadata, if they are in memory.
    pub metadata: Option<Bytes>,
}

impl Store {
    /// Looks a key up, counting a use. In memory only; never blocks.
    pub fn lookup(&self, key: &Key, now: u64) -> Lookup {
        let inner = &self.inner;
        let is_loaded = inner.is_loaded();
        let view = inner.index.count_use(key.hash(), now, |hash, bytes| {
            inner.discard_entry(hash, bytes);
        });
        inner.describe(key, view, is_loaded)
    }

    /// Looks a key up without counting, for a second lookup after a wait. Never blocks.
    pub fn peek(&self, key: &Key) -> Lookup {
        let is_loaded = self.inner.is_loaded();
        self.inner.describe(key, self.inner.index.peek(key.hash()), is_loaded)
    }

    /// Marks a key as used at `now`, without counting. Never blocks.
    pub fn touch(&self, key: &Key, now: u64) {
        self.inner.index.touch(key.hash(), now);
    }

    /// Marks a key whose response was not cacheable, so that its requests do not wait for each other until
    /// then (Unix milliseconds). A stored response removes the mark. To be called before
    /// [`crate::FillWriter::release`]. Never blocks.
    pub fn mark_uncacheable(&self, key: &Key, until: u64) {
        self.inner.index.mark_uncacheable(key.hash(), until);
    }
}

impl StoreInner {
    /// Returns whether the loader has walked the whole cache. What the index does not have is final only if this was
    /// true before the index was asked: the loader may have added it in between, as its last file.
    pub(super) fn is_loaded(&self) -> bool {
        self.counters.loaded.load(Ordering::Acquire)
    }

    fn describe(&self, key: &Key, view: NodeView, is_loaded: bool) -> Lookup {
        let mut view = view;
        let open = view.present.and_then(|present| self.hot.find(key, present.generation));
        let open = self.purge_found(key, &mut view, open);
        let entry = view.present.map(|present| EntryInfo {
            generation: present.generation,
            body_bytes: present.body_bytes,
            disk_bytes: present.disk_bytes,
            metadata: open.as_ref().map(|open| open.metadata().clone()),
        });
        let cold = entry.is_none() && !is_loaded;
        let is_own = |fill: &Arc<Fill>| fill.key().text() == key.text();
        let (fill, placing) = self.purge_fill(view.fill.filter(is_own));
        let NodeView { uses, uncacheable_until, .. } = view;
        Lookup { entry, open, fill, placing, uses, uncacheable_until, cold }
    }
}
