//! From an accepted socket to a TLS stream: the server is chosen by name before the handshake continues.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use tidegate_codec::request::parse_host;
use tidegate_core::client::{Connection, TlsInfo};
use tidegate_core::error_log::{ErrorLog, Level};
use tidegate_core::exchange::Captures;
use tidegate_core::listen::VirtualServers;
use tidegate_core::plan::{Plan, ServerId};
use tidegate_rt::net::Stream;
use tidegate_rt::timer::timeout;
use tidegate_tls::{
    HELLO_BYTES, HandshakeError, Hello, Negotiated, OpensslError, Server, ServerSettings,
    StatusQuery, TlsStream, begins_hello,
};

use super::chosen::HandshakeOwner;
use super::conf::VerifyClient;
use super::figures::{Handshake, HandshakeEvent};
use super::ocsp::{ClientOcsp, QueryError};
use super::server::TlsServer;
use super::{challenges, client, variables};
use crate::io::Io;
use crate::listener::ListenerRef;

/// Takes a connection through the handshake within `limit`, or finds that it speaks plain HTTP. `input` is what has
/// already been received; the bytes that the handshake did not use are returned. Failures are logged here.
pub(crate) async fn accept(
    mut owner: HandshakeOwner<'_>,
    stream: Rc<Stream>,
    mut info: Connection,
    entrance: ListenerRef,
    input: Vec<u8>,
    limit: Duration,
) -> Option<(Io, Connection, Vec<u8>)> {
    let plan = &owner.plan();
    let servers = entrance.servers(plan)?;
    // Boxed: the state of a handshake is large, and idle connections must not keep its memory.
    let begun = Box::pin(begin(plan, entrance, servers, &stream, input, &info, &mut owner));
    let begun = timeout(limit, begun).await;
    let log = &plan.location(plan.server(servers.default).location).settings.error_log;
    match begun.unwrap_or(Err(Failure::Timeout)) {
        Ok(Begun::Tls(tls, mut known, queries)) => {
            if let Some((ocsp, statuses)) = queries
                && let Some(client) = &mut known.client
            {
                let report = |error: &QueryError| report_query(log, &info, error);
                client.fault = Box::pin(ocsp.fault(&statuses, limit, report)).await;
            }
            info.tls = Some(known);
            Some((Io::Tls(tls), info, Vec::new()))
        }
        Ok(Begun::Validation) => None,
        Ok(Begun::Plain(input)) => Some((Io::Plain(stream), info, input)),
        Err(failure) => {
            if !matches!(failure, Failure::Silent) {
                let (server, known) = (servers.default, &TlsInfo::default());
                let handshake = Handshake { owner: &mut owner, server, connection: &info, known };
                handshake.failed(failure.event());
            }
            report(log, &info, &failure);
            None
        }
    }
}

