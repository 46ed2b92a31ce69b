//! Sessions of TCP and of Unix sockets.

#[cfg(test)]
mod tests;

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tidegate_codec::request::parse_host;
use tidegate_core::LocalFuture;
use tidegate_core::client::{Address, ByteStream, Connection};
use tidegate_core::counters::OpenConnection;
use tidegate_core::error_log::Level;
use tidegate_core::exchange::Exchange;
use tidegate_core::phases;
use tidegate_core::plan::Plan;
use tidegate_core::session::{Session, SessionClient, Traffic};
use tidegate_core::settings::SessionSettings;
use tidegate_rt::net::Stream;
use tidegate_rt::timer::timeout;
use tidegate_tls::OpensslError;

use super::{BROKEN_HEADER, PassError, SessionError, Transport, log_session};
use crate::front::Front;
use crate::io::Io;
use crate::listener::ListenerRef;
use crate::serve::scratch::no_connection;
use crate::start::{self, AcceptedConnection, BrokenHeader, read_proxy_header};
use crate::starting::StartGuard;
use crate::tls::{HandshakeOwner, session_handshake_timeout};

/// Begins a session at an address of `stream`; does nothing if the plan has no such address.
pub(crate) fn enter(front: &Rc<Front>, connection: AcceptedConnection, address: &Address) {
    let AcceptedConnection { io, info, input, open, passes, .. } = connection;
    let Some(plan) = front.session_plan() else { return };
    let Some(listener_ref) = ListenerRef::find(&plan, address, &info.local) else { return };
    let Some((tls, proxy_protocol)) = listener_ref.transport(&plan) else { return };
    let stream = io.stream().clone();
    let tls = tls && io.plain().is_some();
    let traffic = Rc::<Traffic>::default();
    let client = Rc::new(TcpClientStream { io, traffic: traffic.clone() });
    let mut session = Session::new(SessionClient::Stream(client.clone()), address.text());
    session.traffic = traffic;
    session.input = input;
    let Some(x) = super::exchange(plan, listener_ref, info, session) else { return };
    let _ = stream.set_nodelay(x.settings().tcp_nodelay);
    let client = Some(client);
    let transport = Tcp { stream, client, listener_ref, tls, open: Some(open), passes };
    describe(&x);
    let front = front.clone();
    if proxy_protocol {
        let guard = StartGuard::new(&front, x.plan.generation, true);
        tidegate_rt::spawn_local(async move {
            begin(&front, guard, x, listener_ref, transport).await;
        });
    } else {
        let running = front.sessions.enter(&x);
        tidegate_rt::spawn_local(async move {
            super::run(&front, running, x, listener_ref, transport).await;
        });
    }
}

/// Runs a session that begins with a header of the PROXY protocol. `guard` counts it until it is registered.
///
/// Dropped at its awaits (the thread ends), the socket closes; nothing is logged. A silent client that makes room is.
async fn begin(
    front: &Rc<Front>,
    guard: StartGuard,
    mut x: Exchange,
    listener_ref: ListenerRef,
    transport: Tcp,
) {
    match guard.unless_ended(read_header(&mut x, &transport.stream, &guard)).await {
        Some(true) => {}
        Some(false) => return,
        None => {
            x.disposition.set_status(super::OK);
            return phases::log(&mut x);
        }
    }
    let running = front.sessions.enter(&x);
    drop(guard);
    super::run(front, running, x, listener_ref, transport).await;
}

/// Logs a new client, as nginx does.
fn describe(x: &Exchange) {
    let log = &x.settings().error_log;
    if !log.enabled(Level::Info) {
        return;
    }
    let from = match &x.connection.peer {
        Address::Inet(address) => address.to_string(),
        Address::Unix(_) => "unix:".to_owned(),
    };
    let to = x.session().map(|session| session.listener.as_str()).unwrap_or_default();
    log.write(Level::Info, x.connection.number, &format!("client {from} connected to {to}"));
}

