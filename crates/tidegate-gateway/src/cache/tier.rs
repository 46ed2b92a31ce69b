//! `*_cache_tier`: a second tier of caches, in a bucket of an S3-compatible store that several servers share.
//!
//! ```nginx
//! proxy_cache_tier  shared s3://bucket/cache endpoint=https://s3.example.net credentials=/etc/tidegate/s3;
//! proxy_cache_path  /var/cache/tidegate keys_zone=one:10m max_size=10g tier=shared;
//! ```
//! A miss asks the tier in front of the origin, and what it has is streamed by the fill of the miss, as the origin's response
//! would be. Stored responses that are used often enough are written to it in the background. It is asked by name alone:
//! nothing is listed, nothing is removed; an object is replaced by a newer one, and purges are a list beside the objects.
//!
//! | file | what |
//! |---|---|
//! | `config` | the directive |
//! | `object` | the form of an object: head, checksums, body; no I/O |
//! | `purges` | which objects purges concern; no I/O |
//! | `breaker`, `memory` | whether a tier is asked at all, and for which keys; what is uploaded |
//! | `client` | requests to the store |
//! | `read` | the reading of an object, block by block |
//! | `find` | a miss asks the tier |
//! | `race` | the tier and the origin asked for the same |
//! | `upload` | the queue of uploads, and its tasks |
//! | `list` | the list of purges: in the cache's directory, and in the bucket |
//! | `figures` | what is counted |
//!
//! A tier that fails costs no response: it is a miss, and after five failures it is left alone for a while.

mod breaker;
mod client;
pub(crate) mod config;
mod figures;
mod find;
mod list;
mod memory;
mod object;
mod purges;
mod race;
mod read;
#[cfg(test)]
mod tests;
mod upload;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_cache::{Key, KeyHash, Store};
use tidegate_core::Level;
use tidegate_core::error_log::ErrorLog;
use tidegate_rt::clock;
use tidegate_rt::sync::Notify;
use tidegate_store::Lines;

use breaker::Breaker;
use client::{Client, Failure};
pub(crate) use figures::{TIER_FIGURES, TierFigures};
pub(crate) use find::{Asking, Found, TierQuery};
use list::PurgeList;
use memory::{Absent, Uses};
pub(crate) use purges::{Purgeable, Purges, SKEW_MILLIS, TierPurge};
pub(crate) use race::{Winner, race};
use read::Unusable;
use upload::Queue;

/// For fuzzers: an object of a tier, and a list of purges.
#[doc(hidden)]
pub fn fuzz(data: &[u8]) {
    object::fuzz(data);
    purges::fuzz(data);
}

