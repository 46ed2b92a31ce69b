//! A fill from the second tier of the cache: the tier is asked in a race with the origin, and what it has is stored and
//! streamed as a response of the origin would be.

use std::sync::Arc;

use tidegate_cache::FillWriter;
use tidegate_rt::clock;
use tidegate_upstream::{FetchError, OriginResponse, fetch};

use crate::cache::fill::origin::{OriginFetch, OriginRequester, Resume};
use crate::cache::fill::task::{FillEventSender, FillTask, Published, Source, may_store};
use crate::cache::meta::{Decoded, new_variant_set};
use crate::cache::tier::{Asking, CacheTier, Found, TierQuery, Winner, race};

impl FillTask {
    /// Asks the tier, where it may have the response. `origin` would be asked for the rest of it.
    pub(super) fn ask_tier(
        &self,
        writer: &FillWriter,
        origin: Option<&OriginRequester>,
    ) -> Option<(Arc<CacheTier>, Asking)> {
        let tier = self.tier.as_ref().filter(|_| self.asks_tier)?;
        let query = TierQuery {
            main: self.main.clone(),
            key: writer.fill().key().clone(),
            client_fields: self.client_fields.clone(),
            terms: self.terms,
            is_resumable: origin.is_some(),
        };
        Some((tier.clone(), tier.ask(query)?))
    }

    /// Lets the tier and the origin race; returns what the tier has found, or the origin's result. What the request does not
    /// want to be stored (`proxy_no_cache`) is not taken from the tier: the origin decides about its own response.
    ///
    /// Cancelling: dropped with the fill's task, it drops both requests.
    pub(super) async fn race(
        &self,
        tier: &Arc<CacheTier>,
        asking: Asking,
        origin_fetch: OriginFetch,
        to: Option<&FillEventSender>,
    ) -> Result<Box<Found>, Result<OriginResponse, FetchError>> {
        let is_judged = !self.cache.no_cache.is_empty();
        let asking: Asking = match to.filter(|_| is_judged).cloned() {
            None => asking,
            Some(to) => Box::pin(async move {
                let found = asking.await?;
                (may_store(&found.decoded.head, Some(&to)).await == Some(true)).then_some(found)
            }),
        };
        let ask_origin = || {
            let OriginFetch { request, settings, report, log } = origin_fetch;
            Box::pin(fetch(request, settings, report, log))
        };
        match race(asking, ask_origin, tier.hedge()).await {
            Winner::Tier(found) => Ok(Box::new(found)),
            Winner::Origin(result, rest) => {
                // A request is not asked about a response that comes too late.
                if let Some(rest) = rest {
                    tier.overtaken(Some(rest).filter(|_| !is_judged));
                }
                Err(result)
            }
        }
    }

    /// Stores what the tier has found, as [`FillTask::store`] does with a response of the origin.
    pub(super) async fn store_found(
        &self,
        found: Found,
        origin: Option<OriginRequester>,
        writer: FillWriter,
        to: Option<FillEventSender>,
    ) {
        let now = clock::unix_millis();
        let Found { decoded: Decoded { mut meta, head }, times, body_bytes, body } = found;
        let writer = self.at_current_key(&meta.vary, writer, now).await;
        meta.variant_set =
            if self.variant_set == 0 { new_variant_set(now) } else { self.variant_set };
        // It is newer than all purges that this server knows, whatever the cache's own rules say of older objects.
        meta.requested_at = writer.fill().started_at();
        meta.from_tier = true;
        let length = Some(body_bytes);
        let resume = origin.and_then(|origin| Resume::of_other(origin, &head, length));
        let published = Published { meta, times, length, from: Source::Tier };
        self.publish(published, body, resume, (writer, to), now).await;
    }
}
