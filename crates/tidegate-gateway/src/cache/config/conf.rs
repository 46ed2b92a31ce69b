//! The settings of one block as written, and their inheritance by inner blocks.

use std::time::Duration;

use tidegate_codec::request::Method;
use tidegate_conf::{
    Args, Diagnostic, Span, Word, once, parse_milliseconds, parse_number, parse_offset,
    parse_seconds,
};

use crate::cache::config::purge::PurgeConf;
use crate::cache::config::sharing::{self, PURGE_SYNC, PurgeSyncConf};
use crate::cache::decide::facts::UseStale;
use crate::cache::decide::policy::Validity;
use crate::cache::ring::config::{self as ring_config, PeersConf};
use crate::cache::tier::config::{self as tier_config, TierConf, TierName};

/// Statuses that `proxy_cache_valid TIME` applies to.
const VALID_DEFAULT: [u16; 3] = [200, 301, 302];

/// Smallest `keys_zone` in bytes: nginx requires two pages of the machine.
const KEYS_BYTES_MIN: u64 = 8192;

/// `proxy_cache` as written.
#[derive(Clone)]
pub struct ZoneName {
    /// `None` for `off`.
    pub word: Option<Word>,
    /// Number of blocks between this one and the one that sets it; 0: set in this one.
    pub distance: u16,
}

/// One `proxy_cache_path`. Times in milliseconds.
#[derive(Clone)]
pub struct PathConf {
    /// The directory.
    pub path: String,
    /// Position of the directive, for errors.
    pub span: Span,
    /// `levels=`: the lengths of the directory names.
    pub levels: String,
    pub use_temp_path: bool,
    /// Name in `keys_zone=`.
    pub name: String,
    /// Size in `keys_zone=`, in bytes.
    pub keys_bytes: u64,
    /// `inactive=`, in milliseconds.
    pub inactive: u64,
    /// `max_size=`, in bytes.
    pub size_max: Option<u64>,
    /// `min_free=`, in bytes.
    pub free_min: Option<u64>,
    /// `fsync=`.
    pub sync: tidegate_cache::Sync,
    /// `scrub=`: the duration of one round of the scrubber; `None` is off.
    pub scrub: Option<Duration>,
    /// `manager_*`.
    pub manager: Pace,
    /// `loader_*`.
    pub loader: Pace,
    /// `purger=on`: files of purged entries are searched for and removed.
    pub purges: bool,
    /// `purger_*`.
    pub purger: Pace,
    /// `purge_sync`, `purge_partition` and `after`.
    pub purge_sync: Option<PurgeSyncConf>,
    /// `tier=`.
    pub tier: Option<TierName>,
}

/// The disk share of a background task: `manager_*`, `loader_*` and `purger_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Maximum number of files in one run.
    pub files: usize,
    /// Pause between two runs.
    pub sleep: Duration,
    /// Longest duration of a run.
    pub threshold: Duration,
}

impl Pace {
    /// Defaults of `purger_*`.
    const PURGER: Pace =
        Pace { files: 10, sleep: Duration::from_millis(50), threshold: Duration::from_millis(50) };
}

impl Default for Pace {
    fn default() -> Pace {
        let (sleep, threshold) = (Duration::from_millis(50), Duration::from_millis(200));
        Pace { files: 100, sleep, threshold }
    }
}

/// The cache settings of a block.
#[derive(Default)]
pub struct CacheConf {
    pub paths: Vec<PathConf>,
    pub tiers: Vec<TierConf>,
    pub zone: Option<ZoneName>,
    pub key: Option<Word>,
    pub valid: Option<Validity>,
    pub bypass: Option<Vec<Word>>,
    pub no_cache: Option<Vec<Word>>,
    /// Bits of [`Method`].
    pub methods: Option<u32>,
    pub min_uses: Option<u32>,
    pub max_range_offset: Option<u64>,
    pub ranges: Option<bool>,
    pub use_stale: Option<UseStale>,
    pub lock: Option<bool>,
    pub lock_age: Option<Duration>,
    pub lock_timeout: Option<Duration>,
    pub background_update: Option<bool>,
    pub revalidate: Option<bool>,
    pub convert_head: Option<bool>,
    pub purge: Option<PurgeConf>,
    pub purge_tag: Option<Vec<Word>>,
    pub purge_soft: Option<Vec<Word>>,
    /// Empty for `off`.
    pub tag_header: Option<Vec<Word>>,
    pub tempfile: Option<bool>,
    pub tempfile_timeout: Option<Duration>,
    pub tempfile_loop: Option<Duration>,
    pub rfc9111: Option<bool>,
    pub peers: Option<PeersConf>,
}

