//! The directives of files: links, the cache, and how files are read.

use std::time::Duration;

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Word, once, row};
use tidegate_core::Template;
use tidegate_core::blocking::DEFAULT;
use tidegate_core::exchange::Exchange;
use tidegate_core::pool_choice::PoolChoice;
use tidegate_plan::PlanBuilder;

use super::cache::{Memory, Policy};
use super::direct::{ALIGNMENT_MIN, ReadMode};
use super::entry::{LinkRule, Links};

const ALL: Contexts = Contexts::HTTP_SERVER_LOCATION;

/// The directives of one block as written.
#[derive(Default)]
pub(crate) struct Conf {
    disable_symlinks: Option<(Links, Option<Word>)>,
    open_file_cache: Option<bool>,
    open_file_cache_valid: Option<Duration>,
    open_file_cache_min_uses: Option<u64>,
    open_file_cache_errors: Option<bool>,
    open_file_cache_events: Option<bool>,
    open_file_cache_memory: Option<Memory>,
    /// `Some(None)` for `off`.
    directio: Option<Option<u64>>,
    directio_alignment: Option<u64>,
    read_ahead: Option<u64>,
    aio: Option<Aio>,
    aio_write: Option<bool>,
}

/// `aio`. Reads that the page cache cannot satisfy go to a thread pool regardless of its value.
#[derive(Clone, Debug)]
enum Aio {
    Off,
    On,
    /// With the pool's name if one is given.
    Threads(Option<Word>),
}

/// nginx's default with `open_file_cache`.
const USES_MIN_DEFAULT: u32 = 1;

pub(super) const ROWS: &[Directive<Conf>] = &[
    row(
        "disable_symlinks",
        ALL,
        Arity::ONE_OR_TWO,
        "off",
        "Whether symbolic links are refused: off, on, or if_not_owner; from= is a part of the path \
         in which they are not looked at.",
        set_disable_symlinks,
    ),
    row(
        "open_file_cache",
        ALL,
        Arity::ONE_OR_TWO,
        "off",
        "Files may be served without looking whether they have changed for open_file_cache_valid. \
         Tidegate's own cache of open files is always on and never stale, and sizes itself.",
        set_open_file_cache,
    ),
    row(
        "open_file_cache_valid",
        ALL,
        Arity::ONE,
        "60s",
        "Time after which an entry of open_file_cache is validated, where the system does not report changes of files.",
        |conf, args| once(&mut conf.open_file_cache_valid, args.seconds(0)?, args),
    ),
    row(
        "open_file_cache_min_uses",
        ALL,
        Arity::ONE,
        "1",
        "With open_file_cache: requests for a file before it is kept. Without it that is 2.",
        |conf, args| once(&mut conf.open_file_cache_min_uses, args.number(0, 0..=u64::MAX)?, args),
    ),
    row(
        "open_file_cache_errors",
        ALL,
        Arity::FLAG,
        "off",
        "With open_file_cache: whether errors, such as an absent file, are cached for the time of open_file_cache_valid. Without it they are cached, and the file is found at once when it is created.",
        |conf, args| once(&mut conf.open_file_cache_errors, args.flag(0)?, args),
    ),
    row::<Conf>(
        "open_file_cache_events",
        ALL,
        Arity::FLAG,
        "off",
        "Accepted: the system's events are always used.",
        |conf, args| once(&mut conf.open_file_cache_events, args.flag(0)?, args),
    )
    .without_effect(),
    row(
        "open_file_cache_memory",
        Contexts::HTTP,
        Arity::ONE_OR_TWO,
        "64m",
        "Tidegate's own: memory for the contents of small files; file= is the size up to which a file is \
         small (256k). off keeps descriptors only.",
        set_open_file_cache_memory,
    ),
    row(
        "directio",
        ALL,
        Arity::ONE,
        "off",
        "Files of at least this size are read past the page cache (O_DIRECT), and not by sendfile().",
        |conf, args| {
            let size = if args.bytes(0) == b"off" { None } else { Some(args.offset(0)?) };
            once(&mut conf.directio, size, args)
        },
    ),
    row(
        "directio_alignment",
        ALL,
        Arity::ONE,
        "512",
        "Alignment of such reads; they are aligned to 4 kB at least.",
        |conf, args| once(&mut conf.directio_alignment, args.offset(0)?, args),
    ),
    row(
        "read_ahead",
        ALL,
        Arity::ONE,
        "0",
        "For files larger than this the kernel is advised that they are read sequentially.",
        |conf, args| once(&mut conf.read_ahead, args.size(0)?, args),
    ),
    row(
        "aio",
        ALL,
        Arity::ONE,
        "off",
        "off, on, threads, threads=pool. Reads that would wait for the disk always run on a thread pool, \
         which is the default one.",
        set_aio,
    ),
    row::<Conf>(
        "aio_write",
        ALL,
        Arity::FLAG,
        "off",
        "off, on. Temporary files are always written on a thread pool.",
        |conf, args| once(&mut conf.aio_write, args.flag(0)?, args),
    )
    .without_effect(),
];

