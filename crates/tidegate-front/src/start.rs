//! From an accepted connection of `http` to its first request: PROXY protocol, then TLS, then parking.

use std::fmt;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tidegate_codec::proxy_protocol::{self, ParsedProxy};
use tidegate_core::client::{Address, Connection, ProxyProtocol};
use tidegate_core::counters::OpenConnection;
use tidegate_core::error_log::Level;
use tidegate_core::exchange::PlanRef;
use tidegate_core::plan::Plan;
use tidegate_rt::clock;
use tidegate_rt::net::Stream;
use tidegate_rt::timer::timeout;

use crate::front::Front;
use crate::h2::connection::Multiplexer;
use crate::io::Io;
use crate::link::{Link, Order};
use crate::listener::{AcceptInfo, Binding, ListenerRef};
use crate::serve::begin::base_server;
use crate::starting::StartGuard;
use crate::tls::HandshakeOwner;
use crate::{parked_loop, protocol, task};

/// A connection as it was accepted, or as a session of `stream` passes it on.
pub(crate) struct AcceptedConnection {
    pub io: Io,
    pub info: Connection,
    /// Bytes that have already been received.
    pub input: Vec<u8>,
    pub open: OpenConnection,
    pub accepted: Instant,
    /// How many times sessions have passed it on.
    pub passes: u8,
}

/// Begins to serve a connection at an address of `http`, whose listener belongs to the current plan.
///
/// Without a handshake a connection is served or parked at once. A handshake runs in a task, within the default server's
/// `client_header_timeout`; dropped at its await, the connection closes.
pub(crate) fn enter(
    front: &Rc<Front>,
    connection: AcceptedConnection,
    address: &Rc<Address>,
    listener_ref: ListenerRef,
) {
    let plan = front.plan();
    let Some((tls, proxy_protocol)) = listener_ref.transport(&plan) else { return };
    let AcceptedConnection { io, info, input, open, accepted, .. } = connection;
    let accept_info = AcceptInfo {
        binding: Binding::new(address.clone(), &plan, listener_ref),
        accepted,
        patience: header_timeout(&plan, listener_ref),
        open,
    };
    let stream = match io {
        Io::Plain(stream) if tls || proxy_protocol => stream,
        // The TLS handshake was done before: nothing is left to do.
        io => {
            let is_silent = input.is_empty();
            let multiplexer = negotiated(&plan, &info, listener_ref);
            let link = Link::new(io, info, multiplexer, input, accept_info);
            return match is_silent && !protocol::greets(&link) {
                true => parked_loop::enter(front, link, accepted),
                false => {
                    // Behind its first request, which clients send with the end of the handshake, it needs no task.
                    link.give(Order::Park);
                    let begun = protocol::greets(&link).then(|| protocol::serve(front, &link));
                    task::spawn(front, link, begun);
                }
            };
        }
    };
    let guard = StartGuard::new(front, plan.generation, input.is_empty());
    let front = front.clone();
    tidegate_rt::spawn_local(async move {
        // Boxed, so that the task stays as small as an idle connection.
        let starting = start(&guard, plan, stream, info, (input, accepted), listener_ref);
        let started = guard.unless_ended(Box::pin(starting)).await;
        let Some((io, info, input, multiplexer)) = started.flatten() else { return };
        let link = Link::new(io, info, multiplexer, input, accept_info);
        // Behind its first request, which clients send with the end of the handshake, it needs no task.
        link.give(Order::Park);
        let begun = protocol::greets(&link).then(|| protocol::serve(&front, &link));
        let key = front.enter(&link);
        drop(guard);
        task::serve(front, link, begun, key).await;
    });
}

