//! The task of a socket: it receives, serves and sends for all of the socket's connections.
//!
//! A turn of [`Endpoint::run`]:
//!
//! 1. What the socket had no room for is sent first; while it waits, nothing else is sent, and so nothing is lost.
//! 2. Datagrams that have arrived go to their connections, at most [`BATCHES`] calls of the kernel, and no more calls once a
//!    time share is used up.
//! 3. Clients that have waited for what they begin with begin (`hold`).
//! 4. Connections whose deadline has passed are notified.
//! 5. Each connection that is due is served once: its events, then what it has to send, at most [`send::TRANSMITS`] datagrams
//!    or groups of them. One with more is due again, behind the others; so is one whose events have used up the time
//!    share.
//!
//! Invariants: a connection is in `due` at most once, and never for what its own service sends
//! ([`Connection::queued`]); its deadline is that of the library after each service; a connection is in the table until
//! the library has drained it. No method borrows a cell while [`Served::event`] or [`Application`] run, so that these may
//! use endpoint and connections at once. Dropped at its await the endpoint keeps its state and can be run again.

mod hold;
mod send;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use quinn_proto::{ConnectionHandle, DatagramEvent, EcnCodepoint, Transmit};
use tidegate_rt::clock;
use tidegate_rt::net::{PacketMemory, Packets, Received};
use tidegate_rt::share;
use tidegate_rt::sync::Notify;
use tidegate_rt::timer::Deadline;

use crate::application::{Application, Packet};
use crate::connection::Connection;
use crate::due::Due;
use crate::event::{Direction, Event, Served, translate};
use crate::hello::HelloReaders;
use crate::numbers::{self, Numbers};
use crate::settings::{ClientSettings, Keys, ServerSettings};
use crate::timers::Timers;
use hold::Held;
use send::Sent;

/// Calls of the kernel that receive in one turn.
const BATCHES: usize = 4;

/// A socket with its connections.
pub struct Endpoint<A: Application> {
    application: A,
    socket: Packets,
    numbers: Numbers,
    due: Rc<Due>,
    /// Notified when the last connection has gone.
    empty: Notify,
    deadline: Deadline,
    /// Clients whose connections have not begun. Empty while it is worked on.
    held: RefCell<Vec<Held>>,
    hellos: Option<HelloReaders>,
    state: RefCell<State>,
}

struct State {
    library: quinn_proto::Endpoint,
    /// By the library's handle.
    connections: Vec<Option<Rc<Connection>>>,
    timers: Timers,
    /// What the socket had no room for.
    unsent: Option<(Transmit, Vec<u8>)>,
    /// Memory for what is sent.
    buffer: Vec<u8>,
}

impl<A: Application> Endpoint<A> {
    /// Makes the endpoint of a socket, for one of `threads` threads. Without `server` it only opens connections.
    pub fn new(
        socket: Packets,
        application: A,
        keys: &Keys,
        server: Option<&ServerSettings>,
        (thread, threads): (u16, u16),
    ) -> Endpoint<A> {
        let numbers = Numbers::new(keys.0.numbers, thread, threads);
        let config = Arc::new(numbers::configuration(&numbers, keys.0.reset.clone()));
        let hellos = server.and_then(|_| HelloReaders::new(&numbers, keys));
        let server = server.map(|server| server.0.clone());
        let library = quinn_proto::Endpoint::new(config, server, !socket.may_fragment(), None);
        let state = State {
            library,
            connections: Vec::new(),
            timers: Timers::default(),
            unsent: None,
            buffer: Vec::new(),
        };
        Endpoint {
            application,
            socket,
            numbers,
            due: Rc::default(),
            empty: Notify::new(),
            deadline: Deadline::new(),
            held: RefCell::default(),
            hellos,
            state: RefCell::new(state),
        }
    }

    /// Returns what is served.
    pub fn application(&self) -> &A {
        &self.application
    }

    /// Returns the socket.
    pub fn socket(&self) -> &Packets {
        &self.socket
    }

    /// Sets what further connections begin with; `None` refuses them.
    pub fn set_server(&self, server: Option<&ServerSettings>) {
        self.state.borrow_mut().library.set_server_config(server.map(|server| server.0.clone()));
    }

    /// Changes the number of threads that share the address: new connection numbers are steered by it.
    pub fn set_threads(&self, threads: u16) {
        self.numbers.set_threads(threads);
    }

    /// Returns the number of connections, those that are being closed included.
    pub fn open_connections(&self) -> usize {
        self.state.borrow().library.open_connections()
    }

