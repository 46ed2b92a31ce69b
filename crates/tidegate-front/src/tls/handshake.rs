//! From an accepted socket to a TLS stream: the server is chosen by name before the handshake goes on.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::client::{Connection, TlsInfo};
use tidegate_core::error_log::{ErrorLog, Level};
use tidegate_core::exchange::{Captures, PlanRef};
use tidegate_core::listen::VirtualServers;
use tidegate_core::plan::{Plan, ServerId};
use tidegate_http::request::parse_host;
use tidegate_rt::net::Stream;
use tidegate_rt::sync::StreamIo;
use tidegate_rt::timer::timeout;
use tidegate_tls::{cipher_suites, groups};
use tokio_rustls::StartHandshake;
use tokio_rustls::rustls::server::{Accepted, Acceptor, ClientHello};
use tokio_rustls::rustls::{Error, HandshakeKind, ProtocolVersion, ServerConfig, ServerConnection};

use super::server::TlsServer;
use super::stream::TlsStream;
use super::variables;
use crate::conn::Entrance;
use crate::io::Io;

/// Bytes asked for the client's first message at once: nearly all fit.
const HELLO_BYTES: usize = 2048;
/// First bytes that mean TLS: a handshake record, and what an SSLv2 hello begins with.
const HANDSHAKE_RECORD: u8 = 0x16;
const SSL2_BIT: u8 = 0x80;
/// A fatal alert `unrecognized_name` (RFC 6066 section 3) in a record of its own.
const UNRECOGNIZED_NAME: [u8; 7] = [0x15, 3, 3, 0, 2, 2, 112];

/// Takes a connection through the handshake within `limit`, or finds that it speaks plain HTTP.
/// `input` is what was received already, and what the answer has left of it. Failures are logged here.
pub async fn accept(
    plan: PlanRef,
    stream: Rc<Stream>,
    mut info: Connection,
    entrance: Entrance,
    input: Vec<u8>,
    limit: Duration,
) -> Option<(Io, Connection, Vec<u8>)> {
    let servers = entrance.servers(&plan)?;
    // Boxed: the state of a handshake is large, and idle connections shall not keep its room.
    let begun = timeout(limit, Box::pin(begin(&plan, servers, &stream, input))).await;
    let log = &plan.location(plan.server(servers.default).location).settings.error_log;
    match begun.unwrap_or(Err(Failure::Timeout)) {
        Ok(Begun::Tls(tls, known)) => {
            info.tls = Some(known);
            let io = Io::Tls(stream, tls.into());
            Some((io, info, Vec::new()))
        }
        Ok(Begun::Plain(input)) => Some((Io::Plain(stream), info, input)),
        Err(failure) => {
            report(log, &info, &failure);
            None
        }
    }
}

enum Begun {
    Tls(TlsStream, Box<TlsInfo>),
    /// Plain bytes; the handshake never began.
    Plain(Vec<u8>),
}

enum Failure {
    Timeout,
    /// Closed before it said anything.
    Silent,
    Closed,
    /// The server asked for rejects handshakes.
    Rejected,
    NoCertificate,
    Io(io::Error),
}

async fn begin(
    plan: &Plan,
    servers: &VirtualServers,
    stream: &Rc<Stream>,
    mut input: Vec<u8>,
) -> Result<Begun, Failure> {
    if input.is_empty() {
        input.reserve(HELLO_BYTES);
        if stream.read_append(&mut input).await.map_err(Failure::Io)? == 0 {
            return Err(Failure::Silent);
        }
    }
    if input[0] != HANDSHAKE_RECORD && input[0] & SSL2_BIT == 0 {
        return Ok(Begun::Plain(input));
    }
    let accepted = hello(stream, input).await?;
    let (server, config, mut known) = {
        let hello = accepted.client_hello();
        let (server, config) = match choose(plan, servers, &hello) {
            Ok(chosen) => chosen,
            Err(failure) => {
                let _ = stream.write_all(&UNRECOGNIZED_NAME).await;
                return Err(failure);
            }
        };
        let mut known = offered(plan, &hello);
        known.server_named = named(servers, &hello).is_some();
        (server, config.clone(), known)
    };
    let start = StartHandshake::from_parts(accepted, StreamIo(stream.clone()));
    let tls = Box::new(start.into_stream(config).await.map_err(failure)?);
    negotiated(tls.get_ref().1, &mut known);
    if let Some(clients) = &server.clients {
        clients.judge(tls.get_ref().1, &mut known);
    }
    Ok(Begun::Tls(TlsStream::new(tls), Box::new(known)))
}

