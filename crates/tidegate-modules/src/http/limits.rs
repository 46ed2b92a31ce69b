//! What `limit_req` and `limit_conn` share: zones with keys and their counters, the refusal of requests, and the
//! directives for that, which differ by their prefix alone.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_conf::{Args, Diagnostic, Span, parse_size};
use tidegate_core::figures::{KeyUse, Kind, Slab, SlabUse, Tally};
use tidegate_core::{Exchange, Level, Template};
use tidegate_gateway::zone_sync::Sync;
use tidegate_plan::PlanBuilder;

/// Bytes of the longest key; longer ones are logged and not limited, as in nginx.
pub(crate) const KEY_BYTES_MAX: usize = 65_535;
/// Bytes of the smallest zone: nginx requires eight pages.
const ZONE_BYTES_MIN: u64 = 8 * 4096;

/// Levels that `limit_*_log_level` accepts.
pub(crate) const LEVELS: &[(&str, Level)] = &[
    ("info", Level::Info),
    ("notice", Level::Notice),
    ("warn", Level::Warn),
    ("error", Level::Error),
];

/// The rows about refused requests under a prefix; the settings have a field `refusal` for them.
macro_rules! refusal_rows {
    ($prefix:literal, $conf:ty, $levels:literal) => {
        $crate::http::limits::refusal_rows!(
            $prefix,
            $conf,
            $levels,
            tidegate_conf::Contexts::HTTP_SERVER_LOCATION
        )
    };
    // `$contexts`: those of the rows that `stream` may have as well.
    ($prefix:literal, $conf:ty, $levels:literal, $contexts:expr) => {
        &[
            tidegate_conf::row::<$conf>(
                tidegate_conf::with_prefix($prefix, ["limit_req_status", "limit_conn_status"]),
                tidegate_conf::Contexts::HTTP_SERVER_LOCATION,
                tidegate_conf::Arity::ONE,
                "503",
                "Status of refused requests, 400 to 599.",
                |conf, args| {
                    let status = args.number(0, 400..=599)? as u16;
                    tidegate_conf::once(&mut conf.refusal.status, status, args)
                },
            ),
            tidegate_conf::row::<$conf>(
                tidegate_conf::with_prefix(
                    $prefix,
                    ["limit_req_log_level", "limit_conn_log_level"],
                ),
                $contexts,
                tidegate_conf::Arity::ONE,
                "error",
                $levels,
                |conf, args| {
                    let level = args.choice(0, $crate::http::limits::LEVELS)?;
                    tidegate_conf::once(&mut conf.refusal.level, level, args)
                },
            ),
            tidegate_conf::row::<$conf>(
                tidegate_conf::with_prefix($prefix, ["limit_req_dry_run", "limit_conn_dry_run"]),
                $contexts,
                tidegate_conf::Arity::FLAG,
                "off",
                "Count and log, but let all requests through.",
                |conf, args| tidegate_conf::once(&mut conf.refusal.dry_run, args.flag(0)?, args),
            ),
        ]
    };
}
pub(crate) use refusal_rows;

/// The `limit_*_status`, `limit_*_log_level` and `limit_*_dry_run` directives as written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RefusalConf {
    pub status: Option<u16>,
    pub level: Option<Level>,
    pub dry_run: Option<bool>,
}

/// The same with inheritance and defaults applied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    pub status: u16,
    pub level: Level,
    pub dry_run: bool,
}

impl RefusalConf {
    /// Inherits what is not set here.
    pub(crate) fn inherit(&mut self, parent: RefusalConf) {
        self.status = self.status.or(parent.status);
        self.level = self.level.or(parent.level);
        self.dry_run = self.dry_run.or(parent.dry_run);
    }

    /// Applies the defaults.
    pub(crate) fn settings(self) -> Refusal {
        Refusal {
            status: self.status.unwrap_or(503),
            level: self.level.unwrap_or(Level::Error),
            dry_run: self.dry_run.unwrap_or(false),
        }
    }
}

