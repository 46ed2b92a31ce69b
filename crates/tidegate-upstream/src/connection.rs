//! One connection to an origin.

use std::fmt;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tidegate_core::figures::{HANDSHAKES, Tally, VERIFY_FAILURES};
use tidegate_core::timeline::{Cause, blame};
use tidegate_rt::clock;
use tidegate_rt::net::{Addr, ConnectOptions, Stream};
use tidegate_rt::timer::{Deadline, timeout};

use crate::Io;
use crate::address::address_text;
use crate::log::{TIMED_OUT, os_error};
use crate::peers::process_queue::QueuePlace;
use crate::retry::Event;
use crate::settings::{FetchSettings, LocalAddress};
use tidegate_tls::{HandshakeError, TlsConnectError, TlsTarget, connect};

const CONNECTING: &str = "connecting to upstream";
const HANDSHAKING: &str = "SSL handshaking to upstream";

/// A connection to an origin, new or taken from the pool.
pub(crate) struct OriginConnection {
    /// Shared with a request body that is still being sent.
    pub io: Io,
    /// Reset for every wait; its timer stays with the connection from request to request.
    pub deadline: Deadline,
    /// When it was opened.
    pub opened: Instant,
    /// Requests sent on it, the present one included.
    pub requests: u64,
    /// Longest idle time announced by the origin (`Keep-Alive: timeout=…`).
    pub idle_announced: Option<Duration>,
    /// The present request's place, where few processes serve many connections.
    pub place: Option<QueuePlace>,
}

/// The reason why there is no connection.
#[derive(Debug)]
pub enum ConnectError {
    /// The operating system refused: no listener, no route.
    Failed(io::Error),
    /// The same with a socket of this machine, which the log names.
    SocketFailed(String, io::Error),
    /// The connection was made, but the PROXY header that precedes its handshake could not be written.
    Header(io::Error),
    /// No connection within `*_connect_timeout`.
    TimedOut,
    /// The handshake failed: the text for the log, and the reason by a name of `HANDSHAKES` or `VERIFY_FAILURES`.
    Handshake(String, Option<&'static str>),
    /// The connection was made, but its handshake did not end within the same time.
    HandshakeTimedOut,
}

impl fmt::Display for ConnectError {
    /// Writes the error log's message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::TimedOut | ConnectError::HandshakeTimedOut => f.write_str(TIMED_OUT),
            ConnectError::Failed(error) => write!(f, "connect() failed ({})", os_error(error)),
            ConnectError::SocketFailed(socket, error) => {
                write!(f, "connect() to {socket} failed ({})", os_error(error))
            }
            ConnectError::Header(error) => write!(f, "send() failed ({})", os_error(error)),
            ConnectError::Handshake(message, _) => f.write_str(message),
        }
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ConnectError::Failed(error)
            | ConnectError::SocketFailed(_, error)
            | ConnectError::Header(error) => Some(error),
            _ => None,
        }
    }
}

impl ConnectError {
    /// Returns the failed action, for the error log.
    pub fn action(&self) -> &'static str {
        match self {
            ConnectError::TimedOut
            | ConnectError::Failed(_)
            | ConnectError::SocketFailed(..)
            | ConnectError::Header(_) => CONNECTING,
            ConnectError::Handshake(..) | ConnectError::HandshakeTimedOut => HANDSHAKING,
        }
    }
}

/// Returns the socket options of a connection (`*_bind`, `*_socket_keepalive`).
pub fn connect_options(local: Option<LocalAddress>, keepalive: bool) -> ConnectOptions {
    ConnectOptions {
        local: local.map(|local| local.address),
        transparent: local.is_some_and(|local| local.transparent),
        keepalive,
        ..ConnectOptions::default()
    }
}

/// Connects within `limit`. Dropped while it waits, the socket is closed: the origin may see a connection that ends
/// at once.
///
/// # Errors
/// Refused, unreachable, too late.
pub async fn dial(
    address: &Addr,
    options: &ConnectOptions,
    limit: Duration,
) -> Result<Rc<Stream>, ConnectError> {
    match blame(Cause::Connect, timeout(limit, Stream::connect(address, options))).await {
        Err(_) => Err(ConnectError::TimedOut),
        Ok(Err(error)) => Err(match address {
            Addr::Unix(_) => ConnectError::SocketFailed(address_text(address), error),
            Addr::Inet(_) => ConnectError::Failed(error),
        }),
        Ok(Ok(stream)) => Ok(Rc::new(stream)),
    }
}

/// Performs a handshake within `limit`. Dropped while it waits, the handshake ends without an alert; the socket is
/// closed by its last owner.
///
/// # Errors
/// It fails, or the time limit has passed.
pub async fn secure(
    stream: Rc<Stream>,
    address: &Addr,
    tls: &TlsTarget,
    limit: Duration,
) -> Result<Io, ConnectError> {
    match blame(Cause::Tls, timeout(limit, connect(stream, address, tls))).await {
        Err(_) => Err(ConnectError::HandshakeTimedOut),
        Ok(Err(error)) => Err(ConnectError::Handshake(failure(&error, tls), reason(&error))),
        Ok(Ok(tls)) => Ok(Io::Tls(tls)),
    }
}

