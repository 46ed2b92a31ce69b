//! `proxy_cache_path … purge_sync`: a purge on one server takes effect on all that share a store.
//!
//! A purge is carried out here first, then appended to a stream of the engine, which each server follows over a connection
//! of its own: the engine holds its question until there is something new, so that a purge is everywhere after a round trip.
//!
//! **Invariant.** A rule concerns what is stored, or being fetched, on a server at the moment at which it *arrives* there. No
//! clock of another server is compared. It arrives behind the purge, so an object that is requested from the origin behind its
//! arrival is newer than the purge; one that was requested between the two is fetched once more. Rules may be applied
//! twice and late for the same reason, but never be left out: the position in the stream is kept behind their effect
//! ([`Store::keep_purge_position`]), and what may have been missed makes everything stale (`follow`).
//!
//! A cache is not served before this server is up to date, unless its engine is unavailable: then by `purge_partition`.
//!
//! | file | content |
//! |---|---|
//! | entry | purges as entries of the stream |
//! | follow | what is asked, and what follows from a reply; pure |
//! | scripts | the commands |
//! | guard | whether the cache may be served |
//! | outbox | purges that the engine did not get |
//! | apply | purges applied to a store |
//! | task | the task that follows |

mod apply;
pub(super) mod entry;
mod follow;
mod guard;
mod outbox;
mod scripts;
mod task;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_cache::Store;
use tidegate_conf::Diagnostic;
use tidegate_plan::PlanBuilder;
use tidegate_rt::clock;
use tidegate_store::{CallError, Engine};
use tidegate_upstream::care::BackgroundTasks;

use entry::EntryId;
pub use entry::fuzz_purge_entries;
pub(crate) use entry::{PurgeRule, PurgeWhat};
use follow::Copy;
pub(crate) use guard::Guard;
use outbox::Outbox;
use task::{ConnectionTask, FollowTask};

use crate::cache::config::sharing::Partition;
use crate::cache::ring::purged::PurgedLately;
use crate::cache::tier::CacheTier;
use crate::zone_sync::{self, Sync, SyncStore};

/// The purges that a cache shares. They outlive reloads, as long as the engine stays the same.
pub(crate) struct PurgeSync {
    /// The stream.
    stream: Vec<u8>,
    /// For what is sent.
    store: Arc<Engine>,
    /// The connection on which questions wait.
    follower: Arc<Engine>,
    pub(crate) guard: Guard,
    outbox: Mutex<Outbox>,
    state: Mutex<State>,
    pub(crate) figures: PurgeFigures,
}

/// Entries of a server that are remembered until it has read them: by them it finds that an engine has lost them.
const UNSEEN_MAX: usize = 4096;

/// How far this server is; changed by the task alone, but for what it has sent.
#[derive(Default)]
struct State {
    /// `None` before the store's own position was read.
    copy: Option<Copy>,
    /// When the engine has replied last; `None`: not yet.
    contact: Option<Instant>,
    /// Entries of this server that it has not read yet.
    unseen: Vec<EntryId>,
    /// Since when it has not, where it is known not to.
    cut_off_since: Option<Instant>,
}

/// What has happened since the start.
#[derive(Debug, Default)]
pub(crate) struct PurgeFigures {
    sent: AtomicU64,
    not_sent: AtomicU64,
    applied: AtomicU64,
    replays: AtomicU64,
    revalidations: AtomicU64,
    lag_millis: AtomicU64,
}

/// The sums of a cache, for `api` and metrics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PurgeTotals {
    /// Purges of this server that the engine has.
    pub(crate) sent: u64,
    /// Purges that were refused with 503, as the engine did not get them.
    pub(crate) not_sent: u64,
    /// Of these, the ones that wait.
    pub(crate) waiting: u64,
    /// Rules of other servers.
    pub(crate) applied: u64,
    /// Times that purges had to be made up for.
    pub(crate) replays: u64,
    /// Times that everything became stale.
    pub(crate) revalidations: u64,
    /// Between the last purge and its effect here, by the clocks of the engine and of this server.
    pub(crate) lag_millis: u64,
}

impl fmt::Debug for PurgeSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PurgeSync")
    }
}

