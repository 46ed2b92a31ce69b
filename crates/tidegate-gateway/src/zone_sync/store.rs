//! A store as its zones see it: their commands in each interval, and whether it is available.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_core::error_log::ErrorLog;
use tidegate_store::{CallError, Command, Engine, Value};

use super::budget::{self, KEYS_FIRST, Round};

/// A zone that is shared.
///
/// In each interval [`Member::begin`] is called, then [`Member::end`] with the results of its commands: always one after the
/// other, on the thread of background work, and never twice at the same time for one member.
pub trait Member: Send + Sync {
    /// Returns the zone's name.
    fn name(&self) -> &str;

    /// Returns the commands of an interval; none where nothing has changed.
    fn begin(&self, store: &SyncStore) -> Vec<Command>;

    /// Takes over the results, as many as there were commands, in their order.
    fn end(&self, store: &SyncStore, results: Vec<Result<Value, CallError>>, now: Instant);

    /// Returns the figures.
    fn figures(&self) -> MemberFigures;
}

/// The figures of a shared zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberFigures {
    /// Records of the zone.
    pub records: u64,
    /// Records that have changed and were not sent yet.
    pub pending: u64,
}

/// A store of one configuration.
pub struct SyncStore {
    pub(crate) name: Arc<str>,
    prefix: Arc<str>,
    interval: Duration,
    pub(crate) kept: Arc<Kept>,
    members: Mutex<Vec<Arc<dyn Member>>>,
    pub(super) log: ErrorLog,
}

/// The part of a store that outlives a reload.
pub(crate) struct Kept {
    pub(crate) engine: Arc<Engine>,
    available: AtomicBool,
    nodes: AtomicU32,
    pub(crate) rounds: AtomicU64,
    pub(crate) rounds_failed: AtomicU64,
    /// Microseconds of the last round.
    pub(crate) round_micros: AtomicU64,
    /// The keys that a zone may send in a round, and the most that one has sent in this one.
    keys: AtomicUsize,
    keys_used: AtomicUsize,
}

impl Kept {
    pub(super) fn new(engine: Arc<Engine>) -> Kept {
        Kept {
            engine,
            // Until the first result this server decides as one that is alone.
            available: AtomicBool::new(true),
            nodes: AtomicU32::new(0),
            rounds: AtomicU64::new(0),
            rounds_failed: AtomicU64::new(0),
            round_micros: AtomicU64::new(0),
            keys: AtomicUsize::new(KEYS_FIRST),
            keys_used: AtomicUsize::new(0),
        }
    }
}

impl SyncStore {
    pub(super) fn new(
        kept: Arc<Kept>,
        name: Arc<str>,
        prefix: Arc<str>,
        interval: Duration,
        log: ErrorLog,
    ) -> SyncStore {
        SyncStore { name, prefix, interval, kept, members: Mutex::default(), log }
    }

    /// Makes a store without a task, for tests of members.
    #[doc(hidden)]
    pub fn detached(interval: Duration) -> Arc<SyncStore> {
        let address = tidegate_store::Address {
            tls: false,
            hosts: Vec::new(),
            sentinel: None,
            login: tidegate_store::Login::default(),
            database: 0,
        };
        let settings = tidegate_store::EngineSettings { address, timeout: interval, tls: None };
        let kept = Arc::new(Kept::new(Arc::new(Engine::new(settings))));
        let log = ErrorLog::stderr(tidegate_core::Level::Emerg);
        Arc::new(SyncStore::new(kept, "detached".into(), "".into(), interval, log))
    }

    /// Adds a zone, while the plan is built.
    pub fn add(&self, member: Arc<dyn Member>) {
        self.members.lock().unwrap_or_else(PoisonError::into_inner).push(member);
    }

    pub(crate) fn members(&self) -> Vec<Arc<dyn Member>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the engine, for commands beside those of intervals.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.kept.engine
    }

    /// Returns what the names of all records begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the time between two rounds.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Returns the number of keys that a zone may send in a round; a member with more keeps them for the next one.
    pub fn keys_max(&self) -> usize {
        self.kept.keys.load(Ordering::Relaxed)
    }

    /// Notes how many keys a zone sends in this round.
    pub fn note_keys(&self, count: usize) {
        self.kept.keys_used.fetch_max(count, Ordering::Relaxed);
    }

    /// Notes the end of a round: the number of keys follows the time that it took.
    pub(super) fn note_round(&self, taken: Duration, late: bool) {
        let keys = self.kept.keys_used.swap(0, Ordering::Relaxed);
        let round = Round { keys, taken, limit: self.engine().timeout(), late };
        self.kept.keys.store(budget::next(self.keys_max(), round), Ordering::Relaxed);
    }

    /// Returns whether the last round has succeeded. Requests call this: it is one read.
    pub fn is_available(&self) -> bool {
        self.kept.available.load(Ordering::Relaxed)
    }

    /// Returns the number of servers that share the store, this one included, as far as it is known.
    pub fn nodes(&self) -> u32 {
        self.kept.nodes.load(Ordering::Relaxed).max(1)
    }

    /// Returns whether the engine has said how many servers there are: before that nothing is sent to it.
    pub(crate) fn knows_nodes(&self) -> bool {
        self.kept.nodes.load(Ordering::Relaxed) > 0
    }

    /// Notes whether the store is available.
    #[doc(hidden)]
    pub fn set_available(&self, available: bool) {
        self.kept.available.store(available, Ordering::Relaxed);
    }

    /// Notes the number of servers.
    #[doc(hidden)]
    pub fn set_nodes(&self, nodes: u32) {
        self.kept.nodes.store(nodes, Ordering::Relaxed);
    }
}
