//! The `proxy_*` directives.

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, once, row};

use super::conf::{Conf, OriginVersion, RedirectConf};
use crate::common::options::{HasGateway, gateway_rows};
use crate::common::store::gateway_store_rows;
use crate::common::tls::gateway_tls_rows;

const ALL: Contexts = Contexts::HTTP_SERVER_LOCATION;

pub(super) const CONNECTION: &[Directive<Conf>] = gateway_rows!(connection "proxy_", Conf);

pub(super) const RESPONSES: &[Directive<Conf>] = gateway_rows!(responses "proxy_", Conf);

pub(super) const SHARED: &[Directive<Conf>] = gateway_rows!("proxy_", Conf);

pub(super) const STORE: &[Directive<Conf>] = gateway_store_rows!("proxy_", Conf);

pub(super) const TLS: &[Directive<Conf>] = gateway_tls_rows!("proxy_", Conf);

pub(super) const OWN: &[Directive<Conf>] = &[
    row(
        "proxy_pass",
        Contexts::LOCATION.union(Contexts::LOCATION_IF).union(Contexts::LIMIT_EXCEPT),
        Arity::ONE,
        "",
        "Server, with an optional URI that replaces the location's name in the path.",
        |conf, args| once(&mut conf.pass.word, args.word(0).clone(), args),
    ),
    row(
        "proxy_http_version",
        ALL,
        Arity::ONE,
        "1.1",
        "Version of HTTP spoken with origins: 1.0, 1.1 or 2.",
        |conf, args| {
            let choices = [
                ("1.0", OriginVersion::H10),
                ("1.1", OriginVersion::H11),
                ("2", OriginVersion::H2),
            ];
            once(&mut conf.http_version, args.choice(0, &choices)?, args)
        },
    ),
    row(
        "proxy_method",
        ALL,
        Arity::ONE,
        "",
        "Method of requests to origins in place of the client's.",
        |conf, args| once(&mut conf.method, args.word(0).clone(), args),
    ),
    row(
        "proxy_set_header",
        ALL,
        Arity::TWO,
        "Host $proxy_host",
        "Sets or, with an empty value, leaves out a field of the request.",
        |conf, args| {
            let field = (args.word(0).clone(), args.word(1).clone());
            conf.set_header.get_or_insert_default().push(field);
            Ok(())
        },
    ),
    row(
        "proxy_set_body",
        ALL,
        Arity::ONE,
        "",
        "Body of requests to origins in place of the client's.",
        |conf, args| once(&mut conf.set_body, args.word(0).clone(), args),
    ),
    row(
        "proxy_pass_trailers",
        ALL,
        Arity::FLAG,
        "off",
        "Whether trailer fields of origins' responses are passed to clients.",
        |conf, args| {
            let flag = args.flag(0)?;
            once(&mut conf.gateway().pass_trailers, flag, args)
        },
    ),
    row(
        "proxy_redirect",
        ALL,
        Arity::ONE_OR_TWO,
        "default",
        "Changes `Location` and `Refresh` fields of responses.",
        set_redirect,
    ),
    row(
        "proxy_cookie_domain",
        ALL,
        Arity::ONE_OR_TWO,
        "off",
        "Changes the domain of cookies.",
        |conf, args| set_pairs(&mut conf.cookie_domain, args),
    ),
    row(
        "proxy_cookie_path",
        ALL,
        Arity::ONE_OR_TWO,
        "off",
        "Changes the path of cookies.",
        |conf, args| set_pairs(&mut conf.cookie_path, args),
    ),
    row(
        "proxy_cookie_flags",
        ALL,
        Arity::ONE_TO_FOUR,
        "off",
        "Sets and removes flags of cookies: secure, httponly, samesite=, and with `no` in front.",
        |conf, args| {
            alone(conf.cookie_flags.as_deref(), args)?;
            let list = conf.cookie_flags.get_or_insert_default();
            match args.words() {
                [only] if only.bytes == b"off" => {}
                [_] => {
                    return Err(args.error_here(
                        "invalid number of arguments in \"proxy_cookie_flags\" directive",
                    ));
                }
                words => list.push(words.to_vec()),
            }
            Ok(())
        },
    ),
    row(
        "early_hints",
        ALL,
        Arity::AT_LEAST_ONE,
        "",
        "Passes responses of origins with status 103 to the client when a value is neither empty nor `0`.",
        |conf, args| {
            // Several directives add up, as in nginx.
            conf.early_hints.get_or_insert_default().extend_from_slice(args.words());
            Ok(())
        },
    ),
    row::<Conf>(
        "proxy_headers_hash_max_size",
        ALL,
        Arity::ONE,
        "512",
        "Accepted; there is no hash to size.",
        |conf, args| {
            let size = args.number(0, 0..=u64::MAX)?;
            once(&mut conf.gateway().headers_hash_max_size, size, args)
        },
    )
    .without_effect(),
    row::<Conf>(
        "proxy_headers_hash_bucket_size",
        ALL,
        Arity::ONE,
        "64",
        "Accepted; there is no hash to size.",
        |conf, args| {
            let size = args.number(0, 0..=u64::MAX)?;
            once(&mut conf.gateway().headers_hash_bucket_size, size, args)
        },
    )
    .without_effect(),
];

fn set_redirect(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let off = |rule: &RedirectConf| matches!(rule, RedirectConf::Off);
    let before = conf.redirect.as_deref().unwrap_or_default();
    if before.iter().any(off) || (args.bytes(0) == b"off" && !before.is_empty()) {
        return Err(args.duplicate());
    }
    let rule = match args.words() {
        [one] if one.bytes == b"off" => RedirectConf::Off,
        [one] if one.bytes == b"default" || one.bytes == b"false" => RedirectConf::Default,
        [from, to] => RedirectConf::Pair(from.clone(), to.clone()),
        _ => {
            let message = format!("invalid parameter \"{}\"", args.word(0).display());
            return Err(args.error(0, message));
        }
    };
    conf.redirect.get_or_insert_default().push(rule);
    Ok(())
}

/// Checks that `off`, which leaves an empty list, is the only directive.
fn alone<T>(before: Option<&[T]>, args: &Args<'_>) -> Result<(), Diagnostic> {
    match before {
        Some(rules) if rules.is_empty() || args.bytes(0) == b"off" => Err(args.duplicate()),
        _ => Ok(()),
    }
}

fn set_pairs(
    list: &mut Option<Vec<(tidegate_conf::Word, tidegate_conf::Word)>>,
    args: &Args<'_>,
) -> Result<(), Diagnostic> {
    alone(list.as_deref(), args)?;
    let list = list.get_or_insert_default();
    match args.words() {
        [one] if one.bytes == b"off" => Ok(()),
        [from, to] => {
            list.push((from.clone(), to.clone()));
            Ok(())
        }
        _ => {
            let message = format!("invalid parameter \"{}\"", args.word(0).display());
            Err(args.error(0, message))
        }
    }
}
