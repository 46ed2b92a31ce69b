//! The compiled cache settings of one location.

use std::sync::Arc;
use std::time::Duration;

use tidegate_codec::caching::IgnoredFields;
use tidegate_codec::request::Method;
use tidegate_conf::{Diagnostic, Word};
use tidegate_core::{Exchange, Level, Template};
use tidegate_plan::PlanBuilder;

use crate::cache::config::conf::CacheConf;
use crate::cache::config::purge::{PurgeConf, PurgeSettings, PurgeTrigger};
use crate::cache::config::sharing::Partition;
use crate::cache::config::zones::{Zone, ZoneTable, Zones};
use crate::cache::decide::facts::CacheRules;
use crate::cache::decide::policy::{self, OriginExchange, Refusal, Storable, Validity};
use crate::cache::purge_sync::PurgeSync;
use crate::cache::ring::{self, Ring};
use crate::common::settings::Buffering;

/// Default of `proxy_cache_lock_age`, `proxy_cache_lock_timeout` and `proxy_cache_tempfile_timeout`.
const PATIENCE_DEFAULT: Duration = Duration::from_secs(5);

/// Default of `proxy_cache_tag_header`.
const TAG_HEADERS: [&str; 2] = ["Cache-Tag", "Surrogate-Key"];

/// The cache of a location: fixed, or named by variables.
#[derive(Debug)]
enum ZoneChoice {
    Fixed(Arc<Zone>),
    Named { name: Template, zones: ZoneTable },
}

impl ZoneChoice {
    /// Returns the caches that requests may use.
    fn all(&self) -> Vec<&Arc<Zone>> {
        match self {
            ZoneChoice::Fixed(zone) => vec![zone],
            ZoneChoice::Named { zones, .. } => zones.values().collect(),
        }
    }

    /// Returns the caches that share their purges.
    fn sharing(&self) -> Vec<Arc<Zone>> {
        self.all().into_iter().filter(|zone| zone.sync.is_some()).cloned().collect()
    }
}

/// A location's settings for the cache.
#[derive(Debug)]
pub(crate) struct CacheSettings {
    choice: ZoneChoice,
    /// Those of the caches that share their purges.
    sharing: Vec<Arc<Zone>>,
    /// `None`: the gateway's default text (scheme, origin, path and query as sent to it).
    pub key: Option<Template>,
    pub validity: Validity,
    /// The gateway's settings that change the cache's rules.
    pub ignored: Ignored,
    pub bypass: Vec<Template>,
    pub no_cache: Vec<Template>,
    methods: u32,
    pub max_range_offset: Option<u64>,
    /// Ranges are fetched separately and stored (`proxy_cache_ranges`).
    pub ranges: bool,
    pub convert_head: bool,
    /// `proxy_cache_rfc9111` is on.
    pub rfc9111: bool,
    pub rules: CacheRules,
    pub purge: PurgeSettings,
    /// Names of the fields that carry a response's tags.
    pub tag_headers: Vec<Box<[u8]>>,
    /// The servers whose caches are one with this (`*_cache_peers`).
    pub ring: Option<Arc<Ring>>,
}

/// The gateway's settings that change the cache's rules; most of it is `proxy_ignore_headers`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ignored {
    pub fields: IgnoredFields,
    /// `X-Accel-Redirect` is ignored: a response with it is stored like any other.
    pub redirect: bool,
    /// A response that passes unbuffered (such as an event stream) is not stored.
    pub buffering: Buffering,
}

/// The cache selected for a request.
pub(crate) enum ZoneSelection<'a> {
    Zone(&'a Arc<Zone>),
    /// No cache for this request.
    Off,
    /// The variables name an undefined cache: 500.
    Unknown,
}

