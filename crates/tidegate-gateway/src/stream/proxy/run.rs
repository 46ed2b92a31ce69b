//! A session to an origin: servers are tried until one is connected, then bytes are relayed.

#[cfg(test)]
mod tests;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use tidegate_core::client::{Address, ByteStream};
use tidegate_core::session::{Session, SessionClient, Traffic, log_end};
use tidegate_core::{Exchange, Level, Step};
use tidegate_rt::clock;
use tidegate_rt::net::{Addr, ConnectOptions, Stream};
use tidegate_tls::TlsTarget;
use tidegate_upstream::peers::{Choice, Lease, Outcome, Peer};
use tidegate_upstream::relay::{Direction, RelayEnd, RelayOptions, relay};
use tidegate_upstream::{
    ConnectError, Io, SharedReport, connect_options, count_handshake, dial, os_error, secure,
};

use super::conf::Header;
use super::datagrams;
use super::settings::Settings;
use super::target::SessionTarget;
use crate::common::settings::local_address;
use crate::common::state::GatewayState;
use crate::common::tls::GatewayTls;
use tidegate_core::Refused;

const OK: u16 = 200;
const BAD_GATEWAY: u16 = 502;
const CONNECTING: &str = "connecting to upstream";
const PROXYING: &str = "proxying connection";

/// Serves a session (`proxy_pass` of `stream`).
///
/// ```text
///   target ──► next server ──► attempt ──► Status: the session has ended
///                  ▲              └──► Failed: nothing has reached the server
///                  └── proxy_next_upstream, and tries and time are left ──┘
/// ```
/// Invariant: another server is tried only before any byte of the client has been sent, so no byte is sent twice. The
/// group gets the outcome of an attempt once at most, before the next one begins.
///
/// Cancelling: dropping it closes, at each await, the sockets that are open by then (the attempt's, the relay's). The
/// lease of the server is dropped with it, so that its count of sessions is right.
pub(super) async fn serve(x: &mut Exchange, settings: Arc<Settings>) -> Step<'static> {
    x.progress.action = CONNECTING;
    let target = match settings.pass.target(x, settings.resolver.as_ref(), clock::now()).await {
        Ok(target) => target,
        Err(refused) => return refused.into(),
    };
    let report = GatewayState::of(x).report.clone();
    let mut now = clock::now();
    let mut tries = ServerTries::new(x, &settings, &target, now);
    let status = loop {
        let Some(lease) = tries.next(x, &report, now) else { break BAD_GATEWAY };
        let ended = attempt(x, &settings, &tries, lease.peer(), &report).await;
        now = clock::now();
        match ended {
            AttemptOutcome::Status(status) => break status,
            AttemptOutcome::Failed if tries.may_go_on(now) => {}
            AttemptOutcome::Failed => break BAD_GATEWAY,
        }
    };
    if let Some(attempt) = report.borrow_mut().last() {
        attempt.finished(now);
    }
    Step::Status(status)
}

/// The outcome of an attempt at one server.
pub(super) enum AttemptOutcome {
    /// The session has ended with this status.
    Status(u16),
    /// No byte reached the server: another one may be tried.
    Failed,
}

/// The servers that have been and can be tried.
pub(super) struct ServerTries<'s> {
    settings: &'s Settings,
    target: SessionTarget,
    choice: Choice,
    left: u32,
    until: Option<Instant>,
}

impl<'s> ServerTries<'s> {
    fn new(
        x: &mut Exchange,
        settings: &'s Settings,
        target: &SessionTarget,
        now: Instant,
    ) -> ServerTries<'s> {
        let most = target.group.attempts_max().max(1);
        let time = Some(settings.tries_time).filter(|time| !time.is_zero());
        ServerTries {
            settings,
            target: target.clone(),
            choice: match &target.key {
                Some(key) => key.choice(x, &target.group, now),
                None => Choice::default(),
            },
            left: if settings.tries == 0 { most } else { most.min(settings.tries) },
            until: time.and_then(|time| now.checked_add(time)),
        }
    }

    /// Returns the next server, by the rules of its group at `now`; `None`, which is logged, when there is none. It
    /// ends the attempt before, and `$upstream_*` report the new one from now on.
    fn next(&mut self, x: &mut Exchange, report: &SharedReport, now: Instant) -> Option<Lease> {
        let group = &self.target.group;
        x.progress.action = CONNECTING;
        if let Some(before) = report.borrow_mut().last() {
            before.finished(now);
        }
        let found = group.choose(&mut self.choice, now);
        report.borrow_mut().begin(group, found.as_ref().map(Lease::peer), now);
        self.left = self.left.saturating_sub(1);
        match &found {
            Some(lease) => {
                x.progress.upstream = lease.peer().text.to_string();
                x.debug(|| format!("upstream: chosen {} of \"{}\"", lease.peer().text, group.name));
            }
            None => {
                x.progress.upstream = group.name.to_string();
                x.log(Level::Error, format_args!("no live upstreams"));
            }
        }
        found
    }

    fn may_go_on(&self, now: Instant) -> bool {
        let late = self.until.is_some_and(|until| now >= until);
        self.settings.next_upstream && self.left > 0 && !late
    }

    /// Reports to the group how an attempt ended, at `now`.
    pub(super) fn report(&self, peer: &Peer, outcome: Outcome, now: Instant) {
        self.target.group.report(peer, outcome, now);
    }
}