/// The tiers of a plan, by the prefix of their directive and their name.
#[derive(Clone, Default)]
pub(crate) struct Tiers(pub(crate) BTreeMap<(&'static str, String), Arc<Tier>>);

/// Settings of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TierSettings {
    /// Uses on this server after which an object is uploaded.
    pub uses_min: u32,
    /// Bytes of the largest body.
    pub object_max: u64,
    /// Uploads at a time.
    pub uploads_max: usize,
    /// How long the tier is waited for before the origin is asked as well.
    pub hedge: Duration,
    /// Limit for a response of the tier, and for each block behind it.
    pub timeout: Duration,
}

/// A tier of one plan.
pub(crate) struct Tier {
    pub(crate) name: String,
    /// The URL as written: it has no keys.
    pub(crate) url: String,
    pub(crate) endpoint: String,
    pub(crate) settings: TierSettings,
    pub(crate) kept: Arc<Kept>,
    log: ErrorLog,
}

/// The part of a tier that outlives a reload.
pub(crate) struct Kept {
    client: Client,
    breaker: Mutex<BreakerState>,
    pub(crate) figures: TierFigures,
    queue: Queue,
    /// A request whose race the origin has won is still waited for, to judge the tier by it. One at a time.
    judging: AtomicBool,
}

#[derive(Default)]
struct BreakerState {
    all: Side,
    /// For uploads that the store refuses to keys that may only read: reads go on meanwhile.
    uploads: Side,
    lines: Lines,
}

/// A breaker, and why it has counted the last failure.
#[derive(Default)]
struct Side {
    breaker: Breaker,
    reason: Option<Arc<str>>,
}

impl Side {
    fn succeed(&mut self) {
        self.breaker.succeeded();
        self.reason = None;
    }
}

/// A cache of one plan with its tier.
pub(crate) struct CacheTier {
    pub(crate) tier: Arc<Tier>,
    /// Name of the cache, which its objects' names begin with.
    cache: String,
    /// Empty until the plan is used.
    store: Arc<OnceLock<Store>>,
    kept: Arc<CacheKept>,
    /// Whether the tier is not asked while purges of other servers may be missing.
    pauses: bool,
    /// Whether origins can complete a body: over HTTP, and over no other protocol.
    completes: bool,
}

/// The part of it that outlives a reload.
#[derive(Default)]
pub(crate) struct CacheKept {
    absent: Absent,
    uses: Uses,
    list: PurgeList,
    /// The list of purges has changed: there is something to publish, and something to save.
    changed: Notify,
    unsaved: Notify,
    /// As `changed`, but it may wait a moment for more.
    invalidated: Notify,
    /// As `changed`, but others are about to publish the same.
    purged_by_others: Notify,
    /// Purges of other servers may be missing.
    paused: AtomicBool,
}

impl Kept {
    fn new(client: Client) -> Kept {
        Kept {
            client,
            breaker: Mutex::default(),
            figures: TierFigures::default(),
            queue: Queue::default(),
            judging: false.into(),
        }
    }

    fn breaker(&self) -> MutexGuard<'_, BreakerState> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tier {
    /// Returns whether the breaker lets a request through.
    fn is_allowed(&self) -> bool {
        self.kept.breaker().all.breaker.allows(clock::now())
    }

    /// Returns whether uploads may be tried.
    fn may_upload(&self) -> bool {
        let (state, now) = (self.kept.breaker(), clock::now());
        state.all.breaker.allows(now) && state.uploads.breaker.allows(now)
    }

    /// Notes that the store has replied to an upload.
    fn note_upload(&self) {
        self.note_success();
        self.kept.breaker().uploads.succeed();
    }

    /// Notes that the store has denied to write `what`. It says nothing about reads.
    fn note_denied(&self, what: &str, failure: &Failure) {
        let name = &self.name;
        let paused = format_args!("nothing is uploaded to cache tier \"{name}\"");
        self.note(|state| &mut state.uploads, failure, format_args!("denied {what}"), paused);
    }

    /// Notes that the store has replied.
    fn note_success(&self) {
        self.kept.breaker().all.succeed();
    }

    /// Notes that the store has failed at `doing`.
    fn note_failure(&self, doing: &str, failure: &Failure) {
        let name = &self.name;
        let paused = format_args!("cache tier \"{name}\" is left alone");
        self.note(|state| &mut state.all, failure, format_args!("failed while {doing}"), paused);
    }

    /// Counts a failure of one side, and logs what has `happened`; where it is one too many, what is `paused` as well.
    fn note(
        &self,
        of: fn(&mut BreakerState) -> &mut Side,
        failure: &Failure,
        happened: std::fmt::Arguments<'_>,
        paused: std::fmt::Arguments<'_>,
    ) {
        self.kept.figures.failures.add(1);
        let (reason, now): (Arc<str>, _) = (failure.to_string().into(), clock::now());
        let mut state = self.kept.breaker();
        let side = of(&mut state);
        let pause = side.breaker.failed(now);
        side.reason = Some(reason.clone());
        let (name, endpoint) = (&self.name, &self.endpoint);
        if state.lines.allow(&reason, now) {
            let text = format_args!("cache tier \"{name}\" at {endpoint} {happened}: {reason}");
            self.log.say(Level::Error, text);
        }
        if let Some(pause) = pause {
            self.log.say(Level::Warn, format_args!("{paused} for {} s", pause.as_secs()));
        }
    }

    /// Notes that an object is of no use. A damaged one says nothing about the store.
    fn note_unusable(&self, unusable: &Unusable) {
        let what = match unusable {
            Unusable::Failed(failure) => return self.note_failure("reading an object", failure),
            Unusable::Damaged(what) => *what,
        };
        self.kept.figures.damaged.add(1);
        let reason: Arc<str> = what.into();
        let is_logged = self.kept.breaker().lines.allow(&reason, clock::now());
        if is_logged {
            let text = format_args!("cache tier \"{}\" has a damaged object: {what}", self.name);
            self.log.say(Level::Error, text);
        }
    }

    /// Shows its state.
    pub(crate) fn show(&self) -> Value {
        let (allowed, reason) = {
            let state = self.kept.breaker();
            let reason = state.all.reason.as_ref().or(state.uploads.reason.as_ref());
            (state.all.breaker.allows(clock::now()), reason.cloned())
        };
        let mut shown = json!({
            "url": self.url,
            "endpoint": self.endpoint,
            "state": if allowed { "asked" } else { "left alone" },
            "reason": reason.as_deref(),
            "queued": self.kept.queue.len(),
        });
        if let Value::Object(shown) = &mut shown {
            for figure in &TIER_FIGURES {
                shown.insert(figure.name.to_owned(), (figure.of)(&self.kept.figures).into());
            }
        }
        shown
    }

    /// Returns the number of uploads that wait.
    pub(crate) fn queued(&self) -> usize {
        self.kept.queue.len()
    }

    /// Returns whether requests are sent to it now.
    pub(crate) fn is_asked(&self) -> bool {
        self.is_allowed()
    }
}

impl CacheTier {
    /// Returns the name of the object of a key, below the tier's path.
    fn object_name(&self, key: &Key) -> String {
        let hash = key.hash().hexadecimal();
        format!("{}/{}/{hash}", self.cache, hash.get(..2).unwrap_or_default())
    }

    /// Notes whether purges of other servers may be missing: then the tier is not asked, where the configuration says so.
    pub(crate) fn pause(&self, paused: bool) {
        self.kept.paused.store(paused, Ordering::Release);
    }

    /// Returns how long the tier is waited for before the origin is asked as well.
    pub(crate) fn hedge(&self) -> Duration {
        self.tier.settings.hedge
    }

    /// Counts a use of a stored response, which is uploaded once it has been used often enough. Never blocks.
    pub(crate) fn used(self: &Arc<Self>, main: &Key, key: &Key) {
        self.kept.uses.add(key.hash());
        self.upload_if_used(main, key);
    }

    /// Counts a use of a response that is being stored, or was a moment ago.
    pub(crate) fn followed(&self, key: &Key) {
        self.kept.uses.add(key.hash());
    }

    fn upload_if_used(self: &Arc<Self>, main: &Key, key: &Key) {
        let (uses, min) = (&self.kept.uses, self.tier.settings.uses_min);
        // While nothing is uploaded, keys stay due: a use behind the pause uploads them.
        let is_due = uses.is_due(key.hash(), min) && self.tier.may_upload();
        if is_due && uses.reaches(key.hash(), min) {
            self.tier.kept.queue.push(self.clone(), main, key, &self.tier.kept.figures);
        }
    }

    /// Notes that a response of the origin is being stored: it counts as used once. To be called before it can be used again.
    pub(crate) fn begun(&self, key: &Key) {
        self.kept.uses.restart(key.hash());
    }

    /// Notes that it was stored.
    pub(crate) fn stored(self: &Arc<Self>, main: &Key, key: &Key) {
        self.upload_if_used(main, key);
    }

    /// Notes that an object of the tier was stored here.
    pub(crate) fn taken(&self, key: &Key) {
        self.kept.uses.done(key.hash());
    }

    /// Lets the tier not be asked before the bucket's list of purges was read again: this server may have missed some.
    pub(crate) fn missed_purges(&self) {
        self.kept.list.doubt();
        self.kept.changed.notify_one();
    }

    /// Lets no object of the tier be used that is older than these purges, which are carried out at `now`, in Unix
    /// milliseconds. It takes effect at once; it is saved and published in the background. Never waits, so that what is
    /// removed here with it is removed in any case; [`CacheTier::save`] waits until it is in the cache's directory.
    pub(crate) fn purge(&self, purges: Vec<TierPurge>, now: u64) {
        self.kept.list.add(purges, now);
        self.kept.unsaved.notify_one();
        self.kept.changed.notify_one();
    }

    /// As [`CacheTier::purge`], for purges that arrive at `now` and that other servers have carried out before, each with the
    /// moment at which it was. Those servers publish them: this one does where they have not within a few seconds.
    pub(crate) fn purge_by_others(&self, purges: Vec<(TierPurge, Option<u64>)>, now: u64) {
        for (purge, at) in purges {
            // The moment of the other server, so that both have the same list, unless clocks disagree, or it was long ago.
            let at = at.filter(|at| at.abs_diff(now) <= SKEW_MILLIS);
            self.kept.list.add(vec![purge], at.unwrap_or(now));
        }
        self.kept.unsaved.notify_one();
        self.kept.purged_by_others.notify_one();
    }

    /// Lets no object of the tier be used that is older than an invalidation of these main keys by a request at `now`, in
    /// Unix milliseconds, or by the response to one. As [`CacheTier::purge`], but there may be many: they are published
    /// together, and the oldest are forgotten where there are too many.
    pub(crate) fn invalidate<'a>(&self, keys: impl IntoIterator<Item = &'a Key>, now: u64) {
        self.kept.list.add(keys.into_iter().map(CacheTier::invalidation_of).collect(), now);
        self.kept.unsaved.notify_one();
        self.kept.invalidated.notify_one();
    }

    /// Returns the hash of the key of a request, for [`TierPurge::Key`].
    pub(crate) fn purge_of(key: &Key) -> TierPurge {
        TierPurge::Key(KeyHash(key.hash().0))
    }

    /// As [`CacheTier::purge_of`], for [`TierPurge::Invalidated`].
    pub(crate) fn invalidation_of(key: &Key) -> TierPurge {
        TierPurge::Invalidated(KeyHash(key.hash().0))
    }

    fn log(&self, level: Level, text: fmt::Arguments<'_>) {
        self.tier.log.say(level, text);
    }
}

impl fmt::Debug for CacheTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CacheTier")
    }
}
