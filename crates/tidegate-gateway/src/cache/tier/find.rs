//! A miss asks the tier.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_cache::{Key, KeyHash, Times};
use tidegate_codec::Headers;
use tidegate_codec::caching::rfc9111::reuse::RequestTerms;
use tidegate_core::Body;
use tidegate_rt::worker::spawn_local;
use tidegate_rt::{clock, timer};

use super::CacheTier;
use super::client::Failure;
use super::purges::Purgeable;
use super::read::{CHECKED_BYTES, Opened, Unusable, open};
use crate::cache::decide::identity::Identity;
use crate::cache::decide::policy::stored_state;
use crate::cache::meta::{Decoded, Meta};

/// What a miss looks for.
pub(crate) struct TierQuery {
    /// The key of the location and request, without a variant.
    pub main: Key,
    /// The key to be filled.
    pub key: Key,
    /// The client's fields, by which variants are distinguished.
    pub client_fields: Headers,
    /// The request's terms, with `proxy_cache_rfc9111`.
    pub terms: Option<RequestTerms>,
    /// The origin may be asked for the rest of a body.
    pub is_resumable: bool,
}

/// A stored response that the tier has.
pub(crate) struct Found {
    pub decoded: Decoded,
    pub times: Times,
    pub body_bytes: u64,
    pub body: Body,
}

/// A request to the tier in progress.
pub(crate) type Asking = Pin<Box<dyn Future<Output = Option<Found>>>>;

impl CacheTier {
    /// Asks the tier; `None` where it is not to be asked: it is left alone, its purges are not known yet, or it did not have
    /// the key a moment ago.
    pub(crate) fn ask(self: &Arc<Self>, query: TierQuery) -> Option<Asking> {
        let figures = &self.tier.kept.figures;
        let is_paused = self.pauses && self.kept.paused.load(Ordering::Acquire);
        let is_current = self.kept.list.is_known() && !is_paused;
        if !is_current || !self.tier.is_allowed() {
            figures.skipped.add(1);
            return None;
        }
        if self.kept.absent.has(query.key.hash(), clock::unix_millis()) {
            figures.remembered.add(1);
            return None;
        }
        let own = self.clone();
        Some(Box::pin(async move { own.find(&query).await }))
    }

    /// Notes the end of a race that the origin has won; `rest` is the tier's request, which is still in
    /// progress, if it may be waited for. One such request at a time is waited for, so that a tier which never responds is
    /// noticed although no response waits for it.
    pub(crate) fn overtaken(self: &Arc<Self>, rest: Option<Asking>) {
        self.tier.kept.figures.overtaken.add(1);
        let Some(rest) = rest else { return };
        if self.tier.kept.judging.swap(true, Ordering::Relaxed) {
            return;
        }
        let judging = Judging(self.clone());
        // The handle is not kept: the task ends by itself, within the time limit.
        drop(spawn_local(async move {
            let _judging = judging;
            drop(rest.await);
        }));
    }

    /// Requests the object, and checks it: it has to be the one of this key, newer than all purges, fresh, and the variant of
    /// this request. Its head and the first blocks have arrived, within the tier's time limit, when it returns.
    async fn find(self: &Arc<Self>, query: &TierQuery) -> Option<Found> {
        let (tier, figures) = (&self.tier, &self.tier.kept.figures);
        let name = self.object_name(&query.key);
        let opening = async {
            match tier.kept.client.get(&name, None).await {
                Err(failure) => Err(Unusable::Failed(failure)),
                Ok(None) => Ok(None),
                Ok(Some(response)) => open(response, self, query.key.hash()).await.map(Some),
            }
        };
        let opened = timer::timeout(tier.settings.timeout, Box::pin(opening)).await;
        let opened = match opened.unwrap_or(Err(Unusable::Failed(Failure::Late))) {
            Ok(opened) => opened,
            Err(unusable) => {
                match unusable {
                    Unusable::Damaged(_) => self.note_unusable(query.key.hash(), &unusable),
                    // The next request may find a store that is well again, unless the breaker says otherwise.
                    Unusable::Failed(_) => tier.note_unusable(&unusable),
                }
                return None;
            }
        };
        // A body that is still arriving proves nothing yet: its end is noted.
        if !opened.as_ref().is_some_and(|opened| matches!(opened.body, Body::Stream(_))) {
            tier.note_success();
        }
        let Some(opened) = opened else {
            figures.absent.add(1);
            self.kept.absent.note(query.key.hash(), clock::unix_millis());
            return None;
        };
        let found = self.usable(query, opened);
        match &found {
            Some(_) => figures.found.add(1),
            None => {
                figures.outdated.add(1);
                // Until it is replaced it is of no use to the next request either.
                self.kept.absent.note(query.key.hash(), clock::unix_millis());
            }
        }
        found
    }

    /// Notes that the object of a key is of no use, so that it is not asked for again for a while.
    pub(super) fn note_unusable(&self, hash: &KeyHash, unusable: &Unusable) {
        self.tier.note_unusable(unusable);
        self.kept.absent.note(hash, clock::unix_millis());
    }

    fn usable(&self, query: &TierQuery, opened: Opened) -> Option<Found> {
        let Opened { head, body } = opened;
        let meta = Meta::decode(&head.metadata)?;
        let object = Purgeable {
            main: query.main.hash(),
            key: query.key.text(),
            tags: &meta.tags,
            requested_at: meta.requested_at,
        };
        let is_whole = meta.parts.is_none() && meta.head_length.is_none();
        // What breaks behind the compared beginning has to be completed: otherwise a damaged object would break the responses
        // of a healthy origin.
        let is_safe = head.body_bytes <= CHECKED_BYTES
            || query.is_resumable && is_resumable(&meta, head.body_bytes);
        let now = clock::unix_millis();
        let is_fresh =
            || stored_state(head.times, meta.must_revalidate, query.terms.as_ref(), now).fresh;
        let is_usable = head.key == query.key.text()[..]
            && is_whole
            && is_safe
            && self.kept.list.allows(&object)
            && meta.serves(&query.client_fields, &mut Vec::new())
            && is_fresh();
        is_usable.then(|| Found {
            decoded: Decoded::of_meta(meta),
            times: head.times,
            body_bytes: head.body_bytes,
            body,
        })
    }
}

/// Returns whether the rest of a response with this body could be requested from the origin.
pub(super) fn is_resumable(meta: &Meta, body_bytes: u64) -> bool {
    Identity::of(meta.status, &meta.headers, Some(body_bytes)).is_some()
}

/// The mark that a request is waited for to judge the tier; removed when this is dropped.
struct Judging(Arc<CacheTier>);

impl Drop for Judging {
    fn drop(&mut self) {
        self.0.tier.kept.judging.store(false, Ordering::Relaxed);
    }
}