/// Brings a new connection to the start of HTTP, within the default server's `client_header_timeout`. Returns its byte
/// stream, what is known of it, the bytes received so far, of which `input` is the first part, and HTTP/2 if it was chosen.
/// `listener_ref` belongs to `plan`; a later one may have other listeners.
///
/// `None` ends the connection, and is logged where nginx logs it. Dropped at an await, the socket closes without an
/// alert. Sources: `listen … proxy_protocol`, `listen … ssl`, `client_header_timeout`.
async fn start(
    guard: &StartGuard,
    plan: PlanRef,
    stream: Rc<Stream>,
    mut info: Connection,
    (mut input, accepted_at): (Vec<u8>, Instant),
    listener_ref: ListenerRef,
) -> Option<(Io, Connection, Vec<u8>, Option<Rc<Multiplexer>>)> {
    let limit = header_timeout(&plan, listener_ref);
    let (tls, with_proxy_protocol) = listener_ref.transport(&plan)?;
    let begun = clock::now();
    if input.is_empty() && timeout(limit, stream.readable()).await.is_ok() {
        guard.heard();
    }
    // One that was silent for so long is refused below, at once.
    let limit = limit.saturating_sub(clock::now().saturating_duration_since(begun));
    if with_proxy_protocol {
        match timeout(limit, read_proxy_header(&stream, &mut input)).await {
            Ok(Ok(header)) => info.proxy_protocol = Some(Box::new(header)),
            Ok(Err(BrokenHeader)) => {
                let log = &plan.main.error_log;
                let text = "broken header while reading PROXY protocol";
                log.write(
                    Level::Error,
                    info.number,
                    &format!("{text}, client: {}", info.peer_text()),
                );
                return None;
            }
            Err(_) => return None,
        }
    }
    if !tls {
        return Some((Io::Plain(stream), info, input, None));
    }
    let owner = HandshakeOwner::Connection(plan.clone());
    let accepted = crate::tls::accept(owner, stream, info, listener_ref, input, limit).await;
    accepted.map(|(io, mut info, input)| {
        if let Some(tls) = &mut info.tls {
            tls.handshake = clock::now().saturating_duration_since(accepted_at);
        }
        let multiplexer = negotiated(&plan, &info, listener_ref);
        (io, info, input, multiplexer)
    })
}

/// Returns HTTP/2 for a connection behind its handshake, or `None`. `listener_ref` belongs to `plan`.
fn negotiated(
    plan: &Plan,
    info: &Connection,
    listener_ref: ListenerRef,
) -> Option<Rc<Multiplexer>> {
    let servers = listener_ref.servers(plan)?;
    protocol::negotiated(info, plan, base_server(info, servers))
}

/// Returns the default server's `client_header_timeout`.
fn header_timeout(plan: &Plan, listener_ref: ListenerRef) -> Duration {
    let servers = listener_ref.servers(plan);
    servers.map_or(Duration::ZERO, |servers| {
        plan.server(servers.default).settings.client_header_timeout
    })
}

/// A connection does not begin with a header of the PROXY protocol, or ended within one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BrokenHeader;

impl fmt::Display for BrokenHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("broken header of the PROXY protocol")
    }
}

impl std::error::Error for BrokenHeader {}

/// Reads a header of the PROXY protocol, either version; the bytes behind it stay in `input`. Bounded by the longest
/// valid header; dropped at its await, it leaves the received bytes in `input`.
pub(crate) async fn read_proxy_header(
    stream: &Stream,
    input: &mut Vec<u8>,
) -> Result<ProxyProtocol, BrokenHeader> {
    loop {
        match proxy_protocol::parse(input).map_err(|_| BrokenHeader)? {
            ParsedProxy::Partial if input.len() >= proxy_protocol::HEADER_BYTES_MAX => {
                return Err(BrokenHeader);
            }
            ParsedProxy::Partial => {}
            ParsedProxy::Complete(header, length) => {
                input.drain(..length);
                let (client, server) = header.addresses.unzip();
                return Ok(ProxyProtocol { client, server, tlvs: header.tlvs });
            }
        }
        input.reserve(512);
        match stream.read_append(input).await {
            Ok(count) if count > 0 => {}
            _ => return Err(BrokenHeader),
        }
    }
}
