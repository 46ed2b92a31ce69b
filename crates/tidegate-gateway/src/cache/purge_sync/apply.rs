//! Purges of other servers, applied to a store. Everything here blocks.

use tidegate_cache::{Purge, PurgeError, Scope, Store};

use super::entry::{PurgeRule, PurgeWhat};
use crate::cache::purge::target::{PurgeTarget, purge};

/// Applies purges; they have taken effect when it returns. Where the disk fails, or there are too many rules, more objects
/// are purged than were meant.
pub(super) fn apply(store: &Store, rules: Vec<PurgeRule>, now: u64) -> Result<(), PurgeError> {
    let mut purges = Vec::new();
    for PurgeRule { what, soft, .. } in rules {
        match what {
            PurgeWhat::Scope(scope) => purges.push(Purge { scope, soft }),
            PurgeWhat::Key(text) => {
                let target = PurgeTarget::Key(tidegate_cache::Key::new(&text[..]));
                if purge(store, target, soft, now).is_err() {
                    purges.push(Purge { scope: Scope::Prefix(text.into()), soft });
                }
            }
        }
    }
    if purges.is_empty() {
        return Ok(());
    }
    match store.purge_all(purges, now) {
        // A rule about everything makes all others superfluous, so that it is never refused.
        Err(PurgeError::Refused) => store.purge(everything(false), now),
        done => done,
    }
}

/// Makes all objects stale.
pub(super) fn revalidate_all(store: &Store, now: u64) -> Result<(), PurgeError> {
    match store.purge(everything(true), now) {
        Err(PurgeError::Refused) => store.purge(everything(false), now),
        done => done,
    }
}

fn everything(soft: bool) -> Purge {
    Purge { scope: Scope::Prefix(Box::default()), soft }
}
