//! The caches of `proxy_cache_path`: opened once for a path, kept over reloads, maintained by services.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tidegate_cache::{DiskFailures, Key, Levels, Options, RealDisk, Store};
use tidegate_conf::Diagnostic;
use tidegate_core::Level;
use tidegate_core::error_log::ErrorLog;
use tidegate_core::figures::{Slab, SlabUse};
use tidegate_core::instance;
use tidegate_core::plan::Service;
use tidegate_os::os_error;
use tidegate_plan::PlanBuilder;
use tidegate_rt::clock;

use crate::cache::config::conf::{Pace, PathConf};
use crate::cache::config::scrub::CacheScrubber;
use crate::cache::config::sharing::Partition;
use crate::cache::figures::CacheFigures;
use crate::cache::purge_sync::{self, PurgeSync};
use crate::cache::ring::purged::PurgedLately;
use crate::cache::tier::{self, CacheTier};

/// Files that one call of the store handles, so that `*_threshold` can end a run.
const STEP_FILES: usize = 10;

/// Number of attempts to lock a directory that another server uses, and the pause between them.
const LOCK_TRIES: u32 = 25;
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// Pause of the purger when there is nothing to do: with `purger=on`, and without.
const PURGER_REST: Duration = Duration::from_secs(1);
const PURGER_REST_UNWANTED: Duration = Duration::from_secs(10);

/// Longest time that changes of the index wait in memory.
const INDEX_PAUSE: Duration = Duration::from_secs(1);

/// A cache in use.
pub(crate) struct Zone {
    /// Empty until the plan is used: a configuration that is only tested opens none.
    store: Arc<OnceLock<Store>>,
    /// Responses by what the cache did.
    pub(crate) figures: Arc<CacheFigures>,
    /// The purges that other servers share (`purge_sync`).
    pub(crate) sync: Option<Arc<PurgeSync>>,
    /// What a server that is cut off from them does.
    pub(crate) partition: Partition,
    /// The second tier.
    pub(crate) tier: Option<Arc<CacheTier>>,
    /// What peers must not bring back.
    pub(crate) purged: Arc<PurgedLately>,
}

/// The caches of a plan by name, for `api`.
#[derive(Default)]
pub(crate) struct ShownCaches(pub(crate) BTreeMap<String, Arc<Zone>>);

/// Shows nothing: a cache outlives the settings that use it.
impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Zone")
    }
}

impl Zone {
    /// Returns the store; `None` where the plan is not used.
    pub(crate) fn store(&self) -> Option<&Store> {
        self.store.get()
    }

    /// Lets neither peers nor the second tier bring back responses under these main keys that are older than an
    /// invalidation by a request, or by the response to one, at `now` in Unix milliseconds.
    pub(crate) fn invalidate<'a>(
        &self,
        keys: impl IntoIterator<Item = &'a Key, IntoIter: Clone>,
        now: u64,
    ) {
        let keys = keys.into_iter();
        self.purged.add(keys.clone().map(CacheTier::invalidation_of), now);
        if let Some(tier) = &self.tier {
            tier.invalidate(keys, now);
        }
    }

    /// Counts a use of a stored response under `key`, for the second tier.
    pub(crate) fn used(&self, main: &Key, key: &Key) {
        if let Some(tier) = &self.tier {
            tier.used(main, key);
        }
    }
}

/// All caches of a configuration, by prefix (`proxy_`) and name.
#[derive(Default)]
pub(crate) struct Zones {
    by_name: HashMap<(&'static str, String), Arc<Zone>>,
    paths: HashMap<PathBuf, tidegate_conf::Span>,
}

/// The caches of one prefix by name, for `proxy_cache $variable`.
pub(crate) type ZoneTable = Arc<HashMap<Vec<u8>, Arc<Zone>>>;

impl Zones {
    pub(crate) fn find(&self, prefix: &'static str, name: &str) -> Option<Arc<Zone>> {
        self.by_name.get(&(prefix, name.to_owned())).cloned()
    }

