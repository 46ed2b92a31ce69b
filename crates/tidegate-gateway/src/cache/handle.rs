//! The entry point of the cache. A request that does not use the cache is given back, a fresh hit whose object is
//! open is served at once, without a future, and everything else becomes a [`CacheSession`].

use std::sync::Arc;

use tidegate_cache::Key;
use tidegate_codec::caching::rfc9111::invalidation::is_unsafe;
use tidegate_codec::caching::rfc9111::reuse::RequestTerms;
use tidegate_core::template::any_is_true;
use tidegate_core::{Exchange, Step};
use tidegate_rt::clock;

use crate::cache::config::settings::{CacheSettings, ZoneSelection};
use crate::cache::decide::decision::CacheDecision;
use crate::cache::decide::facts::Demands;
use crate::cache::gateway::Gateway;
use crate::cache::lookup::{self, CacheLookup, CountedUses};
use crate::cache::purge;
use crate::cache::ring::serve;
use crate::cache::serve::{entry, passed};
use crate::cache::session::CacheSession;
use crate::cache::status::{CacheNote, CacheStatus};
use crate::slice;

/// Handles a request by the cache: a purge (`proxy_cache_purge`), an unsafe method that invalidates stored responses
/// (RFC 9111 section 4.4), a hit, or a session. Nothing is awaited here, so a hit takes no future: a fresh object
/// without a running fill needs no decision.
///
/// # Errors
/// Gives the exchange back when the cache does not apply to the request.
pub(crate) fn handle<'a>(
    x: &'a mut Exchange,
    cache: &Arc<CacheSettings>,
    gateway: &Arc<dyn Gateway>,
) -> Result<Step<'a>, &'a mut Exchange> {
    let (method, is_cached) = (x.request.method, cache.serves(x));
    let invalidates = cache.rfc9111 && is_unsafe(method);
    let purges = cache.purge.wants(x);
    if !is_cached && !invalidates && !purges {
        return Err(x);
    }
    let (zone, store) = match cache.zone(x) {
        ZoneSelection::Zone(zone) => match zone.store() {
            Some(store) => (zone, store),
            None => return Err(x),
        },
        ZoneSelection::Off => return Err(x),
        ZoneSelection::Unknown => return Ok(Step::Status(500)),
    };
    let text = key_text(x, cache, &**gateway);
    if purges {
        let (zone, cache) = (zone.clone(), cache.clone());
        return Ok(Step::Wait(Box::pin(
            async move { purge::respond(x, &zone, &cache, text).await },
        )));
    }
    let main = Key::of(&text);
    if !serve::agrees(x, &main) {
        return Ok(Step::Status(421));
    }
    if slice::is_part(x) {
        x.modules.extensions.insert(purge::StoredObject::of(zone, store, &main));
    }
    if !is_cached {
        let passed = passed::write_through(x, gateway.clone(), zone.clone(), store.clone(), main);
        return Ok(Step::Wait(Box::pin(passed)));
    }
    let note = CacheNote::new(main.text().clone(), CacheStatus::Miss);
    x.modules.extensions.insert(CacheNote { rfc9111: cache.rfc9111, ..note });
    let (now, mut counted) = (clock::unix_millis(), CountedUses::default());
    let lookup = lookup::look_now(store, &main, &x.request.head.headers, &mut counted, now);
    let terms = cache.rfc9111.then(|| RequestTerms::of(&x.request.head.headers));
    let asked_to = serve::bypasses(x);
    let bypass = asked_to || !cache.bypass.is_empty() && any_is_true(&cache.bypass, x);
    if !bypass
        && let Some(CacheLookup { key, entry: Some(stored), fill: None, .. }) = &lookup
        && lookup::is_fresh(stored, terms.as_ref(), now)
        && let Some(step) = entry::respond(x, &**gateway, stored, CacheStatus::Hit, now)
    {
        zone.used(&main, key);
        if cache.rfc9111 {
            passed::finish(x, &step, now);
        }
        return Ok(step);
    }
    let session = CacheSession {
        cache: cache.clone(),
        gateway: gateway.clone(),
        store: store.clone(),
        zone: zone.clone(),
        main,
        decision: decision(bypass, terms.as_ref()),
        terms,
        bypass,
        owners: Vec::new(),
        counted,
        too_early: false,
    };
    Ok(Step::Wait(Box::pin(session.run(x, lookup, now))))
}

/// Returns the text of a request's key.
fn key_text(x: &mut Exchange, cache: &CacheSettings, gateway: &dyn Gateway) -> Vec<u8> {
    let mut text = Vec::with_capacity(128);
    match &cache.key {
        Some(key) => key.write(x, &mut text),
        None => gateway.write_key(x, &mut text),
    }
    text
}

/// Begins the decision about a request with these terms.
fn decision(bypass: bool, terms: Option<&RequestTerms>) -> CacheDecision {
    match bypass {
        true => CacheDecision::bypassing(),
        false => CacheDecision::new(demands(terms)),
    }
}

/// Returns the request's terms that the decision needs.
fn demands(terms: Option<&RequestTerms>) -> Demands {
    let RequestTerms { only_if_cached, no_store, .. } = terms.copied().unwrap_or_default();
    Demands { only_if_cached, no_store }
}
