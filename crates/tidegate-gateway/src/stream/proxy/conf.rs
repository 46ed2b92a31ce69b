//! The directives of one block as written, and their inheritance.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_codec::proxy_protocol;
use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Word, once, row};

use crate::common::options::{self, GatewayConf, HasGateway};
use crate::common::tls::{self, gateway_tls_rows};

/// `proxy_protocol`: the header in front of a session's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    None,
    Version1,
    Version2,
}

impl Header {
    /// Returns the header of a connection from the first address to the second one; `None` for the server's own
    /// connection.
    pub fn bytes(self, addresses: Option<(SocketAddr, SocketAddr)>, datagrams: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        match (self, addresses) {
            (Header::None, _) => {}
            (Header::Version1, Some((client, local))) => {
                proxy_protocol::write_v1(client, local, &mut bytes);
            }
            (Header::Version1, None) => bytes.extend_from_slice(b"PROXY UNKNOWN\r\n"),
            (Header::Version2, addresses) => {
                proxy_protocol::write_v2(addresses, datagrams, &mut bytes);
            }
        }
        bytes
    }
}

/// The directives of one block. Those that `http` shares are in `gateway`.
#[derive(Default)]
pub struct Conf {
    pub gateway: GatewayConf,
    pub pass: Option<Word>,
    pub timeout: Option<Duration>,
    pub rcvbuf: Option<u64>,
    pub sndbuf: Option<u64>,
    pub upload_rate: Option<Word>,
    pub download_rate: Option<Word>,
    pub requests: Option<u64>,
    pub responses: Option<u64>,
    pub next_upstream: Option<bool>,
    pub protocol: Option<Header>,
    pub half_close: Option<bool>,
    pub ssl: Option<bool>,
}

impl HasGateway for Conf {
    fn gateway(&mut self) -> &mut GatewayConf {
        &mut self.gateway
    }
}

/// Inherits settings: stream → server.
pub(crate) fn inherit(child: &mut Conf, parent: &Conf) {
    options::inherit(&mut child.gateway, &parent.gateway);
    child.timeout = child.timeout.or(parent.timeout);
    child.rcvbuf = child.rcvbuf.or(parent.rcvbuf);
    child.sndbuf = child.sndbuf.or(parent.sndbuf);
    if child.upload_rate.is_none() {
        child.upload_rate.clone_from(&parent.upload_rate);
    }
    if child.download_rate.is_none() {
        child.download_rate.clone_from(&parent.download_rate);
    }
    child.requests = child.requests.or(parent.requests);
    child.responses = child.responses.or(parent.responses);
    child.next_upstream = child.next_upstream.or(parent.next_upstream);
    child.protocol = child.protocol.or(parent.protocol);
    child.half_close = child.half_close.or(parent.half_close);
    child.ssl = child.ssl.or(parent.ssl);
}

const ALL: Contexts = Contexts::STREAM_AND_SERVER;

pub(crate) const TLS: &[Directive<Conf>] = gateway_tls_rows!("proxy_", Conf, ALL);

