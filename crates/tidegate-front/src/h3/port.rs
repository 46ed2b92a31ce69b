//! A UDP socket of HTTP/3: which connections begin on it, with which settings, and when it ends.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use tidegate_core::client::Address;
use tidegate_core::error_log::Level;
use tidegate_core::plan::Plan;
use tidegate_h3::ErrorCode;
use tidegate_quic::{
    Admission, Application, Closed, Connection, Endpoint, Keys, Limits, Packet, Preparing, Served,
    ServerSettings,
};
use tidegate_rt::clock;
use tidegate_rt::net::Packets;
use tidegate_rt::sync::select;
use tidegate_tls::quic::{QuicHandshakes, QuicHello};

use super::beginnings::Beginnings;
use super::connection::QuicLink;
use super::directives::Http3Server;
use super::threads::Threads;
use crate::front::Front;
use crate::listener::ListenerRef;
use crate::serve::scratch::no_connection;
use crate::tls::quic::{HandshakeFailure, QuicNames, has_chosen};

/// The idle timeout of connections where `keepalive_timeout` is 0, which ends them behind their requests.
const IDLE_DEFAULT: Duration = Duration::from_secs(60);
/// The least one: while requests wait, a client is reached by a PING in the sweeps before. Idle connections are closed by
/// `keepalive_timeout` in any case.
const IDLE_MIN: Duration = Duration::from_secs(5);

/// Handshakes that a socket has in progress before further clients have to show that they receive at their address, as by
/// `quic_retry`. First packets can have the addresses of others: each costs a signature, and some memory until it is
/// given up.
pub(super) const HANDSHAKES_MAX: usize = 256;

/// Serves HTTP/3 over a UDP socket. `address` finds the listener again in each new plan.
///
/// It ends by itself: once the plan no longer has the listener or the front side drains, it accepts no new connection, and
/// returns behind the last one. Dropped before that, it closes its connections with H3_NO_ERROR.
pub async fn serve_packets(
    front: Rc<Front>,
    socket: Packets,
    address: Address,
    mut threads: Threads,
) {
    let port = Rc::new(Port {
        front: front.clone(),
        address: Rc::new(address),
        pass_on: threads.pass_on.clone(),
        thread: threads.thread,
        count: threads.count.clone(),
        idle_timeout: Cell::default(),
        default: RefCell::default(),
        needs_hello: Cell::default(),
        by_local: RefCell::default(),
        handshakes: Rc::default(),
        beginnings: RefCell::default(),
        head: Cell::default(),
    });
    let Some(Prepared { keys, server, .. }) = port.settings(front.plan().shared()) else { return };
    let count = threads.count.load(Ordering::Relaxed);
    let place = (threads.thread, count);
    let endpoint = Endpoint::new(socket, Application3(port.clone()), &keys, Some(&server), place);
    let mail = async {
        while let Some(packet) = threads.mail.recv().await {
            endpoint.receive(&packet);
        }
        std::future::pending::<()>().await;
    };
    let plans = async {
        let mut generation = front.plan().generation;
        loop {
            let changed = front.changed.notified();
            let plan = front.plan();
            if plan.generation != generation {
                generation = plan.generation;
                let settings = port.settings(plan.shared());
                endpoint.set_server(settings.as_ref().map(|prepared| &prepared.server));
                endpoint.set_threads(threads.count.load(Ordering::Relaxed));
            }
            let is_closing = front.is_draining() || port.listener(&plan).is_none();
            drop(plan);
            select! {
                () = changed => {}
                // With those whose last packets may have to be repeated.
                () = endpoint.emptied(), if is_closing => return,
            }
        }
    };
    select! {
        error = endpoint.run() => {
            let log = front.plan().main.error_log.clone();
            log.say(Level::Alert, format_args!("recvmsg() failed ({error})"));
        }
        () = mail => {}
        () = plans => {}
    }
}

/// A socket's address, and the thread that serves it.
pub(super) struct Port {
    pub(super) front: Rc<Front>,
    pub(super) address: Rc<Address>,
    pass_on: Rc<dyn Fn(u16, Packet)>,
    thread: u16,
    count: Arc<AtomicU16>,
    /// QUIC's idle timeout for new connections.
    pub(super) idle_timeout: Cell<Duration>,
    /// What connections begin with under the present plan.
    default: RefCell<Option<Prepared>>,
    /// Whether that depends on a client's hello, for any of them.
    needs_hello: Cell<bool>,
    /// Those to the local addresses that have servers of their own.
    by_local: RefCell<HashMap<IpAddr, Prepared>>,
    /// Handshakes in progress.
    handshakes: Rc<Cell<usize>>,
    /// What heads begin with. Borrowed while a head is encoded.
    pub(super) beginnings: RefCell<Beginnings>,
    /// Memory of heads: taken, cleared, and copied from when it is written.
    pub(super) head: Cell<Vec<u8>>,
}

/// What the connections to one address begin with.
#[derive(Clone)]
struct Prepared {
    keys: Keys,
    server: ServerSettings,
    limits: Limits,
    handshakes: Arc<QuicHandshakes>,
    names: Arc<QuicNames>,
}

impl Prepared {
    /// Returns what a client begins with, by its hello, once its server's certificates are loaded.
    async fn load(self, hello: QuicHello) -> ServerSettings {
        match self.names.load(hello).await {
            Some(loaded) => {
                let handshakes = self.handshakes.with_servers(Arc::new(loaded));
                ServerSettings::new(Arc::new(handshakes), &self.keys, &self.limits)
            }
            None => self.server,
        }
    }
}

/// Counts a handshake in progress until it is dropped.
pub(super) struct Handshaking(Rc<Cell<usize>>);

