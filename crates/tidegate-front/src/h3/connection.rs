//! One QUIC connection: what is known of it, its protocol, and its requests in progress.

use std::cell::{Cell, OnceCell, RefCell};
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidegate_core::client::{Address, CertificateError, Connection};
use tidegate_core::counters::OpenConnection;
use tidegate_core::exchange::PlanRef;
use tidegate_h3::{Closing, ErrorCode, OwnStream, Priority};
use tidegate_quic::{Direction, StreamId};
use tidegate_rt::clock;
use tidegate_rt::sync::Notify;
use tidegate_tls::StatusQuery;

use super::directives::{HQ, Http3Server};
use super::held::Held;
use super::port::{Handshaking, Port};
use super::stream::Stream;
use crate::front::Front;
use crate::listener::{Binding, ListenerRef};
use crate::serve::begin;
use crate::taskless::Taskless;
use crate::tls::quic::{HQ_INTEROP, QuicNames};

/// The priority of the connection's own streams, above that of all responses.
const OWN_PRIORITY: i32 = i32::MAX;

/// ```text
///                        a drain: GOAWAY              a round trip later: final GOAWAY
///   Open ────────────────────────────────▶ Announced ───────────────────────────────▶ Final
///    │ keepalive_requests, keepalive_time: final GOAWAY                                 │
///    ├─────────────────────────────────────────────────────────────────────────────────▶┤
///    │                                                         nothing is left, and that was received
///    └── an error, an abort, the client closes, the idle timeout ──▶ Gone ◀─────────────┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Open,
    Announced,
    /// No more requests begin.
    Final,
    /// Nothing can be received or sent.
    Gone,
}

/// The verification of the client's certificate by its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verification {
    /// None is necessary as far as is known.
    None,
    Running,
    /// It has ended, with the reason why the client is not trusted.
    Ended(Option<CertificateError>),
}

/// The limits of a connection under a plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    generation: u64,
    /// `keepalive_timeout`.
    pub(super) keepalive_timeout: Duration,
    /// `client_header_timeout`.
    pub(super) header_timeout: Duration,
    /// `keepalive_requests`.
    pub(super) requests: u64,
    /// `keepalive_time`.
    pub(super) time: Duration,
}

/// A connection. The endpoint's table owns it, and the requests in progress.
pub(crate) struct QuicLink {
    pub(super) front: Rc<Front>,
    pub(super) port: Rc<Port>,
    pub(super) quic: Rc<tidegate_quic::Connection>,
    /// Itself.
    pub(super) me: Weak<QuicLink>,
    /// The properties that its next request has.
    info: RefCell<Rc<Connection>>,
    pub(super) binding: Binding,
    /// The protocol, once the handshake has chosen it.
    pub(super) core: OnceCell<RefCell<tidegate_h3::Connection>>,
    /// HTTP/0.9 is spoken: there is no protocol.
    pub(super) is_hq: Cell<bool>,
    /// The own streams that have begun, by [`OwnStream::ALL`].
    own: Cell<[Option<StreamId>; 3]>,
    /// Requests in progress that wait, by the number of their stream.
    streams: RefCell<Vec<(u64, Rc<Stream>)>>,
    /// Streams whose head is incomplete, and since when.
    pub(super) incomplete: RefCell<Vec<(u64, Instant)>>,
    /// What was read of streams whose field section waits for insertions, with whether it is the end.
    pub(super) held: RefCell<Held>,
    /// Streams to be read once the one in progress is.
    pub(super) to_read: RefCell<Vec<u64>>,
    /// A stream is being read.
    pub(super) is_reading: Cell<bool>,
    /// Streams that were ended and whose bytes the client has not acknowledged.
    pub(super) unacknowledged: RefCell<Vec<u64>>,
    pub(super) ending: Cell<Ending>,
    /// The code of the end of a client that has flooded, until it is sent.
    pub(super) held_code: Cell<Option<ErrorCode>>,
    verification: Cell<Verification>,
    /// Notified when the verification has ended.
    verified: Notify,
    /// QUIC has forgotten it.
    pub(super) is_closed: Cell<bool>,
    /// Since when no request is in progress; `None` while one is.
    idle_since: Cell<Option<Instant>>,
    /// It has served requests since memory was last given back.
    pub(super) is_warm: Cell<bool>,
    pub(super) accepted: Instant,
    /// QUIC's idle timeout.
    pub(super) idle_timeout: Duration,
    /// The limits of [`QuicLink::limits`].
    limits: Cell<Option<Limits>>,
    /// When a PING was sent last.
    pub(super) pinged: Cell<Instant>,
    /// Its key in the thread's list.
    pub(super) key: Cell<usize>,
    /// Counts the handshake as in progress, until it is complete or the connection is gone.
    pub(super) handshaking: Cell<Option<Handshaking>>,
    /// Counts the connection as open, until it is gone.
    pub(super) open: Cell<Option<OpenConnection>>,
}