/// A zone as written, with the module's parameters beside the key.
#[derive(Clone, Debug)]
pub(crate) struct ZoneConf<P> {
    /// The key with its variables.
    key: Vec<u8>,
    name: String,
    bytes: usize,
    span: Span,
    settings: P,
}

impl<P> ZoneConf<P> {
    /// Returns the module's parameters.
    pub(crate) fn settings(&self) -> &P {
        &self.settings
    }

    /// Returns the zone's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the zone, once it was opened.
    pub(crate) fn opened<S>(
        &self,
        plan: &mut PlanBuilder<'_>,
    ) -> Result<Arc<Zone<S, P>>, Diagnostic>
    where
        S: Stored + Default + Send + 'static,
        P: Clone + 'static,
    {
        Zone::find(plan, &self.name, self.span)
    }
}

/// Reads the value of a `zone=name:size` argument: the name, and the size in bytes.
pub(crate) fn parse_zone(
    args: &Args<'_>,
    index: usize,
    value: &str,
) -> Result<(String, usize), Diagnostic> {
    let shown = args.word(index).display();
    let size =
        value.rsplit_once(':').and_then(|(name, size)| Some((name, parse_size(size.as_bytes())?)));
    let Some((name, size)) = size else {
        return Err(args.error(index, format!("invalid zone size \"{shown}\"")));
    };
    if name.is_empty() {
        return Err(args.error(index, format!("invalid zone name \"{shown}\"")));
    }
    if size < ZONE_BYTES_MIN {
        return Err(args.error(index, format!("zone \"{shown}\" is too small")));
    }
    Ok((name.to_owned(), usize::try_from(size).unwrap_or(usize::MAX)))
}

/// Adds the zone of a directive whose first argument is the key.
pub(crate) fn add_zone<P>(
    zones: &mut Vec<ZoneConf<P>>,
    args: &Args<'_>,
    (name, bytes): (String, usize),
    settings: P,
) -> Result<(), Diagnostic> {
    if let Some(known) = zones.iter().find(|known| known.name == name) {
        let (directive, key) = (args.name(), String::from_utf8_lossy(&known.key));
        let message = format!("{directive} \"{name}\" is already bound to key \"{key}\"");
        return Err(args.error_here(message));
    }
    let word = args.word(0);
    zones.push(ZoneConf { key: word.bytes.clone(), name, bytes, span: word.span, settings });
    Ok(())
}

/// Reads `sync` or `sync=NAME`.
pub(crate) fn sync(args: &Args<'_>, index: usize, store: Option<&str>) -> Sync {
    Sync { store: store.map(str::to_owned), span: args.word(index).span }
}

/// A zone with this configuration's settings; `S` is the type of its counters.
pub(crate) struct Zone<S, P> {
    pub name: String,
    key: Template,
    pub bytes_max: usize,
    pub settings: P,
    pub states: Arc<States<S>>,
    /// Requests by what was decided about them.
    pub tally: Arc<Tally>,
}

/// The part of a zone that outlives a reload.
pub(crate) struct States<S> {
    key: Vec<u8>,
    counted: Mutex<S>,
}

/// The counters of a zone.
pub(crate) trait Stored {
    /// Returns their memory.
    fn used(&self) -> SlabUse;
}

/// Keys of a zone that are looked at for the fullest ones: the zone is locked meanwhile, for less than a millisecond.
pub(crate) const LOOKED_AT_MAX: usize = 4096;
/// Bytes of a key that are shown.
const KEY_BYTES_SHOWN: usize = 256;

/// Returns the keys with the highest values, the highest first. Empty ones are left out.
pub(crate) fn fullest<K: AsRef<[u8]>>(mut all: Vec<(u64, K)>, most: usize) -> Vec<KeyUse> {
    all.retain(|(value, _)| *value > 0);
    all.sort_by(|(one, _), (other, _)| other.cmp(one));
    let shown = |(value, key): (u64, K)| {
        let key = key.as_ref();
        KeyUse { key: key[..key.len().min(KEY_BYTES_SHOWN)].to_vec(), value }
    };
    all.into_iter().take(most).map(shown).collect()
}