/// Makes one attempt at one server: by the kind of the session, bytes or datagrams.
async fn attempt(
    x: &mut Exchange,
    settings: &Settings,
    tries: &ServerTries<'_>,
    peer: &Peer,
    report: &SharedReport,
) -> AttemptOutcome {
    let options = ConnectOptions {
        rcvbuf: settings.rcvbuf,
        sndbuf: settings.sndbuf,
        ..connect_options(local_address(settings.bind.as_ref(), x), settings.socket_keepalive)
    };
    let Some(client) = x.session().map(|session| session.client.clone()) else {
        return AttemptOutcome::Status(500);
    };
    match client {
        SessionClient::Stream(client) => {
            connect_and_relay(x, settings, tries, peer, (report, &options, client)).await
        }
        SessionClient::Datagrams(client) => {
            datagrams::attempt(x, settings, tries, peer, (report, options, client)).await
        }
    }
}

/// Connects and relays bytes to the end of the session.
///
/// ```text
///   dial ──► PROXY header, if TLS follows ──► handshake ──► relay ──► shutdown ──► statistics and the log line
///     └──────────────┴─────────────────────────────┴──► Failed: another server may be tried
/// ```
/// Invariant: until the relay begins, only the proxy's own bytes are sent (the PROXY header, which precedes the
/// handshake, and the handshake), so a failure until then may be retried on another server. Later failures may not.
/// The client's bytes from the preread phase (`preread_buffer_size`) are sent first, behind the header.
///
/// Cancelling: dropping it closes the origin's socket, at each await. The bytes relayed by then are in no statistics,
/// since these are written when the relay has ended.
///
/// `proxy_connect_timeout`, `proxy_protocol`, `proxy_ssl`, `proxy_timeout`, `proxy_half_close`, `proxy_upload_rate`,
/// `proxy_download_rate`.
async fn connect_and_relay(
    x: &mut Exchange,
    settings: &Settings,
    tries: &ServerTries<'_>,
    peer: &Peer,
    (report, options, client): (&SharedReport, &ConnectOptions, Rc<dyn ByteStream>),
) -> AttemptOutcome {
    let tls = match &settings.tls {
        None => None,
        Some(tls) => match tls_target(x, tls, tries).await {
            Ok(tls) => Some(tls),
            Err(refused) => return AttemptOutcome::Status(refused.status()),
        },
    };
    let mut pending = header(x, settings.protocol, false);
    let nodelay = x.settings().tcp_nodelay;
    let has_tls = tls.is_some();
    let opened = open(&peer.address, (options, nodelay), settings, (tls, &mut pending)).await;
    if has_tls {
        count_handshake(peer.statistics.handshakes(), opened.as_ref().map(|(_, io)| io));
    }
    let (stream, io) = match opened {
        Ok(opened) => opened,
        Err(error) => return failed(x, tries, (peer, clock::now()), &error),
    };
    let now = clock::now();
    tries.report(peer, Outcome::Success, now);
    if let Some(attempt) = report.borrow_mut().last() {
        attempt.connected(now);
    }
    connected(x, &stream);
    x.progress.action = PROXYING;
    if let Some(session) = x.modules.extensions.of_mut::<Session>() {
        pending.append(&mut session.input);
    }
    let begun = clock::exact_now();
    let mut relayed = Relayed {
        up: Direction::new(pending, settings.upload_rate(x), begun),
        down: Direction::new(Vec::new(), settings.download_rate(x), begun),
        traffic: x.session().map(|session| session.origin_traffic.clone()).unwrap_or_default(),
        report: report.clone(),
    };
    let first = report.clone();
    relayed.down.on_first = Some(Box::new(move || {
        if let Some(attempt) = first.borrow_mut().last() {
            attempt.first_byte_received(clock::now());
        }
    }));
    let options = RelayOptions {
        buffer_bytes: settings.buffer_bytes,
        idle: settings.timeout,
        closing: settings.closing,
    };
    let end = relay(&*client, &io, &mut relayed.up, &mut relayed.down, options).await;
    let _ = std::future::poll_fn(|context| std::task::Poll::Ready(io.poll_shutdown(context))).await;
    drop(relayed);
    log_relay_end(x, &end);
    AttemptOutcome::Status(OK)
}