    pub(crate) fn table(&self, prefix: &'static str) -> ZoneTable {
        let own = self.by_name.iter().filter(|((of, _), _)| *of == prefix);
        Arc::new(own.map(|((_, name), zone)| (name.clone().into_bytes(), zone.clone())).collect())
    }
}

/// Opens (or finds again) the cache of one `proxy_cache_path`. Files are written in the directory `temporary` until
/// they are complete, unless `use_temp_path=off`.
///
/// Invariant: a name and a path occur once in a configuration, and a path is opened once in a process, however often
/// the configuration is loaded. While a configuration is only tested, nothing is opened and no service begins.
///
/// # Errors
/// A name or a path that is used twice; a directory that cannot be made or that another server uses.
pub(crate) fn open(
    prefix: &'static str,
    conf: &PathConf,
    temporary: PathBuf,
    plan: &mut PlanBuilder<'_>,
) -> Result<(), Diagnostic> {
    let path = plan.path(&conf.path);
    let zones = plan.shared::<Zones>();
    if zones.by_name.contains_key(&(prefix, conf.name.clone())) {
        let message = format!("duplicate zone \"{}\"", conf.name);
        return Err(Diagnostic::emerg(message).at(conf.span));
    }
    if zones.paths.insert(path.clone(), conf.span).is_some() {
        let message = format!("the same path name \"{}\" used", path.display());
        return Err(Diagnostic::emerg(message)
            .at(conf.span)
            .label("another cache has this directory"));
    }
    plan.environment.resources.directory(&path);
    plan.environment.resources.claim(&path);
    if conf.use_temp_path {
        plan.environment.resources.directory(&temporary);
    }
    let survivor = format!("{prefix}cache_path {}", path.display());
    let make = || Ok::<_, Diagnostic>(OnceLock::new());
    let store: Arc<OnceLock<Store>> = plan.environment.reload_state.get_or_make(&survivor, make)?;
    let make = || Ok::<_, Diagnostic>(CacheFigures::default());
    let kept = format!("{prefix}cache figures {}", conf.name);
    let figures = plan.environment.reload_state.get_or_make(&kept, make)?;
    let make = || Ok::<_, Diagnostic>(PurgedLately::default());
    let kept = format!("{prefix}cache purges {}", conf.name);
    let purged = plan.environment.reload_state.get_or_make(&kept, make)?;
    let tier = match &conf.tier {
        None => None,
        Some(wanted) => {
            let partition = conf.purge_sync.as_ref().map(|written| written.partition);
            let pauses = matches!(partition, Some(Partition::Revalidate(_)));
            let opened = (store.clone(), pauses);
            Some(tier::config::connect(prefix, &conf.name, wanted, opened, plan)?)
        }
    };
    let (sync, partition) = match &conf.purge_sync {
        None => (None, Partition::Serve),
        Some(written) => {
            let name = format!("{prefix}{}", conf.name);
            let sync = purge_sync::find(&name, &written.store, plan)?;
            let partition = written.partition;
            purge_sync::follow(
                &conf.name,
                sync.clone(),
                store.clone(),
                (tier.clone(), purged.clone()),
                partition,
                plan,
            );
            (Some(sync), partition)
        }
    };
    let zone = Arc::new(Zone { store: store.clone(), figures, sync, partition, tier, purged });
    plan.extensions.entry::<ShownCaches>().0.insert(conf.name.clone(), zone.clone());
    show_memory(&conf.name, conf.keys_bytes, store.clone(), plan);
    plan.shared::<Zones>().by_name.insert((prefix, conf.name.clone()), zone);
    let (conf, log) = (conf.clone(), plan.main.error_log.clone());
    plan.openings.push(Box::new(move |services| {
        let store = open_store(&conf, &path, temporary, &store)?;
        serve(&conf, store, log, services);
        Ok(())
    }));
    Ok(())
}

/// Adds the background work of an opened cache.
fn serve(conf: &PathConf, store: Store, log: ErrorLog, services: &mut Vec<Arc<dyn Service>>) {
    services.push(Arc::new(CacheManager {
        name: conf.name.clone(),
        store: store.clone(),
        log: log.clone(),
        manager: conf.manager,
        loader: conf.loader,
        manage_at: Mutex::new(None),
    }));
    services.push(Arc::new(CachePurger {
        name: conf.name.clone(),
        store: store.clone(),
        eager: conf.purges,
        pace: conf.purger,
    }));
    if let Some(round) = conf.scrub {
        services.push(Arc::new(CacheScrubber::new(&conf.name, store, log, round)));
    }
}

/// Makes the memory of a cache's keys known to those who show zones of memory.
fn show_memory(name: &str, bytes: u64, store: Arc<OnceLock<Store>>, plan: &mut PlanBuilder<'_>) {
    let used = move || {
        let Some(stats) = store.get().map(Store::stats) else { return SlabUse::default() };
        let (keys, most) = (stats.keys as u64, stats.keys_max.max(1) as u64);
        SlabUse { bytes: (bytes / most).saturating_mul(keys), entries: keys }
    };
    plan.figures.add_slab(name, Slab { bytes, used: Arc::new(used) });
}

/// Opens the cache of a path, or takes the one that is open.
fn open_store(
    conf: &PathConf,
    path: &Path,
    temporary: PathBuf,
    place: &OnceLock<Store>,
) -> Result<Store, Diagnostic> {
    let mut options = Options::new(path);
    // Without `levels` all files are in one directory.
    options.levels = Levels::parse(&conf.levels).unwrap_or_default();
    options.keys_bytes = conf.keys_bytes;
    options.size_max = conf.size_max;
    options.free_min = conf.free_min;
    options.inactive = conf.inactive;
    options.temporary_directory = conf.use_temp_path.then_some(temporary);
    options.started_at = started_at();
    options.sync = conf.sync;
    options.owner = Some(instance::name().to_owned());
    let opened = match place.get() {
        Some(store) => Ok(store.clone()),
        None => open_with_retries(&options).map(|opened| place.get_or_init(|| opened).clone()),
    };
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::ResourceBusy => {
            let message = format!("cache directory \"{}\" is {error}", path.display());
            let help = "give each server a directory of its own, or end the other server first";
            Diagnostic::emerg(message).at(conf.span).help(help)
        }
        _ => {
            let message = format!("mkdir() \"{}\" failed ({})", path.display(), os_error(&error));
            Diagnostic::emerg(message).at(conf.span)
        }
    };
    let store = opened.map_err(failed)?;
    store.reconfigure(options).map_err(|error| {
        Diagnostic::emerg(format!("cache \"{}\": {error}", conf.name)).at(conf.span)
    })?;
    store.read_metadata_by(crate::cache::meta::bearing);
    Ok(store)
}