impl CacheSettings {
    /// Compiles a block's settings; `None` when caching is off. The defaults of all directives are filled in here,
    /// and `proxy_cache_rfc9111` changes some of them: revalidation and background revalidation are on, and
    /// `proxy_cache_methods` is ignored.
    ///
    /// # Errors
    /// An undefined zone, an invalid text with variables.
    pub(crate) fn compile(
        prefix: &'static str,
        conf: &CacheConf,
        ignored: Ignored,
        plan: &mut PlanBuilder<'_>,
    ) -> Result<Option<CacheSettings>, Diagnostic> {
        let Some(word) = conf.zone.as_ref().and_then(|zone| zone.word.as_ref()) else {
            return Ok(None);
        };
        let name = plan.template(word)?;
        let choice = match name.literal() {
            None => ZoneChoice::Named { name, zones: plan.shared::<Zones>().table(prefix) },
            Some(text) => {
                let text = String::from_utf8_lossy(text).into_owned();
                match plan.shared::<Zones>().find(prefix, &text) {
                    Some(zone) => ZoneChoice::Fixed(zone),
                    // Reported where it was written, see `check_zone`.
                    None => return Ok(None),
                }
            }
        };
        let ring = ring_of(prefix, conf, &choice, plan)?;
        let rfc9111 = conf.rfc9111.unwrap_or(false);
        Ok(Some(CacheSettings {
            sharing: choice.sharing(),
            choice,
            key: conf.key.as_ref().map(|key| plan.template(key)).transpose()?,
            validity: {
                let parts = conf.key.as_ref().is_some_and(has_range);
                conf.valid.clone().unwrap_or_default().with_parts(parts)
            },
            ignored,
            bypass: plan.templates(conf.bypass.as_deref().unwrap_or_default())?,
            no_cache: plan.templates(conf.no_cache.as_deref().unwrap_or_default())?,
            methods: conf.methods.filter(|_| !rfc9111).unwrap_or_else(methods_default),
            max_range_offset: conf.max_range_offset,
            ranges: conf.ranges.unwrap_or(false),
            purge: purge_settings(conf, plan)?,
            tag_headers: match &conf.tag_header {
                None => TAG_HEADERS.iter().map(|name| name.as_bytes().into()).collect(),
                Some(names) => names.iter().map(|name| name.bytes[..].into()).collect(),
            },
            ring,
            convert_head: conf.convert_head.unwrap_or(true),
            rfc9111,
            rules: CacheRules {
                lock: conf.lock.unwrap_or(false),
                lock_age: millis(conf.lock_age),
                lock_timeout: millis(conf.lock_timeout),
                tempfile: conf.tempfile.unwrap_or(streams(conf, ignored)),
                tempfile_timeout: millis(conf.tempfile_timeout),
                min_uses: conf.min_uses.unwrap_or(1),
                use_stale: conf.use_stale.unwrap_or_default(),
                // `proxy_no_cache` may depend on the response, and only a waiting request can evaluate it.
                background_update: conf.background_update.unwrap_or(false)
                    && conf.no_cache.is_none(),
                background_revalidate: conf.background_update.unwrap_or(rfc9111)
                    && conf.no_cache.is_none(),
                revalidate: conf.revalidate.unwrap_or(rfc9111),
                rfc9111,
            },
        }))
    }

    /// Decides about a response's head at `now`, in Unix milliseconds, by the rules of this location.
    pub(crate) fn decide(
        &self,
        exchanged: OriginExchange<'_>,
        now: u64,
    ) -> Result<Storable, Refusal> {
        let (validity, ignored) = (&self.validity, self.ignored.fields);
        if !self.ignored.buffering.applies(exchanged.headers) {
            return Err(Refusal::Unbuffered);
        }
        if self.rfc9111 {
            return policy::decide_rfc9111(exchanged, validity, ignored, now);
        }
        policy::decide(exchanged.status, exchanged.headers, validity, ignored, now)
    }

    /// Returns whether responses to requests of this method are stored.
    pub(crate) fn serves(&self, x: &Exchange) -> bool {
        x.request.method.bit() & self.methods != 0
    }

    /// Returns whether a request has to wait until purges of other servers have arrived ([`CacheSettings::is_usable`]).
    pub(crate) fn has_to_wait(&self) -> bool {
        self.purge_syncs().any(|(sync, _)| !sync.guard.is_open())
    }

    /// Waits until purges of other servers have arrived, for some seconds; returns whether the cache may be used.
    ///
    /// Cancelling: nothing is left behind.
    pub(crate) async fn is_usable(&self) -> bool {
        for (sync, partition) in self.purge_syncs() {
            if !sync.guard.opened().await && partition != Partition::Serve {
                return false;
            }
        }
        true
    }

    fn purge_syncs(&self) -> impl Iterator<Item = (&Arc<PurgeSync>, Partition)> {
        self.sharing.iter().filter_map(|zone| Some((zone.sync.as_ref()?, zone.partition)))
    }