    /// Waits until there is no connection, and none that is being closed.
    pub async fn emptied(&self) {
        loop {
            let empty = self.empty.notified();
            if self.open_connections() == 0 {
                return;
            }
            empty.await;
        }
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// The name or address is of no use.
    pub fn connect(
        &self,
        settings: &ClientSettings,
        to: SocketAddr,
        name: &str,
        served: Rc<dyn Served>,
    ) -> io::Result<Rc<Connection>> {
        let mut state = self.state.borrow_mut();
        let opened = state.library.connect(clock::exact_now(), settings.0.clone(), to, name);
        let (handle, inner) = opened.map_err(io::Error::other)?;
        Ok(self.insert(&mut state, handle, inner, Some(served)))
    }

    /// Serves the connections until the socket fails. Dropped at its await it can be run again.
    pub async fn run(&self) -> io::Error {
        let mut memory = PacketMemory::default();
        poll_fn(|context| self.turn(context, &mut memory)).await
    }

    /// Handles a packet that another thread has passed on.
    pub fn receive(&self, packet: &Packet) {
        let Packet { bytes, from, to, ecn } = packet;
        self.handle(&Received { bytes, from: *from, to: *to, ecn: *ecn }, clock::exact_now());
        self.due.wake();
    }

    fn turn(&self, context: &mut Context<'_>, memory: &mut PacketMemory) -> Poll<io::Error> {
        self.due.waker.replace(Some(context.waker().clone()));
        self.due.in_turn.set(true);
        let now = clock::exact_now();
        let may_send = self.send_unsent(context).is_ready();
        // With a share of its own, so that however much arrives, connections are served as well.
        let more = match share::apart(|| self.receive_all(context, memory, now)) {
            Ok(more) => more,
            Err(error) => {
                self.due.in_turn.set(false);
                return Poll::Ready(error);
            }
        };
        self.begin_held(now, context);
        self.notify_expired(now);
        let is_due = may_send && self.serve_due(now, context);
        self.arm(context);
        self.due.in_turn.set(false);
        if more || is_due {
            // Once the event loop has polled for events, those of other sockets among them.
            let _: Poll<()> = share::later(context);
        }
        Poll::Pending
    }

    /// Serves the connections that are due, each once. Returns whether some are due afterwards, and the socket has room.
    fn serve_due(&self, now: Instant, context: &mut Context<'_>) -> bool {
        // Those that become due meanwhile are served in the next turn.
        let count = self.due.queue.borrow().len();
        for _ in 0..count {
            let Some(handle) = self.due.queue.borrow_mut().pop_front() else { break };
            let connection = self.connection(handle);
            if let Some(connection) = connection
                && self.serve(&connection, now, context).is_pending()
            {
                return false;
            }
            // The others are served in the next iteration of the event loop.
            if share::is_used_up() {
                break;
            }
        }
        !self.due.queue.borrow().is_empty()
    }

    /// Receives what has arrived, within limits. Returns whether there may be more.
    fn receive_all(
        &self,
        context: &mut Context<'_>,
        memory: &mut PacketMemory,
        now: Instant,
    ) -> io::Result<bool> {
        for _ in 0..BATCHES {
            let mut each = |received: Received<'_>| self.handle_or_pass_on(&received, now);
            match self.socket.poll_receive(context, memory, &mut each) {
                Poll::Ready(received) => received?,
                Poll::Pending => return Ok(false),
            }
            // Packets without use are not counted by anything else.
            if share::is_over() {
                break;
            }
        }
        Ok(true)
    }

    fn connection(&self, handle: usize) -> Option<Rc<Connection>> {
        self.state.borrow().connections.get(handle)?.clone()
    }

    /// Arms the timer for the earliest deadline of a connection.
    fn arm(&self, context: &mut Context<'_>) {
        match self.state.borrow().timers.next() {
            Some(at) => self.deadline.set(at),
            None => self.deadline.clear(),
        }
        if self.deadline.poll_elapsed(context).is_ready() {
            context.waker().wake_by_ref();
        }
    }

    fn notify_expired(&self, now: Instant) {
        loop {
            let Some(handle) = self.state.borrow_mut().timers.expired(now) else { return };
            if let Some(connection) = self.connection(handle) {
                connection.inner.borrow_mut().handle_timeout(now);
                self.due.add(&connection);
            }
        }
    }

    fn handle_or_pass_on(&self, received: &Received<'_>, now: Instant) {
        let number = numbers::of_packet(received.bytes);
        match number.and_then(|number| self.numbers.thread_of(number)) {
            Some(thread) if thread != self.numbers.thread() => {
                let bytes = Bytes::copy_from_slice(received.bytes);
                let Received { from, to, ecn, .. } = *received;
                self.application.pass_on(thread, Packet { bytes, from, to, ecn });
            }
            _ => self.handle(received, now),
        }
    }

    fn handle(&self, received: &Received<'_>, now: Instant) {
        let mut state = self.state.borrow_mut();
        let State { library, buffer, .. } = &mut *state;
        buffer.clear();
        let ecn = EcnCodepoint::from_bits(received.ecn);
        let bytes = BytesMut::from(received.bytes);
        match library.handle(now, received.from, received.to, ecn, bytes, buffer) {
            None => {
                drop(state);
                self.received_held(received, now);
            }
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(Some(connection)) = state.connections.get(handle.0)
                    && !connection.is_ignored(now)
                {
                    connection.inner.borrow_mut().handle_event(event);
                    self.due.add(connection);
                }
            }
            Some(DatagramEvent::Response(transmit)) => {
                // One that is lost is asked for again.
                let _ = self.socket.try_send(&send::outgoing(&transmit, buffer));
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                drop(state);
                self.decide(incoming, received, now);
            }
        }
    }