impl PurgeSync {
    /// Sends purges that were carried out here to all others. `applied`: they have taken effect here for good.
    ///
    /// # Errors
    /// The engine did not get them, or did not say so in time. They are kept, and sent later.
    pub(crate) async fn send(&self, rules: Vec<PurgeRule>, applied: bool) -> Result<(), CallError> {
        let node = if applied { self.store.node() } else { "" };
        let fields = entry::fields(&rules);
        let command = scripts::append(&self.stream, node.as_bytes(), None, &fields);
        let failed = self.store.begin(command).wait().await;
        let error = match failed {
            Ok(reply) => {
                self.note_sent(&reply);
                return Ok(());
            }
            Err(error) => error,
        };
        self.figures.not_sent.fetch_add(1, Ordering::Relaxed);
        self.outbox().keep(rules);
        Err(error)
    }

    /// Notes that the engine has an entry of this server, by its id.
    fn note_sent(&self, reply: &tidegate_store::Value) {
        self.figures.sent.fetch_add(1, Ordering::Relaxed);
        let Some(id) = reply.as_text().and_then(EntryId::read) else { return };
        let mut state = self.state();
        let is_read = matches!(&state.copy, Some(Copy::Following(at)) if id <= at.id);
        if !is_read && state.unseen.len() < UNSEEN_MAX {
            state.unseen.push(id);
        }
    }

    /// Returns the sums.
    pub(crate) fn totals(&self) -> PurgeTotals {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let figures = &self.figures;
        PurgeTotals {
            sent: read(&figures.sent),
            not_sent: read(&figures.not_sent),
            waiting: self.outbox().len() as u64,
            applied: read(&figures.applied),
            replays: read(&figures.replays),
            revalidations: read(&figures.revalidations),
            lag_millis: read(&figures.lag_millis),
        }
    }

    /// Shows the state.
    pub(crate) fn show(&self) -> Value {
        let (state, cut_off) = {
            let state = self.state();
            let name = match &state.copy {
                Some(Copy::Following(_)) if state.cut_off_since.is_none() => "following",
                _ if state.cut_off_since.is_some() => "cut off",
                _ => "joining",
            };
            (name, state.cut_off_since)
        };
        let cut_off = cut_off.map_or(0, |since| clock::since(since).as_millis() as u64);
        let of = self.totals();
        json!({
            "state": state,
            "serving": self.guard.is_open(),
            "cut_off_ms": cut_off,
            "sent": of.sent,
            "not_distributed": of.not_sent,
            "waiting": of.waiting,
            "applied": of.applied,
            "lag_ms": of.lag_millis,
            "replays": of.replays,
            "revalidations": of.revalidations,
        })
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the shared purges of a cache, which all servers know by this name.
///
/// # Errors
/// There is no such store.
pub(crate) fn find(
    name: &str,
    sync: &Sync,
    plan: &mut PlanBuilder<'_>,
) -> Result<Arc<PurgeSync>, Diagnostic> {
    let store: Arc<SyncStore> = zone_sync::find(sync, plan)?;
    let key = format!("shared purges of {name} by {}", store.engine().node());
    let make = || {
        let patience = store.engine().timeout().min(PATIENCE_MAX);
        let wait = Duration::from_millis(scripts::WAIT_MILLIS) + patience;
        Ok::<_, Diagnostic>(PurgeSync {
            stream: scripts::stream(store.prefix(), name),
            store: store.engine().clone(),
            follower: Arc::new(store.engine().beside(wait)),
            guard: Guard::default(),
            outbox: Mutex::default(),
            state: Mutex::new(State::default()),
            figures: PurgeFigures::default(),
        })
    };
    plan.environment.reload_state.get_or_make(&key, make)
}

/// Adds the tasks of a cache that shares its purges. `zone`: its name in the log.
pub(crate) fn follow(
    zone: &str,
    sync: Arc<PurgeSync>,
    store: Arc<OnceLock<Store>>,
    (tier, purged): (Option<Arc<CacheTier>>, Arc<PurgedLately>),
    partition: Partition,
    plan: &mut PlanBuilder<'_>,
) {
    let (name, log) = (zone.to_owned(), plan.main.error_log.clone());
    let tasks = plan.shared::<BackgroundTasks>();
    tasks.add(Arc::new(ConnectionTask(sync.clone())));
    tasks.add(Arc::new(FollowTask { name, store, tier, purged, sync, partition, log }));
}

/// The longest time for a reply beside the one for which the engine holds it: an engine that is gone is noticed before the
/// cache may no longer be served.
const PATIENCE_MAX: Duration = Duration::from_secs(1);

/// Whether purges have taken effect on this server alone, for the response.
pub(crate) const NOT_DISTRIBUTED: &str = "not distributed\n";

/// Reads how far a store was when its position was kept.
fn kept(store: &Store) -> Copy {
    let position = store.purge_position();
    position.and_then(|text| entry::Position::read(&text)).map_or(Copy::Unknown, Copy::Known)
}
