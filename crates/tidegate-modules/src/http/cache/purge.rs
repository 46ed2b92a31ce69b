//! Purges by request (`proxy_cache_purge`), and the tags that answers bear.
//!
//! ```nginx
//! map $request_method $purge { PURGE 1; default 0; }
//!
//! location / {
//!     proxy_pass             http://origin;
//!     proxy_cache            one;
//!     proxy_cache_purge      $purge;             # who may is for `allow` and `auth_*` to say
//!     proxy_cache_purge_tag  $http_cache_tag;    # the tags to purge, in place of the request's key
//!     proxy_cache_purge_soft $http_x_soft;       # stale in place of gone
//! }
//! ```
//! A key that ends in `*` stands for all keys that begin so. What is purged is so at once, also for what
//! is just being fetched, and stays so over a restart; its files go when somebody asks for them, by the
//! purger (`purger=on`) or by disuse.

use std::io;

use tidegate_cache::{Bearing, Key, Purge, PurgeError, Scope, Store};
use tidegate_core::template::any_holds;
use tidegate_core::{Body, Exchange, Level, Step, Template, blocking};
use tidegate_http::Headers;
use tidegate_rt::clock;

use super::lookup::decoded;
use super::meta::Meta;
use super::policy::variant_prefix;
use super::settings::CacheSettings;

/// Most bytes of tags that an answer may bear; the rest is left out.
const TAGS_BYTES_MAX: usize = 16 * 1024;

/// Most tags that one request may purge: each is a rule.
const PURGED_TAGS_MAX: usize = 100;

/// What a request purges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// One object with its variants.
    Key(Key),
    All(Vec<Scope>),
}

/// Purges by a location's settings.
#[derive(Default)]
pub struct PurgeSettings {
    /// Any value neither empty nor `0` makes a request a purge.
    pub conditions: Vec<Template>,
    pub tags: Vec<Template>,
    pub soft: Vec<Template>,
}

/// The object that an answer is, or becomes, for those who find out that it contradicts another one.
pub struct StoredAt {
    pub store: Store,
    pub key: Key,
}

impl StoredAt {
    /// Removes it: who asks next gets what the origin has now.
    pub async fn forget(self) {
        // If the disk fails the contradiction is found once more.
        let _ = blocking::run(move || self.store.remove(&self.key)).await;
    }
}

/// Purges what the request with this key says, and answers it.
pub async fn answer(
    x: &mut Exchange,
    store: Store,
    settings: &CacheSettings,
    key: Vec<u8>,
) -> Step<'static> {
    let soft = any_holds(&settings.purge.soft, x);
    let mut tags = Vec::new();
    for template in &settings.purge.tags {
        template.write(x, &mut tags);
        tags.push(b' ');
    }
    let Some(what) = what(key, &tags) else {
        let message = format_args!("too many tags to purge: {PURGED_TAGS_MAX} are allowed");
        x.log(Level::Error, message);
        return Step::Status(400);
    };
    let purged = blocking::run(move || Ok(purge(&store, what, soft))).await;
    match purged.unwrap_or_else(|error| Err(PurgeError::Disk(error))) {
        Ok(true) => {
            x.response.status = 204;
            Step::Respond(Body::Empty)
        }
        Ok(false) => Step::Status(404),
        Err(error) => {
            x.log(Level::Error, format_args!("cache purge failed: {error}"));
            Step::Status(if matches!(error, PurgeError::Refused) { 503 } else { 500 })
        }
    }
}

/// What a request with this key and these tags purges; `None`: too much at a time.
pub(super) fn what(key: Vec<u8>, tags: &[u8]) -> Option<What> {
    let scopes: Vec<Scope> = words(tags).map(|tag| Scope::Tag(tag.into())).collect();
    if scopes.len() > PURGED_TAGS_MAX {
        return None;
    }
    if !scopes.is_empty() {
        return Some(What::All(scopes));
    }
    Some(match key.strip_suffix(b"*") {
        Some(prefix) => What::All(vec![Scope::Prefix(prefix.into())]),
        None => What::Key(Key::new(key)),
    })
}

/// Purges; false when there was nothing under a key. Blocks.
fn purge(store: &Store, what: What, soft: bool) -> Result<bool, PurgeError> {
    let now = clock::unix_millis();
    match what {
        What::All(scopes) => {
            for scope in scopes {
                store.purge(Purge { scope, soft }, now)?;
            }
            Ok(true)
        }
        // Without the object under the main key its variants are of no use.
        What::Key(key) if !soft => store.remove(&key).map_err(PurgeError::Disk),
        What::Key(key) => {
            if has_variants(store, &key, now).map_err(PurgeError::Disk)? {
                let scope = Scope::Prefix(variant_prefix(key.text()).into());
                store.purge(Purge { scope, soft }, now)?;
            }
            store.make_stale(&key, now).map_err(PurgeError::Disk)
        }
    }
}

/// Whether there may be variants beside the object under a key. What is being fetched may have some.
fn has_variants(store: &Store, key: &Key, now: u64) -> io::Result<bool> {
    let lookup = store.peek(key);
    if lookup.fill.or(lookup.placing).is_some() {
        return Ok(true);
    }
    let entry = store.open_entry(key, now)?;
    Ok(entry.as_ref().and_then(decoded).is_some_and(|decoded| !decoded.meta.vary.is_empty()))
}

/// The tags of an answer, separated by spaces: all words of the fields of these names, in which they may
/// be separated by commas as well.
pub fn tags_of(headers: &Headers, names: &[Box<[u8]>]) -> Vec<u8> {
    let mut tags = Vec::new();
    for word in names.iter().flat_map(|name| headers.all_named(name)).flat_map(words) {
        if tags.len() + word.len() + 1 > TAGS_BYTES_MAX {
            break;
        }
        if !tags.is_empty() {
            tags.push(b' ');
        }
        tags.extend_from_slice(word);
    }
    tags
}

/// What the store has to know of metadata to hold them against purges.
pub fn bearing(metadata: &[u8]) -> Option<Bearing<'_>> {
    let (asked_at, tags) = Meta::purge_terms(metadata)?;
    Some(Bearing { asked_at, tags })
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_between = |byte: &u8| matches!(byte, b' ' | b',' | b'\t');
    text.split(move |byte| is_between(byte)).filter(|word| !word.is_empty())
}
