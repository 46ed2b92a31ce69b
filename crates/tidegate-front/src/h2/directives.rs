//! The directives of HTTP/2, and the settings of connections that they make.

use std::sync::Arc;

use tidegate_codec::request::ParseOptions;
use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Kind, once};
use tidegate_core::plan::{Plan, ServerId};
use tidegate_h2::Config;
use tidegate_h2::frame::FRAME_BYTES_LIMIT;
use tidegate_plan::module::BlockInfo;
use tidegate_plan::{LocationBuilder, Module, PlanBuilder, ServerBuilder};

/// nginx's defaults.
const STREAMS_MAX: u32 = 128;
const PREREAD_BYTES: u32 = 64 * 1024;
/// Bytes to which the window of a body grows while its handler takes all that arrives: 20 MB/s at a distance of 50 ms. nginx
/// opens the whole window as soon as a handler reads. `grown_bytes_max` limits all streams of a connection together.
const STREAM_WINDOW_MAX: u32 = 1024 * 1024;
/// The largest window (RFC 9113 section 6.9.1), which is nginx's limit as well.
const PREREAD_BYTES_MAX: u64 = (1 << 31) - 1;
/// The least value that nginx takes for `http2_recv_buffer_size`.
const RECEIVE_BYTES_MIN: u64 = 32;
/// The largest payload of a frame (RFC 9113 section 4.2).
const CHUNK_BYTES_MAX: u64 = (1 << 24) - 1;
/// The least value that nginx takes for `http2_pool_size`, and what it must be a multiple of.
const POOL_BYTES_MIN: u64 = 112;
const POOL_BYTES_STEP: u64 = 16;

/// A server's settings for connections of HTTP/2. A connection takes those of the server of its handshake; without TLS,
/// of the default server of its address.
#[derive(Debug)]
pub(crate) struct Http2Server {
    /// `http2 on`.
    pub(crate) enabled: bool,
    /// The limits of connections.
    pub(crate) config: Arc<Config>,
}

impl Http2Server {
    /// Returns the settings of a server.
    pub(crate) fn of(plan: &Plan, server: ServerId) -> &Http2Server {
        static ABSENT: std::sync::LazyLock<Http2Server> = std::sync::LazyLock::new(|| {
            Http2Server { enabled: false, config: Config::default().shared() }
        });
        plan.server(server).extensions.of().unwrap_or(&ABSENT)
    }
}

/// `ngx_http_v2_module`: the `http2_*` directives.
pub struct Http2;

/// The directives of one block.
#[derive(Clone, Default)]
pub struct Conf {
    enabled: Option<bool>,
    streams_max: Option<u32>,
    preread_bytes: Option<u32>,
    chunk_bytes: Option<u32>,
    extended_connect: Option<bool>,
    recv_buffer: Option<u64>,
    pool_bytes: Option<u64>,
    index_size: Option<u64>,
    /// Logged once, where they were written; not inherited.
    warnings: Vec<Diagnostic>,
}

impl Module for Http2 {
    type Conf = Conf;
    const NAME: &'static str = "http_v2";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS, OBSOLETE_ROWS];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        child.enabled = child.enabled.or(parent.enabled);
        child.streams_max = child.streams_max.or(parent.streams_max);
        child.preread_bytes = child.preread_bytes.or(parent.preread_bytes);
        child.extended_connect = child.extended_connect.or(parent.extended_connect);
        child.chunk_bytes = child.chunk_bytes.or(parent.chunk_bytes);
    }

    fn prepare_http(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        plan.diagnostics.extend(conf.warnings.iter().cloned());
        Ok(())
    }

    fn prepare_server(conf: &Conf, server: &mut ServerBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let config = config(conf, &server.server.settings.parse).shared();
        let settings = Http2Server { enabled: conf.enabled.unwrap_or(false), config };
        server.plan.show(&settings);
        server.server.extensions.insert(settings);
        Ok(())
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        location.plan.diagnostics.extend(conf.warnings.iter().cloned());
        if let Some(bytes) = conf.chunk_bytes {
            Arc::make_mut(&mut location.location.settings).http2_chunk_bytes = bytes;
        }
        Ok(())
    }
}

/// Returns the limits of a connection to a server that parses heads with these options.
fn config(conf: &Conf, parse: &ParseOptions) -> Config {
    // As nginx counts: all names and values together, and each of them.
    let number = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
    let list_bytes = number(parse.large_buffers.saturating_mul(parse.large_buffer_bytes));
    Config {
        streams_max: conf.streams_max.unwrap_or(STREAMS_MAX),
        // A client with a window of 0 would wait for ever: windows open again as bytes are read.
        stream_window: match conf.preread_bytes {
            Some(0) => FRAME_BYTES_LIMIT,
            bytes => bytes.unwrap_or(PREREAD_BYTES),
        },
        stream_window_max: STREAM_WINDOW_MAX,
        frame_bytes_max: FRAME_BYTES_LIMIT,
        list_bytes_max: list_bytes,
        field_bytes_max: number(parse.large_buffer_bytes),
        block_bytes_max: Config::default().block_bytes_max.max(list_bytes),
        fields_max: number(parse.headers_max),
        ignore_odd_names: parse.ignore_invalid_headers,
        underscores: parse.underscores_in_headers,
        requires_settings: false,
        extended_connect: conf.extended_connect.unwrap_or(false),
        huffman: true,
        ..Config::default()
    }
}