fn set_disable_symlinks(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    if conf.disable_symlinks.is_some() {
        return Err(args.duplicate());
    }
    let (mut links, mut from) = (None, None);
    for (index, word) in args.words().iter().enumerate() {
        match &word.bytes[..] {
            b"off" => links = Some(Links::Follow),
            b"on" => links = Some(Links::Refuse),
            b"if_not_owner" => links = Some(Links::SameOwner),
            bytes => {
                let part =
                    bytes.strip_prefix(b"from=").ok_or_else(|| args.invalid_parameter(index))?;
                from = Some(Word { bytes: part.to_vec(), ..word.clone() });
            }
        }
    }
    let Some(links) = links else {
        return Err(args.error_here(format!(
            "\"{}\" directive without \"on\", \"off\" or \"if_not_owner\" parameter",
            args.name()
        )));
    };
    if args.len() == 2 && (from.is_none() || links == Links::Follow) {
        let message = format!("duplicate parameter \"{}\"", args.word(1).display());
        let error = args.error(1, message);
        return Err(error.label("only `from=` goes with `on` or `if_not_owner`"));
    }
    conf.disable_symlinks = Some((links, from));
    Ok(())
}

fn set_open_file_cache(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let (mut max, mut off) = (None, false);
    for index in 0..args.len() {
        match args.parameter(index)? {
            ("off", None) => off = true,
            ("max", Some(value)) => {
                let number = tidegate_conf::parse_number(value.as_bytes());
                max = number.filter(|number| *number > 0);
                max.ok_or_else(|| args.error(index, invalid(args, index)))?;
            }
            ("inactive", Some(value)) => {
                tidegate_conf::parse_seconds(value.as_bytes())
                    .ok_or_else(|| args.error(index, invalid(args, index)))?;
            }
            _ => return Err(args.error(index, invalid(args, index))),
        }
    }
    if off {
        return once(&mut conf.open_file_cache, false, args);
    }
    if max.is_none() {
        return Err(args.error_here("\"open_file_cache\" must have the \"max\" parameter"));
    }
    once(&mut conf.open_file_cache, true, args)
}

fn set_open_file_cache_memory(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let bytes_max = match args.bytes(0) {
        b"off" => 0,
        _ => usize::try_from(args.size(0)?).unwrap_or(usize::MAX),
    };
    let mut file_max = Memory::default().file_max;
    if args.len() == 2 {
        let size = match args.parameter(1)? {
            ("file", Some(size)) => tidegate_conf::parse_size(size.as_bytes()),
            _ => None,
        };
        file_max = size.ok_or_else(|| args.invalid_parameter(1))?;
    }
    // A file that does not fit is not read into memory.
    let memory = Memory { bytes_max, file_max: file_max.min(bytes_max as u64) };
    once(&mut conf.open_file_cache_memory, memory, args)
}

fn invalid(args: &Args<'_>, index: usize) -> String {
    format!("invalid \"open_file_cache\" parameter \"{}\"", args.word(index).display())
}

fn set_aio(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let aio = match args.bytes(0) {
        b"off" => Aio::Off,
        b"on" => Aio::On,
        b"threads" => Aio::Threads(None),
        bytes => match bytes.strip_prefix(b"threads=") {
            Some(name) if !name.is_empty() => {
                Aio::Threads(Some(Word { bytes: name.to_vec(), ..args.word(0).clone() }))
            }
            _ => return Err(args.error(0, "invalid value")),
        },
    };
    once(&mut conf.aio, aio, args)
}

