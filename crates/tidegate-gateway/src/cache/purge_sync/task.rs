//! The tasks of shared purges on the thread of background work: one has the connection on which questions wait, one asks
//! and applies.
//!
//! A turn: what waits in the outbox is sent; a question is asked; the reply is applied by a pool thread; the position is kept;
//! the cache may be served for a while, if this server is up to date. A turn that fails is followed by a pause, in which
//! `purge_partition` decides.
//!
//! Cancelling: the task is dropped at any wait when another plan comes into use. What a pool thread has begun goes on, and
//! the position stays in front of it, so that the next task does it again.

use std::io;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tidegate_cache::{Key, PurgeError, Scope, Store};
use tidegate_core::blocking;
use tidegate_core::error_log::{ErrorLog, Level};
use tidegate_os::os_error;
use tidegate_rt::{clock, timer};
use tidegate_store::{CallError, Lines};
use tidegate_upstream::care::BackgroundTask;

use super::apply::{apply, revalidate_all};
use super::entry::{PurgeRule, PurgeWhat};
use super::follow::{Copy, Foreign, Own, Question, Step, step};
use super::{PurgeSync, kept, scripts};
use crate::cache::config::sharing::Partition;
use crate::cache::ring::purged::PurgedLately;
use crate::cache::tier::{CacheTier, TierPurge};

/// The time for which a cache may be served since this server was last up to date: three questions that nothing new follows.
const LEASE: Duration = Duration::from_secs(3);
/// The pause behind a failure.
const PAUSE: Duration = Duration::from_millis(50);

/// The task with the connection. What it says is said by the one that asks.
pub(super) struct ConnectionTask(pub(super) Arc<PurgeSync>);

impl BackgroundTask for ConnectionTask {
    fn run(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        let engine = self.0.follower.clone();
        Box::pin(tidegate_store::run(engine, "purges".into(), ErrorLog::new(Vec::new())))
    }
}

/// The task that asks.
pub(super) struct FollowTask {
    pub(super) name: String,
    pub(super) store: Arc<OnceLock<Store>>,
    pub(super) tier: Option<Arc<CacheTier>>,
    pub(super) purged: Arc<PurgedLately>,
    pub(super) sync: Arc<PurgeSync>,
    pub(super) partition: Partition,
    pub(super) log: ErrorLog,
}

impl BackgroundTask for FollowTask {
    fn run(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(async move {
            // A plan's caches are opened before its tasks begin.
            let Some(store) = self.store.get() else { return };
            // Another task may have left it, on a connection that is still there.
            let begun = self.sync.state().copy.take().unwrap_or_else(|| kept(store));
            self.sync.state().copy = Some(begun.disconnected());
            let mut lines = Lines::default();
            loop {
                match self.turn(store).await {
                    Ok(()) => {}
                    Err(reason) => {
                        self.cut_off(store, &reason, &mut lines).await;
                        timer::sleep(PAUSE).await;
                    }
                }
            }
        })
    }
}

impl FollowTask {
    /// Asks once, and applies the reply.
    async fn turn(&self, store: &Store) -> Result<(), CallError> {
        let (sync, node) = (&self.sync, self.sync.store.node());
        let (copy, unseen) = {
            let state = sync.state();
            (state.copy.clone().unwrap_or(Copy::Unknown), state.unseen.clone())
        };
        let question = copy.question();
        let verifies = matches!(question, Question::Verify(_));
        let asked = sync.follower.begin(scripts::ask(&sync.stream, &question));
        self.send_waiting().await;
        let reply = asked.wait().await?;
        let own = Own { node: node.as_bytes(), unseen: &unseen };
        let step = step(question, &reply, own).map_err(|Foreign| {
            CallError::Refused("the stream has entries of another kind".into())
        })?;
        let Step { next, current, .. } = step.clone();
        if verifies && step.entries > 0 {
            sync.figures.replays.fetch_add(1, Ordering::Relaxed);
        }
        self.carry_out(store, step, &next).await?;
        let (cut_off, now) = {
            let mut state = sync.state();
            match &next {
                Copy::Following(at) => state.unseen.retain(|id| *id > at.id),
                // All others will know that something is missing.
                Copy::Older(_) => state.unseen.clear(),
                _ => {}
            }
            state.copy = Some(next);
            let now = clock::exact_now();
            if current {
                state.contact = Some(now);
            }
            (state.cut_off_since.take_if(|_| current), now)
        };
        if current {
            self.tier.iter().for_each(|tier| tier.pause(false));
            sync.guard.open_for(LEASE);
        }
        if let Some(since) = cut_off {
            let millis = now.saturating_duration_since(since).as_millis();
            let name = &self.name;
            let text = format_args!("cache \"{name}\" is up to date again after {millis} ms");
            self.log.say(Level::Notice, text);
        }
        Ok(())
    }