/// Returns the failure in nginx's words.
fn failure(error: &TlsConnectError, tls: &TlsTarget) -> String {
    let error = match error {
        TlsConnectError::Handshake(error) => error,
        TlsConnectError::OtherName => {
            let name = String::from_utf8_lossy(tls.name());
            return format!("upstream SSL certificate does not match \"{name}\"");
        }
    };
    match error {
        HandshakeError::Certificate(fault) => {
            format!("upstream SSL certificate verify error: ({fault})")
        }
        HandshakeError::Closed => "peer closed connection in SSL handshake".to_owned(),
        HandshakeError::Socket(error) => {
            format!("SSL_do_handshake() failed ({})", os_error(error))
        }
        HandshakeError::Protocol(reason) => format!("SSL_do_handshake() failed (SSL: {reason})"),
    }
}

/// Returns what is counted of a failure beside it.
fn reason(error: &TlsConnectError) -> Option<&'static str> {
    let error = match error {
        TlsConnectError::OtherName => return Some("hostname_mismatch"),
        TlsConnectError::Handshake(error) => error,
    };
    match error {
        HandshakeError::Certificate(fault) if fault.starts_with("10:") => Some("expired_cert"),
        HandshakeError::Certificate(fault) if fault.starts_with("23:") => Some("revoked_cert"),
        HandshakeError::Certificate(_) => Some("other"),
        HandshakeError::Protocol(error) if error.is_no_common_protocol() => {
            Some("no_common_protocol")
        }
        HandshakeError::Protocol(error) if error.is_no_common_cipher() => Some("no_common_cipher"),
        HandshakeError::Protocol(error) if error.is_rejected_certificate() => {
            Some("peer_rejected_cert")
        }
        _ => None,
    }
}

/// Counts a handshake with an origin by its end; connections without one are not counted.
pub fn count_handshake(tally: &Tally, end: Result<&Io, &ConnectError>) {
    let names = || HANDSHAKES.iter().chain(&VERIFY_FAILURES);
    let count = |event: &str| {
        if let Some(place) = names().position(|name| *name == event) {
            tally.count(place);
        }
    };
    match end {
        Ok(Io::Tls(stream)) => {
            count("handshakes");
            if stream.is_resumed() {
                count("session_reuses");
            }
        }
        Err(ConnectError::Handshake(_, reason)) => {
            count("handshakes_failed");
            reason.iter().for_each(|reason| count(reason));
        }
        Err(ConnectError::HandshakeTimedOut) => {
            count("handshakes_failed");
            count("handshake_timeout");
        }
        _ => {}
    }
}

impl OriginConnection {
    /// Opens a connection within `connect_timeout`; a handshake has as long again. Nothing of it is shared before it
    /// is complete: dropped at either await, the socket is closed.
    ///
    /// # Errors
    /// As [`dial`] and [`secure`].
    pub(crate) async fn open(
        address: &Addr,
        local: Option<&LocalAddress>,
        tls: Option<&TlsTarget>,
        settings: &FetchSettings,
    ) -> Result<Box<OriginConnection>, ConnectError> {
        let options = ConnectOptions {
            rcvbuf: settings.receive_buffer,
            sndbuf: settings.send_buffer,
            ..connect_options(local.copied(), settings.socket_keepalive)
        };
        let stream = dial(address, &options, settings.connect_timeout).await?;
        let _ = stream.set_nodelay(true);
        let io = match tls {
            None => Io::Plain(stream),
            // Boxed: the state of a handshake is large, and plain connections need no room for it.
            Some(tls) => Box::pin(secure(stream, address, tls, settings.connect_timeout)).await?,
        };
        let opened = clock::now();
        Ok(Box::new(OriginConnection {
            io,
            deadline: Deadline::new(),
            opened,
            requests: 0,
            idle_announced: None,
            place: None,
        }))
    }

    /// Begins the present request's part in the order of those that want a process, as it is sent.
    pub(crate) fn enter_order(&mut self, is_new: bool) {
        if let Some(place) = &mut self.place {
            place.send(is_new, clock::exact_now());
        }
    }

    /// Ends the present request's wait for a process where that has served it: it has closed the connection, or sent what is
    /// no response.
    pub(crate) fn note_failure(&mut self, event: Event) {
        if let (Some(place), Event::Lost | Event::Invalid) = (&mut self.place, event) {
            place.responded();
        }
    }

    /// Returns whether nothing has arrived on an idle connection: no early response and no close. Asks the kernel
    /// only after an event of the loop.
    pub(crate) fn is_quiet(&self) -> bool {
        self.io.is_quiet()
    }

    /// As [`OriginConnection::is_quiet`] with a system call, for requests that must not be sent twice.
    pub(crate) fn is_quiet_now(&self) -> bool {
        self.io.is_quiet_now()
    }

    /// Polls with a limit on the wait; `None` when it has passed.
    pub(crate) fn poll_limited<T>(
        &self,
        context: &mut Context<'_>,
        waiting: &mut bool,
        limit: Duration,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<Option<T>> {
        if let Poll::Ready(value) = poll(context) {
            *waiting = false;
            return Poll::Ready(Some(value));
        }
        if !*waiting {
            *waiting = true;
            self.deadline.set_after(limit);
        }
        self.deadline.poll_elapsed(context).map(|()| None)
    }
}
