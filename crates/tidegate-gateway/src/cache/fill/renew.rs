//! A stored response that the origin has confirmed by a 304.

use tidegate_cache::{FillWriter, OpenEntry};
use tidegate_codec::{Headers, Known};
use tidegate_core::blocking;

use crate::cache::decide::policy::Refusal;
use crate::cache::fill::task::FillTask;
use crate::cache::meta::{Meta, decoded, tags_of};

impl FillTask {
    /// Updates the stored entry from the origin's 304; returns the updated entry, or the old one when that fails.
    pub(super) async fn renew(
        &self,
        stale: &OpenEntry,
        not_modified: &Headers,
        writer: &FillWriter,
        now: u64,
    ) -> OpenEntry {
        let Some(old) = decoded(stale) else { return stale.clone() };
        let rfc9111 = self.cache.rfc9111;
        if rfc9111 && names_another(&old.meta, not_modified) {
            return stale.clone();
        }
        let mut meta = match rfc9111 {
            true => old.meta.refreshed_rfc9111(not_modified, now),
            false => old.meta.refreshed(not_modified),
        };
        let (store, key) = (self.store.clone(), writer.fill().key().clone());
        let stored = match self.decide(meta.status, &meta.headers, now) {
            Ok(stored) => stored,
            Err(Refusal::CacheRules(reason)) if rfc9111 && !reason.is_about_request() => {
                if let Some(tier) = &self.tier {
                    tier.invalidate([&self.main], now);
                }
                // The origin forbids storing it now. If the disk fails, it stays stale.
                let _ = blocking::run(move || store.remove(&key)).await;
                return stale.clone();
            }
            Err(_) => return stale.clone(),
        };
        // The response does not update an entry that was updated or made stale since the request.
        let Some(generation) = self.generation else { return stale.clone() };
        meta.must_revalidate = stored.must_revalidate;
        meta.from_tier = false;
        meta.requested_at = writer.fill().started_at();
        meta.tags = tags_of(&meta.headers, &self.cache.tag_headers);
        let metadata = meta.encode();
        let filled = key.clone();
        let renewed = blocking::run(move || {
            store.update_metadata(&key, generation, metadata, stored.times)?;
            store.open_entry(&key, now)
        });
        let renewed = renewed.await.ok().flatten();
        if let (Some(_), Some(tier)) = (&renewed, &self.tier) {
            // What the tier has is stale by now.
            tier.begun(&filled);
            tier.stored(&self.main, &filled);
        }
        renewed.unwrap_or_else(|| stale.clone())
    }
}

/// Returns whether a 304 names another representation than the stored one, by a strong entity tag (RFC 9111 section
/// 4.3.4).
fn names_another(stored: &Meta, not_modified: &Headers) -> bool {
    let named = not_modified.first(Known::Etag).filter(|etag| !etag.starts_with(b"W/"));
    named.is_some_and(|etag| stored.headers.first(Known::Etag).is_some_and(|own| own != etag))
}