pub(crate) const ROWS: &[Directive<Conf>] = &[
    row(
        "proxy_pass",
        Contexts::STREAM_SERVER,
        Arity::ONE,
        "",
        "Address and port, name of an `upstream`, or `unix:` path; may have variables.",
        |conf, args| once(&mut conf.pass, args.word(0).clone(), args),
    ),
    row(
        "proxy_bind",
        ALL,
        Arity::ONE_OR_TWO,
        "",
        "Local address of connections; `transparent` for one that is not ours.",
        |conf, args| options::set_bind(&mut conf.gateway, args),
    ),
    row(
        "proxy_socket_keepalive",
        ALL,
        Arity::FLAG,
        "off",
        "TCP keepalive on connections to origins.",
        |conf, args| once(&mut conf.gateway.socket_keepalive, args.flag(0)?, args),
    ),
    row(
        "proxy_socket_rcvbuf",
        ALL,
        Arity::ONE,
        "0",
        "Bytes of the receive buffer of connections to origins; 0 leaves it to the system.",
        |conf, args| once(&mut conf.rcvbuf, args.size(0)?, args),
    ),
    row(
        "proxy_socket_sndbuf",
        ALL,
        Arity::ONE,
        "0",
        "Size of the send buffer of connections to origins; 0 for the system's default.",
        |conf, args| once(&mut conf.sndbuf, args.size(0)?, args),
    ),
    row(
        "proxy_connect_timeout",
        ALL,
        Arity::ONE,
        "60s",
        "Longest time for opening a connection.",
        |conf, args| once(&mut conf.gateway.connect_timeout, args.milliseconds(0)?, args),
    ),
    row(
        "proxy_timeout",
        ALL,
        Arity::ONE,
        "10m",
        "Longest time without data in either direction; when it is exceeded, the session is closed.",
        |conf, args| once(&mut conf.timeout, args.milliseconds(0)?, args),
    ),
    row(
        "proxy_buffer_size",
        ALL,
        Arity::ONE,
        "16k",
        "Size of the buffer of each direction, for data that the other side has not yet received.",
        set_buffer_size,
    ),
    // Older names of these directives.
    row("proxy_downstream_buffer", ALL, Arity::ONE, "16k", "`proxy_buffer_size`.", set_buffer_size),
    row("proxy_upstream_buffer", ALL, Arity::ONE, "16k", "`proxy_buffer_size`.", set_buffer_size),
    row(
        "proxy_upload_rate",
        ALL,
        Arity::ONE,
        "0",
        "Most bytes a second read from the client; 0 for no limit.",
        |conf, args| once(&mut conf.upload_rate, rate(args)?, args),
    ),
    row(
        "proxy_download_rate",
        ALL,
        Arity::ONE,
        "0",
        "Most bytes a second read from the origin; 0 for no limit.",
        |conf, args| once(&mut conf.download_rate, rate(args)?, args),
    ),
    row(
        "proxy_requests",
        ALL,
        Arity::ONE,
        "0",
        "Datagrams of a client after which its next one begins another session; 0 for no limit.",
        |conf, args| once(&mut conf.requests, args.number(0, 0..=u32::MAX.into())?, args),
    ),
    row(
        "proxy_responses",
        ALL,
        Arity::ONE,
        "",
        "Datagrams expected for each one of the client; a session that has them is over.",
        |conf, args| once(&mut conf.responses, args.number(0, 0..=u32::MAX.into())?, args),
    ),
    row(
        "proxy_next_upstream",
        ALL,
        Arity::FLAG,
        "on",
        "Whether another server is tried when no connection can be had.",
        |conf, args| once(&mut conf.next_upstream, args.flag(0)?, args),
    ),
    row(
        "proxy_next_upstream_tries",
        ALL,
        Arity::ONE,
        "0",
        "Most servers tried; 0 for no limit.",
        |conf, args| {
            once(&mut conf.gateway.next_upstream_tries, args.number(0, 0..=u64::MAX)?, args)
        },
    ),
    row(
        "proxy_next_upstream_timeout",
        ALL,
        Arity::ONE,
        "0",
        "Time after which no other server is tried; 0 for no limit.",
        |conf, args| once(&mut conf.gateway.next_upstream_timeout, args.milliseconds(0)?, args),
    ),
    row(
        "proxy_protocol",
        ALL,
        Arity::ONE,
        "off",
        "Whether the client's address is sent to the origin in a header of the PROXY protocol: `on` (version 1), `v2` or `off`.",
        |conf, args| {
            let headers =
                [("off", Header::None), ("on", Header::Version1), ("v2", Header::Version2)];
            once(&mut conf.protocol, args.choice(0, &headers)?, args)
        },
    ),
    row(
        "proxy_half_close",
        ALL,
        Arity::FLAG,
        "off",
        "Whether each direction of a TCP session ends on its own.",
        |conf, args| once(&mut conf.half_close, args.flag(0)?, args),
    ),
    row(
        "proxy_ssl",
        ALL,
        Arity::FLAG,
        "off",
        "Whether the origin is spoken to by TLS.",
        |conf, args| once(&mut conf.ssl, args.flag(0)?, args),
    ),
    row(
        "proxy_ssl_alpn",
        ALL,
        Arity::AT_LEAST_ONE,
        "",
        "Protocols that the origin is offered by ALPN.",
        tls::set_alpn,
    ),
];

fn set_buffer_size(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let bytes = args.size(0)?;
    if bytes == 0 {
        return Err(args.invalid(0));
    }
    once(&mut conf.gateway.buffer_size, bytes, args)
}

/// Parses a size, or a text with variables that yields one.
fn rate(args: &Args<'_>) -> Result<Word, Diagnostic> {
    if !args.bytes(0).contains(&b'$') {
        args.size(0)?;
    }
    Ok(args.word(0).clone())
}
