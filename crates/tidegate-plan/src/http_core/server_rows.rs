//! Directives of the http and server level.

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Kind, once, row};

use super::conf::Conf;
use super::listen;

const HTTP_SERVER: Contexts = Contexts::HTTP_SERVER;
const HTTP_STREAM: Contexts = Contexts::HTTP_STREAM;

pub(super) const ROWS: &[Directive<Conf>] = &[
    row(
        "listen",
        Contexts::SERVER.union(Contexts::STREAM_SERVER),
        Arity::AT_LEAST_ONE,
        "*:80 | *:8000",
        "Address and port, or `unix:` path, on which the server accepts requests, with socket options.",
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
    row(
        "client_header_timeout",
        HTTP_SERVER,
        Arity::ONE,
        "60s",
        "Time for reading a request's head; a request that takes longer gets 408.",
        |conf, args| once(&mut conf.client_header_timeout, args.milliseconds(0)?, args),
    ),
    row(
        "client_header_buffer_size",
        HTTP_SERVER,
        Arity::ONE,
        "1k",
        "Bytes of the first buffer for a request's head.",
        |conf, args| once(&mut conf.client_header_buffer_size, args.size(0)?, args),
    ),
    row(
        "large_client_header_buffers",
        HTTP_SERVER,
        Arity::TWO,
        "4 8k",
        "Number and bytes of buffers for large heads; a longer request line is 414, a longer field 400.",
        |conf, args| {
            let buffers = (args.number(0, 1..=10_000)?, args.buffer_size(1)?);
            once(&mut conf.large_client_header_buffers, buffers, args)
        },
    ),
    row(
        "max_headers",
        HTTP_SERVER,
        Arity::ONE,
        "1000",
        "Most header fields of a request; more are refused with 400.",
        |conf, args| once(&mut conf.max_headers, args.number(0, 0..=u32::MAX.into())?, args),
    ),
    row(
        "ignore_invalid_headers",
        HTTP_SERVER,
        Arity::FLAG,
        "on",
        "Drop header fields with invalid names instead of refusing the request.",
        |conf, args| once(&mut conf.ignore_invalid_headers, args.flag(0)?, args),
    ),
    row(
        "underscores_in_headers",
        HTTP_SERVER,
        Arity::FLAG,
        "off",
        "Whether names of header fields with underscores are valid.",
        |conf, args| once(&mut conf.underscores_in_headers, args.flag(0)?, args),
    ),
    row(
        "merge_slashes",
        HTTP_SERVER,
        Arity::FLAG,
        "on",
        "Whether several adjacent slashes of a path count as one.",
        |conf, args| once(&mut conf.merge_slashes, args.flag(0)?, args),
    ),
    accepted("connection_pool_size", HTTP_SERVER, "512"),
    accepted("request_pool_size", HTTP_SERVER, "4k"),
    table("server_names_hash_max_size", HTTP_STREAM, "512"),
    table("server_names_hash_bucket_size", HTTP_STREAM, "64"),
    table("variables_hash_max_size", HTTP_STREAM, "1024"),
    table("variables_hash_bucket_size", HTTP_STREAM, "64"),
    table("types_hash_max_size", Contexts::HTTP_SERVER_LOCATION, "1024"),
    table("types_hash_bucket_size", Contexts::HTTP_SERVER_LOCATION, "64"),
];

/// Declares a directive for the size of a hash table: checked, and otherwise without effect.
const fn table(name: &'static str, contexts: Contexts, default: &'static str) -> Directive<Conf> {
    row(
        name,
        contexts,
        Arity::ONE,
        default,
        "No effect: Tidegate chooses the size of this table itself.",
        |conf, args| {
            args.number(0, 0..=u64::MAX)?;
            without_effect(conf, args)
        },
    )
}

/// Declares a directive for the size of a structure that Tidegate sizes by itself: checked, and otherwise without
/// effect.
const fn accepted(
    name: &'static str,
    contexts: Contexts,
    default: &'static str,
) -> Directive<Conf> {
    row(
        name,
        contexts,
        Arity::ONE,
        default,
        "No effect: Tidegate chooses the size of this pool itself.",
        |conf, args| {
            args.size(0)?;
            without_effect(conf, args)
        },
    )
}

/// Sets a directive without effect.
///
/// # Errors
/// For a duplicate in a block.
fn without_effect(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let name = &args.statement.name.bytes;
    if conf.without_effect.contains(name) {
        return Err(args.duplicate());
    }
    conf.without_effect.push(name.clone());
    Ok(())
}

/// Directives with blocks of servers and locations.
pub(super) const BLOCK_ROWS: &[Directive<Conf>] = &[
    block(
        "http",
        Contexts::MAIN,
        Arity::NONE,
        "All of the HTTP server's configuration.",
        |conf, args| once(&mut conf.http_seen, (), args),
    ),
    block("server", HTTP_STREAM, Arity::NONE, "A virtual server.", |_, _| Ok(())),
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
    Directive { name, contexts, args, kind: Kind::Block, default: "", doc, set }
}
