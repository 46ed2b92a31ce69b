//! UDP sessions: the datagrams of one client to one address, until the content handler is done.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tidegate_core::LocalFuture;
use tidegate_core::client::{Address, Connection};
use tidegate_core::error_log::Level;
use tidegate_core::exchange::Exchange;
use tidegate_core::session::{Datagrams, Session, SessionClient, Traffic};
use tidegate_rt::clock;
use tidegate_rt::net::Datagram;

use super::{PassError, SessionError, Transport};
use crate::front::Front;
use crate::listener::ListenerRef;

/// The largest datagram (RFC 768).
const DATAGRAM_BYTES_MAX: usize = 65_535;
/// Waiting datagrams of a session; more are dropped, as from a socket's queue.
const QUEUE_MAX: usize = 256;
/// Bytes of these.
const QUEUE_BYTES_MAX: usize = 512 * 1024;

/// A socket and its sessions.
struct Port {
    front: Rc<Front>,
    socket: Datagram,
    address: Address,
    clients: RefCell<HashMap<Endpoints, Rc<Client>>>,
}

/// A client's address and, where the socket is bound to all, the local address that it sends to.
type Endpoints = (SocketAddr, Option<IpAddr>);

/// Receives datagrams, and begins sessions of `stream` for new clients, until the future is dropped; sessions that have
/// begun by then continue. `address` finds the listener again in each new plan. Sessions are at most half of
/// `worker_connections`.
pub async fn receive_datagrams(front: Rc<Front>, socket: Datagram, address: Address) {
    if let Address::Inet(bound) = &address
        && bound.ip().is_unspecified()
        && let Err(error) = socket.set_packet_info(bound.is_ipv6())
    {
        let log = front.plan().main.error_log.clone();
        log.say(Level::Alert, format_args!("setsockopt(IP_PKTINFO) failed ({error})"));
    }
    let clients = RefCell::default();
    let port = Rc::new(Port { front, socket, address, clients });
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        match port.socket.receive_with_local(&mut buffer).await {
            Ok((length, Some(from), local)) => {
                port.deliver((from, local), buffer[..length].to_vec());
            }
            Ok((_, None, _)) => {}
            Err(error) => {
                let log = port.front.plan().main.error_log.clone();
                log.say(Level::Alert, format_args!("recvfrom() failed ({error})"));
                tidegate_rt::yield_now().await;
            }
        }
    }
}

impl Port {
    /// Delivers a datagram to its client's session, or begins a session.
    fn deliver(self: &Rc<Self>, endpoints: Endpoints, bytes: Vec<u8>) {
        let known = self.clients.borrow().get(&endpoints).cloned();
        match known {
            Some(client) => client.take(bytes),
            None => self.begin(endpoints, bytes),
        }
    }

    /// Begins a session with its first datagram, where there is room for one (half of `worker_connections`).
    ///
    /// Invariant: it is registered before its task runs, as many more datagrams may arrive before that. The entry of
    /// its client's address lives as long as the session ([`ClientEntry`]).
    fn begin(self: &Rc<Self>, endpoints: Endpoints, first: Vec<u8>) {
        let from = endpoints.0;
        let front = self.front.clone();
        let Some(plan) = front.session_plan().filter(|_| !front.is_draining()) else { return };
        let sessions = &front.sessions;
        if !sessions.has_room(&plan.main) && !sessions.make_room(&plan.main, clock::now()) {
            return;
        }
        let local = match (&self.address, endpoints.1) {
            (Address::Inet(bound), Some(ip)) => Address::Inet(SocketAddr::new(ip, bound.port())),
            (bound, _) => bound.clone(),
        };
        let Some(listener_ref) = ListenerRef::find_for(&plan, &self.address, &local, true) else {
            return;
        };
        let info = Connection {
            number: front.next_number(),
            debug: plan.main.debugs(&Address::Inet(from)),
            peer_text: Default::default(),
            peer: Address::Inet(from),
            local,
            protocol: Cell::new(""),
            proxy_protocol: None,
            tls: None,
            requests: Cell::new(0),
            accepted_unix_millis: clock::unix_millis(),
        };
        let traffic = Rc::<Traffic>::default();
        traffic.received.set(first.len() as u64);
        let client = Rc::new(Client {
            port: self.clone(),
            endpoints,
            waiting: RefCell::default(),
            waiting_bytes: Cell::default(),
            waker: RefCell::default(),
            traffic: traffic.clone(),
        });
        let listener = self.address.text();
        let mut session = Session::new(SessionClient::Datagrams(client.clone()), listener);
        session.traffic = traffic;
        session.input = first;
        let Some(x) = super::exchange(plan, listener_ref, info, session) else { return };
        let level = Level::Info;
        if x.settings().error_log.enabled(level) {
            let text = format!("udp client {from} connected to {}", self.address.text());
            x.settings().error_log.write(level, x.connection.number, &text);
        }
        self.clients.borrow_mut().insert(endpoints, client.clone());
        let (entry, counted) = (ClientEntry(client), front.counters.open());
        // Registered now: many more datagrams may arrive before the task runs.
        let running = front.sessions.enter(&x);
        tidegate_rt::spawn_local(async move {
            let _counted = counted;
            super::run(&front, running, x, listener_ref, Udp { _entry: entry }).await;
        });
    }
}