impl QuicLink {
    /// Makes a connection that has begun with its client's first packet.
    pub(super) fn begin(port: &Rc<Port>, quic: &Rc<tidegate_quic::Connection>) -> Rc<QuicLink> {
        let front = port.front.clone();
        let plan = front.plan();
        let (peer, local) = (Address::Inet(quic.peer_address()), local_address(port, quic));
        let info = Connection {
            number: front.next_number(),
            debug: plan.main.debugs(&peer),
            peer_text: Default::default(),
            peer,
            local,
            protocol: Cell::new(""),
            proxy_protocol: None,
            tls: None,
            requests: Cell::new(0),
            accepted_unix_millis: clock::unix_millis(),
        };
        // Admitted a moment ago, so the plan has the listener; otherwise nothing is found in it later.
        let listener_ref = ListenerRef::find_for(&plan, &port.address, &info.local, true);
        let listener_ref = listener_ref.unwrap_or(ListenerRef { listener: u32::MAX, local: None });
        let now = clock::now();
        let link = Rc::new_cyclic(|me| QuicLink {
            binding: Binding::of_datagrams(port.address.clone(), &plan, listener_ref),
            port: port.clone(),
            quic: quic.clone(),
            me: me.clone(),
            info: RefCell::new(Rc::new(info)),
            core: OnceCell::new(),
            is_hq: Cell::new(false),
            own: Cell::default(),
            streams: RefCell::default(),
            incomplete: RefCell::default(),
            held: RefCell::default(),
            to_read: RefCell::default(),
            is_reading: Cell::new(false),
            unacknowledged: RefCell::default(),
            ending: Cell::new(Ending::Open),
            held_code: Cell::new(None),
            verification: Cell::new(Verification::None),
            verified: Notify::new(),
            is_closed: Cell::new(false),
            idle_since: Cell::new(Some(now)),
            is_warm: Cell::new(true),
            accepted: now,
            idle_timeout: port.idle_timeout.get(),
            limits: Cell::new(None),
            pinged: Cell::new(now),
            key: Cell::new(usize::MAX),
            handshaking: Cell::new(Some(port.handshaking())),
            open: Cell::new(Some(front.counters.open())),
            front,
        });
        let weak: Weak<QuicLink> = link.me.clone();
        link.key.set(link.front.taskless.add(weak));
        link
    }

    /// Stores what the handshake has negotiated so far, and begins the protocol.
    pub(super) fn handshake(&self) {
        let Some(negotiated) = self.quic.handshake() else { return };
        let plan = self.front.plan();
        let Some(names) = self.names() else { return };
        let (mut tls, statuses) = names.known(negotiated);
        let old = self.info();
        // Those that requests which have begun share.
        if let Some(known) = &old.tls {
            tls.early = known.early.clone();
            tls.session_id = known.session_id.clone();
        }
        if !self.quic.is_handshaking()
            && let Some(early) = &tls.early
        {
            early.set(false);
        }
        let is_hq = tls.alpn.as_ref().is_some_and(|alpn| alpn.as_bytes() == HQ_INTEROP);
        self.is_hq.set(is_hq);
        self.limits.set(None);
        self.info.replace(Rc::new(Connection {
            tls: Some(Box::new(tls)),
            protocol: Cell::new(if is_hq { HQ } else { "h3" }),
            ..(*old).clone()
        }));
        match self.verification.get() {
            Verification::None if !statuses.is_empty() => self.verify(names, statuses),
            Verification::Ended(fault) => self.set_fault(fault),
            Verification::None | Verification::Running => {}
        }
        if !is_hq
            && self.core.get().is_none()
            && let Some(http3) =
                self.server(&plan).and_then(|server| Http3Server::of(&plan, server))
        {
            let core = tidegate_h3::Connection::new(http3.config.clone());
            let _ = self.core.set(RefCell::new(core));
        }
        self.send_own();
    }

    /// Returns the servers of the connection's listener; `None` where the plan has none any more.
    pub(super) fn names(&self) -> Option<QuicNames> {
        let plan = self.front.plan();
        let local = self.info().local.clone();
        let listener_ref = ListenerRef::find_for(&plan, &self.port.address, &local, true)?;
        Some(QuicNames::new(plan.shared().clone(), listener_ref))
    }

