//! The shared directives, written once for all prefixes, and their inheritance.

use std::time::Duration;

use tidegate_conf::{Args, Diagnostic, Word, once};
use tidegate_plan::http_core::conf::TempPath;
use tidegate_plan::http_core::temp_path;
use tidegate_upstream::NextUpstream;

/// Settings of modules that contain the shared ones.
pub(crate) trait HasGateway {
    fn gateway(&mut self) -> &mut GatewayConf;
}

/// The shared directives of one block as written.
#[derive(Clone, Default)]
pub struct GatewayConf {
    pub buffering: Option<bool>,
    pub request_buffering: Option<bool>,
    pub ignore_client_abort: Option<bool>,
    /// `None` inside: `off`.
    pub bind: Option<Option<(Word, bool)>>,
    pub socket_keepalive: Option<bool>,
    pub connect_timeout: Option<Duration>,
    pub send_timeout: Option<Duration>,
    pub read_timeout: Option<Duration>,
    pub send_lowat: Option<u64>,
    pub socket_rcvbuf: Option<u64>,
    pub socket_sndbuf: Option<u64>,
    pub intercept_errors: Option<bool>,
    pub pass_request_headers: Option<bool>,
    pub pass_request_body: Option<bool>,
    pub pass_trailers: Option<bool>,
    pub buffer_size: Option<u64>,
    pub buffers: Option<(u64, u64)>,
    pub busy_buffers_size: Option<u64>,
    pub temp_path: Option<TempPath>,
    pub max_temp_file_size: Option<u64>,
    pub temp_file_write_size: Option<u64>,
    pub next_upstream: Option<NextUpstream>,
    pub next_upstream_tries: Option<u64>,
    pub next_upstream_timeout: Option<Duration>,
    pub pass_header: Option<Vec<Word>>,
    pub hide_header: Option<Vec<Word>>,
    pub ignore_headers: Option<u16>,
    pub force_ranges: Option<bool>,
    pub limit_rate: Option<Word>,
    pub headers_hash_max_size: Option<u64>,
    pub headers_hash_bucket_size: Option<u64>,
    pub store: super::store::StoreConf,
    pub tls: super::tls::TlsConf,
}

/// Header fields of origins that `*_ignore_headers` names, as bits.
pub(crate) const IGNORABLE: &[(&str, u16)] = &[
    ("X-Accel-Redirect", IGNORE_REDIRECT),
    ("X-Accel-Expires", IGNORE_ACCEL_EXPIRES),
    ("X-Accel-Limit-Rate", IGNORE_LIMIT_RATE),
    ("X-Accel-Buffering", IGNORE_BUFFERING),
    ("X-Accel-Charset", IGNORE_CHARSET),
    ("Expires", IGNORE_EXPIRES),
    ("Cache-Control", IGNORE_CACHE_CONTROL),
    ("Set-Cookie", IGNORE_SET_COOKIE),
    ("Vary", IGNORE_VARY),
];
pub(crate) const IGNORE_REDIRECT: u16 = 1;
pub(crate) const IGNORE_ACCEL_EXPIRES: u16 = 1 << 1;
pub(crate) const IGNORE_LIMIT_RATE: u16 = 1 << 2;
pub(crate) const IGNORE_BUFFERING: u16 = 1 << 3;
pub(crate) const IGNORE_CHARSET: u16 = 1 << 4;
pub(crate) const IGNORE_EXPIRES: u16 = 1 << 5;
pub(crate) const IGNORE_CACHE_CONTROL: u16 = 1 << 6;
pub(crate) const IGNORE_SET_COOKIE: u16 = 1 << 7;
pub(crate) const IGNORE_VARY: u16 = 1 << 8;

/// The cases of `*_next_upstream`, that of a cache last.
const CASES: &[(&str, NextUpstream)] = &[
    ("error", NextUpstream::ERROR),
    ("timeout", NextUpstream::TIMEOUT),
    ("invalid_header", NextUpstream::INVALID_HEADER),
    ("non_idempotent", NextUpstream::NON_IDEMPOTENT),
    ("http_500", NextUpstream::HTTP_500),
    ("http_502", NextUpstream::HTTP_502),
    ("http_503", NextUpstream::HTTP_503),
    ("http_504", NextUpstream::HTTP_504),
    ("http_403", NextUpstream::HTTP_403),
    ("http_404", NextUpstream::HTTP_404),
    ("http_429", NextUpstream::HTTP_429),
    ("off", NextUpstream::OFF),
    ("updating", NextUpstream(0)),
];
/// The same without a cache.
pub(crate) const UNCACHED_CASES: &[(&str, NextUpstream)] = CASES.split_at(CASES.len() - 1).0;