enum Begun<'p> {
    /// A stream, and the queries that decide whether the client's certificate is trusted.
    Tls(Rc<TlsStream<Server>>, Box<TlsInfo>, Option<(&'p ClientOcsp, Vec<StatusQuery>)>),
    /// A validation of ACME: the connection has no further purpose.
    Validation,
    /// Plain bytes; no handshake began.
    Plain(Vec<u8>),
}

enum Failure {
    Timeout,
    /// The client closed before it sent anything.
    Silent,
    /// The server that the client named rejects handshakes.
    Rejected,
    NoCertificate,
    /// A certificate that variables name cannot be used; the reason.
    Unloaded(String),
    Handshake(HandshakeError),
}

impl Failure {
    /// Returns what is counted of it beside the failure.
    fn event(&self) -> Option<HandshakeEvent> {
        match self {
            Failure::Timeout => Some(HandshakeEvent::Timeout),
            Failure::Handshake(HandshakeError::Protocol(error)) => match error {
                _ if error.is_no_common_protocol() => Some(HandshakeEvent::NoCommonProtocol),
                _ if error.is_no_common_cipher() => Some(HandshakeEvent::NoCommonCipher),
                _ if error.is_rejected_certificate() => Some(HandshakeEvent::RejectedCertificate),
                _ => None,
            },
            _ => None,
        }
    }
}

impl From<HandshakeError> for Failure {
    fn from(error: HandshakeError) -> Failure {
        Failure::Handshake(error)
    }
}

/// Does the handshake. The first bytes tell TLS from plain text, the hello's name chooses the server, and the server's
/// settings accept the handshake (RFC 8446 section 4, RFC 6066 section 3).
///
/// Invariant: the server is chosen before anything is sent, so that a rejected name gets an alert and no certificate.
/// Dropped at an await (the time limit), the socket closes. Sources: `ssl_reject_handshake`, `ssl_certificate`.
async fn begin<'p>(
    plan: &'p Plan,
    entrance: ListenerRef,
    servers: &VirtualServers,
    stream: &Rc<Stream>,
    mut input: Vec<u8>,
    info: &Connection,
    owner: &mut HandshakeOwner<'_>,
) -> Result<Begun<'p>, Failure> {
    if input.is_empty() {
        input.reserve(HELLO_BYTES);
        let read = stream.read_append(&mut input).await;
        if read.map_err(HandshakeError::Socket)? == 0 {
            return Err(Failure::Silent);
        }
    }
    if !begins_hello(input[0]) {
        return Ok(Begun::Plain(input));
    }
    let hello = Hello::receive(stream, input).await?;
    let mut known = offered(plan, &hello);
    if let Some(settings) = challenges::settings(plan, servers.default, &hello, &known) {
        hello.accept(stream, &settings).await?;
        return Ok(Begun::Validation);
    }
    let (lender, settings, server) = match choose(plan, entrance, servers, &known) {
        Ok(chosen) => chosen,
        Err(failure) => {
            hello.refuse_name(stream).await;
            return Err(failure);
        }
    };
    let with_pairs;
    let settings = match &lender.chosen {
        None => settings,
        Some(chosen) => match chosen.load(owner, server, info, &known).await {
            Ok(pairs) if pairs.is_empty() && !settings.has_certificates() => {
                hello.refuse_name(stream).await;
                return Err(Failure::NoCertificate);
            }
            Ok(pairs) => {
                with_pairs = settings.with_pairs(&pairs);
                &with_pairs
            }
            Err(reason) => {
                hello.refuse_internally(stream).await;
                return Err(Failure::Unloaded(reason));
            }
        },
    };
    known.server_named = named(servers, &known).is_some();
    let (tls, mut negotiated) = hello.accept(stream, settings).await?;
    let statuses = negotiated.client.as_mut().map(|shown| std::mem::take(&mut shown.statuses));
    let queries = lender.ocsp.as_ref().zip(statuses.filter(|statuses| !statuses.is_empty()));
    keep(negotiated, settings, &mut known);
    let server = named(servers, &known).unwrap_or(servers.default);
    let handshake = Handshake { owner, server, connection: info, known: &known };
    handshake.done(lender.verify_client == VerifyClient::On);
    Ok(Begun::Tls(tls, Box::new(known), queries))
}

/// Returns the settings of the server that the client names, or of the one that lends it settings. The former decides
/// whether HTTP/2 is offered, even where another one lends the certificate.
fn choose<'p>(
    plan: &'p Plan,
    entrance: ListenerRef,
    servers: &VirtualServers,
    known: &TlsInfo,
) -> Result<(&'p TlsServer, &'p ServerSettings, ServerId), Failure> {
    let meant = named(servers, known).unwrap_or(servers.default);
    let with_h2 = entrance.serves_http2(plan, meant);
    let of = |server: ServerId| plan.server(server).extensions.of::<TlsServer>();
    if of(meant).is_some_and(|meant| meant.reject) {
        return Err(Failure::Rejected);
    }
    let lends = |server: ServerId| {
        let tls = of(server)?;
        let settings = if with_h2 { &tls.settings_h2 } else { &tls.settings };
        Some((tls, settings.as_ref()?, server))
    };
    lends(meant).or_else(|| lends(servers.default)).ok_or(Failure::NoCertificate)
}

