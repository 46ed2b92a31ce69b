//! The directives of HTTP/3 and QUIC, and the settings of connections that they make.

use std::sync::Arc;
use std::time::Duration;

use tidegate_codec::request::ParseOptions;
use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Kind, Word, once};
use tidegate_core::Exchange;
use tidegate_core::plan::{Plan, ServerId};
use tidegate_h3::Config;
use tidegate_plan::http_core::HttpCore;
use tidegate_plan::module::BlockInfo;
use tidegate_plan::{LocationBuilder, Module, PlanBuilder, ServerBuilder};
use tidegate_quic::{Keys, Limits};

/// nginx's defaults.
const STREAMS_MAX: u32 = 128;
const BUFFER_BYTES: u32 = 64 * 1024;
const CONNECTION_IDS: u32 = 2;
/// The largest window of a stream that is allowed: more than any path needs.
const BUFFER_BYTES_MAX: u64 = (1 << 31) - 1;
/// Tokens for the next connections of a client, with `quic_retry`.
const ADDRESS_TOKENS: u32 = 2;
/// The protocol of `http3_hq`, as `$http3` shows it.
pub(crate) const HQ: &str = "hq";
/// The field that announces HTTP/3, and the time for which a client may remember it.
const ALT_SVC: &[u8] = b"Alt-Svc";
const ALT_SVC_SECONDS: u32 = 86_400;
/// Bytes of a random secret, where no file has one.
const SECRET_BYTES: usize = 32;

/// A server's settings for HTTP/3. Connections take those of QUIC of the default server of their address, and the others
/// of the server of the handshake.
pub(crate) struct Http3Server {
    /// `http3`: the protocol `h3` is offered.
    pub(crate) enabled: bool,
    /// `http3_hq`: the protocol `hq-interop` is offered.
    pub(crate) hq: bool,
    /// The limits of the protocol.
    pub(crate) config: Arc<Config>,
    /// `quic_retry`.
    pub(crate) retry: bool,
    /// `quic_active_connection_id_limit`.
    pub(crate) connection_ids: u32,
    /// `quic_host_key`.
    pub(crate) keys: Keys,
    /// The limits of QUIC, apart from the idle timeout.
    limits: Limits,
    /// The port of the server's first `listen … quic`.
    port: Option<u16>,
}

impl Http3Server {
    /// Returns the settings of a server; `None` in a plan without this module.
    pub(crate) fn of(plan: &Plan, server: ServerId) -> Option<&Http3Server> {
        plan.server(server).extensions.of()
    }

    /// Whether requests of connections with this protocol (`$http3`) are served.
    pub(crate) fn serves(&self, protocol: &str) -> bool {
        if protocol == HQ { self.hq } else { self.enabled }
    }

    /// Returns the limits of QUIC's connections, which end when nothing has arrived for `idle`.
    pub(crate) fn limits(&self, idle: Duration) -> Limits {
        Limits { idle_timeout: idle, ..self.limits.clone() }
    }
}

/// `ngx_http_v3_module`: the directives `http3*` and `quic_*`.
pub struct Http3;

/// The directives of one block.
#[derive(Clone, Default)]
pub struct Conf {
    enabled: Option<bool>,
    hq: Option<bool>,
    streams_max: Option<u32>,
    buffer_bytes: Option<u32>,
    extended_connect: Option<bool>,
    connection_ids: Option<u32>,
    gso: Option<bool>,
    retry: Option<bool>,
    host_key: Option<Word>,
    alt_svc: Option<bool>,
}

/// A secret for the keys of QUIC, made at random and kept over reloads.
struct RandomSecret([u8; SECRET_BYTES]);