/// Makes the rows of the shared directives for a prefix and a module's settings: `connection` has those of every
/// module, `responses` those of modules with HTTP responses, and the third those of modules that buffer them.
macro_rules! gateway_rows {
    (connection $prefix:literal, $conf:ty) => {
        &[
            $crate::common::options::gateway_rows!(@flag $prefix, $conf,
                ["proxy_socket_keepalive", "fastcgi_socket_keepalive", "uwsgi_socket_keepalive",
                 "scgi_socket_keepalive", "memcached_socket_keepalive", "grpc_socket_keepalive"],
                socket_keepalive, "off", "TCP keepalive on connections to origins."),
            $crate::common::options::gateway_rows!(@time $prefix, $conf,
                ["proxy_connect_timeout", "fastcgi_connect_timeout", "uwsgi_connect_timeout",
                 "scgi_connect_timeout", "memcached_connect_timeout", "grpc_connect_timeout"],
                connect_timeout, "60s", "Longest time for opening a connection."),
            $crate::common::options::gateway_rows!(@time $prefix, $conf,
                ["proxy_send_timeout", "fastcgi_send_timeout", "uwsgi_send_timeout",
                 "scgi_send_timeout", "memcached_send_timeout", "grpc_send_timeout"],
                send_timeout, "60s", "Longest time between two writes of the request."),
            $crate::common::options::gateway_rows!(@time $prefix, $conf,
                ["proxy_read_timeout", "fastcgi_read_timeout", "uwsgi_read_timeout",
                 "scgi_read_timeout", "memcached_read_timeout", "grpc_read_timeout"],
                read_timeout, "60s", "Longest time between two reads of the response."),
            $crate::common::options::gateway_rows!(@time $prefix, $conf,
                ["proxy_next_upstream_timeout", "fastcgi_next_upstream_timeout", "uwsgi_next_upstream_timeout",
                 "scgi_next_upstream_timeout", "memcached_next_upstream_timeout", "grpc_next_upstream_timeout"],
                next_upstream_timeout, "0", "Time after which the request is passed to no other server; 0 for no limit."),
            $crate::common::options::gateway_rows!(@number $prefix, $conf,
                ["proxy_next_upstream_tries", "fastcgi_next_upstream_tries", "uwsgi_next_upstream_tries",
                 "scgi_next_upstream_tries", "memcached_next_upstream_tries", "grpc_next_upstream_tries"],
                next_upstream_tries, "0", "Most servers that one request is passed to; 0 for no limit."),
            $crate::common::options::gateway_rows!(@size $prefix, $conf,
                ["proxy_buffer_size", "fastcgi_buffer_size", "uwsgi_buffer_size",
                 "scgi_buffer_size", "memcached_buffer_size", "grpc_buffer_size"],
                buffer_size,
                "4k", "Largest head of a response, in bytes."),
            $crate::common::options::gateway_rows!(@row $prefix, $conf,
                ["proxy_bind", "fastcgi_bind", "uwsgi_bind", "scgi_bind", "memcached_bind", "grpc_bind"],
                ONE_OR_TWO, "",
                "Local address of connections; `transparent` for one that is not ours.", set_bind),
        ]
    };
    (responses $prefix:literal, $conf:ty) => {
        &[
            $crate::common::options::gateway_rows!(@flag $prefix, $conf,
                ["proxy_intercept_errors", "fastcgi_intercept_errors",
                 "uwsgi_intercept_errors", "scgi_intercept_errors", "grpc_intercept_errors"],
                intercept_errors, "off", "Whether `error_page` applies to responses of origins with a status of 300 or above."),
            $crate::common::options::gateway_rows!(@size $prefix, $conf,
                ["proxy_socket_rcvbuf", "fastcgi_socket_rcvbuf", "uwsgi_socket_rcvbuf", "scgi_socket_rcvbuf", "grpc_socket_rcvbuf"],
                socket_rcvbuf, "", "Size of the receive buffer of connections to origins (SO_RCVBUF)."),
            $crate::common::options::gateway_rows!(@size $prefix, $conf,
                ["proxy_socket_sndbuf", "fastcgi_socket_sndbuf", "uwsgi_socket_sndbuf", "scgi_socket_sndbuf", "grpc_socket_sndbuf"],
                socket_sndbuf, "", "Size of the send buffer of connections to origins (SO_SNDBUF)."),
            $crate::common::options::gateway_rows!(@row $prefix, $conf,
                ["proxy_pass_header", "fastcgi_pass_header", "uwsgi_pass_header", "scgi_pass_header", "grpc_pass_header"],
                ONE, "",
                "Passes a field that would be left out.", set_pass_header),
            $crate::common::options::gateway_rows!(@row $prefix, $conf,
                ["proxy_hide_header", "fastcgi_hide_header", "uwsgi_hide_header", "scgi_hide_header", "grpc_hide_header"],
                ONE, "",
                "Leaves a field of the response out.", set_hide_header),
            $crate::common::options::gateway_rows!(@row $prefix, $conf,
                ["proxy_ignore_headers", "fastcgi_ignore_headers", "uwsgi_ignore_headers", "scgi_ignore_headers", "grpc_ignore_headers"],
                AT_LEAST_ONE,
                "", "Fields of the response that have no effect.", set_ignore_headers),
        ]
    };
    ($prefix:literal, $conf:ty) => {
        &[
            $crate::common::options::gateway_rows!(@row $prefix, $conf,
                ["proxy_next_upstream", "fastcgi_next_upstream", "uwsgi_next_upstream", "scgi_next_upstream"],
                AT_LEAST_ONE,
                "error timeout", "Cases in which the request is passed to another server.", set_next_upstream),
            $crate::common::options::gateway_rows!(@flag $prefix, $conf,
                ["proxy_buffering", "fastcgi_buffering", "uwsgi_buffering", "scgi_buffering"],
                buffering, "on",
                "Whether the response is read from the origin as fast as it arrives, independently of the client's speed."),
            $crate::common::options::gateway_rows!(@flag $prefix, $conf,
                ["proxy_request_buffering", "fastcgi_request_buffering",
                 "uwsgi_request_buffering", "scgi_request_buffering"],
                request_buffering, "on", "Whether the request body is read completely before the request is passed to an origin."),
            $crate::common::options::gateway_rows!(@flag $prefix, $conf,
                ["proxy_ignore_client_abort", "fastcgi_ignore_client_abort",
                 "uwsgi_ignore_client_abort", "scgi_ignore_client_abort"],
                ignore_client_abort, "off", "Whether the connection to the origin is kept open when the client closes its own."),
            $crate::common::options::gateway_rows!(@flag $prefix, $conf,
                ["proxy_pass_request_headers", "fastcgi_pass_request_headers",
                 "uwsgi_pass_request_headers", "scgi_pass_request_headers"],
                pass_request_headers, "on", "Whether the client's header fields are passed on."),
            $crate::common::options::gateway_rows!(@flag $prefix, $conf,
                ["proxy_pass_request_body", "fastcgi_pass_request_body",
                 "uwsgi_pass_request_body", "scgi_pass_request_body"],
                pass_request_body, "on", "Whether the client's body is passed on."),
            $crate::common::options::gateway_rows!(@flag $prefix, $conf,
                ["proxy_force_ranges", "fastcgi_force_ranges", "uwsgi_force_ranges", "scgi_force_ranges"],
                force_ranges, "off", "Whether byte ranges of responses are supported independently of their `Accept-Ranges` field."),
            $crate::common::options::gateway_rows!(@size $prefix, $conf,
                ["proxy_send_lowat", "fastcgi_send_lowat", "uwsgi_send_lowat", "scgi_send_lowat"],
                send_lowat, "0",
                "Accepted; has no effect on Linux.").without_effect(),
            $crate::common::options::gateway_rows!(@size $prefix, $conf,
                ["proxy_busy_buffers_size", "fastcgi_busy_buffers_size",
                 "uwsgi_busy_buffers_size", "scgi_busy_buffers_size"],
                busy_buffers_size, "8k", "No effect: data is sent as it arrives.").without_effect(),
            $crate::common::options::gateway_rows!(@size $prefix, $conf,
                ["proxy_max_temp_file_size", "fastcgi_max_temp_file_size",
                 "uwsgi_max_temp_file_size", "scgi_max_temp_file_size"],
                max_temp_file_size, "1024m", "Largest temporary file of a buffered response; 0 for none."),
            $crate::common::options::gateway_rows!(@size $prefix, $conf,
                ["proxy_temp_file_write_size", "fastcgi_temp_file_write_size",
                 "uwsgi_temp_file_write_size", "scgi_temp_file_write_size"],
                temp_file_write_size, "8k", "Accepted; what does not fit the buffers is written at once.").without_effect(),
            $crate::common::options::gateway_rows!(@row $prefix, $conf,
                ["proxy_buffers", "fastcgi_buffers", "uwsgi_buffers", "scgi_buffers"],
                TWO, "8 4k",
                "Number and size of the buffers for a response that the client reads slowly.", set_buffers),
            $crate::common::options::gateway_rows!(@row $prefix, $conf,
                ["proxy_temp_path", "fastcgi_temp_path", "uwsgi_temp_path", "scgi_temp_path"],
                ONE_TO_FOUR,
                concat!($prefix, "temp"), "Directory of temporary files, with levels of directories in it.", set_temp_path),
            $crate::common::options::gateway_rows!(@row $prefix, $conf,
                ["proxy_limit_rate", "fastcgi_limit_rate", "uwsgi_limit_rate", "scgi_limit_rate"],
                ONE, "0",
                "Bytes a second read from an origin; 0 for no limit.", set_limit_rate),
        ]
    };
    (@flag $prefix:literal, $conf:ty, $names:expr, $field:ident, $default:literal, $doc:literal) => {
        tidegate_conf::row::<$conf>(tidegate_conf::with_prefix($prefix, $names), tidegate_conf::Contexts::HTTP_SERVER_LOCATION,
            tidegate_conf::Arity::FLAG, $default, $doc, |conf, args| {
                let flag = args.flag(0)?;
                tidegate_conf::once(&mut conf.gateway().$field, flag, args)
            })
    };
    (@time $prefix:literal, $conf:ty, $names:expr, $field:ident, $default:literal, $doc:literal) => {
        tidegate_conf::row::<$conf>(tidegate_conf::with_prefix($prefix, $names), tidegate_conf::Contexts::HTTP_SERVER_LOCATION,
            tidegate_conf::Arity::ONE, $default, $doc, |conf, args| {
                let time = args.milliseconds(0)?;
                tidegate_conf::once(&mut conf.gateway().$field, time, args)
            })
    };
    (@size $prefix:literal, $conf:ty, $names:expr, $field:ident, $default:literal, $doc:literal) => {
        tidegate_conf::row::<$conf>(tidegate_conf::with_prefix($prefix, $names), tidegate_conf::Contexts::HTTP_SERVER_LOCATION,
            tidegate_conf::Arity::ONE, $default, $doc, |conf, args| {
                let size = args.size(0)?;
                tidegate_conf::once(&mut conf.gateway().$field, size, args)
            })
    };
    (@number $prefix:literal, $conf:ty, $names:expr, $field:ident, $default:literal, $doc:literal) => {
        tidegate_conf::row::<$conf>(tidegate_conf::with_prefix($prefix, $names), tidegate_conf::Contexts::HTTP_SERVER_LOCATION,
            tidegate_conf::Arity::ONE, $default, $doc, |conf, args| {
                let number = args.number(0, 0..=u64::MAX)?;
                tidegate_conf::once(&mut conf.gateway().$field, number, args)
            })
    };
    (@row $prefix:literal, $conf:ty, $names:expr, $arity:ident, $default:expr, $doc:literal, $set:ident) => {
        tidegate_conf::row::<$conf>(tidegate_conf::with_prefix($prefix, $names), tidegate_conf::Contexts::HTTP_SERVER_LOCATION,
            tidegate_conf::Arity::$arity, $default, $doc, |conf, args| {
                $crate::common::options::$set(conf.gateway(), args)
            })
    };
}
pub(crate) use gateway_rows;

