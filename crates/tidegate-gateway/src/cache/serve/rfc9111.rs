//! What `proxy_cache_rfc9111` does around the cache's usual way: `Age` for answers out of the cache,
//! unsafe methods that make stored responses invalid, HEAD requests that renew them.

use std::sync::Arc;

use tidegate_cache::{Key, OpenEntry, Store};
use tidegate_core::exchange::FieldOwner;
use tidegate_core::{Exchange, Step, blocking};
use tidegate_http::caching::rfc9111::invalidation::{Place, related, succeeded};
use tidegate_http::response::ResponseHead;
use tidegate_http::{Known, connection};
use tidegate_rt::clock;

use crate::cache::config::settings::CacheSettings;
use crate::cache::decide::policy::{self, Exchanged};
use crate::cache::gateway::Gateway;
use crate::cache::lookup::CacheLookup;
use crate::cache::meta::{Meta, decoded, tags_of};
use crate::cache::status::CacheNote;
use crate::common::state::GatewayState;

/// Gives an answer out of the cache its `Age` (RFC 9111 section 5.1), and every answer the `Date`
/// that its origin should have given it.
pub(crate) fn finish(x: &mut Exchange, step: &Step<'_>, now: u64) {
    if !matches!(step, Step::Respond(_)) {
        return;
    }
    x.delivery.date = FieldOwner::Server;
    // Unix milliseconds; 0 for an answer of the origin.
    let generated_at = x.modules.extensions.of::<CacheNote>().map_or(0, |note| note.stored_at);
    if generated_at != 0 {
        let age = now.saturating_sub(generated_at) / 1000;
        x.response.headers.set_known(Known::Age, age.to_string().as_bytes());
    }
}

/// Answers a request of an unsafe method by the origin; when it succeeds, what is stored of its URI
/// and of the URIs that its response names is removed (section 4.4).
pub(crate) async fn write_through(
    x: &mut Exchange,
    gateway: Arc<dyn Gateway>,
    store: Store,
    main: Key,
) -> Step<'static> {
    let step = pass(x, &*gateway).await;
    let Some(head) = GatewayState::of(x).head.take() else { return step };
    if succeeded(head.status) {
        let mut keys = other_keys(x, &main);
        keys.push(main);
        let removed = blocking::run(move || {
            for key in &keys {
                store.remove(key)?;
            }
            Ok(())
        });
        // A disk that fails was counted by the store; the index knows the objects no longer.
        let _ = removed.await;
    }
    GatewayState::of(x).head = Some(head);
    step
}

/// Asks the origin by HEAD. Its answer renews the stored response to GET, or ends it when the two
/// tell of different representations (section 4.3.5).
pub(crate) async fn pass_head(
    x: &mut Exchange,
    gateway: &dyn Gateway,
    cache: &CacheSettings,
    store: &Store,
    lookup: &CacheLookup,
) -> Step<'static> {
    let asked_at = clock::unix_millis();
    let step = pass(x, gateway).await;
    let entry = lookup.entry.as_ref().and_then(|entry| Some((entry, decoded(entry)?)));
    let (Some((entry, stored)), Some(generation)) = (entry, lookup.generation) else { return step };
    let Some(head) = GatewayState::of(x).head.take() else { return step };
    if head.status == 200 && stored.meta.status == 200 {
        let now = clock::unix_millis();
        let request = &x.request.head.headers;
        let renewed = renewed(&stored.meta, entry, &head, now).and_then(|mut meta| {
            let (status, headers) = (meta.status, &meta.headers);
            let exchanged = Exchanged { request, asked_at, status, headers };
            let CacheSettings { validity, ignored, .. } = cache;
            let decided = policy::decide_rfc9111(exchanged, validity, ignored.fields, now).ok()?;
            meta.must_revalidate = decided.must_revalidate;
            meta.asked_at = asked_at;
            meta.tags = tags_of(&meta.headers, &cache.tag_headers);
            Some((meta.encode(), decided.times))
        });
        let (store, key) = (store.clone(), lookup.key.clone());
        // What the disk refuses is as stale as before.
        let _ = match renewed {
            Some((meta, times)) => {
                blocking::run(move || store.update_metadata(&key, generation, meta, times)).await
            }
            None => blocking::run(move || store.remove(&key)).await,
        };
    }
    GatewayState::of(x).head = Some(head);
    step
}

/// The origin's answer; the request's state holds its head and no other one.
async fn pass(x: &mut Exchange, gateway: &dyn Gateway) -> Step<'static> {
    GatewayState::of(x).head = None;
    let step = gateway.pass(x).await;
    finish(x, &step, 0);
    step
}

/// The stored head with the fields of an answer to HEAD; `None` when that tells of another
/// representation, by a validator or by its length.
fn renewed(stored: &Meta, entry: &OpenEntry, head: &ResponseHead, now: u64) -> Option<Meta> {
    let own = &stored.headers;
    let same =
        |known: Known| head.headers.first(known).is_none_or(|one| own.first(known) == Some(one));
    let length = head.headers.first(Known::ContentLength).and_then(connection::parse_length);
    let fits = same(Known::Etag)
        && same(Known::LastModified)
        && length.is_none_or(|length| length == entry.body_bytes());
    fits.then(|| stored.refreshed_rfc9111(&head.headers, now))
}

/// The keys of what `Location` and `Content-Location` name: the request's key with their path in place
/// of its own, as far as it is there byte for byte. The fields count as the client sees them, behind
/// `proxy_redirect`.
fn other_keys(x: &Exchange, main: &Key) -> Vec<Key> {
    let target = x.request.target();
    let scheme: &[u8] = if x.connection.tls.is_some() { b"https" } else { b"http" };
    let authority = x.request.head.host_text().unwrap_or_default();
    let text = main.text();
    let Some(at) = text.windows(target.len().max(1)).rposition(|part| part == target) else {
        return Vec::new();
    };
    let (before, behind) = (&text[..at], &text[at + target.len()..]);
    let others = related(Place { scheme, authority, target }, &x.response.headers);
    others.iter().map(|other| Key::new([before, other, behind].concat())).collect()
}