/// Opens a cache whose directory may still be locked by a server that is ending or whose master was killed. It
/// retries as long as for a port that is in use.
fn open_with_retries(options: &Options) -> io::Result<Store> {
    let mut tries = LOCK_TRIES;
    loop {
        let disk = RealDisk::new(tidegate_os::file::statfs_free);
        match Store::open(options.clone(), Arc::new(disk)) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && tries > 1 => tries -= 1,
            opened => return opened,
        }
        tidegate_rt::timer::pause(LOCK_PAUSE);
    }
}

/// Returns when this process first opened a cache, in Unix milliseconds: older temporary files are leftovers of
/// another process.
fn started_at() -> u64 {
    static STARTED: OnceLock<u64> = OnceLock::new();
    *STARTED.get_or_init(clock::unix_millis)
}

/// The cache loader and the cache manager of one cache.
struct CacheManager {
    name: String,
    store: Store,
    log: ErrorLog,
    manager: Pace,
    loader: Pace,
    /// When the manager is due.
    manage_at: Mutex<Option<Instant>>,
}

impl Service for CacheManager {
    fn name(&self) -> String {
        format!("cache {}", self.name)
    }

    fn step(&self) -> Duration {
        let mut manage_at = self.manage_at.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock::unix_millis();
        let is_due = manage_at.is_none_or(|due| due <= clock::exact_now());
        // Loading a large cache takes minutes: the manager does not wait for that.
        let is_restoring = !self.store.stats().loaded && self.load_is_restoring(now);
        if is_due && !is_restoring {
            *manage_at = Some(clock::exact_now() + self.manage(now));
        }
        self.store.keep_index(now);
        self.log_failures();
        // The runs above have taken time.
        let pause = manage_at.map_or(Duration::ZERO, |due| due - clock::exact_now().min(due));
        let pause = pause.min(INDEX_PAUSE);
        match self.store.stats().loaded {
            true => pause,
            false if is_restoring => Duration::ZERO,
            false => self.loader.sleep.min(pause),
        }
    }

    fn finish(&self) {
        self.store.finish(clock::unix_millis());
        self.log_failures();
    }
}

impl CacheManager {
    /// Logs the disk failures since the last time in one line: every request may fail.
    fn log_failures(&self) {
        let Some(DiskFailures { count, doing, error }) = self.store.take_failures() else { return };
        let (name, error) = (&self.name, os_error(&error));
        let message =
            format!("cache \"{name}\": disk failed while {doing} ({error}); failures: {count}");
        self.log.say(Level::Crit, format_args!("{message}"));
    }

    /// Runs the loader once; returns whether it restores the index of an earlier process, which must not wait.
    fn load_is_restoring(&self, now: u64) -> bool {
        for budget in RunBudget::new(self.loader) {
            let report = self.store.load_step(now, budget);
            if report.restoring || report.done {
                return report.restoring;
            }
        }
        false
    }

    /// Runs the manager once; returns the pause before its next run.
    fn manage(&self, now: u64) -> Duration {
        for budget in RunBudget::new(self.manager) {
            let report = self.store.manage_step(now, budget);
            if !report.more {
                return Duration::from_millis(report.next_step_in.max(1));
            }
        }
        self.manager.sleep
    }
}

/// The cache purger of one cache. Without `purger=on` it has next to nothing to do.
struct CachePurger {
    name: String,
    store: Store,
    eager: bool,
    pace: Pace,
}

impl Service for CachePurger {
    fn name(&self) -> String {
        format!("cache {} purger", self.name)
    }

    fn step(&self) -> Duration {
        let now = clock::unix_millis();
        for budget in RunBudget::new(self.pace) {
            if !self.store.purge_step(now, budget, self.eager).more {
                return if self.eager { PURGER_REST } else { PURGER_REST_UNWANTED };
            }
        }
        self.pace.sleep
    }
}

/// One run: budgets of a few files each, until the file count or the time limit is reached. It measures its own time.
struct RunBudget {
    left: usize,
    until: Instant,
}

impl RunBudget {
    fn new(pace: Pace) -> RunBudget {
        RunBudget { left: pace.files.max(1), until: clock::exact_now() + pace.threshold }
    }
}

impl Iterator for RunBudget {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.left == 0 || clock::exact_now() > self.until {
            return None;
        }
        let budget = self.left.min(STEP_FILES);
        self.left -= budget;
        Some(budget)
    }
}
