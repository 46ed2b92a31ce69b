//! The places where a session fetches a range separately (`proxy_cache_ranges`) in place of its next step.

use std::sync::Arc;

use tidegate_cache::Fill;
use tidegate_codec::Known;
use tidegate_codec::caching::rfc9111::reuse::RequestTerms;
use tidegate_codec::request::Method;
use tidegate_core::Exchange;
use tidegate_rt::clock;

use super::{CacheSession, NextStep};
use crate::cache::decide::decision::{Input, Output};
use crate::cache::decide::policy::range_is_beyond;
use crate::cache::fill::origin::OriginRequester;
use crate::cache::lookup::CacheLookup;
use crate::cache::ranges::assemble::RangeAssembler;
use crate::cache::ranges::object::PartialObject;
use crate::cache::ranges::plan::RequestedRange;
use crate::cache::ranges::probe::{RangeProbe, join_or_start_probe};
use crate::cache::ranges::response;
use crate::cache::serve::wait;

impl CacheSession {
    /// Serves a range separately in place of the next step (`proxy_cache_ranges`); `None`: the next step is taken.
    ///
    /// | next step | condition | if the range cannot be served |
    /// |---|---|---|
    /// | a fill is joined | the range is beyond the offset, or far ahead | beyond: passed; else joined |
    /// | this request's fill is read | far ahead | read |
    /// | a fill is waited for | beyond the offset | passed |
    /// | the origin is asked for the whole | beyond the offset | passed |
    pub(super) async fn serve_range_separately(
        &self,
        x: &mut Exchange,
        lookup: &CacheLookup,
        next: &NextStep,
        now: u64,
    ) -> Option<NextStep> {
        let (fill, is_beyond) = match next {
            NextStep::Join(fill) => (Some(fill), self.range_is_beyond(x, Some(fill))),
            NextStep::Read(reader, _) => (Some(reader.fill()), false),
            NextStep::Do(Output::Wait { .. }) => {
                let fill = lookup.fill.as_ref()?;
                (Some(fill), self.range_is_beyond(x, Some(fill)))
            }
            NextStep::Fetch { .. } => (None, self.range_is_beyond(x, None)),
            NextStep::Decide | NextStep::Inform(_) | NextStep::Do(_) | NextStep::Done(_) => {
                return None;
            }
        };
        let is_read = matches!(next, NextStep::Join(_) | NextStep::Read(..));
        let is_far = || is_read && fill.is_some_and(|fill| response::is_far(x, fill));
        if !is_beyond && !is_far() {
            return None;
        }
        if let Some(served) = self.serve_part(x, lookup, fill, now).await {
            return Some(served);
        }
        match next {
            _ if !is_beyond => None,
            NextStep::Fetch { .. } => Some(NextStep::Do(Output::Pass)),
            _ => Some(NextStep::Inform(Input::RangeBeyond)),
        }
    }

    /// Returns whether the request's range begins beyond `proxy_cache_max_range_offset`, and beyond the bytes of a
    /// fill that have arrived.
    fn range_is_beyond(&self, x: &Exchange, fill: Option<&Arc<Fill>>) -> bool {
        let range = x.request.header(Known::Range);
        let (Some(range), Some(max)) = (range, self.cache.max_range_offset) else { return false };
        match fill {
            Some(fill) if fill.is_whole() => false,
            Some(fill) => range_is_beyond(range, max.max(fill.watermark())),
            None => range_is_beyond(range, max),
        }
    }

    /// Serves a range that is not waited for; `None` if that is impossible.
    ///
    /// The object is known by the fill of the complete object, by the stored head of its parts, or by a probe. No
    /// range is fetched against `If-Range` (RFC 9110 section 13.1.5). A client that leaves ends neither a probe nor a
    /// part that has begun.
    async fn serve_part(
        &self,
        x: &mut Exchange,
        lookup: &CacheLookup,
        fill: Option<&Arc<Fill>>,
        now: u64,
    ) -> Option<NextStep> {
        if !self.may_serve_parts(x, lookup) {
            return None;
        }
        let wanted = RequestedRange::parse(x.request.header(Known::Range)?)?;
        let stored = lookup.parts.as_ref().filter(|entry| now < entry.times().valid_until);
        let known = match fill.and_then(|fill| PartialObject::filling(fill.key(), fill)) {
            Some(object) => Some(object),
            None => stored.and_then(|entry| PartialObject::stored(&lookup.key, entry)),
        };
        match &known {
            Some(object) if !object.has(x, wanted) => return None,
            None if x.request.header(Known::IfRange).is_some() => return None,
            _ => {}
        }
        let origin_fetch = match self.origin_fetch(x, lookup, false, true).await {
            Ok(origin_fetch) => origin_fetch,
            Err(step) => return Some(NextStep::Done(step)),
        };
        let origin = OriginRequester::of(&origin_fetch)?;
        let object = match known {
            Some(object) => object,
            // Another request's first part may have been stored since the lookup.
            None if self.is_outdated(lookup) => return Some(NextStep::Inform(Input::FillEnded)),
            None => {
                let probe = self.probe(x, lookup, wanted, now);
                let mut reader = join_or_start_probe(probe, origin.clone(), clock::unix_millis())?;
                let Some(head) = wait::head_of(x, &mut reader).await else {
                    return Some(NextStep::Do(Output::Leave));
                };
                let head = head?;
                PartialObject::published(&lookup.key, &head)?
            }
        };
        if !object.has(x, wanted) {
            return None;
        }
        let assembler = RangeAssembler::new(object, self.store.clone(), origin, fill.cloned());
        response::respond(x, &*self.gateway, wanted, assembler).await.map(NextStep::Done)
    }

    /// Returns whether this request may be served a part that is fetched separately.
    fn may_serve_parts(&self, x: &Exchange, lookup: &CacheLookup) -> bool {
        let by_settings = self.cache.ranges && self.cache.no_cache.is_empty() && !self.bypass;
        // Here its terms would have to apply to the origin's response to the range.
        let demands_nothing = self.terms.is_none_or(|terms| terms == RequestTerms::default());
        let by_get = x.request.method == Method::Get && !x.is_subrequest();
        by_settings && demands_nothing && by_get && lookup.entry.is_none()
    }

    fn probe(
        &self,
        x: &Exchange,
        lookup: &CacheLookup,
        wanted: RequestedRange,
        now: u64,
    ) -> RangeProbe {
        RangeProbe {
            store: self.store.clone(),
            cache: self.cache.clone(),
            key: lookup.key.clone(),
            generation: lookup.generation,
            names: lookup.names.clone(),
            variant_set: lookup.variant_set,
            client_fields: x.request.head.headers.clone(),
            requested_at: now,
            wanted,
        }
    }
}
