//! The directives of `upstream` blocks.

use std::time::Duration;

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Kind, once, row};
use tidegate_upstream::BalancingMethod;
use tidegate_upstream::peers::TimeKind;

use super::server::set_server;
use super::{Conf, ZoneSize, sticky};

const HERE: Contexts = Contexts::UPSTREAM;
const BOTH: Contexts = Contexts::UPSTREAM.union(Contexts::STREAM_UPSTREAM);

pub(super) const ROWS: &[Directive<Conf>] = &[
    Directive {
        name: "upstream",
        contexts: Contexts::HTTP_STREAM,
        args: Arity::ONE,
        kind: Kind::Block,
        default: "",
        doc: "A group of servers.",
        has_effect: true,
        set: |_, _| Ok(()),
    },
    row(
        "server",
        BOTH,
        Arity::AT_LEAST_ONE,
        "",
        "One server of the group. `sid=` is Angie's name of `route=`.",
        set_server,
    ),
    row(
        "keepalive",
        HERE,
        Arity::ONE_OR_TWO,
        "512 local",
        "Idle connections kept by each worker thread; `local`: not shared between locations.",
        |conf, args| {
            let count = args.number(0, 0..=u64::MAX)?;
            let local = match second(args)? {
                b"" => false,
                b"local" => true,
                _ => return Err(args.invalid_parameter(1)),
            };
            once(&mut conf.keepalive, (count, local), args)
        },
    ),
    row(
        "keepalive_requests",
        HERE,
        Arity::ONE,
        "1000",
        "Requests after which a connection is closed.",
        |conf, args| once(&mut conf.keepalive_requests, args.number(0, 0..=u64::MAX)?, args),
    ),
    row(
        "keepalive_time",
        HERE,
        Arity::ONE,
        "1h",
        "Age after which a connection is closed at the end of its request.",
        |conf, args| once(&mut conf.keepalive_time, args.milliseconds(0)?, args),
    ),
    row(
        "keepalive_timeout",
        HERE,
        Arity::ONE,
        "60s",
        "Time after which an idle connection is closed.",
        |conf, args| once(&mut conf.keepalive_timeout, args.milliseconds(0)?, args),
    ),
    row(
        "zone",
        BOTH,
        Arity::ONE_OR_TWO,
        "",
        "Lets the group's servers change and be counted; threads share its state in any case.",
        set_zone,
    ),
    row("ip_hash", HERE, Arity::NONE, "", "Chooses by the client's address.", |conf, args| {
        balance(conf, args, BalancingMethod::IpHash)
    }),
    row(
        "least_conn",
        BOTH,
        Arity::NONE,
        "",
        "Chooses the server with the fewest requests in progress.",
        |conf, args| balance(conf, args, BalancingMethod::LeastConnections),
    ),
    row(
        "least_time",
        BOTH,
        Arity::ONE_OR_TWO,
        "",
        "Chooses the server with the shortest average time until the head (`header`) or the end (`last_byte`) of its responses and the fewest requests in progress; `inflight`: requests in \
         progress count as well. For sessions: until the connection (`connect`), the first or the last \
         byte (`first_byte`, `last_byte`).",
        |conf, args| {
            let inflight = match args.bytes(1) {
                b"" => false,
                b"inflight" => true,
                _ => return Err(args.invalid_parameter(1)),
            };
            let kind = time_kind(args, args.text(0)?, inflight)
                .ok_or_else(|| args.invalid_parameter(0))?;
            balance(conf, args, BalancingMethod::LeastTime(kind))
        },
    ),
    row("hash", BOTH, Arity::ONE_OR_TWO, "", "Chooses by a key.", |conf, args| {
        let method = match second(args)? {
            b"" => BalancingMethod::Hash,
            b"consistent" => BalancingMethod::HashConsistent,
            _ => return Err(args.invalid_parameter(1)),
        };
        balance(conf, args, method)?;
        conf.key = Some(args.word(0).clone());
        Ok(())
    }),
    row(
        "random",
        BOTH,
        Arity::between(0, 3),
        "",
        "Chooses at random, or the less busy or faster of two random servers.",
        random,
    ),
    row(
        "sticky",
        HERE,
        Arity::AT_LEAST_TWO,
        "",
        "Binds clients to servers: by a cookie that the server sets, by routes in variables, or by sessions read from responses. `learn … sync` (`sync=NAME` with several stores): servers with the same `zone_sync_store` share the sessions of a zone. A session is sent to the store behind its use; one that a server does not know is asked for once, for at most 5 ms, and without the store it is as one that is new.",
        |conf, args| once(&mut conf.sticky, sticky::parse(args)?, args),
    ),
    row(
        "queue",
        HERE,
        Arity::ONE_OR_TWO,
        "",
        "Requests that wait when no server is available, and for how long (`timeout`, 60 s).",
        |conf, args| {
            let count = args.number(0, 1..=1_000_000)? as usize;
            let time = match args.len() {
                1 => Duration::from_secs(60),
                _ => match args.parameter(1)? {
                    ("timeout", Some(text)) => tidegate_conf::parse_milliseconds(text.as_bytes())
                        .ok_or_else(|| args.invalid_parameter(1))?,
                    _ => return Err(args.invalid_parameter(1)),
                },
            };
            once(&mut conf.queue, (count, time), args)
        },
    ),
    row(
        "unresolved_names",
        Contexts::HTTP.union(Contexts::STREAM),
        Arity::ONE,
        "refuse",
        "Names of servers that cannot be resolved while the configuration is read: `refuse` the configuration, or `retry` until they are resolved.",
        |conf, args| {
            let choices = [("refuse", false), ("retry", true)];
            once(&mut conf.retries_names, args.choice(0, &choices)?, args)
        },
    ),
    row(
        "state",
        HERE,
        Arity::ONE,
        "",
        "A file that holds the group's servers, in place of `server`; commands change it.",
        |conf, args| once(&mut conf.state, args.word(0).clone(), args),
    ),
    row(
        "resolver",
        BOTH,
        Arity::AT_LEAST_ONE,
        "",
        "Name servers for the names of this group's servers. `status_zone=` counts the questions \
         for `api`.",
        |conf, args| {
            let words = args.words().iter().map(|word| word.display().into_owned());
            once(&mut conf.resolver, words.collect(), args)
        },
    ),
    row(
        "resolver_timeout",
        BOTH,
        Arity::ONE,
        "30s",
        "Longest wait for the name servers.",
        |conf, args| once(&mut conf.resolver_timeout, args.milliseconds(0)?, args),
    ),
];

