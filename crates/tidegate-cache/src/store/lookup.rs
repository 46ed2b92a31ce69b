//! Looking keys up, in memory only.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::handle::Store;
use super::inner::StoreInner;
use crate::fill::Fill;
use crate::hot::OpenEntry;
use crate::index::NodeView;
use crate::key::Key;

/// What the memory knows of a key.
#[derive(Clone)]
pub struct Lookup {
    /// The file, if there is one: fresh or stale, that is for the caller to decide.
    pub entry: Option<EntryInfo>,
    /// The opened file, if it is open: then no blocking call is needed.
    pub open: Option<OpenEntry>,
    /// The running fill, if one runs.
    pub fill: Option<Arc<Fill>>,
    /// A fill that was made stale when its last byte had come: its stale file is there in a moment.
    pub placing: Option<Arc<Fill>>,
    /// How often the key was looked up, this time included (`proxy_cache_min_uses`).
    pub uses: u32,
    /// Until when requests of this key should not wait for each other, since its responses proved
    /// not to be cacheable ([`Store::mark_uncacheable`]); 0: no such mark.
    pub uncacheable_until: u64,
    /// The loader has not finished and the key is not known: `open_entry` may find a file.
    pub cold: bool,
}

/// A whole object, as the index knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryInfo {
    /// Differs for each file of the key and each renewal of its metadata.
    pub generation: u64,
    /// The length of the body.
    pub body_bytes: u64,
    /// Room taken on disk.
    pub disk_bytes: u64,
    /// The metadata, if they are in memory.
    pub metadata: Option<Bytes>,
}

impl Store {
    /// Looks a key up, counting a use. In memory only; never blocks.
    pub fn lookup(&self, key: &Key, now: u64) -> Lookup {
        let inner = &self.inner;
        let view = inner.index.count_use(key.hash(), now, |hash, bytes| {
            inner.discard_entry(hash, bytes);
        });
        inner.describe(key, view)
    }

    /// Looks a key up without counting, for a second look after a wait. Never blocks.
    pub fn peek(&self, key: &Key) -> Lookup {
        self.inner.describe(key, self.inner.index.peek(key.hash()))
    }

    /// Marks a key as used at `now`, without counting. Never blocks.
    pub fn touch(&self, key: &Key, now: u64) {
        self.inner.index.touch(key.hash(), now);
    }

    /// Marks a key whose response proved not to be cacheable, so that until then (unix
    /// milliseconds) its requests need not queue for one another. A stored response ends it. To be
    /// called before [`crate::FillWriter::release`]. Never blocks.
    pub fn mark_uncacheable(&self, key: &Key, until: u64) {
        self.inner.index.mark_uncacheable(key.hash(), until);
    }
}

impl StoreInner {
    fn describe(&self, key: &Key, view: NodeView) -> Lookup {
        let mut view = view;
        let open = view.present.and_then(|present| self.hot.find(key, present.generation));
        let open = self.purge_found(key, &mut view, open);
        let entry = view.present.map(|present| EntryInfo {
            generation: present.generation,
            body_bytes: present.body_bytes,
            disk_bytes: present.disk_bytes,
            metadata: open.as_ref().map(|open| open.metadata().clone()),
        });
        let cold = entry.is_none() && !self.counters.loaded.load(Ordering::Acquire);
        let is_own = |fill: &Arc<Fill>| fill.key().text() == key.text();
        let (fill, placing) = self.purge_fill(view.fill.filter(is_own));
        let NodeView { uses, uncacheable_until, .. } = view;
        Lookup { entry, open, fill, placing, uses, uncacheable_until, cold }
    }
}