/// Returns the server that has the name.
fn named(servers: &VirtualServers, known: &TlsInfo) -> Option<ServerId> {
    let name = parse_host(known.server_name.as_ref()?.as_bytes())?;
    servers.find_named(name.as_bytes(), &mut Captures::default()).map(|(server, _)| server)
}

/// Returns what the hello offers; its lists only where variables need them.
fn offered(plan: &Plan, hello: &Hello) -> TlsInfo {
    let mut known = TlsInfo { server_name: hello.server_name(), ..TlsInfo::default() };
    if plan.variables.find(variables::CIPHERS).is_some() {
        known.offered_ciphers = hello.cipher_suites();
    }
    if plan.variables.find(variables::SIGNATURES).is_some() {
        known.offered_signatures = hello.signature_schemes();
    }
    if plan.variables.find(variables::CURVES).is_some() {
        known.offered_groups = hello.groups();
    }
    known
}

/// Stores what the handshake negotiated.
pub(super) fn keep(negotiated: Negotiated, settings: &ServerSettings, known: &mut TlsInfo) {
    known.protocol = negotiated.protocol;
    known.cipher = negotiated.cipher;
    known.curve = negotiated.group;
    known.session_reused = negotiated.session_reused;
    known.early = negotiated.early;
    known.session_id = negotiated.session_id;
    known.signature = negotiated.signature;
    known.client_signature = negotiated.client_signature;
    known.alpn = negotiated.alpn;
    known.client = negotiated.client.and_then(|shown| client::shown(shown, settings));
}

/// Logs a failure in nginx's words. Those that clients can cause have level `info`.
fn report(log: &ErrorLog, info: &Connection, failure: &Failure) {
    let (level, text) = match failure {
        Failure::Silent => return,
        Failure::Timeout => (Level::Info, "client timed out".to_owned()),
        Failure::Rejected => (Level::Info, "handshake rejected".to_owned()),
        Failure::NoCertificate => (Level::Info, "no certificate for this name".to_owned()),
        Failure::Unloaded(reason) => {
            line(log, info, Level::Error, reason);
            (Level::Info, failed(&OpensslError::CERTIFICATE_CALLBACK.to_string()))
        }
        Failure::Handshake(HandshakeError::Closed) => {
            (Level::Info, "peer closed connection in SSL handshake".to_owned())
        }
        Failure::Handshake(HandshakeError::Socket(error)) => {
            (Level::Info, format!("{} in SSL handshake", io_text(error)))
        }
        Failure::Handshake(HandshakeError::Protocol(reason)) => {
            let level = if reason.is_severe() { Level::Crit } else { Level::Info };
            (level, failed(&reason.to_string()))
        }
        Failure::Handshake(reason) => (Level::Info, failed(&reason.to_string())),
    };
    line(log, info, level, &text);
}

fn line(log: &ErrorLog, info: &Connection, level: Level, text: &str) {
    if log.enabled(level) {
        let (client, server) = (info.peer_text(), info.local.text());
        let text = format!("{text} while SSL handshaking, client: {client}, server: {server}");
        log.write(level, info.number, &text);
    }
}

/// Logs why a responder did not say whether a client's certificate was revoked.
pub(super) fn report_query(log: &ErrorLog, info: &Connection, error: &QueryError) {
    let (client, server) = (info.peer_text(), info.local.text());
    let text = format!(
        "{error} while requesting certificate status, responder: {}, client: {client}, server: {server}",
        error.host
    );
    log.write(Level::Error, info.number, &text);
}

fn failed(reason: &str) -> String {
    format!("SSL_do_handshake() failed (SSL: {reason})")
}

fn io_text(error: &io::Error) -> String {
    format!("recv() failed ({})", tidegate_os::os_error(error))
}