/// Reads the header of the PROXY protocol; returns `false` when the session has ended, which is logged then.
///
/// A broken header is status 400, a late one 200, as nginx has them. Dropped at its await, the session is not logged.
/// Source: `proxy_protocol_timeout`.
async fn read_header(x: &mut Exchange, stream: &Stream, guard: &StartGuard) -> bool {
    let settings = x.location().extensions.of::<SessionSettings>().copied().unwrap_or_default();
    // Read before the connection was passed on.
    let session = x.modules.extensions.of_mut::<Session>();
    let mut input = session.map(|session| std::mem::take(&mut session.input)).unwrap_or_default();
    let limit = settings.proxy_protocol_timeout;
    x.progress.action = "reading PROXY protocol";
    let reading = async {
        if !input.is_empty() || stream.readable().await.is_ok() {
            guard.heard();
        }
        read_proxy_header(stream, &mut input).await
    };
    let status = match timeout(limit, reading).await {
        Ok(Ok(header)) => {
            let mut info = (*x.connection).clone();
            info.proxy_protocol = Some(Box::new(header));
            x.connection = Rc::new(info);
            x.progress.action = "initializing session";
            if let Some(session) = x.modules.extensions.of_mut::<Session>() {
                session.traffic.received.set(input.len() as u64);
                session.input = input;
            }
            return true;
        }
        Ok(Err(BrokenHeader)) => {
            let shown = String::from_utf8_lossy(&input).into_owned();
            log_session(x, Level::Error, &format!("broken header: \"{shown}\""));
            BROKEN_HEADER
        }
        Err(_) => {
            log_session(x, Level::Info, "client timed out (110: Connection timed out)");
            super::OK
        }
    };
    x.disposition.set_status(status);
    phases::log(x);
    false
}

/// A client's connection.
struct Tcp {
    stream: Rc<Stream>,
    /// `None` once it is passed on.
    client: Option<Rc<TcpClientStream>>,
    listener_ref: ListenerRef,
    tls: bool,
    open: Option<OpenConnection>,
    /// How many times it was passed on.
    passes: u8,
}

/// Most times that a connection is passed on, as in nginx: more are a cycle.
const PASSES_MAX: u8 = 10;

impl Transport for Tcp {
    /// Runs the SSL phase. Until the handshake is done the exchange's connection is a placeholder, which the owner of this
    /// future replaces where it is dropped there. After it the session's client speaks through TLS, and received bytes count
    /// anew.
    fn secure<'a>(&'a mut self, x: &'a mut Exchange) -> LocalFuture<'a, Result<(), SessionError>> {
        Box::pin(async move {
            if !self.tls {
                return Ok(());
            }
            let limit = session_handshake_timeout(&x.plan, x.routing.server);
            let input = x.modules.extensions.of_mut::<Session>();
            let input = input.map(|session| std::mem::take(&mut session.input));
            let kept = std::mem::replace(&mut x.connection, Rc::new(no_connection()));
            let stream = self.stream.clone();
            let input = input.unwrap_or_default();
            let info = (*kept).clone();
            let owner = HandshakeOwner::Session(&mut *x);
            let accepted =
                crate::tls::accept(owner, stream, info, self.listener_ref, input, limit).await;
            let (io, info) = match accepted {
                Some((io @ Io::Tls(..), info, _)) => (io, info),
                // A client that does not speak TLS gets no alert.
                other => {
                    x.connection = kept;
                    if let Some((_, _, input)) = other {
                        x.progress.action = "SSL handshaking";
                        let reason = OpensslError::of_first_bytes(&input);
                        let text = format!("SSL_do_handshake() failed (SSL: {reason})");
                        log_session(x, Level::Info, &text);
                    }
                    return Err(SessionError::Handshake);
                }
            };
            let name = info.tls.as_ref().and_then(|tls| tls.server_name.as_deref());
            let host = name.and_then(|name| parse_host(name.as_bytes()));
            x.request.host = host.map_or_else(Vec::new, |host| host.as_bytes().to_vec());
            x.connection = Rc::new(info);
            if let Some(session) = x.modules.extensions.of_mut::<Session>() {
                session.traffic.received.set(0);
                let traffic = session.traffic.clone();
                let client = Rc::new(TcpClientStream { io, traffic });
                session.client = SessionClient::Stream(client.clone());
                self.client = Some(client);
            }
            match crate::tls::session_refusal(x) {
                true => Err(SessionError::Certificate),
                false => Ok(()),
            }
        })
    }

