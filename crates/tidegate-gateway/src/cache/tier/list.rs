//! The list of a cache's purges: in memory, in the cache's directory, and in the bucket beside the objects.
//!
//! The file lets a server that restarts know what it has purged; the object in the bucket lets one that is new, or was away,
//! know what others have. A tier is not asked before both were read. Each server merges its own list with the bucket's, after
//! each purge and every [`REFRESH`]; purges are only added, so that the order of writers does not matter, and a write on the
//! condition that no other server has written meanwhile is repeated after another reading.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::{Level, blocking};
use tidegate_os::os_error;
use tidegate_rt::sync::select;
use tidegate_rt::{clock, random, timer};
use tidegate_store::s3::payload_hash;
use tidegate_upstream::care::BackgroundTask;

use super::CacheTier;
use super::client::{Condition, Failure, Put, etag_of};
use super::purges::{LIST_BYTES_MAX, Purgeable, Purges, TierPurge};

/// How often the bucket's list is read without a purge.
const REFRESH: Duration = Duration::from_secs(10);
/// The pause after a failure: the first, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// How long invalidations wait for others before they are published.
const INVALIDATIONS_APART: Duration = Duration::from_secs(1);
/// The shortest time between two writings of the file in the background: purges in between are written at once.
const SAVES_APART: Duration = Duration::from_millis(100);
/// How long a purge of another server waits until that server has published it, and the longest time that is added at random,
/// so that servers do not read all at once.
const OTHERS_FIRST: Duration = Duration::from_secs(1);
const OTHERS_APART_MILLIS: u64 = 1000;
/// Attempts in a row against other writers.
const WRITES_MAX: u32 = 8;
/// Name of the file in the directory of a cache, and of the object below the cache's name.
const FILE: &str = ".tier";
const OBJECT: &str = "purges";

/// The purges that a server knows.
#[derive(Default)]
pub(super) struct PurgeList {
    purges: Mutex<Purges>,
    /// How often this server may have missed purges, so that the bucket's list has to be read again.
    doubts: AtomicU64,
    /// One more than the doubts at the beginning of the last reading of the bucket's list; 0: it was not read.
    known: AtomicU64,
    /// The file was read. It is not written before.
    is_read: AtomicBool,
    /// It was damaged, which is not logged yet.
    is_damaged: AtomicBool,
    /// Changes that are to be saved, counted.
    changes: AtomicU64,
    /// How many of them the file has. Held while it is written: the last writer has the newest list.
    saved: Mutex<u64>,
}

impl PurgeList {
    fn purges(&self) -> MutexGuard<'_, Purges> {
        self.purges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds purges of `now`, in Unix milliseconds.
    pub(super) fn add(&self, added: Vec<TierPurge>, now: u64) {
        let mut purges = self.purges();
        added.into_iter().for_each(|purge| purges.add(purge, now));
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Returns whether the purges in the file are known.
    fn is_read(&self) -> bool {
        self.is_read.load(Ordering::Acquire)
    }

    /// Adds the list in a file. A file that is damaged may have had any purge: this server uses nothing that is older than
    /// `now`, in Unix milliseconds. The other servers have what was published.
    fn read(&self, path: &Path, now: u64) -> io::Result<()> {
        let text = match std::fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            read => read?,
        };
        match Purges::decode(&text) {
            Some(found) => self.merge(&found),
            None => {
                self.purges().add_own_floor(now);
                self.changes.fetch_add(1, Ordering::Release);
                self.is_damaged.store(true, Ordering::Release);
            }
        }
        Ok(())
    }

    /// Writes the list into a file, unless the file has it; blocks. What the file has is read first, once. Several that wait
    /// for each other write once.
    pub(super) fn save(&self, path: &Path, now: u64) -> io::Result<()> {
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_read() {
            self.read(path, now)?;
            self.is_read.store(true, Ordering::Release);
        }
        // In front of the list: what is added behind this may be written twice, never not at all.
        let changes = self.changes.load(Ordering::Acquire);
        if *saved < changes {
            write_file(path, &self.purges().clone().encode())?;
            *saved = changes;
        }
        Ok(())
    }

    /// Returns whether an object is newer than all purges that concern it.
    pub(super) fn allows(&self, object: &Purgeable<'_>) -> bool {
        self.purges().allow(object)
    }

    /// Returns whether the purges of others are known.
    pub(super) fn is_known(&self) -> bool {
        self.known.load(Ordering::Acquire) == self.doubts().saturating_add(1)
    }

    /// Forgets that the purges of others are known; a reading of the bucket's list that is in progress does not count.
    pub(super) fn doubt(&self) {
        self.doubts.fetch_add(1, Ordering::AcqRel);
    }

    fn doubts(&self) -> u64 {
        self.doubts.load(Ordering::Acquire)
    }

    /// Adds the bucket's list, whose reading began when there were so many doubts.
    pub(super) fn learn(&self, theirs: &Purges, doubts: u64) {
        self.merge(theirs);
        self.known.fetch_max(doubts.saturating_add(1), Ordering::AcqRel);
    }

    /// Adds another list.
    fn merge(&self, other: &Purges) {
        self.purges().merge(other);
    }
}

/// Why the list in the bucket was not read or written.
struct Unpublished {
    failure: Failure,
    /// The store lets the keys only read. It says nothing about reads.
    is_denied: bool,
}

impl From<Failure> for Unpublished {
    fn from(failure: Failure) -> Unpublished {
        Unpublished { failure, is_denied: false }
    }
}

impl Unpublished {
    fn writing(failure: Failure) -> Unpublished {
        let is_denied = matches!(failure, Failure::Status(403, _));
        Unpublished { failure, is_denied }
    }
}

