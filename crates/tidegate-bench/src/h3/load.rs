//! Closed-loop HTTP/3 load: N connections over one socket, each with M streams in flight.
//!
//! An event loop of its own, on a thread that inherits the processor of its creator. Status and length of each response
//! are checked. A run ends by time, by count or on a signal, and then waits for the outstanding responses.
//!
//! A request that the server did not process, as its GOAWAY or H3_REQUEST_REJECTED says, is sent again, over a new
//! connection where the old one ends, as clients do (RFC 9114 section 5.2): no error, and counted as repeated.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tidegate_os::{ListenAddr, ListenOptions, Transport, listen};
use tidegate_quic::{
    Admission, Application, ClientSettings, Connection, Endpoint, Event, Keys, Limits, Packet,
    Served,
};
use tidegate_rt::mail::{MailSender, Mailbox, mailbox};
use tidegate_rt::net::Packets;
use tidegate_rt::sync::Notify;
use tidegate_rt::{Worker, spawn_local, timer};
use tidegate_tls::{TlsOptions, TlsSettings};

use super::message::{ALPN, request};
use super::peer::Peer;
use crate::h2::client::Ask;
use crate::load::{Bound, DRAIN, Loss, Outcome};

/// The requests of a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub address: SocketAddr,
    /// The certificate that is trusted, as PEM. It names the address.
    pub certificate: String,
    /// Streams of a connection request them in rotation. Not empty.
    pub asks: Vec<Ask>,
    pub connections: usize,
    /// Streams of each connection at once.
    pub streams: usize,
    pub mode: Mode,
}

/// What happens to a connection after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It is used again until the server closes it.
    Kept,
    /// It is closed; the next request is over a new one, whose handshake counts into the latency.
    Close,
    /// It stays open, and has no further request.
    Once,
}

/// The connections of a plan; may run several times (a warm-up, then the measurement).
pub(crate) struct Load {
    commands: Option<MailSender<Command>>,
    worker: Option<Worker>,
    open: Arc<AtomicUsize>,
}

/// One run.
struct Command {
    bound: Bound,
    stop: Arc<AtomicBool>,
    reply: mpsc::Sender<io::Result<Outcome>>,
}

impl Load {
    /// Prepares the plan. Connections are opened when first used.
    ///
    /// # Errors
    /// No thread or event loop can be made.
    pub(crate) fn new(plan: Plan) -> io::Result<Load> {
        let (sender, receiver) = mailbox(1);
        let open = Arc::new(AtomicUsize::new(0));
        let count = open.clone();
        let worker =
            Worker::run(
                "h3 load",
                None,
                move |_| async move { serve(plan, count, receiver).await },
            )?;
        Ok(Load { commands: Some(sender), worker: Some(worker), open })
    }

    /// The number of connections whose handshake is complete and that have not ended.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Sends and checks until the bound is reached and all responses have arrived (at most [`DRAIN`] later).
    ///
    /// # Errors
    /// There is no socket; errors of servers are counted in the outcome.
    pub(crate) fn run(&mut self, bound: Bound) -> io::Result<Outcome> {
        self.run_until(bound, &AtomicBool::new(false))
    }

