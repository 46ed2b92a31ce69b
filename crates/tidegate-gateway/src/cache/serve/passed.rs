//! Requests that pass the cache and change stored responses all the same (`proxy_cache_rfc9111`): unsafe methods,
//! which invalidate them, and HEAD, which updates them. The changes are decided in `decide/rfc9111`.

use std::sync::Arc;

use tidegate_cache::{Key, Store};
use tidegate_codec::Known;
use tidegate_codec::caching::rfc9111::invalidation::{TargetUri, succeeded};
use tidegate_core::exchange::FieldOwner;
use tidegate_core::{Exchange, Step, blocking};
use tidegate_rt::clock;

use crate::cache::config::settings::CacheSettings;
use crate::cache::config::zones::Zone;
use crate::cache::decide::policy::{self, OriginExchange};
use crate::cache::decide::rfc9111::{self, HeadVerdict, StoredGet};
use crate::cache::gateway::Gateway;
use crate::cache::lookup::CacheLookup;
use crate::cache::meta::decoded;
use crate::cache::status::CacheNote;
use crate::common::state::GatewayState;

/// Adds `Age` to a response from the cache (RFC 9111 section 5.1) at `now`, in Unix milliseconds, and to every
/// response the `Date` that its origin should have sent.
pub(crate) fn finish(x: &mut Exchange, step: &Step<'_>, now: u64) {
    if !matches!(step, Step::Respond(_)) {
        return;
    }
    x.delivery.date = FieldOwner::Server;
    let generated_at = x.modules.extensions.of::<CacheNote>().map_or(0, |note| note.stored_at);
    if let Some(age) = rfc9111::age(generated_at, now) {
        x.response.headers.set_known(Known::Age, age.to_string().as_bytes());
    }
}

/// Passes a request of an unsafe method; when it succeeds, the stored responses of its URI and of the URIs that its
/// response names are removed (section 4.4).
///
/// Cancelling: a client that leaves before the origin's response leaves the cache unchanged. A removal that has begun
/// is completed on its pool thread in any case.
pub(crate) async fn write_through(
    x: &mut Exchange,
    gateway: Arc<dyn Gateway>,
    zone: Arc<Zone>,
    store: Store,
    main: Key,
) -> Step<'static> {
    let step = pass(x, &*gateway).await;
    let Some(head) = GatewayState::of(x).head.take() else { return step };
    if succeeded(head.status) {
        let place = TargetUri {
            scheme: if x.is_https() { b"https" } else { b"http" },
            authority: x.request.head.host_text().unwrap_or_default(),
            target: x.request.target(),
        };
        let mut keys = rfc9111::other_keys(place, &x.response.headers, &main);
        keys.push(main);
        zone.invalidate(&keys, clock::unix_millis());
        let removed = blocking::run(move || {
            for key in &keys {
                store.remove(key)?;
            }
            Ok(())
        });
        // Disk failures were counted by the store; the index no longer has the objects.
        let _ = removed.await;
    }
    GatewayState::of(x).head = Some(head);
    step
}

/// Passes a HEAD request at `requested_at`, in Unix milliseconds. Its response updates the stored response to GET, or
/// removes it when the two describe different representations (section 4.3.5).
///
/// Cancelling: as for [`write_through`].
pub(crate) async fn pass_head(
    x: &mut Exchange,
    gateway: &dyn Gateway,
    cache: &CacheSettings,
    store: &Store,
    zone: &Zone,
    (main, lookup, requested_at): (&Key, &CacheLookup, u64),
) -> Step<'static> {
    let step = pass(x, gateway).await;
    let now = clock::unix_millis();
    let entry = lookup.entry.as_ref().and_then(|entry| Some((entry, decoded(entry)?)));
    let (Some((entry, stored)), Some(generation)) = (entry, lookup.generation) else { return step };
    let Some(head) = GatewayState::of(x).head.take() else { return step };
    let request = &x.request.head.headers;
    let stored = StoredGet { meta: &stored.meta, body_bytes: entry.body_bytes() };
    let CacheSettings { validity, ignored, tag_headers, .. } = cache;
    let verdict =
        rfc9111::after_head(stored, &head, tag_headers, (requested_at, now), |status, headers| {
            let exchanged = OriginExchange { request, requested_at, status, headers };
            policy::decide_rfc9111(exchanged, validity, ignored.fields, now)
        });
    let (store, key) = (store.clone(), lookup.key.clone());
    // If the disk fails, the object is as stale as before.
    let _ = match verdict {
        HeadVerdict::Keep => Ok(false),
        HeadVerdict::Renew(meta, times) => {
            blocking::run(move || store.update_metadata(&key, generation, meta, times)).await
        }
        HeadVerdict::Remove => {
            // Purges by key are by main key: they concern all variants.
            zone.invalidate([main], now);
            // A newer one that was stored meanwhile is not what was compared.
            blocking::run(move || store.remove_generation(&key, generation)).await
        }
    };
    GatewayState::of(x).head = Some(head);
    step
}

/// Passes the request; afterwards the request's state holds the head of its response and no other one.
async fn pass(x: &mut Exchange, gateway: &dyn Gateway) -> Step<'static> {
    GatewayState::of(x).head = None;
    let step = gateway.pass(x).await;
    finish(x, &step, 0);
    step
}
