//! The session of `stream` in an exchange: the client's bytes.

use std::cell::Cell;
use std::fmt::{self, Write as _};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use tidegate_rt::clock;
use tidegate_rt::timer::Deadline;

use crate::client::{Address, ByteStream};
use crate::error_log::{Level, LogFields};
use crate::exchange::Exchange;
use crate::settings::SessionSettings;
use crate::step::Step;

/// Counters of bytes in both directions.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Bytes received from the other side.
    pub received: Cell<u64>,
    /// Bytes sent to the other side.
    pub sent: Cell<u64>,
}

/// The datagrams of one client.
pub trait Datagrams {
    /// Returns the next received datagram, which may be empty.
    fn poll_receive(&self, context: &mut Context<'_>) -> Poll<Vec<u8>>;

    /// Sends a datagram; it is lost when the socket's queue is full.
    fn send(&self, bytes: &[u8]) -> io::Result<()>;

    /// Ends the reception: the client's next datagram begins another session.
    fn release(&self);
}

/// The client's side of a session.
#[derive(Clone)]
pub enum SessionClient {
    /// A TCP or TLS connection.
    Stream(Rc<dyn ByteStream>),
    /// A UDP conversation.
    Datagrams(Rc<dyn Datagrams>),
}

/// A session's own part of its exchange, stored in the extensions.
pub struct Session {
    /// The client's connection or datagrams.
    pub client: SessionClient,
    /// Bytes received and not yet passed on; for UDP the first datagram.
    pub input: Vec<u8>,
    /// Traffic with the client.
    pub traffic: Rc<Traffic>,
    /// Traffic with the origin.
    pub origin_traffic: Rc<Traffic>,
    /// The listening address, for log lines.
    pub listener: String,
    /// Deadline of the preread phase, set at its first wait.
    pub preread_until: Option<Deadline>,
}

impl Session {
    /// Creates a session; `listener` is the listening address for log lines.
    pub fn new(client: SessionClient, listener: String) -> Session {
        Session {
            client,
            input: Vec::new(),
            traffic: Rc::default(),
            origin_traffic: Rc::default(),
            listener,
            preread_until: None,
        }
    }

    /// Returns whether the session is UDP.
    pub fn is_datagram(&self) -> bool {
        matches!(self.client, SessionClient::Datagrams(_))
    }
}

impl Exchange {
    /// Returns the session of a `stream` exchange; `None` for a request.
    pub fn session(&self) -> Option<&Session> {
        self.modules.extensions.of()
    }
}

/// The listening address that a session's connection is passed on to (`pass`). The content handler leaves it in the
/// extensions.
pub struct PassTo(pub Address);

/// Appends the context that nginx adds to error log lines of sessions.
pub(crate) fn with_context(x: &Exchange, session: &Session, message: fmt::Arguments<'_>) -> String {
    let mut text = crate::error_log::shortened(message.to_string());
    if !x.progress.action.is_empty() {
        let _ = write!(text, " while {}", x.progress.action);
    }
    let kind = if session.is_datagram() { "udp " } else { "" };
    let _ = write!(text, ", {kind}client: {}, server: {}", x.client_text(), session.listener);
    if !x.progress.upstream.is_empty() {
        let (near, far) = (&session.traffic, &session.origin_traffic);
        let _ = write!(
            text,
            ", upstream: \"{}\", bytes from/to client:{}/{}, bytes from/to upstream:{}/{}",
            x.progress.upstream,
            near.received.get(),
            near.sent.get(),
            far.received.get(),
            far.sent.get()
        );
    }
    text
}

/// Adds what [`with_context`] says of a session, apart, and the port of the client.
pub(crate) fn add_fields(x: &Exchange, session: &Session, fields: &mut LogFields) {
    match (&x.request.real_client_address, &x.connection.peer) {
        (None, peer @ Address::Inet(_)) => fields.add("client", peer.text().as_bytes()),
        _ => fields.add("client", x.client_text().as_bytes()),
    }
    fields.add("server", session.listener.as_bytes());
    fields.add("protocol", if session.is_datagram() { b"udp" } else { b"tcp" });
    if !x.progress.upstream.is_empty() {
        let (near, far) = (&session.traffic, &session.origin_traffic);
        fields.add("upstream", x.progress.upstream.as_bytes());
        fields.count("bytes_from_client", near.received.get());
        fields.count("bytes_to_client", near.sent.get());
        fields.count("bytes_from_upstream", far.received.get());
        fields.count("bytes_to_upstream", far.sent.get());
    }
}

/// Logs the end of a proxied session with its byte counts, without the context.
pub fn log_end(x: &Exchange, what: &str) {
    let (Some(session), log) = (x.session(), &x.settings().error_log) else { return };
    if log.enabled(Level::Info) {
        let (near, far) = (&session.traffic, &session.origin_traffic);
        let text = format!(
            "{what}, bytes from/to client:{}/{}, bytes from/to upstream:{}/{}",
            near.received.get(),
            near.sent.get(),
            far.received.get(),
            far.sent.get()
        );
        log.write(Level::Info, x.connection.number, &text);
    }
}

/// Waits for more bytes of the client in the preread phase, within its limits.
///
/// # Errors
/// The step that ends the session: the buffer is full, the time has elapsed, or the client closed the connection.
pub async fn read_more(x: &mut Exchange) -> Result<(), Step<'static>> {
    let location = x.plan.location(x.routing.location);
    let settings = location.extensions.of::<SessionSettings>().copied().unwrap_or_default();
    let Some(session) = x.modules.extensions.of_mut::<Session>() else {
        return Err(Step::Status(500));
    };
    let SessionClient::Stream(client) = session.client.clone() else {
        return Err(Step::Status(500));
    };
    if session.input.len() >= settings.preread_buffer_size {
        x.log(Level::Error, format_args!("preread buffer full"));
        return Err(Step::Status(400));
    }
    // Taken out of the session while the client is read from, and put back after the wait.
    let mut input = std::mem::take(&mut session.input);
    let deadline = session.preread_until.take().unwrap_or_else(|| {
        let deadline = Deadline::new();
        deadline.set(clock::now() + settings.preread_timeout);
        deadline
    });
    let read = poll_fn(|context| {
        let room = settings.preread_buffer_size - input.len();
        let mut part = Vec::with_capacity(room.min(PREREAD_BYTES));
        if let Poll::Ready(read) = client.poll_read(context, &mut part) {
            input.extend_from_slice(&part);
            return Poll::Ready(Some(read));
        }
        deadline.poll_elapsed(context).map(|()| None)
    });
    let read = read.await;
    if let Some(session) = x.modules.extensions.of_mut::<Session>() {
        session.input = input;
        session.preread_until = Some(deadline);
    }
    match read {
        Some(Ok(count)) if count > 0 => Ok(()),
        None => {
            x.log(Level::Info, format_args!("client timed out (110: Connection timed out)"));
            Err(Step::Status(200))
        }
        // The end or an error of the client: the session ends without a log line of its own.
        Some(_) => Err(Step::Status(200)),
    }
}

/// Bytes of one read in the preread phase.
const PREREAD_BYTES: usize = 4096;
