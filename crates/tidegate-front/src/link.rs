//! A client's connection: its socket with or without TLS, its state, and where it is parked.
//!
//! A [`Link`] knows no HTTP. Its protocol is [`Protocol`]; each of its requests has a client of its own
//! ([`crate::client::ClientStream`] for HTTP/1), so that streams can share a link.

mod state;
#[cfg(test)]
mod tests;
mod waits;

use std::cell::{Cell, OnceCell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tidegate_core::client::{CancelCode, Connection};
use tidegate_core::counters::OpenConnection;
use tidegate_core::listen::VirtualServers;
use tidegate_core::plan::{Plan, ServerId};

use crate::h2::connection::Multiplexer;
use crate::io::Io;
use crate::listener::{AcceptInfo, Binding};
pub(crate) use state::{ConnectionState, IdleLimits, Order, ParkState};
pub(crate) use waits::Waits;

/// Idle times below this are kept by a timer, for which a connection needs a task.
pub(crate) const TIMED_BELOW: Duration = Duration::from_secs(3);

/// The protocol of a connection, with the state that its driver keeps between requests. The rows in [`crate::protocol`]
/// choose the driver.
pub(crate) enum Protocol<'l> {
    /// Requests one after the other: nothing is kept between them.
    Http1,
    /// Many requests at once.
    Http2(&'l Rc<Multiplexer>),
}

/// One client connection.
pub(crate) struct Link {
    pub io: Io,
    pub info: Rc<Connection>,
    /// HTTP/2, from its begin on; until then HTTP/1.
    multiplexer: OnceCell<Rc<Multiplexer>>,
    binding: Binding,
    /// Bytes received and not yet used. It has no memory of its own while the connection is idle.
    pub received: RefCell<Vec<u8>>,
    /// The last read filled its buffer: more bytes may have arrived than were read.
    pub unread: Cell<bool>,
    pub accepted: Instant,
    nodelay: Cell<bool>,
    /// It has served requests since memory was last given back.
    is_warm: Cell<bool>,
    state: Cell<ConnectionState>,
    limits: Cell<IdleLimits>,
    order: Cell<Order>,
    park_state: Cell<ParkState>,
    /// The state for waits other than for a request; `None` while the connection is parked.
    waits: RefCell<Option<Rc<Waits>>>,
    /// Counts the connection as open.
    _open: OpenConnection,
}

impl Link {
    /// Makes a connection that is ready to be served, by HTTP/2 if there is a `multiplexer`; `received` has already been
    /// read.
    pub(crate) fn new(
        io: Io,
        info: Connection,
        multiplexer: Option<Rc<Multiplexer>>,
        received: Vec<u8>,
        accept_info: AcceptInfo,
    ) -> Rc<Link> {
        let AcceptInfo { binding, accepted, patience, open } = accept_info;
        Rc::new(Link {
            io,
            info: Rc::new(info),
            multiplexer: multiplexer.map_or_else(OnceCell::new, OnceCell::from),
            binding,
            received: RefCell::new(received),
            unread: Cell::new(false),
            accepted,
            nodelay: Cell::new(false),
            is_warm: Cell::new(true),
            state: Cell::new(ConnectionState::Idle { since: accepted }),
            limits: Cell::new(IdleLimits::new(accepted, patience)),
            order: Cell::default(),
            park_state: Cell::new(ParkState::Owned),
            waits: RefCell::new(None),
            _open: open,
        })
    }

    /// Returns the protocol that is spoken.
    #[inline]
    pub(crate) fn protocol(&self) -> Protocol<'_> {
        self.multiplexer.get().map_or(Protocol::Http1, Protocol::Http2)
    }

    /// Returns the state of HTTP/2; `None` where another protocol is spoken.
    #[inline]
    pub(crate) fn multiplexer(&self) -> Option<&Rc<Multiplexer>> {
        self.multiplexer.get()
    }

    /// Hands the connection over to HTTP/2, once.
    pub(crate) fn begin_http2(&self, multiplexer: Rc<Multiplexer>) {
        let _ = self.multiplexer.set(multiplexer);
    }

    /// Gives memory back that a connection needs not which has been idle for a while; returns whether that has not been
    /// done since its last request.
    pub(crate) fn rest(&self) -> bool {
        if !self.is_warm.replace(false) {
            return false;
        }
        self.io.rest();
        if let Protocol::Http2(multiplexer) = self.protocol() {
            multiplexer.rest();
        }
        true
    }

    /// Announces to the client, without waiting, that the idle connection closes: GOAWAY, close_notify.
    pub(crate) fn say_goodbye(&self) {
        if let Protocol::Http2(multiplexer) = self.protocol() {
            multiplexer.say_goodbye(&self.io);
        }
        self.io.close_now();
    }

    /// Whether a plain connection may begin with HTTP/2 under `plan`, the plan of the last call of [`Link::servers`].
    pub(crate) fn serves_http2(&self, plan: &Plan, default: ServerId) -> bool {
        self.info.tls.is_none()
            && !self.binding.expects_tls(plan)
            && self.binding.serves_http2(plan, default)
    }

    /// Whether `server` takes requests by HTTP/2 on this connection.
    pub(crate) fn serves_http2_by(&self, plan: &Plan, server: ServerId) -> bool {
        self.binding.serves_http2(plan, server)
    }

    /// Returns the servers by which the connection's own settings are chosen under `plan`, which may be newer. `None` when
    /// the plan no longer has the listener.
    pub(crate) fn servers_now<'p>(&self, plan: &'p Plan) -> Option<&'p VirtualServers> {
        self.binding.servers_now(plan, &self.info.local)
    }

    /// Returns the generation of its last request; before the first one, the generation in which it was accepted.
    pub(crate) fn generation(&self) -> u64 {
        self.binding.generation()
    }

    /// Returns its listener.
    #[inline]
    pub(crate) fn binding(&self) -> &Binding {
        &self.binding
    }

    /// Whether TCP_NODELAY is set.
    pub(crate) fn has_nodelay(&self) -> bool {
        self.nodelay.get()
    }

    /// Sets TCP_NODELAY, unless it is set.
    pub(crate) fn set_nodelay(&self) {
        if !self.nodelay.replace(true) {
            let _ = self.io.stream().set_nodelay(true);
        }
    }

    /// Returns the figures of `$tcpinfo_*`, where the system has them.
    pub(crate) fn tcp_info(&self) -> Option<[u32; 4]> {
        let info = self.io.stream().tcp_info().ok()?;
        Some([info.rtt, info.rttvar, info.snd_cwnd, info.rcv_space])
    }

    /// Writes all bytes within `limit`.
    ///
    /// # Errors
    /// The client has closed the connection, or it broke; `TimedOut`.
    pub(crate) async fn write_all(&self, mut bytes: &[u8], limit: Duration) -> io::Result<()> {
        let writing = async {
            while !bytes.is_empty() {
                let written = poll_fn(|context| self.io.poll_write(context, bytes)).await?;
                bytes = bytes.get(written..).unwrap_or_default();
            }
            self.io.flush().await
        };
        let written = tidegate_rt::timer::timeout(limit, writing).await;
        written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// The connection's state.
impl Link {
    pub(crate) fn state(&self) -> ConnectionState {
        self.state.get()
    }

    /// Enters `Serving`: a request begins.
    pub(crate) fn set_serving(&self) {
        self.state.set(ConnectionState::Serving);
        self.is_warm.set(true);
    }

    /// Enters `Idle`: no request is in progress since `since`.
    pub(crate) fn set_idle(&self, since: Instant) {
        self.state.set(ConnectionState::Idle { since });
    }

    /// Gives up the request in progress, and the connection with it.
    pub(crate) fn cancel(&self, code: CancelCode) {
        self.state.update(|state| state.cancelled(code));
    }

    pub(crate) fn limits(&self) -> IdleLimits {
        self.limits.get()
    }

    pub(crate) fn set_limits(&self, limits: IdleLimits) {
        self.limits.set(limits);
    }

    /// Whether it may be closed while idle, to make room or to end.
    pub(crate) fn is_free(&self, now: Instant) -> bool {
        self.limits.get().kept_until <= now
    }
}

/// Orders from outside of its task.
impl Link {
    pub(crate) fn order(&self) -> Order {
        self.order.get()
    }

    /// Gives its task an order, unless it has a stronger one.
    pub(crate) fn give(&self, order: Order) {
        self.order.update(|given| given.max(order));
        if let Some(waits) = &*self.waits.borrow() {
            waits.wake();
        }
    }

    /// Takes back an order to park; returns whether there was one.
    pub(crate) fn takes_park_order(&self) -> bool {
        let was_ordered = self.order.get() == Order::Park;
        if was_ordered {
            self.order.set(Order::None);
        }
        was_ordered
    }

    /// Whether it closes before its next request.
    pub(crate) fn is_closing(&self) -> bool {
        self.order.get() >= Order::CloseWhenIdle
    }
}

/// Waiting and parking.
impl Link {
    pub(crate) fn park_state(&self) -> ParkState {
        self.park_state.get()
    }

    /// Sets the park state and returns the old one. For [`crate::parking`], which keeps the poller's set in step.
    pub(crate) fn set_park_state(&self, state: ParkState) -> ParkState {
        self.park_state.replace(state)
    }

    /// Whether the sweep alone has to end its wait, by its protocol, its bytes and its limits.
    pub(crate) fn may_park(&self, now: Instant) -> bool {
        let protocol_may = match self.protocol() {
            Protocol::Http1 => true,
            Protocol::Http2(multiplexer) => multiplexer.is_quiet(),
        };
        // Between requests; bytes of the next request that have arrived are served first.
        let protocol_may = protocol_may && self.received.borrow().is_empty();
        protocol_may
            && self.io.is_idle()
            && self.limits.get().until.saturating_duration_since(now) >= TIMED_BELOW
    }

    /// As [`Link::may_park`] at the time since which it is idle, for a connection that is in the poller, which reports
    /// nothing again. `false` while a request is in progress.
    pub(crate) fn may_park_since_idle(&self) -> bool {
        !self.io.may_have_more(self.unread.get())
            && self.state.get().idle_since().is_some_and(|since| self.may_park(since))
    }

    /// Returns the state for its waits, and makes it if there is none; it is kept until [`Link::forget_waits`].
    pub(crate) fn waits(&self) -> Rc<Waits> {
        self.waits.borrow_mut().get_or_insert_default().clone()
    }

    /// Ends all watches that requests have made: the timer, the event loop's, the one for the client's close.
    pub(crate) fn forget_waits(&self) {
        self.waits.take();
        self.io.stream().unwatch();
    }

    /// Wakes the task that watches for the client's close, so that it looks.
    pub(crate) fn wake_close_watcher(&self) {
        if let Some(waits) = &*self.waits.borrow() {
            waits.wake_watcher();
        }
    }

    /// Ready once the client has closed.
    pub(crate) fn poll_closed(&self, context: &mut Context<'_>) -> Poll<()> {
        match self.park_state.get() {
            ParkState::Owned => self.waits().poll_closed(context, self.io.stream()),
            // A request that is served on the spot asks again from a task.
            ParkState::New | ParkState::Parked { .. } => Poll::Pending,
            // The poller has reported nothing yet, or the connection would have left it.
            ParkState::CheckedOut { .. } => {
                self.waits().watch(context);
                Poll::Pending
            }
        }
    }
}
