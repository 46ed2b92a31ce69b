//! The directives of `limit_conn`.

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Span, row};
use tidegate_gateway::zone_sync::Sync;

use crate::http::limits::{self, RefusalConf, ZoneConf};

/// nginx counts in 16 bits.
const CONNECTIONS_MAX: u64 = 65_535;

/// The directives of one block.
#[derive(Default)]
pub(crate) struct Conf {
    pub zones: Vec<ZoneConf<ZoneSettings>>,
    pub rules: Vec<RuleText>,
    pub refusal: RefusalConf,
}

/// The parameters of a zone beside its key and its size.
#[derive(Clone, Debug)]
pub(crate) struct ZoneSettings {
    /// The store by which servers share the zone.
    pub sync: Option<Sync>,
}

/// A `limit_conn` as written.
#[derive(Clone)]
pub(crate) struct RuleText {
    pub zone: String,
    pub most: u32,
    pub span: Span,
}

const ALL: Contexts = Contexts::HTTP_SERVER_LOCATION.union(Contexts::STREAM_AND_SERVER);

pub(super) const ROWS: &[Directive<Conf>] = &[
    row(
        "limit_conn_zone",
        Contexts::HTTP_STREAM,
        Arity::between(2, 3),
        "",
        "A zone for the numbers of connections of keys: the key and `zone=name:size`. `sync` (`sync=NAME` with several stores): \
         servers with the same `zone_sync_store` count together. A request does not wait for the store: each server learns of the \
         others' counts in each interval, so that the limit may be exceeded until then. The counts of a server that has died \
         end after 20 intervals. While the store is not available a server allows its even part of the limit, at least one.",
        zone,
    ),
    row(
        "limit_conn",
        ALL,
        Arity::TWO,
        "",
        "Refuses a request when this number of requests with the same key is in progress in the zone.",
        rule,
    ),
];

/// The directives about refused requests.
pub(super) const REFUSAL_ROWS: &[Directive<Conf>] =
    limits::refusal_rows!("limit_conn", Conf, "Level of log lines about refused requests.", ALL);

fn zone(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let ("zone", Some(value)) = args.parameter(1)? else {
        return Err(args.invalid_parameter(1));
    };
    let place = limits::parse_zone(args, 1, value)?;
    let sync = match args.len() {
        3 => match args.parameter(2)? {
            ("sync", store) if store != Some("") => Some(limits::sync(args, 2, store)),
            _ => return Err(args.invalid_parameter(2)),
        },
        _ => None,
    };
    limits::add_zone(&mut conf.zones, args, place, ZoneSettings { sync })
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
