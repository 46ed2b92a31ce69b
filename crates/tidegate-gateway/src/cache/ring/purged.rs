//! What was purged on this server lately, so that a peer which has not carried out the purge yet cannot bring it back.
//!
//! A response of a peer comes with the time since its request to the origin began. Subtracted from the moment at which the
//! peer was asked, this is that request on the clock of this server, or earlier: no clocks are compared. What began before
//! a purge is not used. Where there are too many purges, the older half becomes one moment, and nothing that began before it
//! is used. A server that is started again has forgotten them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_cache::Key;

use crate::cache::tier::{Purgeable, Purges, SKEW_MILLIS, TierPurge};

/// The purges of a cache, if it has peers. It outlives reloads.
#[derive(Default)]
pub(crate) struct PurgedLately {
    is_wanted: AtomicBool,
    purges: Mutex<Purges>,
}

impl PurgedLately {
    /// Lets purges be remembered from now on.
    pub(crate) fn want(&self) {
        self.is_wanted.store(true, Ordering::Release);
    }

    /// Adds purges that are carried out at `now`, in Unix milliseconds. To be called before they take effect.
    pub(crate) fn add(&self, purges: impl IntoIterator<Item = TierPurge>, now: u64) {
        if self.is_wanted.load(Ordering::Acquire) {
            let mut known = self.lock();
            purges.into_iter().for_each(|purge| known.add(purge, now));
        }
    }

    /// Returns whether no purge concerns a response whose request to the origin began at `began`, in Unix milliseconds.
    pub(crate) fn allow(&self, main: &Key, tags: &[u8], began: u64) -> bool {
        // The list allows for clocks that differ; here there is one clock.
        let requested_at = began.saturating_add(SKEW_MILLIS);
        let object = Purgeable { main: main.hash(), key: main.text(), tags, requested_at };
        self.lock().allow(&object)
    }

    fn lock(&self) -> MutexGuard<'_, Purges> {
        self.purges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
