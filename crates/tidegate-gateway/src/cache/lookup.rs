//! The lookup of the object, the variant or the fill of a request.
//!
//! The object under the main key (`proxy_cache_key`) lists the request fields that tell its variants apart, and is
//! one of the variants itself. Every other variant is stored under its own key: the main key and the values of those
//! fields in the request. So an object is never served to a request for another variant, whatever is stored. A
//! variant is valid only beside a main object of the same variant set, so removing the object under the main key
//! removes them all.

use std::sync::Arc;

use tidegate_cache::{Fill, Key, KeyHash, Lookup, OpenEntry, Store};
use tidegate_codec::Headers;
use tidegate_codec::caching::rfc9111::reuse::RequestTerms;
use tidegate_codec::caching::write_variant;
use tidegate_core::{Exchange, blocking};

use crate::cache::decide::coverage;
use crate::cache::decide::decision::Input;
use crate::cache::decide::facts::{FillState, StoredState};
use crate::cache::decide::policy;
use crate::cache::meta::{Meta, decoded};

/// The object, the variant and the running fill found for a key.
pub(super) struct CacheLookup {
    /// The key that the request uses: the main key or a variant's.
    pub key: Key,
    /// The fields by which `key` was chosen; empty for the main key.
    pub names: Vec<Vec<u8>>,
    /// Variant set of the object under the main key; 0 when there is none.
    pub variant_set: u64,
    /// The stored object.
    pub entry: Option<OpenEntry>,
    /// The head of an object of which only parts are stored.
    pub parts: Option<OpenEntry>,
    /// The running fill.
    pub fill: Option<Arc<Fill>>,
    /// Generation of the object in the index, whether the object can be used or not.
    pub generation: Option<u64>,
    uses: u32,
    uncacheable_until: u64,
}

/// Maximum number of attempts to open a file that the index lists and the disk does not have: the disk may have
/// failed.
const OPENINGS_MAX: usize = 3;

/// The result of one lookup step.
enum LookupStep {
    This,
    Variant(Variants),
    /// A file has to be opened, or is about to be stored, before the variant is known.
    Unopened,
}

/// The variants that an object under the main key lists.
pub(super) struct Variants {
    /// The request fields that tell the variants apart.
    names: Vec<Vec<u8>>,
    variant_set: u64,
}

/// The uses of its keys so far, as one request has counted them: itself once, at its first lookup of the main key and of a
/// variant's. Requests that come while it waits are not among them.
#[derive(Clone, Copy, Default)]
pub(super) struct CountedUses {
    main: u32,
    variant: Option<(KeyHash, u32)>,
}

impl CountedUses {
    /// Returns the uses of a variant's key, counting one unless that was done.
    fn of_variant(&mut self, store: &Store, key: &Key, now: u64) -> u32 {
        match self.variant {
            Some((hash, uses)) if hash == *key.hash() => uses,
            _ => {
                let uses = store.lookup(key, now).uses;
                self.variant = Some((*key.hash(), uses));
                uses
            }
        }
    }
}

/// Looks up without waiting; `None` when a file has to be opened first. Counts a use.
pub(super) fn look_now(
    store: &Store,
    main: &Key,
    request: &Headers,
    counted: &mut CountedUses,
    now: u64,
) -> Option<CacheLookup> {
    let lookup = newest(store.lookup(main, now), request);
    counted.main = lookup.uses;
    match found(&lookup, request) {
        LookupStep::This => Some(at_main_key(main, lookup)),
        LookupStep::Unopened => None,
        LookupStep::Variant(variants) => {
            let key = variant_key(main, &variants.names, request);
            let lookup = store.lookup(&key, now);
            counted.variant = Some((*key.hash(), lookup.uses));
            match found(&lookup, request) {
                LookupStep::Unopened => None,
                found => Some(at_variant_key(key, variants, found, lookup)),
            }
        }
    }
}

/// Looks up, opening files as needed. Counts no use of what [`look_now`] has counted.
pub(super) async fn look(
    store: &Store,
    main: &Key,
    request: &Headers,
    counted: &mut CountedUses,
    now: u64,
) -> CacheLookup {
    let lookup = newest(opened(store, main, now).await, request);
    let lookup = Lookup { uses: counted.main, ..lookup };
    let variants = match found(&lookup, request) {
        LookupStep::This | LookupStep::Unopened => return at_main_key(main, lookup),
        LookupStep::Variant(variants) => variants,
    };
    let key = variant_key(main, &variants.names, request);
    let uses = counted.of_variant(store, &key, now);
    let lookup = Lookup { uses, ..opened(store, &key, now).await };
    let found = found(&lookup, request);
    at_variant_key(key, variants, found, lookup)
}

