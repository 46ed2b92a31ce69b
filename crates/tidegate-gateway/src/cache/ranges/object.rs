//! An object whose parts can be fetched: its size, its validator, and the id in the keys of its parts.

use std::sync::Arc;

use tidegate_cache::{Fill, FillHead, Key, OpenEntry, Store, Times};
use tidegate_codec::range::if_range_holds;
use tidegate_codec::{Known, date};
use tidegate_core::{Exchange, blocking};

use crate::cache::decide::identity::Identity;
use crate::cache::meta::{Meta, PartsInfo};
use crate::cache::ranges::part_reader::open;
use crate::cache::ranges::plan::{self, RequestedRange};

/// An object whose parts can be fetched.
#[derive(Clone)]
pub(crate) struct PartialObject {
    /// Key of the object; those of its parts are made of it.
    pub key: Key,
    /// Id in the keys of its parts.
    pub id: u64,
    /// Bytes of the complete object.
    pub size: u64,
    /// Times of its stored head, and of its parts.
    pub times: Times,
    /// The validator that all parts carry.
    pub identity: Identity,
    /// Its stored head.
    pub meta: Arc<Meta>,
}

impl PartialObject {
    /// Makes it from a stored head; `None` when that is no head of parts.
    pub(crate) fn stored(key: &Key, entry: &OpenEntry) -> Option<PartialObject> {
        let meta = Meta::decode(entry.metadata())?;
        PartialObject::of(key, meta, entry.times())
    }

    /// Makes it from the head that a probe has published.
    pub(crate) fn published(key: &Key, head: &FillHead) -> Option<PartialObject> {
        PartialObject::of(key, Meta::decode(&head.metadata)?, head.times)
    }

    /// Makes it from the fill of the complete object. `None` without a length and a strong validator.
    pub(crate) fn filling(key: &Key, fill: &Fill) -> Option<PartialObject> {
        let head = fill.head_now()?;
        let mut meta = Meta::decode(&head.metadata)?;
        let size = head.body_bytes?;
        Identity::of(meta.status, &meta.headers, Some(size))?;
        let id = fill.parts_id_or(random_id());
        meta.parts = Some(PartsInfo { size, id });
        PartialObject::of(key, meta, head.times)
    }

    fn of(key: &Key, meta: Meta, times: Times) -> Option<PartialObject> {
        let PartsInfo { size, id } = meta.parts?;
        let identity = Identity::of(meta.status, &meta.headers, Some(size))?;
        Some(PartialObject { key: key.clone(), id, size, times, identity, meta: Arc::new(meta) })
    }

    /// Returns whether this object suits a request: it has the range's first byte, is the version that `If-Range`
    /// names, and the variant that the request's fields select.
    pub(crate) fn has(&self, x: &Exchange, wanted: RequestedRange) -> bool {
        let fields = &x.request.head.headers;
        let modified = self.meta.last_modified().and_then(date::parse_http);
        let condition = fields.first(Known::IfRange);
        wanted.start < self.size
            && self.meta.serves(fields, &mut Vec::new())
            && condition.is_none_or(|field| if_range_holds(field, self.meta.etag(), modified))
    }

    /// Removes the stored head, and so all parts, if it is still this object's.
    pub(crate) async fn forget(&self, store: &Store, now: u64) {
        let (Some(entry), _) = open(store, &self.key, now).await else { return };
        if PartialObject::stored(&self.key, &entry).is_some_and(|stored| stored.id == self.id) {
            let (store, key) = (store.clone(), self.key.clone());
            let _ = blocking::run(move || store.remove(&key)).await;
        }
    }

    /// Returns the key of the part that begins at `start`.
    pub(crate) fn part_key(&self, start: u64) -> Key {
        plan::key(&self.key, self.id, start)
    }
}

/// Returns an unpredictable id.
pub(crate) fn random_id() -> u64 {
    let mut bytes = [0; 8];
    tidegate_rt::random::unpredictable(&mut bytes);
    u64::from_ne_bytes(bytes).max(1)
}
