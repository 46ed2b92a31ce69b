//! Sessions of `stream`: from a socket to the content handler, through the phases that nginx documents.
//!
//! | phase | what happens | handlers registered in |
//! |---|---|---|
//! | post-accept | `realip` | PostRead |
//! | pre-access | `set`, `limit_conn` | Preaccess |
//! | access | `allow`, `deny` | Access |
//! | SSL | the handshake, where `listen` has `ssl`; a server is chosen by its name | |
//! | preread | `ssl_preread`; a server is chosen by the name that it finds | Precontent |
//! | content | `proxy_pass`, `return`, `pass` | the server's own handler |
//! | log | `access_log` | loggers |
//!
//! A session is an [`Exchange`] without a request, with a [`Session`] in its extensions. Like a connection of `http` it
//! stays with the generation that it began with.

mod error;
mod order;
pub(crate) mod running;
pub(crate) mod tcp;
pub(crate) mod udp;

use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::task::Poll;

use tidegate_core::client::{Address, Connection, NoClient};
use tidegate_core::error_log::Level;
use tidegate_core::exchange::{Exchange, PlanRef};
use tidegate_core::figures::{Sample, Zone};
use tidegate_core::log_context::choose_tags;
use tidegate_core::session::{PassTo, Session};
use tidegate_core::status_zone::ServerZone;
use tidegate_core::{LocalFuture, Phase, Step, phases};
use tidegate_rt::clock;

use crate::front::Front;
use crate::listener::ListenerRef;
pub(crate) use error::{PassError, SessionError};
use running::Running;

/// The logged status of a session that reached its end.
pub(crate) const OK: u16 = 200;
const BAD_REQUEST: u16 = 400;
pub(super) const INTERNAL_ERROR: u16 = 500;

/// The transport of a session: brings the client's bytes through the SSL phase.
pub(crate) trait Transport {
    /// Does the handshake, if the listener has one.
    ///
    /// # Errors
    /// The handshake did not succeed; the reason has been logged.
    fn secure<'a>(&'a mut self, x: &'a mut Exchange) -> LocalFuture<'a, Result<(), SessionError>>;

    /// Passes the connection on to a listening address.
    ///
    /// # Errors
    /// Why that cannot be done.
    fn pass(&mut self, front: &Rc<Front>, x: &mut Exchange, to: &Address) -> Result<(), PassError>;

    /// Ends the connection once all written bytes are on their way.
    fn close<'a>(&'a mut self, x: &'a mut Exchange) -> LocalFuture<'a, ()>;
}

/// Makes a session's exchange, at the address's default server.
pub(crate) fn exchange(
    plan: PlanRef,
    listener_ref: ListenerRef,
    connection: Connection,
    session: Session,
) -> Option<Exchange> {
    let server = listener_ref.servers(&plan)?.default;
    let location = plan.server(server).location;
    let mut x = Exchange::new(plan, Rc::new(connection), Rc::new(NoClient));
    x.routing.server = server;
    x.routing.location = location;
    x.progress.action = "initializing session";
    x.modules.extensions.insert(session);
    choose_tags(&mut x);
    Some(x)
}

/// Runs a session to its end; it was registered before ([`Sessions::enter`](running::Sessions::enter)). A panic ends this session
/// alone, and so does an abort.
///
/// It goes through the phases, then is either passed on to another listener, where it is logged, or logged and closed
/// here. Invariant: a session is logged once, aborted or not. Dropped during the phases (the thread ends) it is not
/// logged; dropped while it closes, the last written bytes may not arrive. Source: `pass`, `access_log`.
async fn run(
    front: &Rc<Front>,
    running: Running,
    mut x: Exchange,
    listener_ref: ListenerRef,
    mut transport: impl Transport,
) {
    let (number, connection) = (x.connection.number, x.connection.clone());
    let ended = {
        let mut way = Box::pin(walk(&mut x, listener_ref, &mut transport));
        std::future::poll_fn(|context| {
            if running.is_aborted(context) {
                return Poll::Ready(Ok(None));
            }
            match std::panic::catch_unwind(AssertUnwindSafe(|| way.as_mut().poll(context))) {
                Ok(Poll::Pending) => Poll::Pending,
                Ok(Poll::Ready(status)) => Poll::Ready(Ok(Some(status))),
                Err(panic) => Poll::Ready(Err(panic)),
            }
        })
        .await
    };
    if let Err(panic) = &ended {
        let log = front.plan().main.error_log.clone();
        crate::task::log_panic_of(&log, number, &**panic);
    }
    let aborted = matches!(ended, Ok(None));
    if x.connection.number != number {
        // It ended in its handshake, which had the connection.
        x.connection = connection;
    }
    x.disposition.set_status(match ended {
        Ok(Some(status)) => status,
        Ok(None) => OK,
        Err(_) => INTERNAL_ERROR,
    });
    if let Some(PassTo(address)) = x.modules.extensions.remove::<PassTo>() {
        let zone = zone_of(&mut x);
        match transport.pass(front, &mut x, &address) {
            // It continues there, and is logged there.
            Ok(()) => {
                count_passed(&x, zone);
                return front.left();
            }
            Err(error) => {
                log_session(&x, Level::Error, &error.to_string());
                x.disposition.set_status(INTERNAL_ERROR);
            }
        }
    }
    phases::log(&mut x);
    if !aborted {
        transport.close(&mut x).await;
    }
    drop(transport);
    drop(x);
    drop(running);
    front.left();
}

