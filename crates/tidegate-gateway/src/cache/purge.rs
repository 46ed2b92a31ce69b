//! Purges by request (`proxy_cache_purge`), by key and by tags.
//!
//! ```nginx
//! map $request_method $purge { PURGE 1; default 0; }
//!
//! location / {
//!     proxy_pass             http://origin;
//!     proxy_cache            one;
//!     proxy_cache_purge      $purge;             # `allow` and `auth_*` decide which clients may
//!     proxy_cache_purge_tag  $http_cache_tag;    # the tags to purge, in place of the request's key
//!     proxy_cache_purge_soft $http_x_soft;       # make stale instead of removing
//! }
//! ```
//! A key that ends in `*` selects all keys with that prefix. A purge takes effect at once, also for responses that
//! are being fetched, and persists over a restart. Files are removed when they are next requested, by the purger
//! (`purger=on`) or by disuse.

pub(super) mod target;

use std::sync::Arc;

use bytes::Bytes;
use tidegate_cache::{Key, PurgeError, Scope, Store};
use tidegate_codec::Known;
use tidegate_codec::uri::escape_html;
use tidegate_conf::{Contexts, Diagnostic};
use tidegate_core::template::any_is_true;
use tidegate_core::{Body, Exchange, Level, Step, blocking};
use tidegate_plan::LocationBuilder;
use tidegate_rt::clock;

use crate::cache::config::conf::CacheConf;
use crate::cache::config::purge::{PurgeConf, PurgeTrigger};
use crate::cache::config::settings::{CacheSettings, unknown_zone};
use crate::cache::config::zones::{Zone, Zones};
use crate::cache::purge_sync::{NOT_DISTRIBUTED, PurgeRule, PurgeWhat};
use crate::cache::tier::{CacheTier, TierPurge};
pub(crate) use target::{PURGED_TAGS_MAX, PurgeTarget};
use target::{purge, target_of};
use tidegate_core::Refused;

/// The stored object that a response comes from or becomes, for filters that find that it contradicts another one.
pub(crate) struct StoredObject {
    pub store: Store,
    pub key: Key,
    pub tier: Option<Arc<CacheTier>>,
}

impl StoredObject {
    /// Returns the object under a key.
    pub(crate) fn of(zone: &Zone, store: &Store, key: &Key) -> StoredObject {
        StoredObject { store: store.clone(), key: key.clone(), tier: zone.tier.clone() }
    }

    /// Removes the object: the next request fetches it from the origin.
    pub(crate) async fn forget(self) {
        if let Some(tier) = &self.tier {
            tier.invalidate([&self.key], clock::unix_millis());
        }
        // If the disk fails, the contradiction is found again by the next request.
        let _ = blocking::run(move || self.store.remove(&self.key)).await;
    }
}

/// Purges as this request asks, and responds to it.
pub(super) async fn respond(
    x: &mut Exchange,
    zone: &Zone,
    settings: &CacheSettings,
    key: Vec<u8>,
) -> Step<'static> {
    if let PurgeTrigger::Method(by) = &settings.purge.by {
        if !by.allows(x.client_address()) {
            return Step::Status(403);
        }
        let text = key.clone();
        let what = match by.everything {
            true => Some(PurgeTarget::All(vec![Scope::Prefix(Box::default())])),
            false => target_of(key, b""),
        };
        return match what {
            Some(what) => respond_with_page(x, zone, what, &text).await,
            None => Step::Status(400),
        };
    }
    let soft = any_is_true(&settings.purge.soft, x);
    let mut tags = Vec::new();
    for template in &settings.purge.tags {
        template.write(x, &mut tags);
        tags.push(b' ');
    }
    let Some(what) = target_of(key, &tags) else {
        let message = format_args!("too many tags to purge: {PURGED_TAGS_MAX} are allowed");
        x.log(Level::Error, message);
        return Step::Status(400);
    };
    if let Err(failure) = carry_out(x, zone, what, soft).await {
        return failed(x, failure);
    }
    x.disposition.set_status(204);
    Step::Respond(Body::Empty)
}

/// Purges, and responds with a page that names the key, as the module ngx_cache_purge does.
async fn respond_with_page(
    x: &mut Exchange,
    zone: &Zone,
    what: PurgeTarget,
    key: &[u8],
) -> Step<'static> {
    if let Err(failure) = carry_out(x, zone, what, false).await {
        return failed(x, failure);
    }
    let mut page = b"<html>\r\n<head><title>Successful purge</title></head>\r\n<body>\r\n\
        <h1>Successful purge</h1>\r\n<p>Key : "
        .to_vec();
    escape_html(key, &mut page);
    page.extend_from_slice(b"</p>\r\n</body>\r\n</html>\r\n");
    x.disposition.set_status(200);
    x.response.headers.set_known(Known::ContentType, b"text/html");
    Step::Respond(Body::from(Bytes::from(page)))
}

/// Why a purge was not carried out, or not everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PurgeFailure {
    /// Not here: nothing was stored under the key, and no other server may have it; too many purges at a time; the disk fails.
    Refused(Refused),
    /// Here it was, but the other servers do not get it.
    NotDistributed,
}

