//! The directives `slow_log` and `server_timing`.

use std::time::Duration;

use tidegate_conf::{
    Args, Arity, Contexts, Diagnostic, Directive, Word, once, parse_milliseconds, row,
};

/// The directives of one block.
#[derive(Default)]
pub(crate) struct Conf {
    /// `Some(None)` is `off`.
    pub(super) log: Option<Option<SlowLogConf>>,
    pub(super) timing: Option<Timing>,
}

/// A `slow_log` as written.
#[derive(Clone, Debug)]
pub(super) struct SlowLogConf {
    pub path: Word,
    pub threshold: Duration,
    pub sample: u64,
    pub form: LineForm,
}

/// `format=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineForm {
    Text,
    Json,
}

/// `server_timing`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timing {
    Off,
    On,
    /// With all waits.
    Debug,
}

/// Requests below this are not slow where `threshold` is not given.
const THRESHOLD_DEFAULT: Duration = Duration::from_millis(500);

pub(super) const ROWS: &[Directive<Conf>] = &[
    row(
        "slow_log",
        Contexts::HTTP_SERVER_LOCATION,
        Arity::AT_LEAST_ONE,
        "off",
        "File for a line about each request that took at least `threshold` (500ms), a handshake in front of the \
         connection's first request included: the time, the cause that took most of it with its share, the request, the \
         origin, the number of attempts, the cache status, the location, and all waits. `sample=1/N` logs the first of \
         each N such requests, `format=json` one JSON object per line. Tunnels (101) are not logged. The latest 256 \
         such requests are at `tidegate/slow` of `api` as well, whatever `sample` is.",
        |conf, args| {
            let log = parse(args)?;
            once(&mut conf.log, log, args)
        },
    ),
    row(
        "server_timing",
        Contexts::HTTP_SERVER_LOCATION,
        Arity::ONE,
        "off",
        "Adds the field `Server-Timing` to responses: the time until the response was there, and the cause that took most \
         of it; with `debug` all waits as well. Browsers show it to everyone who may read the response.",
        |conf, args| {
            let timing = match args.bytes(0) {
                b"off" => Timing::Off,
                b"on" => Timing::On,
                b"debug" => Timing::Debug,
                _ => {
                    let message = format!("invalid value \"{}\"", args.word(0).display());
                    return Err(args.error(0, message).help("it is `on`, `off` or `debug`"));
                }
            };
            once(&mut conf.timing, timing, args)
        },
    ),
];

/// Reads `slow_log FILE [threshold=TIME] [sample=1/N] [format=json]`, or `off`.
fn parse(args: &Args<'_>) -> Result<Option<SlowLogConf>, Diagnostic> {
    let path = args.word(0).clone();
    match &path.bytes[..] {
        b"off" if args.len() == 1 => return Ok(None),
        b"off" => return Err(args.invalid_parameter(1)),
        b"" => return Err(args.error(0, "\"slow_log\" needs the name of a file")),
        name if name.contains(&b'$') => {
            return Err(args.error(0, "the name of a \"slow_log\" has no variables"));
        }
        name if name.starts_with(b"syslog:") => {
            return Err(args.error(0, "a \"slow_log\" is a file; syslog is not supported"));
        }
        _ => {}
    }
    let mut log =
        SlowLogConf { path, threshold: THRESHOLD_DEFAULT, sample: 1, form: LineForm::Text };
    let mut given: Vec<&str> = Vec::new();
    for index in 1..args.len() {
        let (name, value) = args.parameter(index)?;
        let Some(value) = value else { return Err(args.invalid_parameter(index)) };
        if given.contains(&name) {
            return Err(args.error(index, format!("duplicate parameter \"{name}\"")));
        }
        given.push(name);
        let invalid = |what: &str| args.error(index, format!("invalid {what} \"{value}\""));
        match name {
            "threshold" => {
                let time = parse_milliseconds(value.as_bytes());
                log.threshold = time.ok_or_else(|| invalid("threshold"))?;
            }
            "sample" => {
                let number = value.strip_prefix("1/").and_then(|number| number.parse().ok());
                let number = number.filter(|number| *number > 0);
                let error =
                    || invalid("sample").help("of N slow requests one is logged: `sample=1/N`");
                log.sample = number.ok_or_else(error)?;
            }
            "format" if value == "json" => log.form = LineForm::Json,
            "format" => return Err(invalid("format").help("the only format to choose is `json`")),
            _ => return Err(args.invalid_parameter(index)),
        }
    }
    Ok(Some(log))
}
