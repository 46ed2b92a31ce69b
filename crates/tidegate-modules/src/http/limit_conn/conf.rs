//! The directives of `limit_conn`.

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Span, once};
use tidegate_core::Level;

use crate::http::limits::{self, LEVELS, ZoneText};
use crate::http::row;

/// nginx counts in 16 bits.
const CONNECTIONS_MAX: u64 = 65_535;

/// One block's directives.
#[derive(Default)]
pub struct Conf {
    pub zones: Vec<ZoneText>,
    pub rules: Vec<RuleText>,
    pub status: Option<u16>,
    pub level: Option<Level>,
    pub dry_run: Option<bool>,
}

/// A `limit_conn` as written.
#[derive(Clone)]
pub struct RuleText {
    pub zone: String,
    pub most: u32,
    pub span: Span,
}

pub const ROWS: &[Directive<Conf>] = &[
    row(
        "limit_conn_zone",
        Contexts::HTTP,
        Arity::TWO,
        "",
        "A zone for the numbers of connections of keys: the key and `zone=name:size`.",
        zone,
    ),
    row(
        "limit_conn",
        Contexts::HTTP_SERVER_LOCATION,
        Arity::TWO,
        "",
        "Refuse a request if a zone has as many as this of the same key.",
        rule,
    ),
    row(
        "limit_conn_status",
        Contexts::HTTP_SERVER_LOCATION,
        Arity::ONE,
        "503",
        "Status of refused requests, 400 to 599.",
        |conf, args| once(&mut conf.status, args.number(0, 400..=599)? as u16, args),
    ),
    row(
        "limit_conn_log_level",
        Contexts::HTTP_SERVER_LOCATION,
        Arity::ONE,
        "error",
        "Level of log lines about refused requests.",
        |conf, args| once(&mut conf.level, args.choice(0, LEVELS)?, args),
    ),
    row(
        "limit_conn_dry_run",
        Contexts::HTTP_SERVER_LOCATION,
        Arity::FLAG,
        "off",
        "Count and log, but let all requests through.",
        |conf, args| once(&mut conf.dry_run, args.flag(0)?, args),
    ),
];

fn zone(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let ("zone", Some(value)) = args.parameter(1)? else {
        return Err(args.invalid_parameter(1));
    };
    let (name, bytes) = limits::parse_zone(args, 1, value)?;
    if let Some(known) = conf.zones.iter().find(|known| known.name == name) {
        let key = String::from_utf8_lossy(&known.key);
        let message = format!("limit_conn_zone \"{name}\" is already bound to key \"{key}\"");
        return Err(args.error_here(message));
    }
    let word = args.word(0);
    conf.zones.push(ZoneText { key: word.bytes.to_vec(), name, bytes, span: word.span });
    Ok(())
}

fn rule(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let zone = args.text(0)?.to_owned();
    if conf.rules.iter().any(|rule| rule.zone == zone) {
        return Err(args.duplicate());
    }
    let most = tidegate_conf::parse_number(args.bytes(1)).filter(|most| *most > 0);
    let most = most.ok_or_else(|| {
        let shown = args.word(1).display();
        args.error(1, format!("invalid number of connections \"{shown}\""))
    })?;
    let most = u32::try_from(most).ok().filter(|most| u64::from(*most) <= CONNECTIONS_MAX);
    let most = most.ok_or_else(|| args.error(1, "connection limit must be less 65536"))?;
    conf.rules.push(RuleText { zone, most, span: args.word(0).span });
    Ok(())
}