    fn close<'a>(&'a mut self, _x: &'a mut Exchange) -> LocalFuture<'a, ()> {
        Box::pin(async move {
            if let Some(client) = &self.client {
                client.io.shutdown().await;
            }
        })
    }

    fn pass(&mut self, front: &Rc<Front>, x: &mut Exchange, to: &Address) -> Result<(), PassError> {
        if self.passes >= PASSES_MAX {
            return Err(PassError::Cycle);
        }
        let missing = || PassError::NoListener(to.text());
        let plan = front.plan();
        let http = listener(&plan, to);
        let http = http.and_then(|at| Some((at.clone(), ListenerRef::find(&plan, &at, to)?)));
        let sessions = front.session_plan().and_then(|plan| listener(&plan, to));
        if http.is_none() && sessions.is_none() {
            return Err(missing());
        }
        let input = match x.modules.extensions.remove::<Session>() {
            Some(session) => session.input,
            None => Vec::new(),
        };
        // No other reference is left.
        let client = self.client.take().and_then(|client| Rc::try_unwrap(client).ok());
        let (Some(client), Some(open)) = (client, self.open.take()) else { return Err(missing()) };
        // The connection belongs to `http` from now on: its `client_header_timeout` begins here.
        let accepted = tidegate_rt::clock::now();
        // As if it had been accepted at the other address.
        let info = Connection { local: to.clone(), ..(*x.connection).clone() };
        let passes = self.passes + 1;
        let connection = AcceptedConnection { io: client.io, info, input, open, accepted, passes };
        match (http, sessions) {
            (Some((address, listener_ref)), _) => {
                start::enter(front, connection, &Rc::new(address), listener_ref);
            }
            (None, Some(address)) => enter(front, connection, &address),
            (None, None) => {}
        }
        Ok(())
    }
}

/// Returns the address of the listener that accepts connections to `to`: its own, or a wildcard's.
fn listener(plan: &Plan, to: &Address) -> Option<Address> {
    let tcp = || plan.listeners.iter().filter(|listener| !listener.datagram);
    let own = tcp().find(|listener| listener.address == *to);
    let found = own.or_else(|| {
        tcp().find(|listener| match (&listener.address, to) {
            (Address::Inet(any), Address::Inet(to)) => {
                any.ip().is_unspecified()
                    && any.port() == to.port()
                    && any.is_ipv4() == to.is_ipv4()
            }
            _ => false,
        })
    });
    found.map(|listener| listener.address.clone())
}

/// The client's bytes, counted.
struct TcpClientStream {
    io: Io,
    traffic: Rc<Traffic>,
}

impl ByteStream for TcpClientStream {
    fn poll_read(
        &self,
        context: &mut Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        let count = ready!(self.io.poll_read_append(context, buffer))?;
        self.traffic.received.set(self.traffic.received.get() + count as u64);
        Poll::Ready(Ok(count))
    }

    fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let count = ready!(self.io.poll_write(context, bytes))?;
        self.traffic.sent.set(self.traffic.sent.get() + count as u64);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_flush(context)
    }

    fn poll_shutdown(&self, context: &mut Context<'_>) -> Poll<()> {
        self.io.poll_shutdown(context)
    }
}
