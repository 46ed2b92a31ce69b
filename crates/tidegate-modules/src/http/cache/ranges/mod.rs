//! `proxy_cache_ranges`: ranges that are far ahead of what has arrived, or that
//! `proxy_cache_max_range_offset` keeps from fetching the whole, are fetched by themselves and kept.
//!
//! An object in parts is a head without a body under the object's own key (so that whatever removes the
//! object removes its parts, too), and a file for each part, found by a number that the head bears. All
//! parts have one strong validator and one size. The fill of the whole takes them up on its way, and
//! replaces the head in the end.
//!
//! | file | what |
//! |---|---|
//! | `plan` | numbers and keys |
//! | `probe` | the first part of an object of which nothing is known |
//! | `part_reader` | out of a part, to the fill of the whole |
//! | `part_fetch` | from the origin into parts |
//! | `assemble` | out of parts, the running fill and the origin, to a client |

mod assemble;
mod part_fetch;
mod part_reader;
pub mod plan;
mod probe;

use std::sync::Arc;

use tidegate_cache::{Fill, FillHead, Key, OpenEntry, Store, Times};
use tidegate_core::{Body, Exchange, Step, blocking};
use tidegate_http::range::{ByteRange, if_range_holds};
use tidegate_http::{Known, date};

use assemble::AssembledBody;
pub use assemble::RangeAssembler;
pub use part_reader::PartReader;
use plan::RequestedRange;
pub use probe::{RangeProbe, join_or_start_probe};

use crate::http::cache::fill::resume::Identity;
use crate::http::cache::gateway::{Gateway, StoredResponse};
use crate::http::cache::meta::{Decoded, Meta, PartsOf};
use crate::http::cache::serve::entry as serve;
use crate::http::cache::status::CacheStatus;

/// A fill that is so many bytes short of a range is waited for rather than the origin asked once more:
/// less than that comes in the time of a request.
pub const FAR_BYTES: u64 = plan::BLOCK_BYTES;

/// An object of which parts can be had.
#[derive(Clone)]
pub struct PartialObject {
    pub key: Key,
    pub id: u64,
    pub size: u64,
    pub times: Times,
    pub identity: Identity,
    meta: Arc<Meta>,
}

impl PartialObject {
    /// Of a stored head; `None` when it is no head of parts.
    pub fn stored(key: &Key, entry: &OpenEntry) -> Option<PartialObject> {
        let meta = Meta::decode(entry.metadata())?;
        PartialObject::of(key, meta, entry.times())
    }

    /// Of a head that has just come for a first part.
    pub fn published(key: &Key, head: &FillHead) -> Option<PartialObject> {
        PartialObject::of(key, Meta::decode(&head.metadata)?, head.times)
    }

    /// Of the whole, while it is being fetched. `None` without a length and a strong validator.
    pub fn filling(key: &Key, fill: &Fill) -> Option<PartialObject> {
        let head = fill.head_now()?;
        let mut meta = Meta::decode(&head.metadata)?;
        let size = head.body_bytes?;
        Identity::of(meta.status, &meta.headers, Some(size))?;
        let id = fill.parts_id_or(random_id());
        meta.parts = Some(PartsOf { size, id });
        PartialObject::of(key, meta, head.times)
    }

    fn of(key: &Key, meta: Meta, times: Times) -> Option<PartialObject> {
        let PartsOf { size, id } = meta.parts?;
        let identity = Identity::of(meta.status, &meta.headers, Some(size))?;
        Some(PartialObject { key: key.clone(), id, size, times, identity, meta: Arc::new(meta) })
    }

    /// Whether this object has what a request wants: the range's first byte, of the version that
    /// `If-Range` names, in the variant that the request's fields ask for.
    pub fn has(&self, x: &Exchange, wanted: RequestedRange) -> bool {
        let fields = &x.request.head.headers;
        let modified = self.meta.last_modified().and_then(date::parse_http);
        let condition = fields.first(Known::IfRange);
        wanted.start < self.size
            && self.meta.serves(fields, &mut Vec::new())
            && condition.is_none_or(|field| if_range_holds(field, self.meta.etag(), modified))
    }

    /// Removes the stored head, and so all parts, if it is still this object's.
    pub async fn forget(&self, store: &Store) {
        let (Some(entry), _) = assemble::open(store, &self.key).await else { return };
        if PartialObject::stored(&self.key, &entry).is_some_and(|stored| stored.id == self.id) {
            let (store, key) = (store.clone(), self.key.clone());
            let _ = blocking::run(move || store.remove(&key)).await;
        }
    }

    /// The key of the part that begins at `start`.
    pub fn part_key(&self, start: u64) -> Key {
        plan::key(&self.key, self.id, start)
    }
}

/// Whether a request's range begins so far ahead of what has arrived that it is not to be waited for.
pub fn is_far(x: &Exchange, fill: &Fill) -> bool {
    let wanted = x.request.header(Known::Range).and_then(RequestedRange::parse);
    let near = fill.watermark().saturating_add(FAR_BYTES);
    wanted.is_some_and(|wanted| wanted.start >= near) && !fill.is_whole()
}

/// Answers with an object in parts, once the range's first byte is there; `None` when it does not come.
/// What is cut out is the range filter's affair.
pub async fn answer(
    x: &mut Exchange,
    gateway: &dyn Gateway,
    wanted: RequestedRange,
    assembler: RangeAssembler,
) -> Option<Step<'static>> {
    let object = assembler.object.clone();
    let is_there = assembler.has(wanted.start);
    let end = wanted.end.unwrap_or(object.size).min(object.size);
    if !is_there && !assembler.prepare(ByteRange { start: wanted.start, end }).await {
        return None;
    }
    let Decoded { head, .. } = Decoded::of_meta(Meta::clone(&object.meta));
    let status = if is_there { CacheStatus::Hit } else { CacheStatus::Miss };
    serve::note(x, |note| {
        note.status = status;
        note.stored_at = if is_there { object.times.created } else { 0 };
    });
    gateway.show_head(x, head.clone());
    let content_length = Some(object.size);
    let body = Body::Stream(Box::new(AssembledBody::new(assembler)));
    Some(gateway.respond_stored(x, StoredResponse { head: &head, body, content_length }))
}

/// A number that nobody can guess.
pub fn random_id() -> u64 {
    let mut bytes = [0; 8];
    tidegate_rt::random::unpredictable(&mut bytes);
    u64::from_ne_bytes(bytes).max(1)
}