impl CacheConf {
    /// Takes over the settings that this block leaves open.
    pub fn inherit(&mut self, outer: &CacheConf) {
        if self.zone.is_none() {
            let zone = outer.zone.clone();
            self.zone = zone.map(|zone| ZoneName { distance: zone.distance + 1, ..zone });
        }
        take(&mut self.key, &outer.key);
        take(&mut self.valid, &outer.valid);
        take(&mut self.bypass, &outer.bypass);
        take(&mut self.no_cache, &outer.no_cache);
        take(&mut self.methods, &outer.methods);
        take(&mut self.min_uses, &outer.min_uses);
        take(&mut self.max_range_offset, &outer.max_range_offset);
        take(&mut self.ranges, &outer.ranges);
        take(&mut self.use_stale, &outer.use_stale);
        take(&mut self.lock, &outer.lock);
        take(&mut self.lock_age, &outer.lock_age);
        take(&mut self.lock_timeout, &outer.lock_timeout);
        take(&mut self.background_update, &outer.background_update);
        take(&mut self.revalidate, &outer.revalidate);
        take(&mut self.convert_head, &outer.convert_head);
        // A location that purges its own key does not pass that setting on.
        if !matches!(outer.purge, Some(PurgeConf::Separate { .. })) {
            take(&mut self.purge, &outer.purge);
        }
        take(&mut self.purge_tag, &outer.purge_tag);
        take(&mut self.purge_soft, &outer.purge_soft);
        take(&mut self.tag_header, &outer.tag_header);
        take(&mut self.tempfile, &outer.tempfile);
        take(&mut self.tempfile_timeout, &outer.tempfile_timeout);
        take(&mut self.rfc9111, &outer.rfc9111);
        take(&mut self.peers, &outer.peers);
    }

    /// Returns whether responses come from a cache that follows RFC 9111.
    pub fn follows_rfc9111(&self) -> bool {
        self.rfc9111 == Some(true) && self.zone.as_ref().is_some_and(|zone| zone.word.is_some())
    }

    pub fn set_zone(&mut self, args: &Args<'_>) -> Result<(), Diagnostic> {
        if self.zone.is_some() {
            return Err(args.duplicate());
        }
        let word = args.word(0).clone();
        let word = (word.bytes != b"off").then_some(word);
        self.zone = Some(ZoneName { word, distance: 0 });
        Ok(())
    }

    pub fn set_valid(&mut self, args: &Args<'_>) -> Result<(), Diagnostic> {
        let validity = self.valid.get_or_insert_default();
        let last = args.len() - 1;
        let invalid = || format!("invalid time value \"{}\"", args.word(last).display());
        let seconds = tidegate_conf::parse_seconds(args.bytes(last))
            .and_then(|time| u32::try_from(time.as_secs()).ok())
            .ok_or_else(|| args.error(last, invalid()).label("expected a time such as `10m`"))?;
        if last == 0 {
            VALID_DEFAULT.iter().for_each(|status| validity.add(Some(*status), seconds));
        }
        for index in 0..last {
            if args.bytes(index) == b"any" {
                validity.add(None, seconds);
                continue;
            }
            let status = parse_number(args.bytes(index)).filter(|code| (100..600).contains(code));
            let Some(status) = status.and_then(|code| u16::try_from(code).ok()) else {
                let message = format!("invalid status \"{}\"", args.word(index).display());
                return Err(args.error(index, message).label("expected a status or `any`"));
            };
            validity.add(Some(status), seconds);
        }
        Ok(())
    }

