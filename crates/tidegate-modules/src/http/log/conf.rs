//! The log directives of a block as written.

use std::sync::Arc;
use std::time::Duration;

use tidegate_conf::{
    Args, Diagnostic, Span, Statement, Word, once, parse_milliseconds, parse_number, parse_seconds,
    parse_size,
};

use super::format::Escape;
use super::json;

/// The directives of one block.
#[derive(Default)]
pub(crate) struct Conf {
    pub formats: Vec<FormatConf>,
    pub logs: Vec<LogConf>,
    pub off: bool,
    /// `Some(None)` is `off`.
    pub open_files: Option<Option<OpenFilesConf>>,
}

/// A `log_format` directive.
pub(crate) struct FormatConf {
    pub name: Word,
    pub escape: Escape,
    /// All further arguments, joined without a separator.
    pub text: Vec<u8>,
    /// The members of an object, for lines of JSON.
    pub members: Option<Arc<Vec<Statement>>>,
    pub span: Span,
}

/// An `access_log` directive.
#[derive(Clone)]
pub(crate) struct LogConf {
    pub path: Word,
    pub format: Option<Word>,
    pub buffer: Option<BufferConf>,
    pub condition: Option<Word>,
}

/// `buffer`, `flush` and `gzip`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BufferConf {
    pub bytes: usize,
    pub flush: Option<Duration>,
    /// Compression level.
    pub gzip: Option<u32>,
}

/// `open_log_file_cache`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenFilesConf {
    pub max: usize,
    pub inactive: Duration,
    pub valid: Duration,
    pub min_uses: u64,
}

/// Bytes of a compressed log's buffer without `buffer`.
const GZIP_BUFFER_BYTES: usize = 64 << 10;

pub(super) fn set_format(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    if let Some(members) = json::members(args)? {
        let (name, span) = (args.word(0).clone(), args.word(1).span);
        let (escape, text) = (Escape::Json, Vec::new());
        conf.formats.push(FormatConf { name, escape, text, members: Some(members), span });
        return Ok(());
    }
    let (mut escape, mut first) = (Escape::Default, 1);
    if let Some(name) = args.bytes(1).strip_prefix(b"escape=") {
        first = 2;
        escape = match name {
            b"default" => Escape::Default,
            b"json" => Escape::Json,
            b"none" => Escape::None,
            _ => {
                let name = String::from_utf8_lossy(name);
                return Err(args.error(1, format!("unknown log format escaping \"{name}\"")));
            }
        };
    }
    let text = args.words()[first..].iter().flat_map(|word| word.bytes.iter().copied()).collect();
    let span = args.word(first).span;
    let name = args.word(0).clone();
    conf.formats.push(FormatConf { name, escape, text, members: None, span });
    Ok(())
}

/// Reads `access_log PATH [FORMAT [buffer=…] [gzip[=…]] [flush=…] [if=…]]`, or `off`.
///
/// Invariant: a log has a buffer exactly where `buffer` or `gzip` is given; `flush` alone is an error, as in nginx.
/// A log to syslog, or to a file whose name has variables, has none. Whether one file has two different buffers is
/// checked when the plan is made.
pub(super) fn set_log(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    if args.bytes(0) == b"off" {
        conf.off = true;
        return if args.len() == 1 { Ok(()) } else { Err(args.invalid_parameter(1)) };
    }
    let path = args.word(0).clone();
    let format = (args.len() > 1).then(|| args.word(1).clone());
    let mut log = LogConf { path, format, buffer: None, condition: None };
    let (mut bytes, mut flush, mut gzip) = (None, None, None);
    for index in 2..args.len() {
        let word = args.word(index);
        let (name, value) = match word.bytes.iter().position(|byte| *byte == b'=') {
            Some(equals) => (&word.bytes[..equals], Some(&word.bytes[equals + 1..])),
            None => (&word.bytes[..], None),
        };
        let shown = || String::from_utf8_lossy(value.unwrap_or_default()).into_owned();
        match (name, value) {
            (b"buffer", Some(value)) => {
                let size = parse_size(value).filter(|size| *size > 0);
                let error = || args.error(index, format!("invalid buffer size \"{}\"", shown()));
                bytes = Some(size.ok_or_else(error)?);
            }
            (b"flush", Some(value)) => {
                let time = parse_milliseconds(value).filter(|time| !time.is_zero());
                let error = || args.error(index, format!("invalid flush time \"{}\"", shown()));
                flush = Some(time.ok_or_else(error)?);
            }
            (b"gzip", None) => gzip = Some(1),
            (b"gzip", Some(value)) => {
                let level = parse_number(value).filter(|level| (1..=9).contains(level));
                let level = level.and_then(|level| u32::try_from(level).ok());
                let error =
                    || args.error(index, format!("invalid compression level \"{}\"", shown()));
                gzip = Some(level.ok_or_else(error)?);
            }
            // The rest of the argument, which may hold further `=`.
            (b"if", Some(value)) => {
                log.condition = Some(Word { bytes: value.to_vec(), ..word.clone() });
            }
            _ => return Err(args.invalid_parameter(index)),
        }
    }
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
    log.buffer = match (bytes, gzip) {
        (Some(bytes), gzip) => Some(BufferConf { bytes, flush, gzip }),
        (None, Some(_)) => Some(BufferConf { bytes: GZIP_BUFFER_BYTES, flush, gzip }),
        (None, None) if flush.is_some() => {
            let path = log.path.display();
            let message = format!("no buffer is defined for access_log \"{path}\"");
            return Err(args.error_here(message));
        }
        (None, None) => None,
    };
    if log.buffer.is_some() && log.path.bytes.starts_with(b"syslog:") {
        return Err(args.error_here("logs to syslog cannot be buffered"));
    }
    if log.buffer.is_some() && log.path.bytes.contains(&b'$') {
        return Err(args.error(0, "buffered logs cannot have variables in name"));
    }
    conf.logs.push(log);
    Ok(())
}

pub(super) fn set_open_files(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    if args.words().iter().any(|word| word.bytes == b"off") {
        return once(&mut conf.open_files, None, args);
    }
    let mut found = OpenFilesConf {
        max: 0,
        inactive: Duration::from_secs(10),
        valid: Duration::from_secs(60),
        min_uses: 1,
    };
    for index in 0..args.len() {
        let invalid = || {
            let word = args.word(index).display();
            let message = format!("invalid \"open_log_file_cache\" parameter \"{word}\"");
            args.error(index, message)
        };
        let (name, value) = args.parameter(index)?;
        let Some(value) = value.map(str::as_bytes) else { return Err(invalid()) };
        match name {
            "max" => {
                let max = parse_number(value).and_then(|max| usize::try_from(max).ok());
                found.max = max.ok_or_else(invalid)?;
            }
            "inactive" => found.inactive = parse_seconds(value).ok_or_else(invalid)?,
            "valid" => found.valid = parse_seconds(value).ok_or_else(invalid)?,
            "min_uses" => {
                found.min_uses = parse_number(value).ok_or_else(invalid)?;
            }
            _ => return Err(invalid()),
        }
    }
    if found.max == 0 {
        return Err(args.error_here("\"open_log_file_cache\" must have \"max\" parameter"));
    }
    once(&mut conf.open_files, Some(found), args)
}
