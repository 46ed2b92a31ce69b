//! One client connection between and during its requests.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tidegate_core::LocalFuture;
use tidegate_core::client::{Address, CancelCode, Client, Connection};
use tidegate_core::counters::Open;
use tidegate_core::listen::{ListenerPlan, VirtualServers};
use tidegate_core::plan::Plan;
use tidegate_http::Headers;
use tidegate_http::response::write_status_line;
use tidegate_rt::timer::Deadline;

use crate::front::Front;
use crate::io::Io;
use crate::parking::ParkState;

/// Where a connection came in: a listener of the plan, and the local address's own servers if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerRef {
    pub listener: u32,
    pub local: Option<u32>,
}

impl ListenerRef {
    /// Where a connection to `local`, accepted at `address`, belongs in a plan.
    pub fn find(plan: &Plan, address: &Address, local: &Address) -> Option<ListenerRef> {
        ListenerRef::find_for(plan, address, local, false)
    }

    /// The same for UDP, if `datagram`.
    pub fn find_for(
        plan: &Plan,
        address: &Address,
        local: &Address,
        datagram: bool,
    ) -> Option<ListenerRef> {
        let same =
            |listener: &ListenerPlan| listener.address == *address && listener.datagram == datagram;
        let index = plan.listeners.iter().position(same)?;
        let place = match local {
            Address::Inet(local) => plan.listeners[index].local(local.ip()),
            Address::Unix(_) => None,
        };
        Some(ListenerRef { listener: index as u32, local: place.map(|place| place as u32) })
    }

    /// Whether TLS and the PROXY protocol are spoken there.
    pub fn transport(self, plan: &Plan) -> Option<(bool, bool)> {
        let listener = plan.listeners.get(self.listener as usize)?;
        match self.local {
            None => Some((listener.tls, listener.proxy_protocol)),
            Some(local) => {
                let local = listener.by_local.get(local as usize)?;
                Some((local.tls, local.proxy_protocol))
            }
        }
    }

    /// The servers that can be meant, in the plan that is current.
    pub fn servers(self, plan: &Plan) -> Option<&VirtualServers> {
        let listener = plan.listeners.get(self.listener as usize)?;
        match self.local {
            None => Some(&listener.servers),
            Some(local) => listener.by_local.get(local as usize).map(|local| &local.servers),
        }
    }
}

/// One client connection.
pub struct Conn {
    pub front: Rc<Front>,
    pub io: Io,
    pub info: Rc<Connection>,
    pub listener_ref: Cell<ListenerRef>,
    /// The generation whose plan `listener_ref` belongs to.
    pub generation: Cell<u64>,
    /// The listener it came in by, to find the listener of a newer plan.
    pub address: Rc<Address>,
    /// Bytes received and not yet used. Without memory of its own while idle.
    pub input: RefCell<Vec<u8>>,
    pub accepted: Instant,
    /// TCP_NODELAY is set.
    pub nodelay: Cell<bool>,
    /// Close before the next request: shutdown, or room is needed.
    pub closing: Cell<bool>,
    /// Since when it is idle; `None` while a request is in progress.
    pub idle_since: Cell<Option<Instant>>,
    /// What it needs while it waits for more than a request; nothing while it is parked.
    waits: RefCell<Option<Rc<Waits>>>,
    /// Ends the connection at once, whatever it does.
    pub aborted: Cell<bool>,
    /// When it has been idle too long (`keepalive_timeout`, `client_header_timeout`); looked at by the
    /// sweep of [`crate::parking`], so that an idle connection needs no timer.
    pub idle_until: Cell<Instant>,
    /// Until when it is not closed for the sake of others (`keepalive_min_timeout`).
    pub kept_until: Cell<Instant>,
    /// Give up the task and wait in the crowd.
    pub parking: Cell<bool>,
    /// Whether it is in the crowd, and its key there: apart, as together they would take twice as much.
    pub park_state: Cell<ParkState>,
    pub place: Cell<u32>,
    /// The last read was as large as it could be: more may have come than was read.
    pub unread: Cell<bool>,
    /// The request in progress was given up: the connection ends behind it.
    pub cancelled: Cell<Option<CancelCode>>,
    /// See [`Client::body_bytes`].
    pub body_bytes: Cell<u64>,
    /// Counts it as open.
    pub open: Open,
}

/// What a connection needs while it waits for more than a request.
#[derive(Default)]
pub struct Waits {
    pub deadline: Deadline,
    /// Its task's.
    waker: RefCell<Option<Waker>>,
    /// Who asked whether the client is gone, and is to be told when the crowd has news.
    watcher: RefCell<Option<Waker>>,
    /// Watches for the client's leaving once somebody asked.
    gone: RefCell<Option<LocalFuture<'static, ()>>>,
}

/// How a connection came.
pub struct AcceptInfo {
    pub address: Rc<Address>,
    pub listener_ref: ListenerRef,
    pub generation: u64,
    pub accepted: Instant,
    /// `client_header_timeout` of its default server.
    pub patience: Duration,
    pub open: Open,
}