const fn row(
    name: &'static str,
    contexts: Contexts,
    args: Arity,
    default: &'static str,
    doc: &'static str,
    set: fn(&mut Conf, &Args<'_>) -> Result<(), Diagnostic>,
) -> Directive<Conf> {
    Directive { name, contexts, args, kind: Kind::Simple, default, doc, has_effect: true, set }
}

const SERVERS: Contexts = Contexts::HTTP.union(Contexts::SERVER);
const LOCATIONS: Contexts = SERVERS.union(Contexts::LOCATION);

const ROWS: &[Directive<Conf>] = &[
    row(
        "http2",
        SERVERS,
        Arity::FLAG,
        "off",
        "Whether HTTP/2 is served: to clients that choose it in the TLS handshake (ALPN), and to those that begin with it \
         on a plain connection.",
        |conf, args| once(&mut conf.enabled, args.flag(0)?, args),
    ),
    row(
        "http2_max_concurrent_streams",
        SERVERS,
        Arity::ONE,
        "128",
        "Most requests in progress on one connection of HTTP/2.",
        |conf, args| {
            let number = args.number(0, 0..=u64::from(u32::MAX))?;
            once(&mut conf.streams_max, number as u32, args)
        },
    ),
    row(
        "http2_body_preread_size",
        SERVERS,
        Arity::ONE,
        "64k",
        "Bytes of a request's body that a client of HTTP/2 may send before the request reads them.",
        |conf, args| {
            let bytes = args.size(0)?;
            if bytes > PREREAD_BYTES_MAX {
                let message =
                    format!("the maximum body preread buffer size is {PREREAD_BYTES_MAX}");
                return Err(args.error(0, message));
            }
            once(&mut conf.preread_bytes, bytes as u32, args)
        },
    ),
    row(
        "http2_chunk_size",
        LOCATIONS,
        Arity::ONE,
        "8k",
        "Most bytes of a response's body in one frame of HTTP/2. Small frames let other responses of the connection in \
         between.",
        |conf, args| {
            let bytes = args.size(0)?;
            if bytes == 0 {
                return Err(args.error(0, "the http2 chunk size cannot be zero"));
            }
            once(&mut conf.chunk_bytes, bytes.min(CHUNK_BYTES_MAX) as u32, args)
        },
    ),
    row(
        "http2_extended_connect",
        SERVERS,
        Arity::FLAG,
        "off",
        "Whether WebSocket and other tunnels are served by HTTP/2 (extended CONNECT, RFC 8441). Such a request is passed on \
         as the upgrade of HTTP/1, so that the same `proxy_set_header` lines serve both. Not in nginx.",
        |conf, args| once(&mut conf.extended_connect, args.flag(0)?, args),
    ),
    row(
        "http2_recv_buffer_size",
        Contexts::HTTP,
        Arity::ONE,
        "256k",
        "Accepted without effect: bytes of clients are read into a buffer that a thread's connections share.",
        |conf, args| {
            let bytes = args.size(0)?;
            if bytes < RECEIVE_BYTES_MIN {
                return Err(
                    args.error(0, "\"http2_recv_buffer_size\" directive value is too small")
                );
            }
            once(&mut conf.recv_buffer, bytes, args)
        },
    ).without_effect(),
    row(
        "http2_pool_size",
        SERVERS,
        Arity::ONE,
        "4k",
        "Accepted without effect: requests have no memory pools.",
        |conf, args| {
            let bytes = args.size(0)?;
            if bytes < POOL_BYTES_MIN {
                let message = format!("the pool size must be no less than {POOL_BYTES_MIN}");
                return Err(args.error(0, message));
            }
            if !bytes.is_multiple_of(POOL_BYTES_STEP) {
                let message = format!("the pool size must be a multiple of {POOL_BYTES_STEP}");
                return Err(args.error(0, message));
            }
            once(&mut conf.pool_bytes, bytes, args)
        },
    ).without_effect(),
    row(
        "http2_streams_index_size",
        SERVERS,
        Arity::ONE,
        "32",
        "Accepted without effect: the table of a connection's streams has the size that it needs.",
        |conf, args| {
            let size = args.number(0, 0..=u64::from(u32::MAX))?;
            if !size.is_power_of_two() {
                let message = "\"http2_streams_index_size\" directive must be a power of two";
                return Err(args.error(0, message));
            }
            once(&mut conf.index_size, size, args)
        },
    ).without_effect(),
];

/// Makes a row of a directive that nginx ignores with a warning.
macro_rules! obsolete {
    ($name:literal, $contexts:expr, $instead:literal) => {
        row(
            $name,
            $contexts,
            Arity::ONE,
            "",
            concat!("Obsolete and without effect: ", $instead, "."),
            |conf, args| {
                let text = concat!("the \"", $name, "\" directive is obsolete, ", $instead);
                conf.warnings.push(args.error_here(text).as_warning());
                Ok(())
            },
        )
    };
}

const OBSOLETE_ROWS: &[Directive<Conf>] = &[
    obsolete!("http2_max_concurrent_pushes", SERVERS, "ignored"),
    obsolete!("http2_max_requests", SERVERS, "use the \"keepalive_requests\" directive instead"),
    obsolete!(
        "http2_max_field_size",
        SERVERS,
        "use the \"large_client_header_buffers\" directive instead"
    ),
    obsolete!(
        "http2_max_header_size",
        SERVERS,
        "use the \"large_client_header_buffers\" directive instead"
    ),
    obsolete!("http2_recv_timeout", SERVERS, "use the \"client_header_timeout\" directive instead"),
    obsolete!("http2_idle_timeout", SERVERS, "use the \"keepalive_timeout\" directive instead"),
    obsolete!("http2_push_preload", LOCATIONS, "ignored"),
    obsolete!("http2_push", LOCATIONS, "ignored"),
];
