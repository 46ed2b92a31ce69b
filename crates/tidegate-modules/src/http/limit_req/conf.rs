//! The directives of `limit_req`.

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Span, row};
use tidegate_gateway::zone_sync::{self, Sync};

use super::logic::{self, REQUEST};
use crate::http::limits::{self, RefusalConf, ZoneConf};

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
    /// In thousandths of a request per second.
    pub rate: u64,
    /// The store by which servers share the zone.
    pub sync: Option<Sync>,
    /// Whether requests await the store's decision (`sync=wait`).
    pub waits: bool,
    pub failure: SyncFailure,
}

/// How a server decides while the store is not available.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SyncFailure {
    /// By its share of the rate.
    #[default]
    Share,
    /// By the whole rate.
    Local,
    /// All requests are refused.
    Reject,
}

const FAILURES: [(&str, SyncFailure); 3] =
    [("share", SyncFailure::Share), ("local", SyncFailure::Local), ("reject", SyncFailure::Reject)];

/// A `limit_req` as written; excesses in thousandths of a request.
#[derive(Clone)]
pub(crate) struct RuleText {
    pub zone: String,
    /// Excess beyond this is refused.
    pub burst: u64,
    /// Excess up to this is not delayed.
    pub free: u64,
    pub span: Span,
}

pub(super) const ROWS: &[Directive<Conf>] = &[
    row(
        "limit_req_zone",
        Contexts::HTTP,
        Arity::between(3, 5),
        "",
        "A zone for the states of keys: the key, `zone=name:size` and `rate=`, requests a second (`r/s`) or \
         a minute (`r/m`). `sync` (`sync=NAME` with several stores): servers with the same `zone_sync_store` have this rate \
         together. A request does not wait for the store: each server decides by what it knows, and learns of the others' \
         requests in each interval. The rate is exact over time; a burst may be exceeded once, by each other server's burst and \
         what it allows in an interval. With `sync=wait` (`sync=wait:NAME`) a request waits for the store, which decides: one round \
         trip, together with those that arrive at the same moment, and the rate and the burst are never exceeded; without a reply \
         within the store's `timeout` the request is decided by `sync_failure`. `sync_failure=share` (the default), `local` or `reject`: while the store is not \
         available, a server allows its recent share of the rate and the burst, the whole rate, or nothing.",
        zone,
    ),
    row(
        "limit_req",
        Contexts::HTTP_SERVER_LOCATION,
        Arity::ONE_TO_THREE,
        "",
        "Limit requests by a zone's rate: `zone=`, `burst=` requests may be too early, of which `delay=` \
         (or with `nodelay` all) do not wait.",
        rule,
    ),
];

/// The directives about refused requests.
pub(super) const REFUSAL_ROWS: &[Directive<Conf>] = limits::refusal_rows!(
    "limit_req",
    Conf,
    "Level of log lines about refused requests; those about delayed ones have one less."
);

fn zone(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let (mut place, mut rate) = (None, logic::parse_rate("1r/s").unwrap_or(REQUEST));
    let (mut sync, mut waits, mut failure) = (None, false, None);
    for index in 1..args.len() {
        match args.parameter(index)? {
            ("zone", Some(value)) => place = Some(limits::parse_zone(args, index, value)?),
            ("rate", Some(value)) => {
                rate = logic::parse_rate(value).ok_or_else(|| {
                    let shown = args.word(index).display();
                    args.error(index, format!("invalid rate \"{shown}\""))
                        .help("rates are requests a second or minute, such as `10r/s` and `30r/m`")
                })?;
            }
            ("sync", value) if !matches!(value, Some("" | "wait:")) => {
                let (store, awaits) = parse_sync(value);
                (sync, waits) = (Some(limits::sync(args, index, store)), awaits);
            }
            ("sync_failure", Some(value)) => {
                let known = FAILURES.iter().find(|(name, _)| *name == value);
                let known = known.ok_or_else(|| {
                    let error = args.invalid_parameter(index);
                    error.help("there are `share`, `local` and `reject`")
                })?;
                failure = Some((known.1, index));
            }
            _ => return Err(args.invalid_parameter(index)),
        }
    }
    if let (None, Some((_, index))) = (&sync, failure) {
        return Err(args.error(index, "\"sync_failure\" without \"sync\""));
    }
    let failure = failure.map_or(SyncFailure::default(), |(failure, _)| failure);
    match place {
        Some(place) => {
            let settings = ZoneSettings { rate, sync, waits, failure };
            limits::add_zone(&mut conf.zones, args, place, settings)
        }
        None => Err(args.error_here("\"limit_req_zone\" must have \"zone\" parameter")),
    }
}

/// Parses the value of `sync`: the name of a store, and whether requests await it.
fn parse_sync(value: Option<&str>) -> (Option<&str>, bool) {
    match value {
        Some(zone_sync::WAIT) => (None, true),
        Some(text) => {
            match text.strip_prefix(zone_sync::WAIT).and_then(|rest| rest.strip_prefix(':')) {
                Some(store) => (Some(store), true),
                None => (value, false),
            }
        }
        None => (None, false),
    }
}

fn rule(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let (mut zone, mut burst, mut free) = (None, 0, 0);
    for index in 0..args.len() {
        let invalid = |what: &str| {
            let shown = args.word(index).display();
            args.error(index, format!("invalid {what} value \"{shown}\""))
        };
        let count = |value: &str| {
            let count = tidegate_conf::parse_number(value.as_bytes()).filter(|count| *count > 0)?;
            count.checked_mul(REQUEST)
        };
        match args.parameter(index)? {
            ("zone", Some(value)) => zone = Some((value.to_owned(), args.word(index).span)),
            ("burst", Some(value)) => burst = count(value).ok_or_else(|| invalid("burst"))?,
            ("delay", Some(value)) => free = count(value).ok_or_else(|| invalid("delay"))?,
            ("nodelay", None) => free = u64::MAX,
            _ => return Err(args.invalid_parameter(index)),
        }
    }
    let Some((zone, span)) = zone else {
        return Err(args.error_here("\"limit_req\" must have \"zone\" parameter"));
    };
    if conf.rules.iter().any(|rule| rule.zone == zone) {
        return Err(args.duplicate());
    }
    conf.rules.push(RuleText { zone, burst, free, span });
    Ok(())
}
