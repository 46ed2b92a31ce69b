//! The first part of an object of which nothing is known: whoever wants one meets under one key, one of
//! them asks, and all learn from the answer's head what object it is.

use std::sync::Arc;

use tidegate_cache::{FillReader, FillWriter, Key, Store};
use tidegate_codec::Known;
use tidegate_codec::caching::write_variant;
use tidegate_codec::range::ContentRange;
use tidegate_codec::{Headers, response::ResponseHead};
use tidegate_core::blocking;
use tidegate_rt::clock;
use tidegate_rt::worker::spawn_local;
use tidegate_upstream::OriginResponse;

use crate::cache::config::settings::CacheSettings;
use crate::cache::decide::identity::Identity;
use crate::cache::decide::policy::{Exchanged, Stored};
use crate::cache::fill::origin::{Origin, Rest, length_of};
use crate::cache::meta::{Meta, PartsOf, new_variant_set, tags_of};
use crate::cache::ranges::object::{PartialObject, random_id};
use crate::cache::ranges::part_fetch::{PartFetch, begin_part};
use crate::cache::ranges::plan::{self, RequestedRange};

/// How long an object whose origin gives no parts of it is not asked for any.
const UNFIT_FOR_MILLIS: u64 = 10_000;

/// Most bytes of a first request: enough for a start, and not more than may be fetched for nobody.
const FIRST_BYTES_MAX: u64 = 8 * plan::BLOCK_BYTES;

/// What asking for a first part takes.
pub(crate) struct RangeProbe {
    pub store: Store,
    pub cache: Arc<CacheSettings>,
    /// The object's.
    pub key: Key,
    /// That of what lay there when it was looked for.
    pub generation: Option<u64>,
    /// The fields by which `key` was chosen.
    pub names: Vec<Vec<u8>>,
    /// That of the object under the main key; 0 when there is none.
    pub variant_set: u64,
    pub client_fields: Headers,
    /// When the client asked, Unix milliseconds.
    pub asked_at: u64,
    pub wanted: RequestedRange,
}

/// Joins those who want a part of this object, or begins; the reader learns of the object's head, or that
/// there are no parts to be had. `None`: that was tried a short time ago. The origin is given back to who
/// has not begun.
pub(crate) fn join_or_start_probe(
    probe: RangeProbe,
    origin: Origin,
    now: u64,
) -> Option<FillReader> {
    let key = plan::probe_key(&probe.key);
    if now < probe.store.lookup(&key, now).uncacheable_until {
        return None;
    }
    Some(match probe.store.begin_fill(&key, now) {
        Err(running) => running.reader(0),
        Ok(writer) => {
            let reader = writer.fill().reader(0);
            drop(spawn_local(probe.begin(origin, writer)));
            reader
        }
    })
}

impl RangeProbe {
    /// Asks, and stores what comes; tells those who wait as soon as there is a head.
    ///
    /// ```text
    ///   ask ──► no response ──────────────────────► released: all ask for themselves
    ///    ├────► no part of it to be had ──────────► released, and not tried for a while
    ///    └────► a part ──► its writer ──► the head is stored ──► published ──► PartFetch goes on
    ///                                          └──► something else lies there: released
    /// ```
    /// Invariant: whoever waits for the probe is woken, whatever came: it is published and aborted, or released. The
    /// part's writer is there before the head is, since with the head come readers who look for the part and would ask
    /// for it. A part is kept only where the whole would be stored (RFC 9111 section 3.4).
    ///
    /// Cancelling: it runs in a task of its own, which no client ends. The end of the thread drops it, at whatever
    /// await; then the writers go, and with them all who wait are woken.
    async fn begin(self, origin: Origin, probe: FillWriter) {
        let RequestedRange { start, end } = self.wanted.widened();
        // The rest of a longer one is asked for by whoever still wants it then.
        let most = start.saturating_add(FIRST_BYTES_MAX);
        let end = end.map_or(most, |end| end.min(most));
        let response = origin.ask(start, Some(end - 1), None).await;
        let now = clock::unix_millis();
        let Some(response) = response else { return probe.release() };
        let begun_at = probe.fill().started_at();
        let Some((object, end)) = self.judge(&response, (start, end), begun_at, now) else {
            self.store.mark_uncacheable(probe.fill().key(), now + UNFIT_FOR_MILLIS);
            return probe.release();
        };
        // Before anybody can know of the object: who does looks for the part, and asks if nobody has.
        let part = begin_part(&self.store, &object, start, now);
        if !self.keep_head(&object, now).await {
            return probe.release();
        }
        let metadata = object.meta.encode();
        probe.publish_head(metadata, object.times, Some(object.size), now);
        if let Some(part) = part {
            let body = response.body.into_body();
            let rest = Rest { body, skip: 0, end: Some(end) };
            let fetch = PartFetch::new(self.store, origin, object, (start, end));
            // Those who have just learned of it begin to read meanwhile.
            drop(spawn_local(fetch.go(part, Some(rest), None)));
        }
        probe.abort("everybody knows");
    }

    /// What object this is a part of, and where the part ends.
    fn judge(
        &self,
        response: &OriginResponse,
        (start, end): (u64, u64),
        begun_at: u64,
        now: u64,
    ) -> Option<(PartialObject, u64)> {
        let ResponseHead { status: 206, headers, .. } = &response.head else { return None };
        let field = headers.first(Known::ContentRange).and_then(ContentRange::parse)?;
        let size = field.size?;
        let fits = field.range.start == start
            && field.range.end == end.min(size)
            && length_of(response).is_none_or(|length| length == field.range.len())
            && !headers.contains(Known::XAccelRedirect);
        let identity = Identity::of(200, headers, Some(size)).filter(|_| fits)?;
        // As the whole would be.
        let (request, asked_at) = (&self.client_fields, self.asked_at);
        let exchanged = Exchanged { request, asked_at, status: 200, headers };
        let Stored { times, must_revalidate, vary } = self.cache.decide(exchanged, now).ok()?;
        if !self.names.is_empty() && self.names != vary {
            return None;
        }
        let mut variant = Vec::new();
        write_variant(&vary, &self.client_fields, &mut variant);
        let mut meta = Meta::of(200, b"", headers, vary, variant, None);
        meta.headers.remove(Known::ContentRange);
        meta.variant_set =
            if self.variant_set == 0 { new_variant_set(now) } else { self.variant_set };
        meta.asked_at = begun_at;
        meta.tags = tags_of(&meta.headers, &self.cache.tag_headers);
        if self.cache.rfc9111 {
            meta.make_rfc9111(must_revalidate, now);
        }
        let id = random_id();
        meta.parts = Some(PartsOf { size, id });
        let (key, meta) = (self.key.clone(), Arc::new(meta));
        Some((PartialObject { key, id, size, times, identity, meta }, field.range.end))
    }

    /// Stores the object's head, unless something else has come meanwhile.
    async fn keep_head(&self, object: &PartialObject, now: u64) -> bool {
        let there = self.store.peek(&object.key).entry.map(|entry| entry.generation);
        if there != self.generation {
            return false;
        }
        let writer = self.store.begin_fill_beside(&object.key, now);
        writer.publish_head(object.meta.encode(), object.times, Some(0), now);
        // Without it the parts can still be given to those who are here.
        let _ = blocking::run(move || Ok(writer.commit(now))).await;
        true
    }
}
