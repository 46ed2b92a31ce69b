//! The directives of `limit_req`.

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Span, row};

use super::logic::{self, REQUEST};
use crate::http::limits::{self, RefusalConf, ZoneConf};

/// The directives of one block.
#[derive(Default)]
pub(crate) struct Conf {
    pub zones: Vec<ZoneConf<Rate>>,
    pub rules: Vec<RuleText>,
    pub refusal: RefusalConf,
}

/// A rate in thousandths of a request per second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate(pub u64);

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
        Arity::THREE,
        "",
        "A zone for the states of keys: the key, `zone=name:size` and `rate=`, requests a second (`r/s`) or \
         a minute (`r/m`).",
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
            _ => return Err(args.invalid_parameter(index)),
        }
    }
    match place {
        Some(place) => limits::add_zone(&mut conf.zones, args, place, Rate(rate)),
        None => Err(args.error_here("\"limit_req_zone\" must have \"zone\" parameter")),
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