    pub fn set_tag_header(&mut self, args: &Args<'_>) -> Result<(), Diagnostic> {
        let names = match args.words() {
            [only] if only.bytes == b"off" => Vec::new(),
            names => names.to_vec(),
        };
        once(&mut self.tag_header, names, args)
    }

    pub fn set_methods(&mut self, args: &Args<'_>) -> Result<(), Diagnostic> {
        const KNOWN: [(&str, Method); 3] =
            [("GET", Method::Get), ("HEAD", Method::Head), ("POST", Method::Post)];
        // Both are always in the list, as documented.
        let mut methods = Method::Get.bit() | Method::Head.bit();
        for index in 0..args.len() {
            methods |= args.choice(index, &KNOWN)?.bit();
        }
        self.methods = Some(self.methods.unwrap_or(0) | methods);
        Ok(())
    }

    pub fn set_use_stale(&mut self, args: &Args<'_>) -> Result<(), Diagnostic> {
        const CONDITIONS: [(&str, UseStale); 12] = [
            ("error", UseStale::ERROR),
            ("timeout", UseStale::TIMEOUT),
            ("invalid_header", UseStale::INVALID_HEADER),
            ("updating", UseStale::UPDATING),
            ("http_500", UseStale::HTTP_500),
            ("http_502", UseStale::HTTP_502),
            ("http_503", UseStale::HTTP_503),
            ("http_504", UseStale::HTTP_504),
            ("http_403", UseStale::HTTP_403),
            ("http_404", UseStale::HTTP_404),
            ("http_429", UseStale::HTTP_429),
            ("off", UseStale(0)),
        ];
        let mut all = self.use_stale.unwrap_or_default();
        let mut is_off = false;
        for index in 0..args.len() {
            let condition = args.choice(index, &CONDITIONS)?;
            is_off |= condition == UseStale(0);
            all = all.with(condition);
        }
        self.use_stale = Some(if is_off { UseStale(0) } else { all });
        Ok(())
    }

    pub fn add_path(&mut self, args: &Args<'_>) -> Result<(), Diagnostic> {
        let path = read_path(args)?;
        self.paths.push(path);
        Ok(())
    }

    pub fn set_peers(&mut self, args: &Args<'_>) -> Result<(), Diagnostic> {
        once(&mut self.peers, ring_config::read(args)?, args)
    }

    pub fn add_tier(&mut self, args: &Args<'_>) -> Result<(), Diagnostic> {
        self.tiers.push(tier_config::read(args)?);
        Ok(())
    }
}

fn take<T: Clone>(inner: &mut Option<T>, outer: &Option<T>) {
    if inner.is_none() {
        inner.clone_from(outer);
    }
}

/// Each file is compared with its checksums about once a month, whether it is requested or not.
const SCRUB_DEFAULT: Duration = Duration::from_secs(30 * 24 * 3600);

fn read_path(args: &Args<'_>) -> Result<PathConf, Diagnostic> {
    let mut path = PathConf {
        path: args.text(0)?.trim_end_matches('/').to_owned(),
        span: args.word(0).span,
        levels: String::new(),
        use_temp_path: true,
        name: String::new(),
        keys_bytes: 0,
        inactive: 10 * 60 * 1000,
        size_max: None,
        free_min: None,
        sync: tidegate_cache::Sync::Off,
        scrub: Some(SCRUB_DEFAULT),
        manager: Pace::default(),
        loader: Pace::default(),
        purges: false,
        purger: Pace::PURGER,
        purge_sync: sharing::read(args)?,
        tier: None,
    };
    for index in 1..args.len() {
        let (name, value) = args.parameter(index)?;
        if PURGE_SYNC.contains(&name) {
            continue;
        }
        let Some(value) = value else { return Err(args.invalid_parameter(index)) };
        read_parameter(&mut path, args, index, name, value)?;
    }
    if path.keys_bytes == 0 {
        let message = format!("\"{}\" must have \"keys_zone\" parameter", args.name());
        return Err(args.error_here(message).help("name a zone, such as `keys_zone=one:10m`"));
    }
    Ok(path)
}

