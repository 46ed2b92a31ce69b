//! Coalesces the first range requests of an unknown object on a probe key: one of them is sent to the origin, and the
//! head of its response tells all of them what the object is.

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
use crate::cache::decide::policy::{OriginExchange, Storable};
use crate::cache::fill::origin::{BodyRest, OriginRequester, length_of};
use crate::cache::meta::{Meta, PartsInfo, new_variant_set, tags_of};
use crate::cache::ranges::object::{PartialObject, random_id};
use crate::cache::ranges::part_fetch::{PartFetch, begin_part};
use crate::cache::ranges::plan::{self, RequestedRange};

/// Milliseconds without another probe after an origin has sent no part of an object.
const UNFIT_FOR_MILLIS: u64 = 10_000;

/// Most bytes of a probe: enough for a start, and little enough to be fetched in vain.
const FIRST_BYTES_MAX: u64 = 8 * plan::BLOCK_BYTES;

/// The parameters of a probe.
pub(crate) struct RangeProbe {
    pub store: Store,
    pub cache: Arc<CacheSettings>,
    /// Key of the object.
    pub key: Key,
    /// Generation of the entry found by the lookup; `None` if absent.
    pub generation: Option<u64>,
    /// The request fields by which `key` was chosen.
    pub names: Vec<Vec<u8>>,
    /// Variant set of the object under the main key; 0 when there is none.
    pub variant_set: u64,
    pub client_fields: Headers,
    /// When the client's request arrived, in Unix milliseconds.
    pub requested_at: u64,
    pub wanted: RequestedRange,
}

/// Joins the running probe of this object, or starts one. The reader gets the object's head, or the failure of the
/// probe. `None` when a probe failed a short time ago.
pub(crate) fn join_or_start_probe(
    probe: RangeProbe,
    origin: OriginRequester,
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
            drop(spawn_local(probe.run(origin, writer)));
            reader
        }
    })
}

impl RangeProbe {
    /// Sends the request and stores the response; the head is published to the waiters as soon as it arrives.
    ///
    /// ```text
    ///   ask ──► no response ──────────────────────► released: each waiter fetches for itself
    ///    ├────► no usable part ───────────────────► released, and not tried for a while
    ///    └────► a part ──► its writer ──► the head is stored ──► published ──► PartFetch goes on
    ///                                          └──► another object is stored there: released
    /// ```
    /// Invariant: the waiters of the probe are woken in every case: it is published and aborted, or released. The
    /// part's writer exists before the head is published, since readers of the head look for the part and would fetch
    /// it. A part is stored only where the complete object would be (RFC 9111 section 3.4).
    ///
    /// Cancelling: it runs in a task of its own, which no client ends. When the thread ends it is dropped at any
    /// await; then the writers are dropped, and all waiters are woken.
    async fn run(self, origin: OriginRequester, probe: FillWriter) {
        let RequestedRange { start, end } = self.wanted.widened();
        // The rest of a longer range is fetched by the readers that still want it then.
        let most = start.saturating_add(FIRST_BYTES_MAX);
        let end = end.map_or(most, |end| end.min(most));
        // Begun with the request: a removal meanwhile is of the head as well.
        let head = self.store.begin_fill_beside(&self.key, clock::unix_millis());
        let response = origin.fetch(start, Some(end - 1), None).await;
        let now = clock::unix_millis();
        let Some(response) = response else { return probe.release() };
        let begun_at = probe.fill().started_at();
        let Some((object, end)) = self.judge(&response, (start, end), begun_at, now) else {
            self.store.mark_uncacheable(probe.fill().key(), now + UNFIT_FOR_MILLIS);
            return probe.release();
        };
        // Before the object is known to readers: they look for the part, and fetch it if no fill has begun.
        let part = begin_part(&self.store, &object, start, now);
        if !self.store_head(&object, head, now).await {
            return probe.release();
        }
        let metadata = object.meta.encode();
        probe.publish_head(metadata, object.times, Some(object.size), now);
        if let Some(part) = part {
            let body = response.body.into_body();
            let rest = BodyRest { body, skip: 0, end: Some(end) };
            let fetch = PartFetch::new(self.store, origin, object, (start, end));
            // The waiters begin to read meanwhile.
            drop(spawn_local(fetch.run(part, Some(rest), None)));
        }
        probe.abort("the head is published");
    }

    /// Returns the object that the response is a part of, and the end of the part.
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
        // By the rules for the complete object.
        let (request, requested_at) = (&self.client_fields, self.requested_at);
        let exchanged = OriginExchange { request, requested_at, status: 200, headers };
        let Storable { times, must_revalidate, vary } = self.cache.decide(exchanged, now).ok()?;
        if !self.names.is_empty() && self.names != vary {
            return None;
        }
        let mut variant = Vec::new();
        write_variant(&vary, &self.client_fields, &mut variant);
        let mut meta = Meta::of(200, b"", headers, vary, variant, None);
        meta.headers.remove(Known::ContentRange);
        meta.variant_set =
            if self.variant_set == 0 { new_variant_set(now) } else { self.variant_set };
        meta.requested_at = begun_at;
        meta.tags = tags_of(&meta.headers, &self.cache.tag_headers);
        if self.cache.rfc9111 {
            meta.make_rfc9111(must_revalidate, now);
        }
        let id = random_id();
        meta.parts = Some(PartsInfo { size, id });
        let (key, meta) = (self.key.clone(), Arc::new(meta));
        Some((PartialObject { key, id, size, times, identity, meta }, field.range.end))
    }

    /// Stores the object's head; false if another object has been stored meanwhile.
    async fn store_head(&self, object: &PartialObject, head: FillWriter, now: u64) -> bool {
        let there = self.store.peek(&object.key).entry.map(|entry| entry.generation);
        if there != self.generation {
            return false;
        }
        head.publish_head(object.meta.encode(), object.times, Some(0), now);
        // If the disk fails, the current waiters can still be served the parts.
        let _ = blocking::run(move || Ok(head.commit(now))).await;
        true
    }
}