impl Conf {
    pub(super) fn inherit(&mut self, parent: &Conf) {
        if self.disable_symlinks.is_none() {
            self.disable_symlinks.clone_from(&parent.disable_symlinks);
        }
        self.open_file_cache = self.open_file_cache.or(parent.open_file_cache);
        self.open_file_cache_valid = self.open_file_cache_valid.or(parent.open_file_cache_valid);
        let uses = parent.open_file_cache_min_uses;
        self.open_file_cache_min_uses = self.open_file_cache_min_uses.or(uses);
        self.open_file_cache_errors = self.open_file_cache_errors.or(parent.open_file_cache_errors);
        self.open_file_cache_memory = self.open_file_cache_memory.or(parent.open_file_cache_memory);
        if self.aio.is_none() {
            self.aio.clone_from(&parent.aio);
        }
        self.directio = self.directio.or(parent.directio);
        self.directio_alignment = self.directio_alignment.or(parent.directio_alignment);
        self.read_ahead = self.read_ahead.or(parent.read_ahead);
    }

    /// Returns how the location reads files, where that is not the default.
    pub(super) fn reading(&self) -> Option<ReadMode> {
        let alignment = self.directio_alignment.unwrap_or(0).max(ALIGNMENT_MIN);
        let reading = ReadMode {
            direct_from: self.directio.flatten(),
            alignment: usize::try_from(alignment).unwrap_or(usize::MAX),
            read_ahead: self.read_ahead.filter(|size| *size > 0),
        };
        Some(reading).filter(|r| r.direct_from.is_some() || r.read_ahead.is_some())
    }

    /// Returns the pool of `aio threads=NAME`, where that is not the default one.
    pub(super) fn pool(
        &self,
        plan: &mut PlanBuilder<'_>,
    ) -> Result<Option<PoolChoice>, Diagnostic> {
        match &self.aio {
            Some(Aio::Threads(Some(name))) if name.bytes != DEFAULT.as_bytes() => {
                plan.pool_choice(name).map(Some)
            }
            _ => Ok(None),
        }
    }

    pub(super) fn prepare(&self, plan: &mut PlanBuilder<'_>) -> Result<Options, Diagnostic> {
        let (links, from) = match &self.disable_symlinks {
            None => (Links::Follow, None),
            Some((links, None)) => (*links, None),
            Some((links, Some(from))) => (*links, Some(plan.template(from)?)),
        };
        Ok(Options { links, from, policy: self.policy() })
    }

    fn policy(&self) -> Policy {
        let usual = Policy::default();
        let policy =
            Policy { memory: self.open_file_cache_memory.unwrap_or(usual.memory), ..usual };
        if self.open_file_cache != Some(true) {
            return policy;
        }
        Policy {
            window: Some(self.open_file_cache_valid.unwrap_or(Duration::from_secs(60))),
            errors: self.open_file_cache_errors == Some(true),
            uses_min: self
                .open_file_cache_min_uses
                .map_or(USES_MIN_DEFAULT, |uses| u32::try_from(uses).unwrap_or(u32::MAX)),
            ..policy
        }
    }
}

/// How a location looks files up.
#[derive(Debug, Clone, Default)]
pub(crate) struct Options {
    pub links: Links,
    from: Option<Template>,
    pub policy: Policy,
}

impl Options {
    /// Returns the link rule of one path.
    pub(crate) fn rule(&self, x: &mut Exchange, path: &[u8]) -> LinkRule {
        let (Some(from), true) = (&self.from, self.links != Links::Follow) else {
            return LinkRule { links: self.links, from: 0 };
        };
        let from = from.value(x);
        match path.strip_prefix(&from[..]) {
            Some(b"") if !from.is_empty() => LinkRule::default(),
            Some(rest) if rest.starts_with(b"/") || from.ends_with(b"/") => {
                LinkRule { links: self.links, from: from.len() }
            }
            _ => LinkRule { links: self.links, from: 0 },
        }
    }
}
