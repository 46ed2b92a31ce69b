//! The directives of `upstream` blocks.

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Kind, once};
use tidegate_upstream::{Method, ServerOptions};

use super::{Conf, ServerConf};
use crate::http::row;

const HERE: Contexts = Contexts::UPSTREAM;

pub const ROWS: &[Directive<Conf>] = &[
    Directive {
        name: "upstream",
        contexts: Contexts::HTTP,
        args: Arity::ONE,
        kind: Kind::Block,
        default: "",
        doc: "A group of servers.",
        set: |_, _| Ok(()),
    },
    row("server", HERE, Arity::AT_LEAST_ONE, "", "One server of the group.", set_server),
    row(
        "keepalive",
        HERE,
        Arity::ONE_OR_TWO,
        "32 local",
        "Idle connections kept by each worker thread; `local`: not shared between locations.",
        |conf, args| {
            let count = args.number(0, 0..=u64::MAX)?;
            let local = match args.bytes(1) {
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
        "Age after which a connection is closed behind its request.",
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
        HERE,
        Arity::ONE_OR_TWO,
        "",
        "Accepted: threads share a group's state in any case.",
        |conf, args| {
            if args.len() > 1 {
                args.size(1)?;
            }
            once(&mut conf.zone, (), args)
        },
    ),
    row("ip_hash", HERE, Arity::NONE, "", "Chooses by the client's address.", |conf, args| {
        balance(conf, args, Method::IpHash)
    }),
    row(
        "least_conn",
        HERE,
        Arity::NONE,
        "",
        "Chooses the server with the fewest requests in progress.",
        |conf, args| balance(conf, args, Method::LeastConnections),
    ),
    row("hash", HERE, Arity::ONE_OR_TWO, "", "Chooses by a key.", |conf, args| {
        let method = match args.bytes(1) {
            b"" => Method::Hash,
            b"consistent" => Method::HashConsistent,
            _ => return Err(args.invalid_parameter(1)),
        };
        conf.method = Some((method, Some(args.word(0).clone())));
        Ok(())
    }),
    row(
        "random",
        HERE,
        Arity::between(0, 2),
        "",
        "Chooses at random, or the less busy of two random servers.",
        |conf, args| match (args.bytes(0), args.bytes(1)) {
            (b"", _) => balance(conf, args, Method::Random),
            (b"two", b"" | b"least_conn") => balance(conf, args, Method::RandomTwo),
            (b"two", _) => Err(args.invalid_parameter(1)),
            _ => Err(args.invalid_parameter(0)),
        },
    ),
];

fn balance(conf: &mut Conf, _args: &Args<'_>, method: Method) -> Result<(), Diagnostic> {
    conf.method = Some((method, None));
    Ok(())
}

fn set_server(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let mut options = ServerOptions::default();
    for index in 1..args.len() {
        let (name, value) = args.parameter(index)?;
        let number = || {
            let value = value.and_then(|value| value.parse::<u32>().ok());
            value.ok_or_else(|| args.invalid_parameter(index))
        };
        match (name, value) {
            ("weight", Some(_)) => match number()? {
                0 => return Err(args.invalid_parameter(index)),
                weight => options.weight = weight,
            },
            ("max_conns", Some(_)) => options.max_conns = number()?,
            ("max_fails", Some(_)) => options.max_fails = number()?,
            ("fail_timeout", Some(text)) => {
                let time = tidegate_conf::parse_seconds(text.as_bytes());
                options.fail_timeout = time.ok_or_else(|| args.invalid_parameter(index))?;
            }
            ("backup", None) => options.backup = true,
            ("down", None) => options.down = true,
            _ => return Err(args.invalid_parameter(index)),
        }
    }
    let address = args.text(0)?.to_owned();
    conf.servers.push(ServerConf { address, options, span: args.word(0).span });
    Ok(())
}