/// Purges at the current time: here, then on all servers that share the purges.
///
/// # Errors
/// See [`PurgeFailure`]; details were logged.
pub(crate) async fn carry_out(
    x: &Exchange,
    zone: &Zone,
    what: PurgeTarget,
    soft: bool,
) -> Result<(), PurgeFailure> {
    let internal = PurgeFailure::Refused(Refused::INTERNAL);
    let store = zone.store().cloned().ok_or(internal)?;
    let at = clock::unix_millis();
    // The moment is that of the tier's list, so that the other servers have the same there.
    let known = zone.tier.as_ref().map(|_| at);
    let rules = zone.sync.as_ref().map(|sync| (sync.clone(), rules_of(&what, soft, known)));
    zone.purged.add(tier_purges(&what), at);
    if let Some(tier) = &zone.tier {
        tier.purge(tier_purges(&what), at);
    }
    let done = carry_out_here(x, store, what, soft).await;
    if let Some(tier) = &zone.tier {
        tier.save().await;
    }
    let Some((sync, rules)) = rules else { return done.map_err(PurgeFailure::Refused) };
    if done == Err(Refused::UNAVAILABLE) {
        return Err(PurgeFailure::Refused(Refused::UNAVAILABLE));
    }
    // Where the disk has failed it comes back with the purges of the others.
    let is_done = done != Err(Refused::INTERNAL);
    if let Err(error) = sync.send(rules, is_done).await {
        x.log(Level::Error, format_args!("cache purge was not distributed: {error}"));
        return Err(PurgeFailure::NotDistributed);
    }
    if is_done { Ok(()) } else { Err(internal) }
}

/// Responds to a request whose purge has failed.
fn failed(x: &mut Exchange, failure: PurgeFailure) -> Step<'static> {
    match failure {
        PurgeFailure::Refused(refused) => refused.into(),
        PurgeFailure::NotDistributed => {
            x.disposition.set_status(503);
            x.response.headers.set_known(Known::ContentType, b"text/plain");
            Step::Respond(Body::from(Bytes::from_static(NOT_DISTRIBUTED.as_bytes())))
        }
    }
}

/// Returns a purge as the other servers get it.
fn rules_of(what: &PurgeTarget, soft: bool, at: Option<u64>) -> Vec<PurgeRule> {
    let rule = |what| PurgeRule { what, soft, at };
    match what {
        PurgeTarget::Key(key) => vec![rule(PurgeWhat::Key(key.text().to_vec()))],
        PurgeTarget::All(scopes) => {
            scopes.iter().map(|scope| rule(PurgeWhat::Scope(scope.clone()))).collect()
        }
    }
}

/// Returns a purge as a tier gets it: whatever is older is not used, also where the purge is a soft one.
fn tier_purges(what: &PurgeTarget) -> Vec<TierPurge> {
    match what {
        PurgeTarget::Key(key) => vec![CacheTier::purge_of(key)],
        PurgeTarget::All(scopes) => scopes.iter().cloned().map(TierPurge::Scope).collect(),
    }
}

/// Purges on this server.
async fn carry_out_here(
    x: &Exchange,
    store: Store,
    what: PurgeTarget,
    soft: bool,
) -> Result<(), Refused> {
    // Requests to an origin from here on return newer responses than those that are purged.
    let now = clock::unix_millis();
    let purged = blocking::run(move || Ok(purge(&store, what, soft, now))).await;
    match purged.unwrap_or_else(|error| Err(PurgeError::Disk(error))) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Refused::NOT_FOUND),
        Err(error) => {
            x.log(Level::Error, format_args!("cache purge failed: {error}"));
            Err(match error {
                PurgeError::Refused => Refused::UNAVAILABLE,
                _ => Refused::INTERNAL,
            })
        }
    }
}

/// Makes a location purge its own key (`*_cache_purge ZONE KEY`).
///
/// # Errors
/// An undefined zone, an invalid key, a block that is no location, or one that also caches.
pub(super) fn install(
    prefix: &'static str,
    conf: &CacheConf,
    location: &mut LocationBuilder<'_, '_>,
) -> Result<(), Diagnostic> {
    let Some(PurgeConf::Separate { zone, key }) = &conf.purge else { return Ok(()) };
    if !location.outline.context.intersects(Contexts::LOCATION) {
        let message = format!("\"{prefix}cache_purge\" with a key is not allowed here");
        let diagnostic = Diagnostic::emerg(message).at(zone.span);
        return Err(diagnostic.help("it makes a location of its own"));
    }
    if conf.zone.as_ref().is_some_and(|own| own.distance == 0 && own.word.is_some()) {
        let message =
            format!("\"{prefix}cache_purge\" directive is incompatible with \"{prefix}cache\"");
        return Err(Diagnostic::emerg(message).at(zone.span));
    }
    let name = zone.display().into_owned();
    let Some(found) = location.plan.shared::<Zones>().find(prefix, &name) else {
        return Err(unknown_zone(prefix, zone));
    };
    let key = Arc::new(location.plan.template(key)?);
    location.content(Box::new(move |x| {
        let (zone, key) = (found.clone(), key.clone());
        Step::Wait(Box::pin(async move {
            let text = key.value(x);
            match target_of(text.to_vec(), b"") {
                Some(what) => respond_with_page(x, &zone, what, &text).await,
                None => Step::Status(400),
            }
        }))
    }));
    Ok(())
}