    /// Like [`Load::run`], but starts no request either once `stop` is true.
    ///
    /// # Errors
    /// As [`Load::run`].
    pub(crate) fn run_until(&mut self, bound: Bound, stop: &AtomicBool) -> io::Result<Outcome> {
        let ended = || io::Error::other("the thread of the load has ended");
        let (reply, outcome) = mpsc::channel();
        let inner_stop = Arc::new(AtomicBool::new(false));
        let command = Command { bound, stop: inner_stop.clone(), reply };
        let commands = self.commands.as_ref().ok_or_else(ended)?;
        commands.send_blocking(command).map_err(|_| ended())?;
        loop {
            match outcome.recv_timeout(STOP_INTERVAL) {
                Ok(outcome) => return outcome,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    inner_stop.store(stop.load(Ordering::Relaxed), Ordering::Relaxed);
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(ended()),
            }
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.commands = None;
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

/// The main future of the load's thread.
async fn serve(plan: Plan, open: Arc<AtomicUsize>, mut commands: Mailbox<Command>) {
    let shared = Shared::new(plan, open);
    if let Ok(shared) = &shared
        && let Some(endpoint) = shared.endpoint.borrow().clone()
    {
        drop(spawn_local(async move { endpoint.run().await }));
    }
    while let Some(Command { bound, stop, reply }) = commands.receive().await {
        let outcome = match &shared {
            Ok(shared) => Ok(shared.run(bound, stop).await),
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
        };
        let _ = reply.send(outcome);
    }
    if let Ok(shared) = &shared {
        shared.close_all();
        // One turn of the loop sends what closes them.
        timer::sleep(CLOSING).await;
        shared.endpoint.replace(None);
    }
}

/// What the connections of a load share.
pub(super) struct Shared {
    pub plan: Plan,
    /// HEADERS of each request.
    pub requests: Vec<Bytes>,
    pub open: Arc<AtomicUsize>,
    settings: ClientSettings,
    /// `None` at the end: the connections refer to this value.
    endpoint: RefCell<Option<Rc<Endpoint<ClientAlone>>>>,
    slots: RefCell<Vec<Slot>>,
    /// Slots without a connection, whose turn comes when a handshake of others is complete.
    waiting: RefCell<VecDeque<usize>>,
    run: RefCell<Option<Run>>,
    /// Rung when the run may be over.
    bell: Notify,
    name: String,
}

/// One connection, or the place of one.
#[derive(Default)]
struct Slot {
    peer: Option<Rc<Peer>>,
    /// Requests to be sent first: that for which the connection is opened, and those that are repeated. With the time of
    /// the first try.
    first: Vec<(usize, Instant)>,
    next_ask: usize,
    /// [`Mode::Once`]: it has had its request.
    is_used: bool,
    /// After a failure there is no new connection before this time.
    parked_until: Option<Instant>,
}

/// Progress of one run.
struct Run {
    outcome: Outcome,
    bound: Bound,
    stop: Arc<AtomicBool>,
    started: Instant,
    issued: u64,
}

impl Run {
    fn may_issue(&self, now: Instant) -> bool {
        self.issued < self.bound.requests_max
            && now - self.started < self.bound.duration
            && !self.stop.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn new(plan: Plan, open: Arc<AtomicUsize>) -> io::Result<Rc<Shared>> {
        let any = ListenAddr::Inet(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let options = ListenOptions {
            transport: Transport::Datagram,
            rcvbuf: Some(SOCKET_BYTES),
            sndbuf: Some(SOCKET_BYTES),
            ..ListenOptions::default()
        };
        let packets = Packets::from_socket(listen::listen_socket(&any, &options)?)?;
        let keys = Keys::derive(b"a client");
        let endpoint = Endpoint::new(packets, ClientAlone, &keys, None, (0, 1));
        let authority = plan.address.to_string();
        let slot = |index: usize| Slot { next_ask: index, ..Slot::default() };
        Ok(Rc::new(Shared {
            requests: plan.asks.iter().map(|ask| request(ask, &authority)).collect(),
            open,
            settings: settings(&plan.certificate).map_err(io::Error::other)?,
            endpoint: RefCell::new(Some(Rc::new(endpoint))),
            slots: RefCell::new((0..plan.connections).map(slot).collect()),
            waiting: RefCell::default(),
            run: RefCell::default(),
            bell: Notify::new(),
            name: plan.address.ip().to_string(),
            plan,
        }))
    }

    async fn run(self: &Rc<Self>, bound: Bound, stop: Arc<AtomicBool>) -> Outcome {
        let started = Instant::now();
        let outcome = Outcome::default();
        self.run.replace(Some(Run { outcome, bound, stop, started, issued: 0 }));
        let hard_end = started + bound.duration + DRAIN;
        self.begin();
        loop {
            let now = Instant::now();
            if (!self.is_busy() && !self.may_issue(now)) || now >= hard_end {
                break;
            }
            let is_ripe = |slot: &Slot| slot.parked_until.is_some_and(|until| until <= now);
            let (ripe, is_parked) = {
                let slots = self.slots.borrow();
                let ripe: Vec<usize> =
                    (0..slots.len()).filter(|index| is_ripe(&slots[*index])).collect();
                (ripe, slots.iter().any(|slot| slot.parked_until.is_some()))
            };
            ripe.into_iter().for_each(|index| self.fill(index));
            let wait = if is_parked { PARKING } else { WAIT_MAX };
            let _ = timer::timeout(wait, self.bell.notified()).await;
        }
        self.waiting.borrow_mut().clear();
        for index in 0..self.plan.connections {
            let (count, peer) = {
                let mut slots = self.slots.borrow_mut();
                let count = std::mem::take(&mut slots[index].first).len();
                (count, slots[index].peer.clone())
            };
            let count = count + peer.map_or(0, |peer| peer.give_up());
            for _ in 0..count {
                self.lose(Loss::Wrong, "no response before the end of the run");
            }
        }
        let mut outcome = self.run.take().map(|run| run.outcome).unwrap_or_default();
        outcome.elapsed = started.elapsed();
        outcome
    }

    /// Fills all connections that are open, and opens others a few at a time.
    fn begin(self: &Rc<Self>) {
        let mut opening = 0;
        for index in 0..self.plan.connections {
            let is_open = self.slots.borrow()[index].peer.is_some();
            if !is_open && opening == OPENING_MAX {
                self.waiting.borrow_mut().push_back(index);
                continue;
            }
            opening += usize::from(!is_open);
            self.fill(index);
        }
    }

    /// Gives the turn of a connection that is open, or could not be opened, to the next one.
    pub(super) fn open_next(self: &Rc<Self>) {
        let next = self.waiting.borrow_mut().pop_front();
        if let Some(index) = next {
            self.fill(index);
        }
    }

    fn may_issue(&self, now: Instant) -> bool {
        self.run.borrow().as_ref().is_some_and(|run| run.may_issue(now))
    }

    fn is_busy(&self) -> bool {
        let slots = self.slots.borrow();
        slots.iter().any(|slot| {
            !slot.first.is_empty() || slot.peer.as_ref().is_some_and(|peer| peer.is_busy())
        })
    }

    /// Begins requests on a connection, as many as fit; opens the connection where there is none.
    pub(super) fn fill(self: &Rc<Self>, index: usize) {
        let now = Instant::now();
        let peer = {
            let mut slots = self.slots.borrow_mut();
            let slot = &mut slots[index];
            if slot.parked_until.is_some_and(|until| until > now) {
                return;
            }
            slot.parked_until = None;
            slot.peer.clone()
        };
        match peer {
            Some(peer) => peer.begin_requests(self, now),
            None => self.connect(index, now),
        }
    }

    fn connect(self: &Rc<Self>, index: usize, now: Instant) {
        let Some(first) = self.next_request(index, now) else { return };
        self.slots.borrow_mut()[index].first.push(first);
        let Some(endpoint) = self.endpoint.borrow().clone() else { return };
        let peer = Peer::new(self.clone(), index);
        let connected =
            endpoint.connect(&self.settings, self.plan.address, &self.name, peer.clone());
        match connected {
            Ok(connection) => {
                peer.set_connection(&connection);
                self.slots.borrow_mut()[index].peer = Some(peer);
            }
            Err(error) => {
                self.fail(index, Loss::Refused, &format!("connect: {error}"), 0);
            }
        }
    }

    /// Returns the index of the next request of a connection, and the time from which its latency counts.
    pub(super) fn next_request(&self, index: usize, now: Instant) -> Option<(usize, Instant)> {
        let mut slots = self.slots.borrow_mut();
        let slot = slots.get_mut(index)?;
        if let Some(first) = slot.first.pop() {
            return Some(first);
        }
        let mut run = self.run.borrow_mut();
        let run = run.as_mut().filter(|run| run.may_issue(now))?;
        if self.plan.mode == Mode::Once && std::mem::replace(&mut slot.is_used, true) {
            return None;
        }
        run.issued += 1;
        slot.next_ask += 1;
        Some((slot.next_ask % self.plan.asks.len(), now))
    }

    /// Keeps a request for the next connection, or for the time when there may be another stream.
    pub(super) fn keep(&self, index: usize, request: (usize, Instant)) {
        self.slots.borrow_mut()[index].first.push(request);
    }

    /// Counts requests that were not processed and are repeated.
    pub(super) fn repeat(&self, index: usize, requests: Vec<(usize, Instant)>) {
        self.with_run(|run| run.outcome.reconnects += requests.len() as u64);
        self.slots.borrow_mut()[index].first.extend(requests);
    }

    /// Counts a complete handshake.
    pub(super) fn opened(self: &Rc<Self>) {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.with_run(|run| run.outcome.open(false));
        self.open_next();
    }

    /// Counts a correct response.
    pub(super) fn done(&self, body_bytes: u64, begun: Instant) {
        let now = Instant::now();
        self.with_run(|run| {
            run.outcome.requests += 1;
            run.outcome.bytes += body_bytes;
            run.outcome.latency.record(now - begun);
        });
    }

    pub(super) fn lose(&self, loss: Loss, reason: &str) {
        self.with_run(|run| run.outcome.lose(loss, Instant::now(), reason));
    }

    /// A connection has failed: its `requests` and those that waited for it are errors.
    pub(super) fn fail(self: &Rc<Self>, index: usize, loss: Loss, reason: &str, requests: usize) {
        let waited = {
            let mut slots = self.slots.borrow_mut();
            let slot = &mut slots[index];
            slot.parked_until = Some(Instant::now() + PARKING);
            std::mem::take(&mut slot.first).len()
        };
        (0..(requests + waited).max(1)).for_each(|_| self.lose(loss, reason));
        self.bell.notify_one();
    }

    /// Takes a connection that ends out of its slot, if it is still there.
    pub(super) fn forget(&self, index: usize, peer: &Peer) {
        let mut slots = self.slots.borrow_mut();
        if slots[index].peer.as_deref().is_some_and(|current| std::ptr::eq(current, peer)) {
            slots[index].peer = None;
        }
    }

    /// Wakes the run if nothing is left to be waited for.
    pub(super) fn ring_at_end(&self) {
        if !self.may_issue(Instant::now()) && !self.is_busy() {
            self.bell.notify_one();
        }
    }

    fn with_run(&self, change: impl FnOnce(&mut Run)) {
        if let Some(run) = &mut *self.run.borrow_mut() {
            change(run);
        }
    }

    fn close_all(&self) {
        let peers: Vec<Rc<Peer>> =
            self.slots.borrow_mut().iter_mut().filter_map(|slot| slot.peer.take()).collect();
        peers.iter().for_each(|peer| peer.close());
    }
}

/// Settings of connections that trust one certificate. As over TCP, the only suite is AES-256-GCM; the servers'
/// configuration has the group.
fn settings(certificate: &str) -> Result<ClientSettings, String> {
    let failed = |error: &dyn std::fmt::Display| format!("certificate: {error}");
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes());
    let certificate = certificate.map_err(|error| failed(&error))?.to_vec();
    let options = TlsOptions {
        tls13: true,
        suites_tls13: vec![AES_256_GCM_SHA384],
        server_name: true,
        verify: true,
        trusted: vec![certificate],
        verify_depth: 1,
        ..TlsOptions::default()
    };
    let tls = TlsSettings::new(&options).map_err(|error| failed(&error))?;
    let limits = Limits {
        stream_bytes: STREAM_BYTES,
        connection_bytes: CONNECTION_BYTES,
        ..Limits::default()
    };
    ClientSettings::new(&tls, vec![ALPN.to_vec()], &limits).map_err(|error| failed(&error))
}

/// What is served over the endpoint of a client: nothing.
pub(super) struct ClientAlone;

impl Application for ClientAlone {
    fn admit(&self, _: SocketAddr, _: bool) -> Admission {
        Admission::Ignore
    }

    fn begin(&self, _: &Rc<Connection>) -> Rc<dyn Served> {
        Rc::new(ClientAlone)
    }

    fn pass_on(&self, _: u16, _: Packet) {}
}

impl Served for ClientAlone {
    fn event(&self, _: &Rc<Connection>, _: Event) {}
}

/// Handshakes at a time while connections are opened: more would lose packets in the server's socket.
const OPENING_MAX: usize = 16;
/// Longest time between two readings of the clock.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// Before a connection that has failed is opened again.
const PARKING: Duration = Duration::from_millis(10);
/// Between two looks at the signal that ends a run.
const STOP_INTERVAL: Duration = Duration::from_millis(10);
/// For the last packets.
const CLOSING: Duration = Duration::from_millis(5);
/// TLS_AES_256_GCM_SHA384 (RFC 8446 appendix B.4).
const AES_256_GCM_SHA384: u16 = 0x1302;
/// Windows that never close.
const STREAM_BYTES: u32 = 4 << 20;
const CONNECTION_BYTES: u32 = 64 << 20;
/// The system may give less.
const SOCKET_BYTES: usize = 4 << 20;