/// Receives the client's hello; its mistakes are answered with an alert.
async fn hello(stream: &Stream, mut input: Vec<u8>) -> Result<Accepted, Failure> {
    let mut acceptor = Acceptor::default();
    loop {
        let mut bytes = &input[..];
        while !bytes.is_empty() {
            acceptor.read_tls(&mut bytes).map_err(Failure::Io)?;
        }
        match acceptor.accept() {
            Ok(Some(accepted)) => return Ok(accepted),
            Ok(None) => {}
            Err((error, mut alert)) => {
                let mut answer = Vec::new();
                let _ = alert.write_all(&mut answer);
                let _ = stream.write_all(&answer).await;
                return Err(Failure::Io(io::Error::new(io::ErrorKind::InvalidData, error)));
            }
        }
        input.clear();
        input.reserve(HELLO_BYTES);
        if stream.read_append(&mut input).await.map_err(Failure::Io)? == 0 {
            return Err(Failure::Closed);
        }
    }
}

/// The settings of the server that the client names.
fn choose<'p>(
    plan: &'p Plan,
    servers: &VirtualServers,
    hello: &ClientHello<'_>,
) -> Result<(&'p TlsServer, &'p Arc<ServerConfig>), Failure> {
    let found = named(servers, hello);
    let meant = plan.server(found.unwrap_or(servers.default)).extensions.of::<TlsServer>();
    if meant.is_some_and(|meant| meant.reject) {
        return Err(Failure::Rejected);
    }
    let default = plan.server(servers.default).extensions.of::<TlsServer>();
    let lender = |server: Option<&'p TlsServer>| Some((server?, server?.config.as_ref()?));
    lender(meant).or_else(|| lender(default)).ok_or(Failure::NoCertificate)
}

/// The server that has the name.
fn named(servers: &VirtualServers, hello: &ClientHello<'_>) -> Option<ServerId> {
    let name = parse_host(hello.server_name()?.as_bytes())?;
    servers.find_named(name.as_bytes(), &mut Captures::default()).map(|(server, _)| server)
}

/// What the hello tells; its lists only where variables need them.
fn offered(plan: &Plan, hello: &ClientHello<'_>) -> TlsInfo {
    let mut known = TlsInfo::default();
    if plan.variables.find(variables::CIPHERS).is_some() {
        known.offered_ciphers = hello.cipher_suites().iter().map(|s| u16::from(*s)).collect();
    }
    if plan.variables.find(variables::CURVES).is_some() {
        let groups = hello.named_groups().unwrap_or_default();
        known.offered_groups = groups.iter().map(|group| u16::from(*group)).collect();
    }
    known.server_name = hello.server_name().map(str::to_owned);
    known
}

fn negotiated(connection: &ServerConnection, known: &mut TlsInfo) {
    known.protocol = match connection.protocol_version() {
        Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
        Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
        _ => "",
    };
    let suite = connection.negotiated_cipher_suite().map(|suite| u16::from(suite.suite()));
    known.cipher = suite.and_then(cipher_suites::name).unwrap_or_default();
    let group = connection.negotiated_key_exchange_group().map(|group| u16::from(group.name()));
    known.curve = group.and_then(groups::name).unwrap_or_default();
    known.session_reused = connection.handshake_kind() == Some(HandshakeKind::Resumed);
    let alpn = connection.alpn_protocol();
    known.alpn = alpn.map(|name| String::from_utf8_lossy(name).into_owned());
}

fn failure(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Failure::Closed,
        _ => Failure::Io(error),
    }
}

/// One line in nginx's words. What clients can cause is `info`.
fn report(log: &ErrorLog, info: &Connection, failure: &Failure) {
    let (level, text) = match failure {
        Failure::Silent => return,
        Failure::Timeout => (Level::Info, "client timed out".to_owned()),
        Failure::Closed => (Level::Info, "peer closed connection in SSL handshake".to_owned()),
        Failure::Rejected => (Level::Info, failed("callback failed: handshake rejected")),
        Failure::NoCertificate => (Level::Info, failed("no certificate for this name")),
        Failure::Io(error) => {
            match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
                Some(reason @ (Error::General(_) | Error::Other(_))) => {
                    (Level::Crit, failed(&reason.to_string()))
                }
                Some(reason) => (Level::Info, failed(&reason.to_string())),
                None => (Level::Info, format!("{} in SSL handshake", io_text(error))),
            }
        }
    };
    if log.enabled(level) {
        let (client, server) = (info.peer_text(), info.local.text());
        let text = format!("{text} while SSL handshaking, client: {client}, server: {server}");
        log.write(level, info.number, &text);
    }
}

fn failed(reason: &str) -> String {
    format!("SSL_do_handshake() failed (SSL: {reason})")
}

fn io_text(error: &io::Error) -> String {
    format!("recv() failed ({})", tidegate_core::builder::os_error(error))
}