fn meta_of(entry: &OpenEntry) -> Option<&Meta> {
    decoded(entry).map(|decoded| &decoded.meta)
}

impl CacheLookup {
    /// Returns the uses of the key so far, this one included.
    pub(super) fn uses(&self) -> u32 {
        self.uses
    }

    /// Returns whether a response of the key proved not to be storable a short time before `now`, in Unix milliseconds.
    pub(super) fn is_uncacheable(&self, now: u64) -> bool {
        now < self.uncacheable_until
    }

    /// Returns whether a fill of this variant belongs to a variant set that has ended.
    pub(super) fn is_foreign(&self, fill: &Fill) -> bool {
        let meta = fill.head_now().and_then(|head| Meta::decode(&head.metadata));
        !self.names.is_empty() && meta.is_some_and(|meta| meta.variant_set != self.variant_set)
    }

    /// Returns the input for the decision about a request with these `terms`; `None`: its terms are ignored.
    pub(super) fn input(&self, x: &Exchange, terms: Option<&RequestTerms>, now: u64) -> Input {
        let is_hit_for_miss = self.is_uncacheable(now);
        let mut filling = self
            .fill
            .as_ref()
            .map(|fill| FillState { is_hit_for_miss, ..filling_of(x, fill, terms, now) });
        let entry = self.entry.as_ref().and_then(|entry| Some((entry, meta_of(entry)?)));
        if let Some((entry, meta)) = entry {
            // A request that waited for the revalidation would have to revalidate again.
            if let Some(filling) = &mut filling
                && terms.is_some()
                && policy::is_always_stale(entry.times())
            {
                filling.joinable = false;
            }
            return Input::Found(StoredState {
                has_validators: meta.last_modified().is_some() || meta.etag().is_some(),
                filling,
                ..policy::stored_state(entry.times(), meta.must_revalidate, terms, now)
            });
        }
        match filling {
            Some(filling) => Input::Filling(filling),
            None => Input::Absent { uses: self.uses },
        }
    }
}

/// Returns whether an object may be served now, as it is, to a request with these `terms`.
pub(super) fn is_fresh(entry: &OpenEntry, terms: Option<&RequestTerms>, now: u64) -> bool {
    policy::stored_state(entry.times(), false, terms, now).fresh
}

/// Returns the state of a fill for the decision about this request, which has these `terms`.
pub(super) fn filling_of(
    x: &Exchange,
    fill: &Arc<Fill>,
    terms: Option<&RequestTerms>,
    now: u64,
) -> FillState {
    let head = fill.head_now();
    let times = head.as_ref().map(|head| head.times);
    let joinable = policy::is_joinable(times, fill.started_at(), terms, now);
    let has_head = head.is_some();
    let arrived = fill.watermark();
    let is_stale = terms.is_none() && times.is_some_and(|times| times.valid_until <= now);
    let needed = head.as_ref().and_then(|head| coverage::needed(x, head));
    let promised = head.and_then(|head| head.body_bytes);
    FillState {
        has_head,
        arrived,
        promised,
        whole: fill.has_last_byte() && fill.is_readable_from_start(),
        joinable,
        is_stale,
        is_hit_for_miss: false,
        suffices: needed.is_some_and(|needed| needed <= arrived),
        last_progress: fill.last_progress_at(),
    }
}

/// Returns the variants of a fill's response when this request asks for another one.
pub(super) fn other_variant(fill: &Fill, request: &Headers) -> Option<Variants> {
    let meta = Meta::decode(&fill.head_now()?.metadata)?;
    let variant_set = meta.variant_set;
    (!meta.serves(request, &mut Vec::new())).then_some(Variants { names: meta.vary, variant_set })
}

fn variant_key(main: &Key, names: &[Vec<u8>], request: &Headers) -> Key {
    let mut variant = Vec::new();
    write_variant(names, request, &mut variant);
    Key::of(&policy::variant_key(main.text(), &variant))
}

fn found(lookup: &Lookup, request: &Headers) -> LookupStep {
    if lookup.placing.is_some() {
        return LookupStep::Unopened;
    }
    let Some(entry) = &lookup.open else {
        if lookup.entry.is_some() || lookup.cold {
            return LookupStep::Unopened;
        }
        let other = lookup.fill.as_ref().and_then(|fill| other_variant(fill, request));
        return other.map_or(LookupStep::This, LookupStep::Variant);
    };
    match meta_of(entry) {
        Some(meta) if !meta.serves(request, &mut Vec::new()) => LookupStep::Variant(Variants {
            names: meta.vary.clone(),
            variant_set: meta.variant_set,
        }),
        _ => LookupStep::This,
    }
}

