//! Directives of the http and server level.

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Kind, once, row};

use super::conf::Conf;
use super::listen;

pub(super) const ROWS: &[Directive<Conf>] = &[
    row(
        "listen",
        Contexts::SERVER.union(Contexts::STREAM_SERVER),
        Arity::AT_LEAST_ONE,
        "*:80 | *:8000",
        "Address and port, or `unix:` path, on which the server accepts requests, with socket options; `quic` for HTTP/3 over UDP.",
        |conf, args| {
            conf.listens.extend(listen::parse(args)?);
            Ok(())
        },
    ),
    row(
        "server_name",
        Contexts::SERVER.union(Contexts::STREAM_SERVER),
        Arity::AT_LEAST_ONE,
        "\"\"",
        "Names of the server: exact, `*.example.com`, `www.example.*`, `.example.com`, or `~regex`.",
        |conf, args| {
            conf.server_names.extend(args.words().iter().cloned());
            Ok(())
        },
    ),
];

/// Directives with blocks of servers and locations.
pub(super) const BLOCK_ROWS: &[Directive<Conf>] = &[
    block(
        "http",
        Contexts::MAIN,
        Arity::NONE,
        "All of the HTTP server's configuration.",
        |conf, args| once(&mut conf.http_seen, (), args),
    ),
    block("server", Contexts::HTTP_STREAM, Arity::NONE, "A virtual server.", |_, _| Ok(())),
    block(
        "location",
        Contexts::SERVER_LOCATION,
        Arity::ONE_OR_TWO,
        "Settings for paths: `= exact`, `prefix`, `^~ prefix`, `~ regex`, `~* regex`, `@named`.",
        |_, _| Ok(()),
    ),
    block(
        "limit_except",
        Contexts::LOCATION,
        Arity::AT_LEAST_ONE,
        "Settings for all methods but those named; GET includes HEAD.",
        |conf, args| once(&mut conf.limit_except_seen, (), args),
    ),
];

const fn block(
    name: &'static str,
    contexts: Contexts,
    args: Arity,
    doc: &'static str,
    set: fn(&mut Conf, &Args<'_>) -> Result<(), Diagnostic>,
) -> Directive<Conf> {
    Directive { name, contexts, args, kind: Kind::Block, default: "", doc, has_effect: true, set }
}