    fn insert(
        &self,
        state: &mut State,
        ConnectionHandle(handle): ConnectionHandle,
        inner: quinn_proto::Connection,
        served: Option<Rc<dyn Served>>,
    ) -> Rc<Connection> {
        let connection = Connection::new(inner, handle, self.due.clone());
        if let Some(served) = served {
            connection.serve(served);
        }
        if state.connections.len() <= handle {
            state.connections.resize(handle + 1, None);
        }
        state.connections[handle] = Some(connection.clone());
        self.due.add(&connection);
        connection
    }

    /// Reports a connection's events and sends what it has. Pending when the socket has no room.
    fn serve(
        &self,
        connection: &Rc<Connection>,
        now: Instant,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        // It is still marked as queued: what its events change is sent below.
        connection.observe_address(now);
        // Before requests see the address.
        let is_full =
            connection.is_moving() && self.probe_path(connection, now, context).is_pending();
        let more_events = self.report(connection);
        let sent = match is_full {
            true => Poll::Pending,
            false => self.send(connection, now, context),
        };
        let has_reply = self.exchange(connection);
        connection.queued.set(false);
        let (timeout, drained) = {
            let mut inner = connection.inner.borrow_mut();
            (inner.poll_timeout(), inner.is_drained())
        };
        let mut state = self.state.borrow_mut();
        state.timers.set(connection.handle, timeout.filter(|_| !drained));
        if drained {
            if let Some(slot) = state.connections.get_mut(connection.handle) {
                *slot = None;
            }
            if state.library.open_connections() == 0 {
                self.empty.notify_waiters();
            }
            drop(state);
            self.report(connection);
            // The library reports the end of those alone that it has ended itself.
            connection.end();
        } else if more_events || has_reply || sent != Poll::Ready(Sent::All) {
            drop(state);
            self.due.add(connection);
        }
        sent.map(|_| ())
    }

    /// Finds out whether the path to the peer's new address is validated, by what is sent to it.
    fn probe_path(
        &self,
        connection: &Rc<Connection>,
        now: Instant,
        context: &mut Context<'_>,
    ) -> Poll<Sent> {
        let before = connection.sent();
        connection.inner.borrow_mut().ping();
        let sent = self.send(connection, now, context);
        connection.note_sent(before);
        sent
    }

    /// Reports the events that have happened. Returns whether some are left for the next service.
    fn report(&self, connection: &Rc<Connection>) -> bool {
        let Some(served) = connection.served() else { return false };
        // Before the requests that have arrived meanwhile.
        give_room(connection, &*served);
        if connection.begin_service() {
            served.event(connection, Event::Opened(Direction::Both));
            // The library counts streams as they are accepted: none may end before.
            if connection.accepts_later() {
                return true;
            }
        }
        loop {
            self.exchange(connection);
            let event = connection.inner.borrow_mut().poll();
            let Some(event) = event else { return false };
            let Some(event) = translate(event) else { continue };
            if let Event::Writable(_) = event
                && !connection.waiting.borrow().is_empty()
            {
                give_room(connection, &*served);
                continue;
            }
            let is_last = matches!(event, Event::Closed(_));
            served.event(connection, event);
            if is_last {
                connection.forget_served();
                return false;
            }
            // One that has ended is not served again.
            let is_over = share::is_used_up() && !connection.inner.borrow().is_drained();
            if is_over || connection.accepts_later() {
                return true;
            }
        }
    }

    /// Exchanges events between the library's connection and endpoint: new numbers, retired ones, the end. Returns whether
    /// the connection may have more to send.
    fn exchange(&self, connection: &Connection) -> bool {
        let mut has_reply = false;
        loop {
            let event = connection.inner.borrow_mut().poll_endpoint_events();
            let Some(event) = event else { return has_reply };
            let handle = ConnectionHandle(connection.handle);
            let reply = self.state.borrow_mut().library.handle_event(handle, event);
            if let Some(reply) = reply {
                connection.inner.borrow_mut().handle_event(reply);
                has_reply = true;
            }
        }
    }
}

impl<A: Application> Drop for Endpoint<A> {
    fn drop(&mut self) {
        let (now, code) = (clock::exact_now(), self.application.code_of_end());
        let State { connections, buffer, .. } = self.state.get_mut();
        for connection in connections.iter().flatten() {
            let last = code.and_then(|code| connection.close_at_once(code, now, buffer));
            if let Some(transmit) = last {
                // One that is lost is not repeated.
                let _ = self.socket.try_send(&send::outgoing(&transmit, buffer));
            }
            // Connections and what serves them hold each other.
            connection.end();
        }
    }
}

impl<A: Application> fmt::Debug for Endpoint<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("socket", &self.socket).finish_non_exhaustive()
    }
}

/// Has the streams that wait for room write, in their order. What has no room now keeps its place.
fn give_room(connection: &Rc<Connection>, served: &dyn Served) {
    if connection.waiting.borrow().is_empty() {
        return;
    }
    let streams = connection.waiting.borrow().streams();
    for stream in streams {
        served.event(connection, Event::Writable(stream));
    }
}