impl Drop for Handshaking {
    fn drop(&mut self) {
        self.0.update(|count| count.saturating_sub(1));
    }
}

impl Port {
    /// Counts a handshake that begins.
    pub(super) fn handshaking(&self) -> Handshaking {
        self.handshakes.update(|count| count + 1);
        Handshaking(self.handshakes.clone())
    }

    /// Returns the listener in a plan. It may be one of an earlier plan only for connections.
    pub(super) fn listener(&self, plan: &Plan) -> Option<ListenerRef> {
        ListenerRef::find_for(plan, &self.address, &self.address, true)
    }

    /// Makes what connections begin with under a plan, and returns that of the address itself: the keys and limits of its
    /// default server, while the client's hello chooses the server for TLS.
    fn settings(&self, plan: &Arc<Plan>) -> Option<Prepared> {
        self.default.replace(None);
        self.needs_hello.set(false);
        self.by_local.borrow_mut().clear();
        let listener_ref = self.listener(plan)?;
        let listener = plan.listeners.get(listener_ref.listener as usize)?;
        let by_local = (0u32..).zip(&listener.by_local).filter_map(|(index, local)| {
            let listener_ref = ListenerRef { local: Some(index), ..listener_ref };
            Some((local.address, self.settings_of(plan, listener_ref)?))
        });
        self.by_local.replace(by_local.collect());
        let prepared = self.settings_of(plan, listener_ref);
        self.needs_hello.set(prepared.is_some() && has_chosen(plan));
        self.default.replace(prepared.clone());
        prepared
    }

    /// Returns what connections to a local address begin with.
    fn prepared(&self, local: Option<IpAddr>) -> Option<Prepared> {
        let by_local = local.and_then(|local| self.by_local.borrow().get(&local).cloned());
        by_local.or_else(|| self.default.borrow().clone())
    }

    fn settings_of(&self, plan: &Arc<Plan>, listener_ref: ListenerRef) -> Option<Prepared> {
        let default = listener_ref.servers(plan)?.default;
        let http3 = Http3Server::of(plan, default)?;
        let names = Arc::new(QuicNames::new(plan.clone(), listener_ref));
        let handshakes = match QuicHandshakes::new(names.clone(), http3.connection_ids) {
            Ok(handshakes) => Arc::new(handshakes),
            Err(error) => {
                let log = &plan.main.error_log;
                log.say(Level::Alert, format_args!("QUIC cannot be served ({error})"));
                return None;
            }
        };
        let location = plan.location(plan.server(default).location);
        let idle = location.settings.keepalive_timeout.idle;
        let idle = if idle.is_zero() { IDLE_DEFAULT } else { idle.max(IDLE_MIN) };
        self.idle_timeout.set(idle);
        let limits = http3.limits(idle);
        let keys = http3.keys.clone();
        let server = ServerSettings::new(handshakes.clone(), &keys, &limits);
        Some(Prepared { keys, server, limits, handshakes, names })
    }

    /// Whether `worker_connections` are in use. Idle connections are closed to make room.
    fn is_full(&self, plan: &Plan) -> bool {
        let count = plan.main.worker_connections;
        let is_full = || self.front.connected() as u64 >= count;
        if is_full() {
            self.front.reuse_idle(clock::now());
        }
        if is_full() {
            let log = &plan.main.error_log;
            log.say(Level::Alert, format_args!("{count} worker_connections are not enough"));
        }
        is_full()
    }
}

/// The part that the endpoint owns.
struct Application3(Rc<Port>);

impl Application for Application3 {
    fn admit(&self, _: SocketAddr, validated: bool) -> Admission {
        let port = &self.0;
        let plan = port.front.plan();
        if port.front.is_draining() {
            // Of fewer threads than before another one gets the packet, when the client repeats it.
            let is_surplus = port.thread >= port.count.load(Ordering::Relaxed);
            return if is_surplus { Admission::Ignore } else { Admission::Refuse };
        }
        let Some(listener_ref) = port.listener(&plan) else { return Admission::Refuse };
        let default = listener_ref.servers(&plan).map(|servers| servers.default);
        let http3 = default.and_then(|server| Http3Server::of(&plan, server));
        let is_flooded = port.handshakes.get() >= HANDSHAKES_MAX;
        if !validated && (is_flooded || http3.is_some_and(|http3| http3.retry)) {
            return Admission::Retry;
        }
        match port.is_full(&plan) {
            true => Admission::Refuse,
            false => Admission::Accept,
        }
    }

    fn begin(&self, connection: &Rc<Connection>) -> Rc<dyn Served> {
        QuicLink::begin(&self.0, connection)
    }

    fn server_at(&self, local: IpAddr) -> Option<ServerSettings> {
        self.0.by_local.borrow().get(&local).map(|prepared| prepared.server.clone())
    }

    fn needs_hello(&self) -> bool {
        self.0.needs_hello.get()
    }

    fn prepare(&self, local: Option<IpAddr>, hello: QuicHello) -> Option<Preparing> {
        let prepared = self.0.prepared(local)?;
        let handshaking = self.0.handshaking();
        Some(Box::pin(async move {
            let server = prepared.load(hello).await;
            drop(handshaking);
            Some(server)
        }))
    }

    fn failed(&self, local: Option<IpAddr>, closed: &Closed) {
        if let Some(prepared) = self.0.prepared(local) {
            prepared.names.count_failed(&no_connection(), HandshakeFailure::of(closed));
        }
    }

    fn pass_on(&self, thread: u16, packet: Packet) {
        (self.0.pass_on)(thread, packet);
    }

    fn code_of_end(&self) -> Option<u64> {
        Some(ErrorCode::NO_ERROR.0)
    }
}