impl CacheTier {
    /// Writes the list into the cache's directory, and reads first what is there; returns whether the directory has it. A failure is logged.
    pub(crate) async fn save(&self) -> bool {
        let Some(store) = self.store.get() else { return false };
        let (path, kept) = (store.options().path.join(FILE), self.kept.clone());
        let saved = blocking::run(move || kept.list.save(&path, clock::unix_millis())).await;
        if self.kept.list.is_damaged.swap(false, Ordering::AcqRel) {
            self.log_distrust("the file of its purges is damaged");
        }
        if let Err(error) = &saved {
            let (name, error) = (&self.cache, os_error(error));
            let text = format_args!(
                "cache \"{name}\": purges of its tier were not read or saved ({error})"
            );
            self.log(Level::Error, text);
        }
        saved.is_ok()
    }

    /// Saves the list whenever it has changed.
    async fn keep_saved(&self) {
        loop {
            let rest = if self.save().await { SAVES_APART } else { PAUSE_MAX };
            timer::sleep(rest).await;
            if rest == SAVES_APART {
                self.kept.unsaved.notified().await;
            }
        }
    }

    /// Lets nothing be used that is in the tier now.
    fn purge_all(&self, reason: &str) {
        let everything = tidegate_cache::Scope::Prefix(Box::default());
        self.kept.list.add(vec![TierPurge::Scope(everything)], clock::unix_millis());
        self.log_distrust(reason);
    }

    fn log_distrust(&self, reason: &str) {
        let name = &self.cache;
        self.log(
            Level::Error,
            format_args!("cache \"{name}\" does not use what its tier has: {reason}"),
        );
    }

    /// Publishes the list whenever it has changed, and reads what others have published.
    async fn keep_published(&self) {
        let mut pause = PAUSE_MIN;
        loop {
            let rest = match self.publish().await {
                Ok(()) => {
                    pause = PAUSE_MIN;
                    REFRESH
                }
                Err(unpublished) => {
                    let failure = &unpublished.failure;
                    match unpublished.is_denied {
                        true => self.tier.note_denied("the list of purges", failure),
                        false => {
                            self.tier
                                .note_failure("reading or writing the list of purges", failure);
                        }
                    }
                    let rest = pause;
                    pause = (pause * 2).min(PAUSE_MAX);
                    rest
                }
            };
            select! {
                () = timer::sleep(rest) => {}
                () = self.kept.changed.notified(), if rest == REFRESH => {}
                () = self.invalidated(), if rest == REFRESH => {}
                () = self.purged_by_others(), if rest == REFRESH => {}
            }
        }
    }

    /// Waits for invalidations, then for those that follow within a moment.
    async fn invalidated(&self) {
        self.kept.invalidated.notified().await;
        timer::sleep(INVALIDATIONS_APART).await;
    }

    /// Waits for purges of other servers, then for a while in which those publish them.
    async fn purged_by_others(&self) {
        self.kept.purged_by_others.notified().await;
        let apart = Duration::from_millis(random::next_u64() % OTHERS_APART_MILLIS);
        timer::sleep(OTHERS_FIRST + apart).await;
    }

    /// Merges the list with the bucket's.
    async fn publish(&self) -> Result<(), Unpublished> {
        let (client, list) = (&self.tier.kept.client, &self.kept.list);
        let name = format!("{}/{OBJECT}", self.cache);
        for _ in 0..WRITES_MAX {
            let doubts = list.doubts();
            let (mut etag, mut theirs) = (None, Purges::default());
            if let Some(mut response) = client.get(&name, None).await? {
                etag = etag_of(&mut response);
                let text = response.body.collect(LIST_BYTES_MAX).await;
                let (text, _) = text.map_err(|_| Unpublished::from(Failure::Broken))?;
                match Purges::decode(&text) {
                    Some(decoded) => theirs = decoded.shared(),
                    None => self.purge_all("the list of purges in the bucket is damaged"),
                }
            }
            list.learn(&theirs, doubts);
            let own = list.purges().shared();
            self.tier.kept.figures.lists.add(1);
            if own == theirs {
                return Ok(());
            }
            let text = Bytes::from(own.encode());
            let hash = payload_hash(&text);
            let condition = etag.as_deref().map_or(Condition::Absent, Condition::Same);
            let written = client.put(&name, text.clone(), &hash, condition).await;
            match written.map_err(Unpublished::writing)? {
                Put::Stored => return Ok(()),
                Put::Refused => {}
                Put::Unsupported => {
                    let written = client.put(&name, text, &hash, Condition::None).await;
                    written.map_err(Unpublished::writing)?;
                    return Ok(());
                }
            }
        }
        // Others write as well: they have merged by then, or the next reading does.
        Ok(())
    }
}

/// The task of a cache's list.
pub(super) struct ListTask(pub(super) Arc<CacheTier>);

impl BackgroundTask for ListTask {
    fn run(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(async move {
            let own = &self.0;
            // A plan's caches are opened before its tasks begin.
            if own.store.get().is_none() {
                return;
            }
            // Neither is the bucket's list read nor the tier asked without what is in the file.
            let mut pause = PAUSE_MIN;
            while !own.kept.list.is_read() {
                if !own.save().await {
                    timer::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
            select! {
                () = own.keep_saved() => {}
                () = own.keep_published() => {}
            }
        })
    }
}

/// Replaces a file: a crash leaves the old one or the new one.
fn write_file(path: &Path, text: &[u8]) -> io::Result<()> {
    let near = near(path);
    let mut file = std::fs::File::create(&near)?;
    file.write_all(text)?;
    // On the disk before it has the name: a crash of the machine must not leave a part of it.
    file.sync_all()?;
    drop(file);
    std::fs::rename(&near, path)
}

/// Returns the name under which a file is written before it replaces another one.
fn near(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    PathBuf::from(name)
}