/// Takes the parameter `name=value` of `*_cache_path` at `index`.
///
/// # Errors
/// An unknown name; a value that is no size, time, number or switch, in nginx's words where nginx has the parameter.
fn read_parameter(
    path: &mut PathConf,
    args: &Args<'_>,
    index: usize,
    name: &str,
    value: &str,
) -> Result<(), Diagnostic> {
    let shown = args.word(index).display();
    let wrong = || args.error(index, format!("invalid {name} value \"{shown}\""));
    let size = || parse_offset(value.as_bytes()).ok_or_else(wrong);
    let time = || parse_milliseconds(value.as_bytes()).ok_or_else(wrong);
    let files = || {
        let number = parse_number(value.as_bytes()).and_then(|files| usize::try_from(files).ok());
        number.ok_or_else(wrong)
    };
    match name {
        "levels" => {
            // As in nginx no value means no directories.
            if !value.is_empty() && tidegate_cache::Levels::parse(value).is_none() {
                let error = args.error(index, format!("invalid \"levels\" \"{shown}\""));
                return Err(error.label("one to three numbers, each 1 or 2, such as `1:2`"));
            }
            path.levels = value.to_owned();
        }
        "use_temp_path" => path.use_temp_path = read_switch(args, index, name, value)?,
        "keys_zone" => read_keys_zone(path, args, index, value)?,
        "inactive" => {
            // In nginx's seconds, which have months and years; parts of one are our addition.
            let inactive = parse_seconds(value.as_bytes()).map_or_else(time, Ok)?;
            path.inactive = u64::try_from(inactive.as_millis()).unwrap_or(u64::MAX);
        }
        "max_size" => path.size_max = Some(size()?),
        "min_free" => path.free_min = Some(size()?),
        "fsync" => {
            path.sync = match value {
                "off" => tidegate_cache::Sync::Off,
                "data" => tidegate_cache::Sync::Data,
                "all" => tidegate_cache::Sync::All,
                _ => return Err(wrong().label("expected `off`, `data` or `all`")),
            };
        }
        "scrub" => {
            path.scrub = match value {
                "off" => None,
                _ => Some(time()?).filter(|time| !time.is_zero()),
            };
        }
        "manager_files" => path.manager.files = files()?,
        "manager_sleep" => path.manager.sleep = time()?,
        "manager_threshold" => path.manager.threshold = time()?,
        "loader_files" => path.loader.files = files()?,
        "loader_sleep" => path.loader.sleep = time()?,
        "loader_threshold" => path.loader.threshold = time()?,
        "purger_files" => path.purger.files = files()?,
        "purger_sleep" => path.purger.sleep = time()?,
        "purger_threshold" => path.purger.threshold = time()?,
        "tier" => {
            let span = args.word(index).span;
            let named = TierName { name: value.to_owned(), span };
            if value.is_empty() || path.tier.replace(named).is_some() {
                return Err(args.invalid_parameter(index));
            }
        }
        "purger" => path.purges = read_switch(args, index, name, value)?,
        _ => return Err(args.invalid_parameter(index)),
    }
    Ok(())
}

fn read_switch(args: &Args<'_>, index: usize, name: &str, value: &str) -> Result<bool, Diagnostic> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => {
            let (shown, advice) = (args.word(index).display(), "it must be \"on\" or \"off\"");
            Err(args.error(index, format!("invalid {name} value \"{shown}\", {advice}")))
        }
    }
}

fn read_keys_zone(
    path: &mut PathConf,
    args: &Args<'_>,
    index: usize,
    value: &str,
) -> Result<(), Diagnostic> {
    let shown = args.word(index).display();
    let size = value.split_once(':').and_then(|(name, size)| {
        Some((name, tidegate_conf::parse_size(size.as_bytes())?))
            .filter(|(name, _)| !name.is_empty())
    });
    let Some((name, size)) = size else {
        let error = args.error(index, format!("invalid keys zone size \"{shown}\""));
        return Err(error.label("expected name and size, such as `one:10m`"));
    };
    if size < KEYS_BYTES_MIN {
        return Err(args.error(index, format!("keys zone \"{shown}\" is too small")));
    }
    path.name = name.to_owned();
    path.keys_bytes = size;
    Ok(())
}