/// Returns the zone that the server counts in.
fn zone_of(x: &mut Exchange) -> Option<&'static Zone> {
    let plan = x.plan.clone();
    let ServerZone(target) = plan.server(x.routing.server).extensions.of()?;
    target.zone(x)
}

/// Counts a session that another listening address took over: the figures of its bytes are those until then.
fn count_passed(x: &Exchange, zone: Option<&'static Zone>) {
    let (received, sent) = x
        .session()
        .map_or((0, 0), |session| (session.traffic.received.get(), session.traffic.sent.get()));
    let time = clock::batch_now().saturating_duration_since(x.progress.started);
    if let Some(zone) = zone {
        zone.count(&Sample::new(None, received, sent, time).passed());
    }
}

/// Runs the phases up to the content; returns the status for the log.
///
/// The server may change twice, by the name in the TLS hello and by the one that `ssl_preread` finds; from there on the
/// handlers of its location run. A phase ends the walk by a status. Dropped at an await, the session ends where it is:
/// see [`run`], which alone drops it. Source: nginx's "How nginx processes a TCP/UDP session".
async fn walk(x: &mut Exchange, listener_ref: ListenerRef, transport: &mut impl Transport) -> u16 {
    for phase in [Phase::PostRead, Phase::Preaccess, Phase::Access] {
        if let Some(status) = handlers(x, phase).await {
            return status;
        }
    }
    if let Err(error) = transport.secure(x).await {
        return error.status();
    }
    if let Err(error) = choose_server(x, listener_ref) {
        return error.status();
    }
    if let Some(status) = handlers(x, Phase::Precontent).await {
        return status;
    }
    if let Err(error) = choose_server(x, listener_ref) {
        return error.status();
    }
    let location = x.location_ref();
    let Some(content) = &location.content else { return INTERNAL_ERROR };
    let step = match content(x) {
        Step::Wait(future) => future.await,
        step => settled(step),
    };
    end(step).unwrap_or(OK)
}

/// Runs the handlers of a phase; returns the status of a handler that ends the session.
async fn handlers(x: &mut Exchange, phase: Phase) -> Option<u16> {
    for handler in x.location_ref().handlers(phase) {
        let step = match handler(x) {
            Step::Wait(future) => future.await,
            step => settled(step),
        };
        if let Some(status) = end(step) {
            return Some(status);
        }
    }
    None
}

/// Makes a step that does not wait free of its borrow.
fn settled(step: Step<'_>) -> Step<'static> {
    match step {
        Step::Status(status) => Step::Status(status),
        Step::Decline | Step::Next | Step::Wait(_) => Step::Decline,
        Step::Close => Step::Close,
        // Sessions have no responses and no paths.
        Step::Respond(_) | Step::Jump(_) => Step::Status(INTERNAL_ERROR),
    }
}

/// Returns the status of a step that ends a session.
fn end(step: Step<'static>) -> Option<u16> {
    match step {
        Step::Decline | Step::Next | Step::Wait(_) => None,
        Step::Status(status) => Some(status),
        Step::Close => Some(OK),
        Step::Respond(_) | Step::Jump(_) => Some(INTERNAL_ERROR),
    }
}

/// Chooses the server by the name in the TLS hello, if a server has that name.
fn choose_server(x: &mut Exchange, listener_ref: ListenerRef) -> Result<(), SessionError> {
    let Exchange { plan, routing, request, modules, .. } = x;
    let Some(servers) = listener_ref.servers(plan) else { return Err(SessionError::NoListener) };
    if servers.is_single() || request.host.is_empty() {
        return Ok(());
    }
    let (server, regex) = servers.find(&request.host, &mut modules.captures);
    routing.server = server;
    routing.location = plan.server(server).location;
    if let Some(regex) = regex {
        regex.store_named(modules);
    }
    choose_tags(x);
    Ok(())
}

/// Logs a message with the context of a session that cannot continue.
pub(crate) fn log_session(x: &Exchange, level: Level, message: &str) {
    x.log(level, format_args!("{message}"));
}

/// The status of a broken PROXY protocol header.
pub(crate) const BROKEN_HEADER: u16 = BAD_REQUEST;
