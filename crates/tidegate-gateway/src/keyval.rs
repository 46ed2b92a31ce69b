//! `keyval`: variables whose values are looked up in a zone of pairs, which `api` and `set` change at run time.
//!
//! ```nginx
//! keyval_zone zone=denied:1m type=ip timeout=1h state=/var/lib/nginx/state/denied.keyval;
//! keyval $remote_addr $denied zone=denied;
//! server { if ($denied) { return 403; } location /api { api write=on; } }
//! ```
//! A zone is shared by all threads and kept over reloads. `http` and `stream` have zones of their own.

mod care;
mod conf;
mod index;
pub(crate) mod pairs;
mod scripts;
pub(crate) mod shared;
pub(crate) mod store;
pub(crate) mod table;
#[cfg(test)]
mod tests;
pub(crate) mod write;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tidegate_conf::{Diagnostic, Directive};
use tidegate_core::figures::Slab;
use tidegate_core::{Exchange, Level, Template};
use tidegate_plan::module::Module;
use tidegate_plan::{PlanBuilder, made_variable};
use tidegate_rt::clock;

use crate::zone_sync;
use care::ZoneCare;
use conf::{Conf, ROWS, VariableConf, ZoneConf};
use shared::SharedPairs;
use store::{Moment, Store};
use table::Record;
use write::Write;

/// `ngx_http_keyval_module` and `ngx_stream_keyval_module`.
pub struct Keyval;

impl Module for Keyval {
    type Conf = Conf;
    const NAME: &'static str = "keyval";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn prepare_http(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        let mut zones = Zones::default();
        for zone in &conf.zones {
            let opened = Zone::open(zone, plan)?;
            zones.0.insert(zone.name.clone(), Arc::new(opened));
        }
        if zones.0.values().any(|zone| zone.needs_care()) {
            let zones = zones.0.values().cloned().collect();
            let care = ZoneCare::new(zones, plan.main.error_log.clone());
            plan.services.push(Arc::new(care));
        }
        plan.extensions.insert(zones.clone());
        made_variable::define_all(&conf.variables, plan, |variable, plan| {
            define(variable, &zones, plan)
        })
    }

    fn prepare_stream(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        Keyval::prepare_http(conf, plan)
    }
}

/// The zones of a plan by name.
#[derive(Clone, Default)]
pub(crate) struct Zones(pub(crate) BTreeMap<String, Arc<Zone>>);

/// A zone with the settings of its plan.
pub(crate) struct Zone {
    name: String,
    pub(crate) store: Arc<Store>,
    pub(crate) bytes_max: usize,
    /// The time after which pairs are removed.
    pub(crate) timeout: Option<Duration>,
    /// The file of `state=`.
    state: Option<Arc<Path>>,
    /// Where servers share the zone.
    pub(crate) shared: Option<Arc<SharedPairs>>,
}

/// The stores of zones that plans use, by block and name: the next plan is built while the present one is in use.
#[derive(Default)]
struct Stores(Mutex<HashMap<(bool, String), Weak<Store>>>);