/// Sets `zone`; the last one counts, as in nginx.
fn set_zone(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let name = args.text(0)?;
    if name.is_empty() {
        return Err(args.error(0, "invalid zone name \"\""));
    }
    let bytes = if args.len() > 1 { Some(args.size(1)?) } else { None };
    if bytes.is_some_and(|bytes| bytes < ZONE_BYTES_MIN) {
        return Err(args.error(1, format!("zone \"{name}\" is too small")));
    }
    conf.zone = Some(name.to_owned());
    conf.zone_size = Some(ZoneSize { bytes, span: args.word(0).span });
    Ok(())
}

/// Smallest zone: eight pages, as in nginx.
const ZONE_BYTES_MIN: u64 = 8 * 4096;

/// Returns the optional second argument of a directive; an empty one is an error.
fn second<'a>(args: &Args<'a>) -> Result<&'a [u8], Diagnostic> {
    match args.bytes(1) {
        b"" if args.len() > 1 => Err(args.invalid_parameter(1)),
        word => Ok(word),
    }
}

fn balance(conf: &mut Conf, args: &Args<'_>, method: BalancingMethod) -> Result<(), Diagnostic> {
    if conf.method.replace(method).is_some() {
        // The last one counts, as in nginx.
        conf.warnings.push(args.error_here("load balancing method redefined").as_warning());
    }
    Ok(())
}

/// Parses a kind of time. The first byte of a session corresponds to the head of a response.
fn time_kind(args: &Args<'_>, text: &str, inflight: bool) -> Option<TimeKind> {
    let in_stream = args.context.intersects(Contexts::STREAM_UPSTREAM);
    match (text, in_stream) {
        ("header", false) | ("first_byte", true) => Some(TimeKind::Header { inflight }),
        ("connect", true) => Some(TimeKind::Connect { inflight }),
        ("last_byte", _) => Some(TimeKind::LastByte { inflight }),
        _ => None,
    }
}

fn random(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let inflight = match args.bytes(2) {
        b"" => false,
        b"inflight" if args.bytes(1).starts_with(b"least_time=") => true,
        _ => return Err(args.invalid_parameter(2)),
    };
    let method = match (args.bytes(0), args.text(1).unwrap_or_default()) {
        (b"", _) if args.len() == 0 => BalancingMethod::Random,
        (b"two", "" | "least_conn") => BalancingMethod::RandomTwo,
        (b"two", text) => {
            let kind =
                text.strip_prefix("least_time=").and_then(|kind| time_kind(args, kind, inflight));
            BalancingMethod::RandomTwoTime(kind.ok_or_else(|| args.invalid_parameter(1))?)
        }
        _ => return Err(args.invalid_parameter(0)),
    };
    balance(conf, args, method)
}