    /// Queries the statuses of the client's certificates (`ssl_ocsp`). Its requests wait for that.
    fn verify(&self, names: QuicNames, statuses: Vec<StatusQuery>) {
        self.verification.set(Verification::Running);
        let Some(me) = self.me.upgrade() else { return };
        tidegate_rt::spawn_local(async move {
            let fault = names.fault(&me.info(), &statuses).await;
            me.verification.set(Verification::Ended(fault));
            me.set_fault(fault);
            me.verified.notify_waiters();
        });
    }

    fn set_fault(&self, fault: Option<CertificateError>) {
        let mut info = (*self.info()).clone();
        if let Some(client) = info.tls.as_mut().and_then(|tls| tls.client.as_mut()) {
            client.fault = client.fault.or(fault);
            self.info.replace(Rc::new(info));
        }
    }

    /// Waits until the client's certificate is verified. Returns the connection's properties then; `None` where nothing
    /// was waited for.
    pub(super) async fn verified(&self) -> Option<Rc<Connection>> {
        let verified = self.verified.notified();
        if self.verification.get() != Verification::Running {
            return None;
        }
        verified.await;
        Some(self.info())
    }

    fn server(&self, plan: &PlanRef) -> Option<tidegate_core::plan::ServerId> {
        let info = self.info();
        let servers = self.binding.servers_now(plan, &info.local)?;
        Some(begin::base_server(&info, servers))
    }

    /// Returns the limits by the server of its handshake, before that of the default server; `None` if the plan no longer
    /// has the listener. They are looked up once for each plan.
    pub(super) fn limits(&self) -> Option<Limits> {
        let known = self.limits.get();
        let plan = self.front.plan();
        if known.is_some_and(|known| known.generation == plan.generation) {
            return known;
        }
        let server = plan.server(self.server(&plan)?);
        let settings = &plan.location(server.location).settings;
        let limits = Limits {
            generation: plan.generation,
            keepalive_timeout: settings.keepalive_timeout.idle,
            header_timeout: server.settings.client_header_timeout,
            requests: settings.keepalive_requests,
            time: settings.keepalive_time,
        };
        self.limits.set(Some(limits));
        Some(limits)
    }

    /// Returns the properties that its next request has. After a migration they are others than those of the requests
    /// before (RFC 9000 section 9).
    pub(super) fn info(&self) -> Rc<Connection> {
        let info = self.info.borrow().clone();
        let peer = self.quic.peer_address();
        if matches!(&info.peer, Address::Inet(known) if *known == peer) {
            return info;
        }
        let moved = Connection {
            peer: Address::Inet(peer),
            local: local_address(&self.port, &self.quic),
            peer_text: Default::default(),
            ..(*info).clone()
        };
        let moved = Rc::new(moved);
        self.info.replace(moved.clone());
        moved
    }

    /// Changes the protocol's state; `None` before there is one. It is borrowed within `work` only.
    pub(super) fn with_core<T>(
        &self,
        work: impl FnOnce(&mut tidegate_h3::Connection) -> T,
    ) -> Option<T> {
        Some(work(&mut self.core.get()?.borrow_mut()))
    }

    /// Sends what the protocol has for its own streams. They come before anything on request streams.
    pub(super) fn send_own(&self) {
        let Some(core) = self.core.get() else { return };
        for (index, own) in OwnStream::ALL.into_iter().enumerate() {
            let mut core = core.borrow_mut();
            if core.output(own).is_empty() {
                continue;
            }
            let mut ids = self.own.get();
            let Some(slot) = ids.get_mut(index) else { continue };
            if slot.is_none() {
                // Where the client allows none yet, `Event::Available` follows.
                *slot = self.quic.open(Direction::One);
                if let Some(id) = slot {
                    self.quic.set_priority(*id, OWN_PRIORITY);
                }
                self.own.set(ids);
            }
            let Some(id) = ids.get(index).copied().flatten() else { continue };
            let mut bytes = Bytes::copy_from_slice(core.output(own));
            // What has no room leaves with `Event::Writable`.
            if let Ok(count) = self.quic.write(id, &mut bytes) {
                core.output_sent(own, count);
            }
        }
    }

    /// Gives QUIC the priority of a response.
    pub(super) fn prioritise(&self, id: u64) {
        if let Some(priority) = self.with_core(|core| core.priority(id)).flatten() {
            self.quic.set_priority(StreamId(id), order(priority));
        }
    }

    /// The same of one that begins: QUIC has the common priority by itself.
    pub(super) fn prioritise_first(&self, id: u64) {
        let priority = self.with_core(|core| core.priority(id)).flatten();
        if priority.is_some_and(|priority| order(priority) != 0) {
            self.prioritise(id);
        }
    }