/// A client's entry in the table of sessions, until it is dropped.
struct ClientEntry(Rc<Client>);

impl Drop for ClientEntry {
    fn drop(&mut self) {
        self.0.release();
    }
}

struct Udp {
    _entry: ClientEntry,
}

impl Transport for Udp {
    fn secure<'a>(&'a mut self, _x: &'a mut Exchange) -> LocalFuture<'a, Result<(), SessionError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn pass(&mut self, _: &Rc<Front>, _: &mut Exchange, _: &Address) -> Result<(), PassError> {
        Err(PassError::Datagrams)
    }

    fn close<'a>(&'a mut self, _x: &'a mut Exchange) -> LocalFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// One client.
struct Client {
    port: Rc<Port>,
    endpoints: Endpoints,
    waiting: RefCell<VecDeque<Vec<u8>>>,
    waiting_bytes: Cell<usize>,
    waker: RefCell<Option<Waker>>,
    traffic: Rc<Traffic>,
}

impl Client {
    /// Queues a further datagram for the session.
    fn take(&self, bytes: Vec<u8>) {
        let mut waiting = self.waiting.borrow_mut();
        let queued = self.waiting_bytes.get() + bytes.len();
        if waiting.len() >= QUEUE_MAX || queued > QUEUE_BYTES_MAX {
            return;
        }
        self.waiting_bytes.set(queued);
        waiting.push_back(bytes);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }
}

impl Datagrams for Client {
    fn poll_receive(&self, context: &mut Context<'_>) -> Poll<Vec<u8>> {
        match self.waiting.borrow_mut().pop_front() {
            Some(bytes) => {
                self.waiting_bytes.set(self.waiting_bytes.get() - bytes.len());
                let received = &self.traffic.received;
                received.set(received.get() + bytes.len() as u64);
                Poll::Ready(bytes)
            }
            None => {
                self.waker.replace(Some(context.waker().clone()));
                Poll::Pending
            }
        }
    }

    fn release(&self) {
        let mut clients = self.port.clients.borrow_mut();
        // Another session may have taken the entry.
        if clients.get(&self.endpoints).is_some_and(|known| std::ptr::eq(&**known, self)) {
            clients.remove(&self.endpoints);
        }
        drop(clients);
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        self.waiting_bytes.set(0);
        waiting.into_iter().for_each(|bytes| self.port.deliver(self.endpoints, bytes));
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let (to, from) = &self.endpoints;
        let sent = match from {
            Some(from) => self.port.socket.try_send_from(bytes, to, *from),
            None => self.port.socket.try_send(bytes, Some(to)),
        };
        match sent {
            Ok(_) => {
                self.traffic.sent.set(self.traffic.sent.get() + bytes.len() as u64);
                Ok(())
            }
            // The socket's queue is full: a datagram may be lost here as anywhere on its way.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }
}