/// Both directions of a relay. Their bytes are reported when it is dropped, where the session is aborted as well.
struct Relayed {
    up: Direction,
    down: Direction,
    traffic: Rc<Traffic>,
    report: SharedReport,
}

impl Drop for Relayed {
    fn drop(&mut self) {
        let (sent, received) = (self.up.moved, self.down.read);
        self.traffic.sent.set(sent);
        self.traffic.received.set(received);
        if let Some(attempt) = self.report.borrow_mut().last() {
            attempt.bytes_sent = sent;
            attempt.bytes_received = received;
        }
    }
}

/// Opens a connection to a server: the socket, and with TLS the PROXY header, which precedes the handshake and is
/// taken out of `pending`, and the handshake. Dropped at an await, the socket is closed.
///
/// # Errors
/// Any of these failed: the server counts as failed, and another one may be tried.
async fn open(
    address: &Addr,
    (options, nodelay): (&ConnectOptions, bool),
    settings: &Settings,
    (tls, pending): (Option<TlsTarget>, &mut Vec<u8>),
) -> Result<(Rc<Stream>, Io), ConnectError> {
    let stream = dial(address, options, settings.connect_timeout).await?;
    let _ = stream.set_nodelay(nodelay);
    let Some(tls) = tls else { return Ok((stream.clone(), Io::Plain(stream))) };
    write_header(&stream, pending).await?;
    let io = secure(stream.clone(), address, &tls, settings.connect_timeout).await?;
    Ok((stream, io))
}

/// Writes the header and empties it.
///
/// # Errors
/// The server has closed or reset the connection.
async fn write_header(stream: &Stream, header: &mut Vec<u8>) -> Result<(), ConnectError> {
    if !header.is_empty() {
        stream.write_all(header).await.map_err(ConnectError::Header)?;
        header.clear();
    }
    Ok(())
}

/// Returns the TLS target of this session.
async fn tls_target(
    x: &mut Exchange,
    tls: &GatewayTls,
    tries: &ServerTries<'_>,
) -> Result<TlsTarget, Refused> {
    tls.choose_certificate(x).await?;
    let host = tries.target.group.name.as_bytes().to_vec();
    Ok(tls.target(x, &host))
}

/// Logs an established connection.
fn connected(x: &Exchange, stream: &Stream) {
    if !x.settings().error_log.enabled(Level::Info) {
        return;
    }
    let local = match stream.local_addr() {
        Ok(Addr::Inet(address)) => address.to_string(),
        _ => "unix:".to_owned(),
    };
    let text = format!("proxy {local} connected to {}", x.progress.upstream);
    x.settings().error_log.write(Level::Info, x.connection.number, &text);
}

/// Logs a connection that failed, and reports it to the group.
pub(super) fn failed(
    x: &mut Exchange,
    tries: &ServerTries<'_>,
    (peer, now): (&Peer, Instant),
    error: &ConnectError,
) -> AttemptOutcome {
    x.progress.action = error.action();
    x.log(Level::Error, format_args!("{error}"));
    tries.report(peer, Outcome::Failure, now);
    AttemptOutcome::Failed
}

/// Logs how a session ended, in nginx's words.
fn log_relay_end(x: &mut Exchange, end: &RelayEnd) {
    match end {
        RelayEnd::Done { client } => {
            let side = if *client { "client" } else { "upstream" };
            log_end(x, &format!("{side} disconnected"));
        }
        RelayEnd::TimedOut => {
            x.log(Level::Info, format_args!("connection timed out (110: Connection timed out)"));
        }
        RelayEnd::Failed { client, reading, error } => {
            x.progress.action = match (*reading, *client) {
                (true, true) => "proxying and reading from client",
                (true, false) => "proxying and reading from upstream",
                (false, true) => "proxying and sending to client",
                (false, false) => "proxying and sending to upstream",
            };
            let call = if *reading { "recv" } else { "send" };
            let level = if *client { Level::Info } else { Level::Error };
            let error = os_error(error);
            x.log(level, format_args!("{call}() failed ({error})"));
        }
    }
}

/// Makes the header that carries the client's address, and the address that it connected to.
pub(super) fn header(x: &Exchange, version: Header, datagrams: bool) -> Vec<u8> {
    let addresses = match (x.client_address(), &x.connection.local) {
        (Address::Inet(client), Address::Inet(local)) => Some((*client, *local)),
        _ => None,
    };
    version.bytes(addresses, datagrams)
}