    /// Returns the cache of this request.
    pub(crate) fn zone(&self, x: &mut Exchange) -> ZoneSelection<'_> {
        let (name, zones) = match &self.choice {
            ZoneChoice::Fixed(zone) => return ZoneSelection::Zone(zone),
            ZoneChoice::Named { name, zones } => (name, zones),
        };
        let name = name.value(x);
        if name.is_empty() || name == b"off" {
            return ZoneSelection::Off;
        }
        match zones.get(&name) {
            Some(zone) => ZoneSelection::Zone(zone),
            None => {
                let name = String::from_utf8_lossy(&name);
                x.log(Level::Error, format_args!("cache \"{name}\" not found"));
                ZoneSelection::Unknown
            }
        }
    }
}

/// Compiles the servers whose caches are one with these.
///
/// # Errors
/// See [`ring::config::compile`].
fn ring_of(
    prefix: &'static str,
    conf: &CacheConf,
    choice: &ZoneChoice,
    plan: &mut PlanBuilder<'_>,
) -> Result<Option<Arc<Ring>>, Diagnostic> {
    let Some(peers) = &conf.peers else { return Ok(None) };
    let ring = ring::config::compile(prefix, peers, plan)?;
    if ring.is_some() {
        choice.all().iter().for_each(|zone| zone.purged.want());
    }
    Ok(ring)
}

/// Compiles what purges.
///
/// # Errors
/// An invalid text with variables.
fn purge_settings(
    conf: &CacheConf,
    plan: &mut PlanBuilder<'_>,
) -> Result<PurgeSettings, Diagnostic> {
    Ok(PurgeSettings {
        by: match &conf.purge {
            Some(PurgeConf::Conditions(words)) => PurgeTrigger::Conditions(plan.templates(words)?),
            Some(PurgeConf::Method(by)) => PurgeTrigger::Method(by.clone()),
            None | Some(PurgeConf::Off | PurgeConf::Separate { .. }) => PurgeTrigger::Nothing,
        },
        tags: plan.templates(conf.purge_tag.as_deref().unwrap_or_default())?,
        soft: plan.templates(conf.purge_soft.as_deref().unwrap_or_default())?,
    })
}

/// Returns the default of `proxy_cache_tempfile`. Responses that pass unbuffered are not stored: there is nothing to
/// wait for. `proxy_cache_lock on` asks for the end of small responses, and follows large ones by itself.
fn streams(conf: &CacheConf, ignored: Ignored) -> bool {
    ignored.buffering.is_on() && !conf.lock.unwrap_or(false)
}

/// Reports an undefined cache once: in the block that names it.
pub(crate) fn check_zone(
    prefix: &'static str,
    conf: &CacheConf,
    plan: &mut PlanBuilder<'_>,
) -> Result<(), Diagnostic> {
    let own = conf.zone.as_ref().filter(|zone| zone.distance == 0);
    let Some(word) = own.and_then(|zone| zone.word.as_ref()) else { return Ok(()) };
    if word.bytes.contains(&b'$') {
        return Ok(());
    }
    let name = word.display().into_owned();
    if plan.shared::<Zones>().find(prefix, &name).is_some() {
        return Ok(());
    }
    Err(unknown_zone(prefix, word))
}

/// Returns the error for the name of an undefined cache.
pub(crate) fn unknown_zone(prefix: &'static str, word: &Word) -> Diagnostic {
    let name = word.display();
    let message = format!("\"{prefix}cache\" zone \"{name}\" is unknown");
    let advice = format!("define it by `{prefix}cache_path … keys_zone={name}:10m`");
    Diagnostic::emerg(message).at(word.span).help(advice)
}

/// Returns whether a key has the range of a request or of a part of one.
fn has_range(key: &Word) -> bool {
    let key = String::from_utf8_lossy(&key.bytes);
    ["$slice_range", "${slice_range}", "$http_range", "${http_range}"]
        .iter()
        .any(|it| key.contains(it))
}

/// Returns the default of `proxy_cache_methods`.
fn methods_default() -> u32 {
    Method::Get.bit() | Method::Head.bit()
}

fn millis(time: Option<Duration>) -> u64 {
    u64::try_from(time.unwrap_or(PATIENCE_DEFAULT).as_millis()).unwrap_or(u64::MAX)
}
