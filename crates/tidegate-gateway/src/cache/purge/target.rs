//! What a purge concerns, and purges of a store.

use std::io;

use tidegate_cache::{Key, Purge, PurgeError, Scope, Store};

use crate::cache::decide::policy::variant_prefix;
use crate::cache::meta::{decoded, words};

/// Maximum number of tags that one request may purge: each becomes a rule.
pub(crate) const PURGED_TAGS_MAX: usize = 100;

/// The scope of a purge request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PurgeTarget {
    /// One object with its variants.
    Key(Key),
    All(Vec<Scope>),
}

/// Returns the scope that a request with this key and these tags purges; `None`: too many tags.
pub(crate) fn target_of(key: Vec<u8>, tags: &[u8]) -> Option<PurgeTarget> {
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
pub(crate) fn purge(
    store: &Store,
    what: PurgeTarget,
    soft: bool,
    now: u64,
) -> Result<bool, PurgeError> {
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
