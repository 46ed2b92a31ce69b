//! Directives of the location level for receiving, sending and timeouts.

use tidegate_conf::{Arity, Contexts, Directive, once, row};
use tidegate_core::settings::{
    IfModifiedSince, KEEPALIVE_DISABLE_MSIE6, KEEPALIVE_DISABLE_SAFARI, Lingering,
};

use super::conf::Conf;

const ALL: Contexts = Contexts::HTTP_SERVER_LOCATION;
const ALL_IF: Contexts = Contexts::HTTP_SERVER_LOCATION_IF;

pub(super) const ROWS: &[Directive<Conf>] = &[
    row(
        "send_timeout",
        ALL,
        Arity::ONE,
        "60s",
        "Longest time between two writes to the client; when it is exceeded, the connection is closed.",
        |conf, args| once(&mut conf.send_timeout, args.milliseconds(0)?, args),
    ),
    row(
        "send_lowat",
        ALL,
        Arity::ONE,
        "0",
        "Least bytes for a write where the system supports it; without effect on Linux, as in nginx.",
        |conf, args| once(&mut conf.send_lowat, args.size(0)?, args),
    ),
    row(
        "postpone_output",
        ALL,
        Arity::ONE,
        "1460",
        "Output is delayed until this number of bytes is there, or it is flushed.",
        |conf, args| once(&mut conf.postpone_output, args.size(0)?, args),
    ),
    row(
        "output_buffers",
        ALL,
        Arity::TWO,
        "2 32k",
        "Number and bytes of buffers for reading files that are not sent by sendfile.",
        |conf, args| {
            once(&mut conf.output_buffers, (args.number(0, 1..=1024)?, args.buffer_size(1)?), args)
        },
    ),
    row(
        "limit_rate",
        ALL_IF,
        Arity::ONE,
        "0",
        "Bytes a second to a client for one request; 0 for no limit.",
        |conf, args| once(&mut conf.limit_rate, args.word(0).clone(), args),
    ),
    row(
        "limit_rate_after",
        ALL_IF,
        Arity::ONE,
        "0",
        "Bytes sent at full speed before limit_rate applies.",
        |conf, args| once(&mut conf.limit_rate_after, args.word(0).clone(), args),
    ),
    row(
        "keepalive_timeout",
        ALL,
        Arity::ONE_OR_TWO,
        "75s",
        "How long an idle connection is kept; 0 disables. The second value is sent in the Keep-Alive field.",
        |conf, args| {
            let header = if args.len() > 1 { Some(args.seconds(1)?) } else { None };
            once(&mut conf.keepalive_timeout, (args.milliseconds(0)?, header), args)
        },
    ),
    row(
        "keepalive_min_timeout",
        ALL,
        Arity::ONE,
        "0",
        "An idle connection younger than this is not closed to make room or to shut down.",
        |conf, args| once(&mut conf.keepalive_min_timeout, args.milliseconds(0)?, args),
    ),
    row(
        "keepalive_requests",
        ALL,
        Arity::ONE,
        "1000",
        "Most requests on one connection.",
        |conf, args| once(&mut conf.keepalive_requests, args.number(0, 0..=u64::MAX)?, args),
    ),
    row(
        "keepalive_time",
        ALL,
        Arity::ONE,
        "1h",
        "Longest life of a connection; it is closed after the request that passes it.",
        |conf, args| once(&mut conf.keepalive_time, args.milliseconds(0)?, args),
    ),
    row(
        "keepalive_disable",
        ALL,
        Arity::ONE_OR_TWO,
        "msie6",
        "Browsers whose connections are not kept: none, msie6, safari.",
        |conf, args| {
            let choices = [
                ("none", 0),
                ("msie6", KEEPALIVE_DISABLE_MSIE6),
                ("safari", KEEPALIVE_DISABLE_SAFARI),
            ];
            // Several directives add up, as in nginx.
            let mut bits = conf.keepalive_disable.unwrap_or(0);
            for index in 0..args.len() {
                bits |= args.choice(index, &choices)?;
            }
            conf.keepalive_disable = Some(bits);
            Ok(())
        },
    ),
    row(
        "lingering_close",
        ALL,
        Arity::ONE,
        "on",
        "Whether data of the client is read and discarded before a connection is closed, so that the client can read the response.",
        |conf, args| {
            let choices =
                [("off", Lingering::Off), ("on", Lingering::On), ("always", Lingering::Always)];
            once(&mut conf.lingering_close, args.choice(0, &choices)?, args)
        },
    ),
    row("lingering_time", ALL, Arity::ONE, "30s", "Longest time to linger.", |conf, args| {
        once(&mut conf.lingering_time, args.milliseconds(0)?, args)
    }),
    row(
        "lingering_timeout",
        ALL,
        Arity::ONE,
        "5s",
        "Longest wait for more data while lingering.",
        |conf, args| once(&mut conf.lingering_timeout, args.milliseconds(0)?, args),
    ),
    row(
        "reset_timedout_connection",
        ALL,
        Arity::FLAG,
        "off",
        "Whether timed-out connections and those of status 444 are closed with a reset.",
        |conf, args| once(&mut conf.reset_timedout_connection, args.flag(0)?, args),
    ),
    row(
        "if_modified_since",
        ALL,
        Arity::ONE,
        "exact",
        "How `If-Modified-Since` is compared: off, exact, before.",
        |conf, args| {
            let choices = [
                ("off", IfModifiedSince::Off),
                ("exact", IfModifiedSince::Exact),
                ("before", IfModifiedSince::Before),
            ];
            once(&mut conf.if_modified_since, args.choice(0, &choices)?, args)
        },
    ),
    row(
        "max_ranges",
        ALL,
        Arity::ONE,
        "",
        "Most ranges of a request; 0 ignores ranges.",
        |conf, args| once(&mut conf.max_ranges, args.number(0, 0..=u64::MAX)?, args),
    ),
    row(
        "chunked_transfer_encoding",
        ALL,
        Arity::FLAG,
        "on",
        "Whether HTTP/1.1 responses of unknown length may be chunked.",
        |conf, args| once(&mut conf.chunked_transfer_encoding, args.flag(0)?, args),
    ),
    row("etag", ALL, Arity::FLAG, "on", "Make `ETag` fields for files.", |conf, args| {
        once(&mut conf.etag, args.flag(0)?, args)
    }),
    row(
        "tcp_nodelay",
        ALL.union(Contexts::STREAM_AND_SERVER),
        Arity::FLAG,
        "on",
        "Whether TCP_NODELAY is set on keep-alive connections.",
        |conf, args| once(&mut conf.tcp_nodelay, args.flag(0)?, args),
    ),
    row(
        "tcp_nopush",
        ALL,
        Arity::FLAG,
        "off",
        "Send the head with the file's begin; done in any case.",
        |conf, args| once(&mut conf.tcp_nopush, args.flag(0)?, args),
    ),
    row(
        "sendfile",
        ALL_IF,
        Arity::FLAG,
        "off",
        "Whether files are sent by sendfile().",
        |conf, args| once(&mut conf.sendfile, args.flag(0)?, args),
    ),
    row(
        "sendfile_max_chunk",
        ALL,
        Arity::ONE,
        "2m",
        "Most bytes of one sendfile() call, so that a fast client cannot occupy the event loop; 0 for no limit.",
        |conf, args| once(&mut conf.sendfile_max_chunk, args.size(0)?, args),
    ),
];