    /// Does with a stream of QUIC what the protocol says of an exchange that is over.
    pub(super) fn apply(&self, id: u64, closing: Closing) {
        if let Some(code) = closing.stop {
            self.quic.stop(StreamId(id), code.0);
        }
        if let Some(code) = closing.reset {
            self.quic.reset(StreamId(id), code.0);
        }
    }

    /// Forgets a request that has ended; its stream is given up with `code` unless both messages are complete.
    pub(super) fn close_stream(&self, id: u64, code: ErrorCode) {
        let closing = match self.with_core(|core| core.close(id, code)) {
            Some(closing) => closing,
            None => self.closing_of_hq(id, code),
        };
        self.held.borrow_mut().retain(|(held, ..)| *held != id);
        self.apply(id, closing);
        self.send_own();
        self.remove_stream(id);
        self.rest();
    }

    /// The end of a stream was written.
    pub(super) fn finished(&self, id: u64) {
        self.unacknowledged.borrow_mut().push(id);
    }
}

/// Requests in progress.
impl QuicLink {
    /// Adds a request that waits.
    pub(super) fn add_stream(&self, id: u64, stream: Rc<Stream>) {
        let mut streams = self.streams.borrow_mut();
        if let Err(at) = streams.binary_search_by_key(&id, |(id, _)| *id) {
            streams.insert(at, (id, stream));
        }
    }

    fn remove_stream(&self, id: u64) {
        let mut streams = self.streams.borrow_mut();
        if let Ok(at) = streams.binary_search_by_key(&id, |(id, _)| *id) {
            streams.remove(at);
        }
    }

    /// Returns a request in progress by the number of its stream.
    pub(super) fn stream(&self, id: u64) -> Option<Rc<Stream>> {
        let streams = self.streams.borrow();
        let at = streams.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        streams.get(at).map(|(_, stream)| stream.clone())
    }

    /// Returns all requests in progress.
    pub(super) fn all_streams(&self) -> Vec<Rc<Stream>> {
        self.streams.borrow().iter().map(|(_, stream)| stream.clone()).collect()
    }

    /// Whether a request is in progress.
    pub(super) fn is_busy(&self) -> bool {
        !self.streams.borrow().is_empty()
    }

    /// A request begins.
    pub(super) fn set_busy(&self) {
        self.idle_since.set(None);
        self.is_warm.set(true);
    }

    pub(super) fn set_idle(&self) {
        self.idle_since.set(Some(clock::now()));
    }

    /// Returns since when no request is in progress.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        self.idle_since.get().filter(|_| self.ending.get() != Ending::Gone)
    }

    /// Gives memory back that an idle connection needs not.
    pub(super) fn release_memory(&self) {
        self.with_core(tidegate_h3::Connection::release_memory);
        self.streams.borrow_mut().shrink_to_fit();
        self.incomplete.borrow_mut().shrink_to_fit();
        self.held.borrow_mut().shrink_to_fit();
        self.to_read.borrow_mut().shrink_to_fit();
        self.unacknowledged.borrow_mut().shrink_to_fit();
    }
}

impl Taskless for QuicLink {
    fn idle_since(&self) -> Option<Instant> {
        QuicLink::idle_since(self)
    }

    fn is_free(&self) -> bool {
        self.idle_since().is_some() && self.unacknowledged.borrow().is_empty()
    }

    fn generation(&self) -> u64 {
        self.binding.generation()
    }

    fn drain(&self) {
        QuicLink::drain(self);
    }

    fn abort(&self) {
        self.close(ErrorCode::NO_ERROR, "");
    }

    fn sweep(&self, now: Instant) {
        QuicLink::sweep(self, now);
    }
}

/// Returns QUIC's number for a priority: those that are not incremental first, within one urgency (RFC 9218 section 10).
/// Zero for the one that requests have without a signal, as QUIC has it for streams.
fn order(priority: Priority) -> i32 {
    let number = |Priority { urgency, incremental }: Priority| {
        2 * (7 - i32::from(urgency.min(7))) + i32::from(!incremental)
    };
    number(priority) - number(Priority::UNSIGNALLED)
}

/// Returns the local address, with the address that the client sends to where the socket is bound to all.
fn local_address(port: &Port, quic: &tidegate_quic::Connection) -> Address {
    match (&*port.address, quic.local_ip()) {
        (Address::Inet(bound), Some(ip)) if bound.ip().is_unspecified() => {
            Address::Inet(SocketAddr::new(ip, bound.port()))
        }
        (bound, _) => bound.clone(),
    }
}