impl Conn {
    /// A connection ready to be served.
    pub fn new(
        front: Rc<Front>,
        io: Io,
        info: Connection,
        input: Vec<u8>,
        accept_info: AcceptInfo,
    ) -> Rc<Conn> {
        Rc::new(Conn {
            front,
            io,
            info: Rc::new(info),
            listener_ref: Cell::new(accept_info.listener_ref),
            generation: Cell::new(accept_info.generation),
            address: accept_info.address,
            input: RefCell::new(input),
            accepted: accept_info.accepted,
            nodelay: Cell::new(false),
            closing: Cell::new(false),
            idle_since: Cell::new(Some(accept_info.accepted)),
            waits: RefCell::new(None),
            aborted: Cell::new(false),
            idle_until: Cell::new(accept_info.accepted + accept_info.patience),
            kept_until: Cell::new(accept_info.accepted),
            parking: Cell::new(false),
            park_state: Cell::new(ParkState::Owned),
            place: Cell::new(0),
            unread: Cell::new(false),
            cancelled: Cell::new(None),
            body_bytes: Cell::new(0),
            open: accept_info.open,
        })
    }

    /// What it needs while it waits, from now on until it forgets.
    pub fn waits(&self) -> Rc<Waits> {
        self.waits.borrow_mut().get_or_insert_default().clone()
    }

    /// Ends all watches that requests have made: timer, the loop's, for the client's leaving.
    pub fn forget_waits(&self) {
        self.waits.take();
        self.io.stream().unwatch();
    }

    /// When it began to be idle; now, if it has not.
    pub fn idle_since_or_now(&self) -> Instant {
        self.idle_since.get().unwrap_or_else(tidegate_rt::clock::now)
    }

    /// The servers a request can mean under `plan`, which may be newer than the connection. `None` when
    /// the plan no longer has the listener.
    pub fn servers<'p>(&self, plan: &'p Plan) -> Option<&'p VirtualServers> {
        if self.generation.get() != plan.generation {
            self.listener_ref.set(ListenerRef::find(plan, &self.address, &self.info.local)?);
            self.generation.set(plan.generation);
        }
        self.listener_ref.get().servers(plan)
    }

    /// The client speaks plain HTTP where TLS is expected: its request is answered with 497.
    pub fn lacks_tls(&self, plan: &Plan) -> bool {
        let transport = self.listener_ref.get().transport(plan);
        self.info.tls.is_none() && transport.is_some_and(|(tls, _)| tls)
    }

    /// Asks an idle connection to close; one with a request finishes it first.
    pub fn close_when_idle(&self) {
        self.closing.set(true);
        self.wake();
    }

    /// Ends it at once.
    pub fn abort(&self) {
        self.aborted.set(true);
        self.wake();
    }

    /// Whether it may be closed while idle, to make room or to end.
    pub fn is_free(&self, now: Instant) -> bool {
        self.kept_until.get() <= now
    }

    /// Asks an idle connection to give up its task.
    pub fn park(&self) {
        self.parking.set(true);
        self.wake();
    }

    /// Has whoever watches for the client's leaving look.
    pub fn wake_close_watcher(&self) {
        if let Some(waits) = &*self.waits.borrow()
            && let Some(watcher) = waits.watcher.take()
        {
            watcher.wake();
        }
    }

    fn wake(&self) {
        if let Some(waits) = &*self.waits.borrow()
            && let Some(waker) = &*waits.waker.borrow()
        {
            waker.wake_by_ref();
        }
    }

    /// Remembers whom to wake.
    pub fn remember(&self, context: &Context<'_>) {
        remember(&self.waits().waker, context);
    }

    /// Writes all bytes, without time limit of its own.
    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = poll_fn(|context| self.io.poll_write(context, bytes)).await?;
            bytes = bytes.get(written..).unwrap_or_default();
        }
        self.io.flush().await
    }
}

fn remember(waker: &RefCell<Option<Waker>>, context: &Context<'_>) {
    let mut waker = waker.borrow_mut();
    match &*waker {
        Some(known) if known.will_wake(context.waker()) => {}
        _ => *waker = Some(context.waker().clone()),
    }
}

impl Client for Conn {
    fn poll_gone(&self, context: &mut Context<'_>) -> Poll<()> {
        match self.park_state.get() {
            ParkState::Owned => {}
            // Who serves it on the spot asks again from a task.
            ParkState::Parked => return Poll::Pending,
            // The crowd has told of nothing yet, or the connection would have left it.
            ParkState::CheckedOut => {
                remember(&self.waits().watcher, context);
                return Poll::Pending;
            }
        }
        let stream = self.io.stream().clone();
        let waits = self.waits();
        let mut gone = waits.gone.borrow_mut();
        // As long as nothing has come since the request there is nothing to look at, and no watch of its
        // own is needed: news wakes this task.
        if gone.is_none() && stream.poll_readable(context).is_pending() {
            return Poll::Pending;
        }
        let watch = gone.get_or_insert_with(|| Box::pin(async move { stream.peer_closed().await }));
        let left = watch.as_mut().poll(context);
        if left.is_ready() {
            // Whoever asks next is told the same.
            *watch = Box::pin(std::future::ready(()));
        }
        left
    }

    fn cancel(&self, code: CancelCode) {
        if self.cancelled.get().is_none() {
            self.cancelled.set(Some(code));
        }
    }

    fn body_bytes(&self) -> u64 {
        self.body_bytes.get()
    }

    fn send_interim<'a>(
        &'a self,
        status: u16,
        headers: &'a Headers,
    ) -> LocalFuture<'a, io::Result<()>> {
        Box::pin(async move {
            let mut text = Vec::with_capacity(256);
            write_status_line(status, &mut text);
            headers.write_to(&mut text);
            text.extend_from_slice(b"\r\n");
            self.write_all(&text).await
        })
    }

    fn tcp_info(&self) -> Option<[u32; 4]> {
        let info = self.io.stream().tcp_info().ok()?;
        Some([info.rtt, info.rttvar, info.snd_cwnd, info.rcv_space])
    }
}
