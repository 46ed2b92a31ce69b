//! Which object, variant or fill a request is about.
//!
//! The object under the main key (`proxy_cache_key`) tells by which request fields its variants
//! differ, and which of them it is itself. Another variant lies under a key of its own: the main key
//! and what the request says in those fields. So an object is never given to a request of another
//! variant, whatever lies where.

use std::sync::Arc;

use tidegate_cache::{Fill, Key, Lookup, OpenEntry, Store};
use tidegate_core::{Exchange, blocking};
use tidegate_http::Headers;
use tidegate_http::caching::write_variant;
use tidegate_rt::clock;

use super::join;
use super::meta::{Decoded, Meta};
use super::policy;
use super::turn::{Filling, Input, Standing};

/// What there is for a request.
pub struct Sight {
    pub key: Key,
    /// The fields by which `key` was chosen; empty for the main key.
    pub names: Vec<Vec<u8>>,
    pub entry: Option<OpenEntry>,
    pub fill: Option<Arc<Fill>>,
    /// That of the object that the index knows, whether it can be used or not.
    pub generation: Option<u64>,
    uses: u32,
    uncacheable_until: u64,
}

/// Where to look next.
enum Found {
    This,
    Variant(Vec<Vec<u8>>),
    /// A file has to be opened before anybody can tell.
    Unopened,
}

/// Looks without waiting; `None` when a file has to be opened first. Counts a use.
pub fn look_now(store: &Store, main: &Key, request: &Headers, now: u64) -> Option<Sight> {
    let lookup = store.lookup(main, now);
    match found(&lookup, request) {
        Found::This => Some(sight(main.clone(), Vec::new(), lookup)),
        Found::Unopened => None,
        Found::Variant(names) => {
            let key = variant_key(main, &names, request);
            let lookup = store.lookup(&key, now);
            match found(&lookup, request) {
                Found::Unopened => None,
                Found::This => Some(sight(key, names, lookup)),
                Found::Variant(_) => Some(unknown(key, names, lookup)),
            }
        }
    }
}

/// Looks, opening files as needed. Counts no use: `look_now` was there before.
pub async fn look(store: &Store, main: &Key, request: &Headers) -> Sight {
    let lookup = opened(store, main).await;
    let names = match found(&lookup, request) {
        Found::This | Found::Unopened => return sight(main.clone(), Vec::new(), lookup),
        Found::Variant(names) => names,
    };
    let key = variant_key(main, &names, request);
    let lookup = opened(store, &key).await;
    match found(&lookup, request) {
        Found::This | Found::Unopened => sight(key, names, lookup),
        Found::Variant(_) => unknown(key, names, lookup),
    }
}

/// The decoded head of an open entry, decoded once for all its hits.
pub fn decoded(entry: &OpenEntry) -> Option<&Decoded> {
    entry.companion(|| Decoded::of(entry.metadata()))?.as_ref()
}

fn meta_of(entry: &OpenEntry) -> Option<&Meta> {
    decoded(entry).map(|decoded| &decoded.meta)
}

impl Sight {
    /// What the turn is told of it.
    pub fn input(&self, x: &Exchange, now: u64) -> Input {
        let filling = self.fill.as_ref().map(|fill| filling_of(x, fill));
        let entry = self.entry.as_ref().and_then(|entry| Some((entry, meta_of(entry)?)));
        if let Some((entry, meta)) = entry {
            let times = entry.times();
            return Input::Found(Standing {
                fresh: now < times.valid_until,
                may_serve_while_updating: now < times.updating_until,
                may_serve_on_error: now < times.error_until,
                has_validators: meta.last_modified().is_some() || meta.etag().is_some(),
                filling,
            });
        }
        match filling {
            Some(filling) => Input::Filling(filling),
            None => {
                let uncacheable = now < self.uncacheable_until;
                Input::Absent { uses: self.uses, uncacheable }
            }
        }
    }
}

/// A fill as the turn of this request sees it.
pub fn filling_of(x: &Exchange, fill: &Arc<Fill>) -> Filling {
    let head = fill.head_now();
    let has_head = head.is_some();
    let arrived = fill.watermark();
    let needed = head.as_ref().and_then(|head| join::needed(x, head));
    let promised = head.and_then(|head| head.body_bytes);
    // The last byte comes before the news that it was the last.
    let all = fill.is_whole() || !fill.has_ended() && promised == Some(arrived);
    Filling {
        has_head,
        arrived,
        promised,
        whole: all && fill.is_readable_from_start(),
        suffices: needed.is_some_and(|needed| needed <= arrived),
        last_progress: fill.last_progress_at(),
    }
}

/// The names by which a fill's response has variants, when this request asks for another one.
pub fn other_variant(fill: &Fill, request: &Headers) -> Option<Vec<Vec<u8>>> {
    let meta = Meta::decode(&fill.head_now()?.metadata)?;
    (!meta.serves(request, &mut Vec::new())).then_some(meta.vary)
}

fn variant_key(main: &Key, names: &[Vec<u8>], request: &Headers) -> Key {
    let mut variant = Vec::new();
    write_variant(names, request, &mut variant);
    Key::of(&policy::variant_key(main.text(), &variant))
}

fn found(lookup: &Lookup, request: &Headers) -> Found {
    let Some(entry) = &lookup.open else {
        if lookup.entry.is_some() || lookup.cold {
            return Found::Unopened;
        }
        let other = lookup.fill.as_ref().and_then(|fill| other_variant(fill, request));
        return other.map_or(Found::This, Found::Variant);
    };
    match meta_of(entry) {
        Some(meta) if !meta.serves(request, &mut Vec::new()) => Found::Variant(meta.vary.clone()),
        _ => Found::This,
    }
}

async fn opened(store: &Store, key: &Key) -> Lookup {
    let lookup = store.peek(key);
    if lookup.open.is_some() || lookup.entry.is_none() && !lookup.cold {
        return lookup;
    }
    let (opening, of) = (store.clone(), key.clone());
    let opened = blocking::run(move || opening.open_entry(&of, clock::unix_millis())).await;
    // A disk that fails makes the cache empty, not the server dead: the store counts the errors.
    let opened = opened.ok().flatten();
    // A fill may have begun, or even ended, while the disk was asked.
    let mut lookup = store.peek(key);
    lookup.open = lookup.open.or(opened);
    if lookup.open.is_none() {
        lookup.cold = false;
    }
    lookup
}

fn sight(key: Key, names: Vec<Vec<u8>>, lookup: Lookup) -> Sight {
    let Lookup { entry, open, fill, uses, uncacheable_until, .. } = lookup;
    let generation = entry.map(|entry| entry.generation);
    Sight { key, names, entry: open, fill, generation, uses, uncacheable_until }
}

/// Under a variant's key lies an answer that is none for this request: its origin has changed the
/// fields in between. It is as if nothing were there.
fn unknown(key: Key, names: Vec<Vec<u8>>, lookup: Lookup) -> Sight {
    Sight { entry: None, fill: None, ..sight(key, names, lookup) }
}