/// Discards a stored object that a fill is about to replace where the origin has changed the fields that tell variants apart: one
/// that this request does not suit, if the fill suits it or has its last byte; and one that it suits, if the fill has its last
/// byte and is another variant.
fn newest(lookup: Lookup, request: &Headers) -> Lookup {
    let is_other = |entry: &OpenEntry| {
        meta_of(entry).is_some_and(|meta| !meta.serves(request, &mut Vec::new()))
    };
    let is_replaced =
        lookup.open.as_ref().zip(lookup.fill.as_ref()).is_some_and(|(entry, fill)| {
            let suits = || fill.head_now().is_some() && other_variant(fill, request).is_none();
            match fill.has_last_byte() {
                true => is_other(entry) || !suits(),
                false => is_other(entry) && suits(),
            }
        });
    match is_replaced {
        true => Lookup { open: None, entry: None, cold: false, ..lookup },
        false => lookup,
    }
}

async fn opened(store: &Store, key: &Key, now: u64) -> Lookup {
    let mut lookup = store.peek(key);
    if let Some(fill) = &lookup.placing {
        fill.placed().await;
        lookup = store.peek(key);
    }
    // A fill may end while the disk is read: then there is a file that the lookup did not include.
    for _ in 0..OPENINGS_MAX {
        if lookup.open.is_some() || lookup.entry.is_none() && !lookup.cold {
            break;
        }
        lookup = opened_once(store, key, now).await;
    }
    lookup
}

async fn opened_once(store: &Store, key: &Key, now: u64) -> Lookup {
    let (opening, of) = (store.clone(), key.clone());
    let generation = |lookup: &Lookup| lookup.entry.as_ref().map(|entry| entry.generation);
    let before = generation(&store.peek(key));
    let opened = blocking::run(move || opening.open_entry(&of, now)).await;
    // A disk that fails makes the cache empty and does not stop the server: the store counts the errors.
    let opened = opened.ok().flatten();
    // A fill may have begun, or even ended, while the disk was read.
    let mut lookup = store.peek(key);
    let after = generation(&lookup);
    if after.is_some() && after != before {
        // It is opened again: what was read may be of the object before.
        return lookup;
    }
    lookup.open = lookup.open.or(opened);
    if lookup.open.is_none() {
        lookup.cold = false;
    }
    lookup
}

fn at_main_key(main: &Key, lookup: Lookup) -> CacheLookup {
    let variant_set = lookup.open.as_ref().and_then(meta_of).map_or(0, |meta| meta.variant_set);
    assembled(main.clone(), Variants { names: Vec::new(), variant_set }, lookup)
}

/// Returns the lookup under a variant's key. The object there may not suit this request: its origin has changed the
/// fields in between, or the variant set has ended. Then the lookup is empty.
fn at_variant_key(key: Key, variants: Variants, found: LookupStep, lookup: Lookup) -> CacheLookup {
    let variant_set = variants.variant_set;
    let is_other = matches!(found, LookupStep::Variant(_));
    let mut found = assembled(key, variants, lookup);
    let entry_meta = found.entry.as_ref().and_then(meta_of);
    if is_other || entry_meta.is_some_and(|meta| meta.variant_set != variant_set) {
        found.entry = None;
    }
    let parts_meta = found.parts.as_ref().and_then(meta_of);
    if is_other || parts_meta.is_some_and(|meta| meta.variant_set != variant_set) {
        found.parts = None;
    }
    if is_other || found.fill.as_ref().is_some_and(|fill| found.is_foreign(fill)) {
        found.fill = None;
    }
    found
}

fn assembled(key: Key, variants: Variants, lookup: Lookup) -> CacheLookup {
    let Variants { names, variant_set } = variants;
    let Lookup { entry, open, fill, uses, uncacheable_until, .. } = lookup;
    let generation = entry.map(|entry| entry.generation);
    let in_parts = |entry: &OpenEntry| meta_of(entry).is_some_and(|meta| meta.parts.is_some());
    // Parts are no complete object: a request for the whole has to fetch it.
    let (parts, entry) = match open {
        Some(entry) if in_parts(&entry) => (Some(entry), None),
        open => (None, open),
    };
    CacheLookup { key, names, variant_set, entry, parts, fill, generation, uses, uncacheable_until }
}