impl Stores {
    fn lock(&self) -> MutexGuard<'_, HashMap<(bool, String), Weak<Store>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The files of the configuration that is built, by its generation, as `http` and `stream` may not share one.
#[derive(Default)]
struct StateFiles(Mutex<(u64, HashMap<PathBuf, String>)>);

impl Zone {
    /// Makes a zone, with the pairs that it has already, or else those in its file.
    ///
    /// Invariant: the file is read where there is no such zone in use, which includes each check of a configuration.
    fn open(conf: &ZoneConf, plan: &mut PlanBuilder<'_>) -> Result<Zone, Diagnostic> {
        let state = conf.state.as_ref().map(|word| plan.path(&word.display()));
        if let (Some(path), Some(word)) = (&state, &conf.state) {
            claim(path, &conf.name, plan).map_err(|diagnostic| diagnostic.at(word.span))?;
            // An existing directory keeps its owner: it may be the configuration's.
            if let Some(directory) = path.parent().filter(|directory| !directory.exists()) {
                plan.environment.resources.directory(directory);
            }
        }
        let state = state.map(Arc::from);
        let store = open_store(conf, state.as_deref(), plan)?;
        let counted = store.clone();
        let used = Arc::new(move || counted.table().used());
        plan.figures.add_slab(&conf.name, Slab { bytes: conf.bytes as u64, used });
        let (name, timeout) = (conf.name.clone(), conf.timeout);
        let shared = match &conf.sync {
            None => None,
            Some(sync) => {
                let by = zone_sync::find(sync, plan)?;
                let pairs = (store.clone(), conf.bytes);
                let log = plan.main.error_log.clone();
                let shared = Arc::new(SharedPairs::new(&name, by.clone(), pairs, log));
                by.add(shared.clone());
                Some(shared)
            }
        };
        Ok(Zone { name, store, bytes_max: conf.bytes, timeout, state, shared })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn needs_care(&self) -> bool {
        self.state.is_some() || self.timeout.is_some()
    }

    /// Returns when a pair that is set now expires: after `wanted`, or the zone's time.
    pub(crate) fn expiry(&self, wanted: Option<Duration>, now: Instant) -> Option<Instant> {
        now.checked_add(wanted.or(self.timeout)?)
    }

    /// Writes the zone's file, if it has one, with all changes so far.
    ///
    /// # Errors
    /// See [`Store::save`].
    pub(crate) async fn save(&self) -> io::Result<()> {
        match &self.state {
            None => Ok(()),
            Some(path) => self.store.save(path).await,
        }
    }

    /// Appends the value for the key at the end of `out`, in the key's place; `false` where there is none.
    fn replace_key(&self, out: &mut Vec<u8>, start: usize) -> bool {
        let table = self.store.table();
        let value = table.find(&out[start..], clock::now());
        out.truncate(start);
        if let Some(value) = value {
            out.extend_from_slice(value.as_bytes());
        }
        value.is_some()
    }

    /// Gives a key a value, as `set` does. The file is written by the zones' service.
    fn put(&self, x: &Exchange, key: Vec<u8>, value: &[u8]) {
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
        let fail = |reason: &dyn std::fmt::Display| {
            let name = &self.name;
            x.log(Level::Error, format_args!("keyval zone \"{name}\" was not changed: {reason}"));
        };
        let (Some(key), Some(value)) = (text(&key), text(value)) else {
            return fail(&"key or value is not UTF-8");
        };
        if key.is_empty() {
            return fail(&"the key is empty");
        }
        if let Some(shared) = &self.shared {
            // The change comes back from the store.
            if !shared.send(&Write::Put((key, value, self.timeout))) {
                fail(&"the store is not available");
            }
            return;
        }
        let now = clock::now();
        let expires = self.expiry(None, now);
        let record = Record { key: key.into(), value: value.into(), expires };
        let put = self.store.change().put(record, self.bytes_max, now);
        if let Err(error) = put {
            fail(&error);
        }
    }
}

/// Reserves a file for one zone of the configuration.
fn claim(path: &Path, name: &str, plan: &PlanBuilder<'_>) -> Result<(), Diagnostic> {
    let make = || Ok::<_, Diagnostic>(StateFiles::default());
    let files = plan.environment.reload_state.get_or_make("keyval state files", make)?;
    let mut files = files.0.lock().unwrap_or_else(PoisonError::into_inner);
    if files.0 != plan.environment.generation {
        *files = (plan.environment.generation, HashMap::new());
    }
    let block = if plan.in_stream() { "stream" } else { "http" };
    match files.1.insert(path.to_owned(), format!("\"{name}\" of {block}")) {
        None => Ok(()),
        Some(other) => {
            let message = format!("the same path name \"{}\" used", path.display());
            let label = format!("the keyval zone {other} has this file");
            Err(Diagnostic::emerg(message).label(label))
        }
    }
}

/// Returns the store of this zone that is in use, or a new one with the pairs in its file.
fn open_store(
    conf: &ZoneConf,
    state: Option<&Path>,
    plan: &mut PlanBuilder<'_>,
) -> Result<Arc<Store>, Diagnostic> {
    let make = || Ok::<_, Diagnostic>(Stores::default());
    let stores = plan.environment.reload_state.get_or_make("keyval zones", make)?;
    let name = (plan.in_stream(), conf.name.clone());
    let known = stores.lock().get(&name).and_then(Weak::upgrade);
    // Keys of another type need not be valid for this one.
    if let Some(known) = known.filter(|store| store.matching() == conf.matching) {
        return Ok(known);
    }
    let store = match state {
        None => Ok(Store::new(conf.matching)),
        Some(path) => {
            let bounds = (conf.bytes, conf.timeout);
            Store::read(conf.matching, path, bounds, Moment::read())
        }
    };
    let span = conf.state.as_ref().map_or(conf.span, |word| word.span);
    let store = Arc::new(store.map_err(|error| Diagnostic::emerg(error).at(span))?);
    // The zone in use stays known, should this plan fail.
    let used = Arc::downgrade(&store);
    plan.when_in_use(move || _ = stores.lock().insert(name.clone(), used.clone()));
    Ok(store)
}

fn define(
    variable: &VariableConf,
    zones: &Zones,
    plan: &mut PlanBuilder<'_>,
) -> Result<(), Diagnostic> {
    made_variable::check_free(plan, &variable.name, variable.span)?;
    let Some(zone) = zones.0.get(&variable.zone).cloned() else {
        let message = format!("zero size shared memory zone \"{}\"", variable.zone);
        let help = format!("define it by `keyval_zone zone={}:1m;`", variable.zone);
        return Err(Diagnostic::emerg(message).at(variable.zone_span).help(help));
    };
    let key: Arc<Template> = Arc::new(plan.template(&variable.key)?);
    let (stored, stored_key) = (zone.clone(), key.clone());
    let compute = move |x: &mut Exchange, out: &mut Vec<u8>| {
        let start = out.len();
        key.write(x, out);
        zone.replace_key(out, start)
    };
    let store = move |x: &mut Exchange, value: &[u8]| {
        let key = stored_key.value(x);
        stored.put(x, key, value);
    };
    plan.variables.define_stored(&variable.name, Arc::new(compute), Arc::new(store));
    Ok(())
}