impl Module for Http3 {
    type Conf = Conf;
    const NAME: &'static str = "http_v3";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        child.enabled = child.enabled.or(parent.enabled);
        child.hq = child.hq.or(parent.hq);
        child.streams_max = child.streams_max.or(parent.streams_max);
        child.buffer_bytes = child.buffer_bytes.or(parent.buffer_bytes);
        child.extended_connect = child.extended_connect.or(parent.extended_connect);
        child.connection_ids = child.connection_ids.or(parent.connection_ids);
        child.gso = child.gso.or(parent.gso);
        child.retry = child.retry.or(parent.retry);
        child.alt_svc = child.alt_svc.or(parent.alt_svc);
        child.host_key = child.host_key.take().or_else(|| parent.host_key.clone());
    }

    fn prepare_server(conf: &Conf, server: &mut ServerBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let streams_max = conf.streams_max.unwrap_or(STREAMS_MAX);
        let buffer_bytes = conf.buffer_bytes.unwrap_or(BUFFER_BYTES);
        let defaults = Limits::default();
        let limits = Limits {
            streams_both: streams_max,
            stream_bytes: buffer_bytes,
            connection_bytes: defaults.connection_bytes.max(buffer_bytes),
            segmentation: conf.gso.unwrap_or(true),
            address_tokens: if conf.retry == Some(true) { ADDRESS_TOKENS } else { 0 },
            ..defaults
        };
        let connection_ids = conf.connection_ids.unwrap_or(CONNECTION_IDS);
        let config = config(conf, streams_max, &server.server.settings.parse);
        let settings = Http3Server {
            enabled: conf.enabled.unwrap_or(true),
            hq: conf.hq.unwrap_or(false),
            config: config.shared(),
            retry: conf.retry.unwrap_or(false),
            connection_ids,
            keys: server.plan.made_of(conf, |plan| keys(conf, plan))?.as_ref().clone(),
            limits,
            port: server.outline.conf::<HttpCore>().and_then(quic_port),
        };
        let Http3Server { enabled, hq, config, retry, limits, port, .. } = &settings;
        server.plan.show(&(enabled, hq, config, retry, connection_ids, limits, port));
        server.server.extensions.insert(settings);
        Ok(())
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        if conf.alt_svc == Some(true) {
            location.plan.show(&"http3_alt_svc");
            location.filter(Box::new(|x, body| {
                announce(x);
                body
            }));
        }
        Ok(())
    }
}

fn quic_port(core: &tidegate_plan::http_core::Conf) -> Option<u16> {
    core.listens.iter().find(|listen| listen.quic)?.address.port()
}

/// Adds `Alt-Svc` to a response of a server that has HTTP/3 as well, to a client that uses TLS over TCP (RFC 7838, RFC
/// 9114 section 3.1.1).
fn announce(x: &mut Exchange) {
    if x.connection.tls.is_none() || matches!(x.connection.protocol.get(), "h3" | HQ) {
        return;
    }
    let http3 = Http3Server::of(&x.plan, x.routing.server).filter(|http3| http3.enabled);
    let Some(port) = http3.and_then(|http3| http3.port) else { return };
    if x.response.headers.first_named(ALT_SVC).is_none() {
        let value = format!("h3=\":{port}\"; ma={ALT_SVC_SECONDS}");
        x.response.headers.push(ALT_SVC, value.as_bytes());
    }
}

/// Returns the keys: those of the file, or random ones.
fn keys(conf: &Conf, plan: &PlanBuilder<'_>) -> Result<Keys, Diagnostic> {
    if let Some(file) = &conf.host_key {
        return Ok(Keys::derive(&plan.read_file(file)?));
    }
    let make = || {
        let mut secret = [0; SECRET_BYTES];
        tidegate_rt::random::unpredictable(&mut secret);
        Ok::<_, Diagnostic>(RandomSecret(secret))
    };
    let secret = plan.environment.reload_state.get_or_make("quic host key", make)?;
    Ok(Keys::derive(&secret.0))
}

