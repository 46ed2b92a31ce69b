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

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_cache::{Key, Purge, PurgeError, Scope, Store};
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
use crate::cache::config::zones::Zones;
use crate::cache::decide::policy::variant_prefix;
use crate::cache::meta::{decoded, words};
use tidegate_core::Refused;

/// Maximum number of tags that one request may purge: each becomes a rule.
const PURGED_TAGS_MAX: usize = 100;

/// The scope of a purge request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PurgeTarget {
    /// One object with its variants.
    Key(Key),
    All(Vec<Scope>),
}

/// The stored object that a response comes from or becomes, for filters that find that it contradicts another one.
pub(crate) struct StoredObject {
    pub store: Store,
    pub key: Key,
}

impl StoredObject {
    /// Removes the object: the next request fetches it from the origin.
    pub(crate) async fn forget(self) {
        // If the disk fails, the contradiction is found again by the next request.
        let _ = blocking::run(move || self.store.remove(&self.key)).await;
    }
}

/// Purges as this request asks, and responds to it.
pub(super) async fn respond(
    x: &mut Exchange,
    store: Store,
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
            Some(what) => respond_with_page(x, store, what, &text).await,
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
    match carry_out(x, store, what, soft).await {
        Ok(()) => {
            x.disposition.set_status(204);
            Step::Respond(Body::Empty)
        }
        Err(refused) => refused.into(),
    }
}

/// Purges, and responds with a page that names the key, as the module ngx_cache_purge does.
async fn respond_with_page(
    x: &mut Exchange,
    store: Store,
    what: PurgeTarget,
    key: &[u8],
) -> Step<'static> {
    if let Err(refused) = carry_out(x, store, what, false).await {
        return refused.into();
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

/// Purges at the current time.
///
/// # Errors
/// 404 when nothing was stored under a key, 503 with too many purges at a time, 500 when the disk fails.
async fn carry_out(
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
        let (Some(store), key) = (found.store().cloned(), key.clone()) else {
            return Step::Status(500);
        };
        Step::Wait(Box::pin(async move {
            let text = key.value(x);
            match target_of(text.to_vec(), b"") {
                Some(what) => respond_with_page(x, store, what, &text).await,
                None => Step::Status(400),
            }
        }))
    }));
    Ok(())
}

/// Returns the scope that a request with this key and these tags purges; `None`: too many tags.
pub(super) fn target_of(key: Vec<u8>, tags: &[u8]) -> Option<PurgeTarget> {
    let scopes: Vec<Scope> = words(tags).map(|tag| Scope::Tag(tag.into())).collect();
    if scopes.len() > PURGED_TAGS_MAX {
        return None;
    }
    if !scopes.is_empty() {
        return Some(PurgeTarget::All(scopes));
    }
    Some(match key.strip_suffix(b"*") {
        Some(prefix) => PurgeTarget::All(vec![Scope::Prefix(prefix.into())]),
        None => PurgeTarget::Key(Key::new(key)),
    })
}

/// Purges; returns false when nothing was stored under a key. Blocks.
fn purge(store: &Store, what: PurgeTarget, soft: bool, now: u64) -> Result<bool, PurgeError> {
    match what {
        PurgeTarget::All(scopes) => {
            for scope in scopes {
                store.purge(Purge { scope, soft }, now)?;
            }
            Ok(true)
        }
        // Without the object under the main key its variants are unusable.
        PurgeTarget::Key(key) if !soft => store.remove(&key).map_err(PurgeError::Disk),
        PurgeTarget::Key(key) => {
            if has_variants(store, &key, now).map_err(PurgeError::Disk)? {
                let scope = Scope::Prefix(variant_prefix(key.text()).into());
                store.purge(Purge { scope, soft }, now)?;
            }
            store.make_stale(&key, now).map_err(PurgeError::Disk)
        }
    }
}

/// Returns whether there may be variants beside the object under a key. A running fill may have some.
fn has_variants(store: &Store, key: &Key, now: u64) -> io::Result<bool> {
    let lookup = store.peek(key);
    if lookup.fill.or(lookup.placing).is_some() {
        return Ok(true);
    }
    let entry = store.open_entry(key, now)?;
    Ok(entry.as_ref().and_then(decoded).is_some_and(|decoded| !decoded.meta.vary.is_empty()))
}
