//! A client's connection: its socket with or without TLS, what it is doing, and where it is parked.
//!
//! A [`Link`] knows no HTTP. What is spoken on it is its [`Protocol`]; a request of it has a client of its own
//! ([`crate::client::ClientStream`] for HTTP/1), so that streams can share a link.

mod state;
#[cfg(test)]
mod tests;
mod waits;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tidegate_core::client::{CancelCode, Connection};
use tidegate_core::counters::Open;
use tidegate_core::listen::VirtualServers;
use tidegate_core::plan::Plan;

use crate::io::Io;
use crate::listener::{AcceptInfo, Binding};
pub(crate) use state::{ConnectionState, IdleLimits, Order, ParkState};
pub(crate) use waits::Waits;

/// Idle times below this are kept by a timer, for which a connection needs a task.
pub(crate) const TIMED_BELOW: Duration = Duration::from_secs(3);

/// What is spoken on a connection, with the state that its driver keeps between requests. Its rows in
/// [`crate::protocol`] tell who serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Requests one after the other: nothing is kept between them.
    Http1,
}

/// One client connection.
pub(crate) struct Link {
    pub io: Io,
    pub info: Rc<Connection>,
    pub protocol: Protocol,
    binding: Binding,
    /// Bytes received and not yet used. Without memory of its own while idle.
    pub received: RefCell<Vec<u8>>,
    /// The last read was as large as it could be: more may have come than was read.
    pub unread: Cell<bool>,
    pub accepted: Instant,
    nodelay: Cell<bool>,
    state: Cell<ConnectionState>,
    limits: Cell<IdleLimits>,
    order: Cell<Order>,
    park_state: Cell<ParkState>,
    /// What it needs while it waits for more than a request; nothing while it is parked.
    waits: RefCell<Option<Rc<Waits>>>,
    /// Counts it as open.
    _open: Open,
}

impl Link {
    /// A connection ready to be served, of which `received` has come already.
    pub(crate) fn new(
        io: Io,
        info: Connection,
        protocol: Protocol,
        received: Vec<u8>,
        accept_info: AcceptInfo,
    ) -> Rc<Link> {
        let AcceptInfo { binding, accepted, patience, open } = accept_info;
        Rc::new(Link {
            io,
            info: Rc::new(info),
            protocol,
            binding,
            received: RefCell::new(received),
            unread: Cell::new(false),
            accepted,
            nodelay: Cell::new(false),
            state: Cell::new(ConnectionState::Idle { since: accepted }),
            limits: Cell::new(IdleLimits::new(accepted, patience)),
            order: Cell::default(),
            park_state: Cell::new(ParkState::Owned),
            waits: RefCell::new(None),
            _open: open,
        })
    }

    /// The servers a request can mean under `plan`, which may be newer than the connection. `None` when
    /// the plan no longer has the listener.
    pub(crate) fn servers<'p>(&self, plan: &'p Plan) -> Option<&'p VirtualServers> {
        self.binding.servers(plan, &self.info.local)
    }

    /// The generation of its last request, or that it was accepted in.
    pub(crate) fn generation(&self) -> u64 {
        self.binding.generation()
    }

    /// The client speaks plain HTTP where TLS is expected: its request is answered with 497.
    pub(crate) fn lacks_tls(&self, plan: &Plan) -> bool {
        self.info.tls.is_none() && self.binding.expects_tls(plan)
    }

    /// Whether TCP_NODELAY is set.
    pub(crate) fn has_nodelay(&self) -> bool {
        self.nodelay.get()
    }

    /// Sets TCP_NODELAY, once.
    pub(crate) fn set_nodelay(&self) {
        if !self.nodelay.replace(true) {
            let _ = self.io.stream().set_nodelay(true);
        }
    }

    /// Writes all bytes, without time limit of its own.
    ///
    /// # Errors
    /// The client is gone.
    pub(crate) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = poll_fn(|context| self.io.poll_write(context, bytes)).await?;
            bytes = bytes.get(written..).unwrap_or_default();
        }
        self.io.flush().await
    }
}

/// What it is doing.
impl Link {
    pub(crate) fn state(&self) -> ConnectionState {
        self.state.get()
    }

    /// A request begins.
    pub(crate) fn set_serving(&self) {
        self.state.set(ConnectionState::Serving);
    }

    /// No request is in progress since then.
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

/// What others want of it.
impl Link {
    pub(crate) fn order(&self) -> Order {
        self.order.get()
    }

    /// Tells its task, unless that has been told more.
    pub(crate) fn give(&self, order: Order) {
        self.order.update(|given| given.max(order));
        if let Some(waits) = &*self.waits.borrow() {
            waits.wake();
        }
    }

    /// Whether it was asked to park; it is asked once.
    pub(crate) fn takes_park_order(&self) -> bool {
        let asked = self.order.get() == Order::Park;
        if asked {
            self.order.set(Order::None);
        }
        asked
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

    /// For [`crate::parking`], which keeps the poller's set in step; answers what it was.
    pub(crate) fn set_park_state(&self, state: ParkState) -> ParkState {
        self.park_state.replace(state)
    }

    /// Whether nothing but the sweep has to end its waiting: for its protocol, its bytes and its limits.
    pub(crate) fn may_park(&self, now: Instant) -> bool {
        let protocol_may = match self.protocol {
            // Between requests; what has arrived of the next one is served first.
            Protocol::Http1 => self.received.borrow().is_empty(),
        };
        protocol_may
            && self.io.plain().is_some()
            && self.limits.get().until.saturating_duration_since(now) >= TIMED_BELOW
    }

    /// The same at the moment since which it is idle; `false` while a request is in progress.
    pub(crate) fn may_park_since_idle(&self) -> bool {
        self.state.get().idle_since().is_some_and(|since| self.may_park(since))
    }

    /// What it needs while it waits, from now on until it forgets.
    pub(crate) fn waits(&self) -> Rc<Waits> {
        self.waits.borrow_mut().get_or_insert_default().clone()
    }

    /// Ends all watches that requests have made: timer, the loop's, for the client's leaving.
    pub(crate) fn forget_waits(&self) {
        self.waits.take();
        self.io.stream().unwatch();
    }

    /// Has whoever watches for the client's leaving look.
    pub(crate) fn wake_close_watcher(&self) {
        if let Some(waits) = &*self.waits.borrow() {
            waits.wake_watcher();
        }
    }

    /// Ready once the client has closed.
    pub(crate) fn poll_gone(&self, context: &mut Context<'_>) -> Poll<()> {
        match self.park_state.get() {
            ParkState::Owned => self.waits().poll_gone(context, self.io.stream()),
            // Who serves it on the spot asks again from a task.
            ParkState::Parked { .. } => Poll::Pending,
            // The poller has told of nothing yet, or the connection would have left it.
            ParkState::CheckedOut { .. } => {
                self.waits().watch(context);
                Poll::Pending
            }
        }
    }
}