/// Returns the limits of a connection to a server that parses heads with these options.
fn config(conf: &Conf, streams_max: u32, parse: &ParseOptions) -> Config {
    // As nginx counts: all names and values together, and each of them.
    let number = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
    let list_bytes = number(parse.large_buffers.saturating_mul(parse.large_buffer_bytes));
    Config {
        streams_max,
        list_bytes_max: list_bytes,
        field_bytes_max: number(parse.large_buffer_bytes),
        section_bytes_max: Config::default().section_bytes_max.max(list_bytes),
        fields_max: number(parse.headers_max),
        ignore_odd_names: parse.ignore_invalid_headers,
        underscores: parse.underscores_in_headers,
        extended_connect: conf.extended_connect.unwrap_or(false),
        // Without a table each string would be encoded for each response, which costs more than the bytes it spares.
        huffman: false,
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

const ROWS: &[Directive<Conf>] = &[
    row(
        "http3",
        SERVERS,
        Arity::FLAG,
        "on",
        "Whether HTTP/3 is served at addresses with `listen … quic`.",
        |conf, args| once(&mut conf.enabled, args.flag(0)?, args),
    ),
    row(
        "http3_hq",
        SERVERS,
        Arity::FLAG,
        "off",
        "Whether HTTP/0.9 is served over QUIC (`hq-interop`), which tests of transports use.",
        |conf, args| once(&mut conf.hq, args.flag(0)?, args),
    ),
    row(
        "http3_max_concurrent_streams",
        SERVERS,
        Arity::ONE,
        "128",
        "Most requests in progress on one connection of HTTP/3.",
        |conf, args| {
            let number = args.number(0, 0..=u64::from(u32::MAX))?;
            once(&mut conf.streams_max, number as u32, args)
        },
    ),
    row(
        "http3_stream_buffer_size",
        SERVERS,
        Arity::ONE,
        "64k",
        "Bytes of a request's body that a client of HTTP/3 may send before the request reads them.",
        |conf, args| {
            let bytes = args.size(0)?;
            if bytes > BUFFER_BYTES_MAX {
                let message = format!("the maximum stream buffer size is {BUFFER_BYTES_MAX}");
                return Err(args.error(0, message));
            }
            once(&mut conf.buffer_bytes, bytes as u32, args)
        },
    ),
    row(
        "http3_extended_connect",
        SERVERS,
        Arity::FLAG,
        "off",
        "Whether WebSocket and other tunnels are served by HTTP/3 (extended CONNECT, RFC 9220), as \
         `http2_extended_connect` does for HTTP/2. Not in nginx.",
        |conf, args| once(&mut conf.extended_connect, args.flag(0)?, args),
    ),
    row(
        "http3_alt_svc",
        SERVERS,
        Arity::FLAG,
        "off",
        "Whether responses over TLS say that the server has HTTP/3 too, where it has `listen … quic`: `Alt-Svc: \
         h3=\":PORT\"; ma=86400`, with the port of the first such address. A field of that name that the response has \
         already stays alone. Not in nginx, where `add_header` does it.",
        |conf, args| once(&mut conf.alt_svc, args.flag(0)?, args),
    ),
    row(
        "quic_active_connection_id_limit",
        SERVERS,
        Arity::ONE,
        "2",
        "Connection IDs of a client that are kept for changes of its address: 2 to 5; other numbers count as the nearest one.",
        |conf, args| {
            let number = args.number(0, 0..=u64::from(u32::MAX))?;
            once(&mut conf.connection_ids, number as u32, args)
        },
    ),
    row(
        "quic_gso",
        SERVERS,
        Arity::FLAG,
        "on",
        "Whether the kernel divides what is sent into datagrams (UDP segmentation offload), where it can. nginx's default \
         is off.",
        |conf, args| once(&mut conf.gso, args.flag(0)?, args),
    ),
    row(
        "quic_host_key",
        SERVERS,
        Arity::ONE,
        "",
        "A file with a secret, of any content, from which the keys of stateless resets, of address validation and of \
         connection IDs are derived. Without it they are random, and are lost with the process. The default server's \
         counts for an address.",
        |conf, args| once(&mut conf.host_key, args.word(0).clone(), args),
    ),
    row(
        "quic_retry",
        SERVERS,
        Arity::FLAG,
        "off",
        "Whether a client has to show that it receives at its address before a connection begins (RFC 9000 section 8.1.2). \
         Without it, clients have to do so while 256 handshakes of a thread are in progress.",
        |conf, args| once(&mut conf.retry, args.flag(0)?, args),
    ),
];