/// The zones of a configuration by name.
struct Zones<S, P>(HashMap<String, Arc<Zone<S, P>>>);

impl<S, P> Default for Zones<S, P> {
    fn default() -> Zones<S, P> {
        Zones(HashMap::new())
    }
}

/// Names of all zones of a configuration, of all modules.
#[derive(Default)]
struct ZoneNames(HashSet<String>);

impl<S, P> Zone<S, P>
where
    S: Stored + Default + Send + 'static,
    P: Clone + 'static,
{
    /// Opens the zones that a module declares; `directive` is nginx's name for them when their key has changed
    /// since the last configuration. `kind` and `width` are those of the zones' figures.
    pub(crate) fn open_all(
        confs: &[ZoneConf<P>],
        directive: &str,
        (kind, width): (Kind, usize),
        plan: &mut PlanBuilder<'_>,
    ) -> Result<(), Diagnostic> {
        for conf in confs {
            let zone = Arc::new(Zone::<S, P>::open(conf, directive, (kind, width), plan)?);
            plan.shared::<ZoneNames>().0.insert(conf.name.clone());
            plan.shared::<Zones<S, P>>().0.insert(conf.name.clone(), zone);
        }
        Ok(())
    }

    fn open(
        conf: &ZoneConf<P>,
        directive: &str,
        (kind, width): (Kind, usize),
        plan: &mut PlanBuilder<'_>,
    ) -> Result<Zone<S, P>, Diagnostic> {
        let key = plan.template_text(&conf.key, conf.span)?;
        let made = || -> Result<States<S>, Diagnostic> {
            Ok(States { key: conf.key.clone(), counted: Mutex::default() })
        };
        // The type of the counters distinguishes modules: zones are kept by type and name.
        let states = plan.environment.reload_state.get_or_make(&conf.name, made)?;
        if states.key != conf.key {
            let (name, now) = (&conf.name, String::from_utf8_lossy(&conf.key));
            let before = String::from_utf8_lossy(&states.key);
            let message = format!(
                "{directive} \"{name}\" uses the \"{now}\" key while previously it used the \
                 \"{before}\" key"
            );
            return Err(Diagnostic::emerg(message).at(conf.span));
        }
        let name = conf.name.clone();
        let tally = plan.all_figures().tally(kind, &name, width);
        plan.figures.add_tally(kind, &name, tally.clone());
        let counted = states.clone();
        let used = move || counted.lock().used();
        let slab = Slab { bytes: conf.bytes as u64, used: Arc::new(used) };
        plan.figures.add_slab(&name, slab);
        Ok(Zone {
            name,
            key,
            bytes_max: conf.bytes,
            settings: conf.settings.clone(),
            states,
            tally,
        })
    }

    /// Returns the zone that a rule names.
    pub(crate) fn find(
        plan: &mut PlanBuilder<'_>,
        name: &str,
        span: Span,
    ) -> Result<Arc<Zone<S, P>>, Diagnostic> {
        if let Some(zone) = plan.shared::<Zones<S, P>>().0.get(name) {
            return Ok(zone.clone());
        }
        let message = match plan.shared::<ZoneNames>().0.contains(name) {
            true => {
                format!("the shared memory zone \"{name}\" is already declared for a different use")
            }
            false => format!("zero size shared memory zone \"{name}\""),
        };
        Err(Diagnostic::emerg(message).at(span))
    }
}

impl<S, P> Zone<S, P> {
    /// Appends a request's key to `out`; returns `false` and appends nothing if this zone does not limit the
    /// request.
    pub(crate) fn write_key(&self, x: &mut Exchange, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        self.key.write(x, out);
        let length = out.len() - start;
        if length > KEY_BYTES_MAX {
            out.truncate(start);
            let what = "the value of the key is more than";
            x.log(Level::Error, format_args!("{what} {KEY_BYTES_MAX} bytes: {length} bytes"));
            return false;
        }
        length > 0
    }
}

impl<S> States<S> {
    /// Locks the counters.
    pub(crate) fn lock(&self) -> MutexGuard<'_, S> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