pub(crate) fn set_buffers(conf: &mut GatewayConf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let buffers = (args.number(0, 2..=u64::MAX)?, args.buffer_size(1)?);
    once(&mut conf.buffers, buffers, args)
}

pub(crate) fn set_temp_path(conf: &mut GatewayConf, args: &Args<'_>) -> Result<(), Diagnostic> {
    once(&mut conf.temp_path, temp_path(args)?, args)
}

pub(crate) fn set_next_upstream(conf: &mut GatewayConf, args: &Args<'_>) -> Result<(), Diagnostic> {
    set_cases(conf, args, CASES)
}

/// Sets `*_next_upstream` for a protocol with these cases. Several directives add up, as in nginx.
pub(crate) fn set_cases(
    conf: &mut GatewayConf,
    args: &Args<'_>,
    known: &[(&'static str, NextUpstream)],
) -> Result<(), Diagnostic> {
    let mut cases = conf.next_upstream.unwrap_or(NextUpstream(0));
    for index in 0..args.len() {
        cases.0 |= args.choice(index, known)?.0;
    }
    conf.next_upstream = Some(cases);
    Ok(())
}

pub(crate) fn set_pass_header(conf: &mut GatewayConf, args: &Args<'_>) -> Result<(), Diagnostic> {
    conf.pass_header.get_or_insert_default().push(args.word(0).clone());
    Ok(())
}

pub(crate) fn set_hide_header(conf: &mut GatewayConf, args: &Args<'_>) -> Result<(), Diagnostic> {
    conf.hide_header.get_or_insert_default().push(args.word(0).clone());
    Ok(())
}

pub(crate) fn set_ignore_headers(
    conf: &mut GatewayConf,
    args: &Args<'_>,
) -> Result<(), Diagnostic> {
    let mut bits = 0;
    for index in 0..args.len() {
        bits |= args.choice(index, IGNORABLE)?;
    }
    // Several directives add up, as in nginx.
    conf.ignore_headers = Some(conf.ignore_headers.unwrap_or(0) | bits);
    Ok(())
}

pub(crate) fn set_limit_rate(conf: &mut GatewayConf, args: &Args<'_>) -> Result<(), Diagnostic> {
    if !args.bytes(0).contains(&b'$') {
        args.size(0)?;
    }
    once(&mut conf.limit_rate, args.word(0).clone(), args)
}

pub(crate) fn set_bind(conf: &mut GatewayConf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let transparent = match args.bytes(1) {
        b"" => false,
        b"transparent" => true,
        _ => return Err(args.invalid_parameter(1)),
    };
    let value = match args.bytes(0) {
        b"off" => None,
        text if text.contains(&b'$') || super::settings::parse_local(text).is_some() => {
            Some((args.word(0).clone(), transparent))
        }
        _ => {
            let message = format!("invalid address \"{}\"", args.word(0).display());
            return Err(args.error(0, message));
        }
    };
    once(&mut conf.bind, value, args)
}

/// Takes over each field that the inner block does not set.
macro_rules! inherit {
    ($child:ident, $parent:ident; $($field:ident),* $(,)?) => {
        $(if $child.$field.is_none() { $child.$field = $parent.$field.clone(); })*
    };
}

/// Inherits settings: http → server → location.
pub(crate) fn inherit(child: &mut GatewayConf, parent: &GatewayConf) {
    inherit!(child, parent;
        buffering, request_buffering, ignore_client_abort, bind, socket_keepalive, connect_timeout,
        send_timeout, read_timeout, send_lowat, socket_rcvbuf, socket_sndbuf, intercept_errors, pass_request_headers,
        pass_request_body, pass_trailers, buffer_size, buffers, busy_buffers_size, temp_path,
        max_temp_file_size, temp_file_write_size, next_upstream, next_upstream_tries,
        next_upstream_timeout, pass_header, hide_header, ignore_headers, force_ranges, limit_rate,
        headers_hash_max_size, headers_hash_bucket_size,
    );
    super::store::inherit(&mut child.store, &parent.store);
    super::tls::inherit(&mut child.tls, &parent.tls);
}