    /// Applies what a reply says, then keeps the position.
    async fn carry_out(&self, store: &Store, step: Step, next: &Copy) -> Result<(), CallError> {
        let sync = &self.sync;
        let Copy::Following(at) = next else {
            // What was read in front of a gap.
            return self.purge(store, step).await;
        };
        let (position, is_new) = (at.text(), step.entries > 0 || step.revalidate);
        let has_entries = step.entries > 0;
        self.purge(store, step).await?;
        if has_entries {
            let lag = clock::unix_millis().saturating_sub(at.id.millis);
            sync.figures.lag_millis.store(lag, Ordering::Relaxed);
        }
        if !is_new {
            return Ok(());
        }
        let keeping = store.clone();
        let kept = blocking::run(move || keeping.keep_purge_position(&position)).await;
        if let Err(error) = kept {
            // The next start repeats the purges.
            let (name, error) = (&self.name, os_error(&error));
            let text = format!("cache \"{name}\": the position of purges was not kept ({error})");
            self.log.say(Level::Error, format_args!("{text}"));
        }
        Ok(())
    }

    /// Applies the purges of a step on a pool thread.
    async fn purge(&self, store: &Store, step: Step) -> Result<(), CallError> {
        let figures = &self.sync.figures;
        let (count, everything) = (step.rules.len() as u64, step.revalidate);
        if count == 0 && !everything {
            return Ok(());
        }
        let everywhere = everything.then(everything_purged);
        let purges = step.rules.iter().map(tier_purge).chain(everywhere);
        self.purged.add(purges, clock::unix_millis());
        if let Some(tier) = &self.tier {
            // What this server may have missed is in the bucket's list: its tier needs no purge of everything, which would be
            // one for all servers. The list has to be a newer one than this.
            if everything {
                tier.missed_purges();
            }
            let purges = step.rules.iter().map(|rule| (tier_purge(rule), rule.at)).collect();
            tier.purge_by_others(purges, clock::unix_millis());
        }
        let purging = store.clone();
        let job = move || {
            // The moment of arrival.
            let now = clock::unix_millis();
            let applied = apply(&purging, step.rules, now);
            let stale = if everything { revalidate_all(&purging, now) } else { Ok(()) };
            match applied.and(stale) {
                Err(PurgeError::Disk(error)) => Ok(Some(error)),
                Err(error @ PurgeError::Refused) => Err(io::Error::other(error)),
                Ok(()) => Ok(None),
            }
        };
        let done = blocking::run(job).await;
        if let Some(tier) = &self.tier {
            // In front of the position, which is kept behind this.
            tier.save().await;
        }
        let unsaved = done.map_err(|error| CallError::Lost(error.to_string().into()))?;
        figures.applied.fetch_add(count, Ordering::Relaxed);
        figures.revalidations.fetch_add(u64::from(everything), Ordering::Relaxed);
        if let Some(error) = unsaved {
            let (name, error) = (&self.name, os_error(&error));
            let text = format!("cache \"{name}\": purges of others were not saved ({error})");
            self.log.say(Level::Error, format_args!("{text}"));
        }
        Ok(())
    }

    /// Sends what the engine did not get, oldest first, until something fails.
    async fn send_waiting(&self) {
        let sync = &self.sync;
        loop {
            let Some(rules) = sync.outbox().first().cloned() else { return };
            let fields = super::entry::fields(&rules);
            let node = sync.store.node().as_bytes();
            let command = scripts::append(&sync.stream, node, None, &fields);
            let Ok(reply) = sync.store.begin(command).wait().await else { return };
            sync.outbox().sent(&rules);
            sync.note_sent(&reply);
        }
    }

    /// Decides about the cache while the engine does not reply.
    async fn cut_off(&self, store: &Store, reason: &CallError, lines: &mut Lines) {
        let (sync, now) = (&self.sync, clock::exact_now());
        let since = {
            let mut state = sync.state();
            state.copy = state.copy.take().map(Copy::disconnected);
            state.cut_off_since.get_or_insert(now);
            state.contact
        };
        let text: Arc<str> = reason.to_string().into();
        if lines.allow(&text, now) {
            let name = &self.name;
            let text = format_args!("cache \"{name}\" gets no purges of other servers: {text}");
            self.log.say(Level::Error, text);
        }
        if let Partition::Revalidate(after) = self.partition {
            // It may have what others have purged by now.
            self.tier.iter().for_each(|tier| tier.pause(true));
            let is_due = since.is_none_or(|at| now.saturating_duration_since(at) >= after);
            if is_due {
                self.purged.add([everything_purged()], clock::unix_millis());
                let purging = store.clone();
                let job = move || Ok(revalidate_all(&purging, clock::unix_millis()));
                // Without it the cache must not be served: it is attempted again.
                let Ok(Ok(()) | Err(PurgeError::Disk(_))) = blocking::run(job).await else {
                    return;
                };
                sync.figures.revalidations.fetch_add(1, Ordering::Relaxed);
                sync.state().contact = Some(now);
            }
        }
        sync.guard.open_for(LEASE);
    }
}

/// Returns a purge as a tier gets it.
fn tier_purge(rule: &PurgeRule) -> TierPurge {
    match &rule.what {
        PurgeWhat::Key(text) => CacheTier::purge_of(&Key::new(&text[..])),
        PurgeWhat::Scope(scope) => TierPurge::Scope(scope.clone()),
    }
}

/// Returns a purge of everything.
fn everything_purged() -> TierPurge {
    TierPurge::Scope(Scope::Prefix(Box::default()))
}
