//! Endpoints over loopback: a server that echoes streams, and a client that records its events.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate_os::{ListenAddr, ListenOptions, Transport, listen};
use tidegate_quic::{
    Admission, Application, ClientSettings, Closed, Connection, Direction, Endpoint, Event, Keys,
    Limits, Packet, Read, Served, ServerSettings, StreamEnded, StreamId,
};
use tidegate_rt::net::{Datagram, Outgoing, Packets};
use tidegate_rt::share;
use tidegate_rt::sync::Notify;
use tidegate_tls::quic::{QuicHandshakes, QuicHello, QuicServers};
use tidegate_tls::{
    Groups, KeyPair, ServerOptions, ServerProtocols, Stapled, TlsOptions, TlsSettings,
};

/// Longer than any test takes.
const TEST_MAX: Duration = Duration::from_secs(60);

/// Runs a test on an event loop.
pub(crate) fn run(test: impl Future<Output = ()>) {
    tidegate_rt::block_on(tidegate_rt::timer::timeout(TEST_MAX, test))
        .expect("a loop")
        .expect("the test ends");
}

/// A socket on loopback, at a port of the system's choice or a given one.
pub(crate) fn socket(port: u16) -> (Packets, SocketAddr) {
    let address = ListenAddr::Inet(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let options = ListenOptions { transport: Transport::Datagram, ..ListenOptions::default() };
    let socket = listen::listen_socket(&address, &options).expect("a socket");
    let packets = Packets::from_socket(socket).expect("watched");
    let ListenAddr::Inet(address) = packets.local_addr().expect("an address") else {
        panic!("not an internet address")
    };
    (packets, address)
}

/// Servers by name; the settings are made when the test begins.
struct Names(BTreeMap<&'static str, Arc<tidegate_tls::ServerSettings>>);

impl QuicServers for Names {
    fn choose(&self, hello: &QuicHello) -> Option<Arc<tidegate_tls::ServerSettings>> {
        self.0.get(hello.server_name.as_deref()?).cloned()
    }
}

fn server_tls(name: &str) -> Arc<tidegate_tls::ServerSettings> {
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::new(vec![name.to_owned()]).expect("a name");
    let der = params.self_signed(&key).expect("signed").der().to_vec();
    let key = tidegate_tls::pem::private_key(key.serialize_pem().as_bytes(), &[]).expect("a key");
    let pair = KeyPair::new(vec![der], &key).expect("a pair");
    let suites = tidegate_tls::cipher_suites::tls12("DEFAULT");
    let options = ServerOptions {
        protocols: ServerProtocols::new(true, true, &suites, None, Groups::default())
            .expect("protocols"),
        certificates: vec![Arc::new(Stapled::new(pair))],
        clients: None,
        alpn: Vec::new(),
        prefers_own_suites: false,
        record_bytes_max: 16 * 1024,
        session_timeout: TEST_MAX,
        sessions: None,
        tickets: None,
        early_data: false,
        compresses_certificates: false,
        key_log: None,
    };
    let settings = tidegate_tls::ServerSettings::new(options);
    Arc::new(settings.for_quic(vec![b"echo".to_vec()], false))
}

pub(crate) fn keys() -> Keys {
    Keys::derive(b"the secret of all tests")
}

/// Settings of a server with the names `one.test` and `two.test`.
pub(crate) fn server_settings(limits: &Limits) -> ServerSettings {
    let names = ["one.test", "two.test"].map(|name| (name, server_tls(name)));
    let handshakes = QuicHandshakes::new(Arc::new(Names(names.into())), 2).expect("handshakes");
    ServerSettings::new(Arc::new(handshakes), &keys(), limits)
}

pub(crate) fn client_settings(alpn: &str) -> ClientSettings {
    let suites = tidegate_tls::cipher_suites::tls12("DEFAULT");
    let options =
        TlsOptions { tls12: true, tls13: true, suites, server_name: true, ..TlsOptions::default() };
    let tls = TlsSettings::new(&options).expect("settings");
    ClientSettings::new(&tls, vec![alpn.as_bytes().to_vec()], &Limits::default()).expect("settings")
}

/// A server's application: it echoes each stream.
pub(crate) struct Echo {
    pub(crate) admission: Cell<Admission>,
    /// The addresses that were asked about, with whether they were validated.
    pub(crate) asked: RefCell<Vec<bool>>,
    pub(crate) connections: RefCell<Vec<Rc<Connection>>>,
    pub(crate) passed_on: RefCell<Vec<(u16, Packet)>>,
    pub(crate) closed: Rc<RefCell<Vec<Closed>>>,
    pub(crate) bell: Rc<Notify>,
    pub(crate) code_of_end: Option<u64>,
    /// All streams are work in vain.
    pub(crate) in_vain: Cell<bool>,
    /// Streams that were accepted, by event.
    pub(crate) accepted: Rc<RefCell<Vec<usize>>>,
}

impl Default for Echo {
    fn default() -> Echo {
        Echo {
            admission: Cell::new(Admission::Accept),
            code_of_end: None,
            in_vain: Cell::default(),
            accepted: Rc::default(),
            asked: RefCell::default(),
            connections: RefCell::default(),
            passed_on: RefCell::default(),
            closed: Rc::default(),
            bell: Rc::new(Notify::new()),
        }
    }
}

impl Application for Echo {
    fn admit(&self, _: SocketAddr, validated: bool) -> Admission {
        self.asked.borrow_mut().push(validated);
        self.admission.get()
    }

    fn begin(&self, connection: &Rc<Connection>) -> Rc<dyn Served> {
        self.connections.borrow_mut().push(connection.clone());
        Rc::new(EchoStreams {
            streams: RefCell::default(),
            closed: self.closed.clone(),
            bell: self.bell.clone(),
            in_vain: self.in_vain.get(),
            accepted: self.accepted.clone(),
        })
    }

    fn pass_on(&self, thread: u16, packet: Packet) {
        self.passed_on.borrow_mut().push((thread, packet));
        self.bell.notify_one();
    }

    fn code_of_end(&self) -> Option<u64> {
        self.code_of_end
    }
}

/// What was read and not yet written, and whether the end was read.
type Pending = (VecDeque<Bytes>, bool);

struct EchoStreams {
    streams: RefCell<BTreeMap<StreamId, Pending>>,
    closed: Rc<RefCell<Vec<Closed>>>,
    bell: Rc<Notify>,
    in_vain: bool,
    accepted: Rc<RefCell<Vec<usize>>>,
}

impl EchoStreams {
    /// Whether another stream is to be accepted.
    fn goes_on(&self, connection: &Connection) -> bool {
        if self.in_vain {
            connection.note_vain();
        }
        let goes_on = !share::is_used_up();
        if !goes_on {
            connection.accept_later();
        }
        goes_on
    }

    fn pump(&self, connection: &Connection, id: StreamId) {
        let mut streams = self.streams.borrow_mut();
        let Some((bytes, ended)) = streams.get_mut(&id) else { return };
        // Back-pressure: nothing is read while the client does not take what it has sent.
        while let Some(first) = bytes.front_mut() {
            match connection.write(id, first) {
                Ok(0) => return,
                Ok(_) if first.is_empty() => drop(bytes.pop_front()),
                Ok(_) => {}
                Err(_) => return drop(streams.remove(&id)),
            }
        }
        while !*ended {
            match connection.read(id, 1 << 16) {
                Ok(Read::Bytes(read)) => {
                    bytes.push_back(read);
                    drop(streams);
                    return self.pump(connection, id);
                }
                Ok(Read::Last(read)) => {
                    bytes.push_back(read);
                    *ended = true;
                    drop(streams);
                    return self.pump(connection, id);
                }
                Ok(Read::Blocked) => return,
                Ok(Read::End) => *ended = true,
                Err(_) => return drop(streams.remove(&id)),
            }
        }
        connection.finish(id).expect("finished");
        streams.remove(&id);
    }
}

impl Served for EchoStreams {
    fn event(&self, connection: &Rc<Connection>, event: Event) {
        match event {
            Event::Opened(direction) => {
                let mut count = 0;
                while let Some(id) = connection.accept(direction) {
                    count += 1;
                    // One without a way back is not read.
                    if direction == Direction::Both {
                        self.streams.borrow_mut().insert(id, Pending::default());
                        self.pump(connection, id);
                    }
                    if !self.goes_on(connection) {
                        break;
                    }
                }
                self.accepted.borrow_mut().push(count);
            }
            Event::Readable(id) | Event::Writable(id) => self.pump(connection, id),
            Event::Closed(closed) => self.closed.borrow_mut().push(closed),
            _ => {}
        }
        self.bell.notify_one();
    }
}

/// A client's record of a connection.
pub(crate) struct Client {
    pub(crate) received: RefCell<BTreeMap<StreamId, Vec<u8>>>,
    pub(crate) ended: RefCell<BTreeSet<StreamId>>,
    pub(crate) reset: RefCell<BTreeMap<StreamId, StreamEnded>>,
    pub(crate) connected: Cell<bool>,
    pub(crate) closed: RefCell<Option<Closed>>,
    unsent: RefCell<BTreeMap<StreamId, Bytes>>,
    /// Streams in the order in which all of their bytes were taken.
    pub(crate) taken: RefCell<Vec<StreamId>>,
    /// How often a stream was to be written again.
    pub(crate) tried: Cell<usize>,
    pub(crate) bell: Notify,
}

impl Client {
    pub(crate) fn new() -> Rc<Client> {
        Rc::new(Client {
            received: RefCell::default(),
            ended: RefCell::default(),
            reset: RefCell::default(),
            connected: Cell::default(),
            closed: RefCell::default(),
            unsent: RefCell::default(),
            taken: RefCell::default(),
            tried: Cell::default(),
            bell: Notify::new(),
        })
    }

    /// Opens a stream and sends all bytes and the end.
    pub(crate) fn send(&self, connection: &Connection, bytes: Bytes) -> StreamId {
        let id = connection.open(Direction::Both).expect("a stream");
        self.send_on(connection, id, bytes);
        id
    }

    /// Sends all bytes and the end on a stream.
    pub(crate) fn send_on(&self, connection: &Connection, id: StreamId, bytes: Bytes) {
        self.unsent.borrow_mut().insert(id, bytes);
        self.pump(connection, id);
    }

    fn pump(&self, connection: &Connection, id: StreamId) {
        let mut unsent = self.unsent.borrow_mut();
        let Some(bytes) = unsent.get_mut(&id) else { return };
        while !bytes.is_empty() {
            if connection.write(id, bytes).expect("written") == 0 {
                return;
            }
        }
        connection.finish(id).expect("finished");
        unsent.remove(&id);
        self.taken.borrow_mut().push(id);
    }

    fn read(&self, connection: &Connection, id: StreamId) {
        loop {
            match connection.read(id, 1 << 16) {
                Ok(Read::Bytes(bytes)) => {
                    self.received.borrow_mut().entry(id).or_default().extend_from_slice(&bytes);
                }
                Ok(Read::Last(bytes)) => {
                    self.received.borrow_mut().entry(id).or_default().extend_from_slice(&bytes);
                    self.ended.borrow_mut().insert(id);
                    return;
                }
                Ok(Read::Blocked) => return,
                Ok(Read::End) => {
                    self.ended.borrow_mut().insert(id);
                    return;
                }
                Err(ended) => {
                    self.reset.borrow_mut().insert(id, ended);
                    return;
                }
            }
        }
    }

    /// Waits until a condition holds, which is looked at after each event.
    pub(crate) async fn until(&self, condition: impl Fn() -> bool) {
        while !condition() {
            self.bell.notified().await;
        }
    }

    pub(crate) async fn until_ended(&self, id: StreamId) {
        self.until(|| self.ended.borrow().contains(&id)).await;
    }
}

impl Served for Client {
    fn event(&self, connection: &Rc<Connection>, event: Event) {
        match event {
            Event::Connected => self.connected.set(true),
            Event::Opened(direction) => {
                while let Some(id) = connection.accept(direction) {
                    self.read(connection, id);
                }
            }
            Event::Readable(id) => self.read(connection, id),
            Event::Writable(id) => {
                self.tried.update(|count| count + 1);
                self.pump(connection, id);
            }
            Event::Closed(closed) => drop(self.closed.replace(Some(closed))),
            _ => {}
        }
        self.bell.notify_one();
    }
}

/// A server that runs, and its address.
pub(crate) fn serve(limits: &Limits) -> (Rc<Endpoint<Echo>>, SocketAddr) {
    let (socket, address) = socket(0);
    let settings = server_settings(limits);
    let endpoint = Endpoint::new(socket, Echo::default(), &keys(), Some(&settings), (0, 1));
    (spawned(endpoint), address)
}

/// A client's endpoint that runs.
pub(crate) fn client() -> Rc<Endpoint<Echo>> {
    let (socket, _) = socket(0);
    spawned(Endpoint::new(socket, Echo::default(), &keys(), None, (0, 1)))
}

/// Opens a connection that is complete, to the server `name`: its endpoint, its record, and itself.
pub(crate) async fn connected(
    to: SocketAddr,
    name: &str,
) -> (Rc<Endpoint<Echo>>, Rc<Client>, Rc<Connection>) {
    let (endpoint, recorder) = (client(), Client::new());
    let settings = client_settings("echo");
    let connection = endpoint.connect(&settings, to, name, recorder.clone()).expect("begun");
    recorder.until(|| recorder.connected.get()).await;
    (endpoint, recorder, connection)
}

/// Sends one datagram.
pub(crate) fn send(socket: &Packets, bytes: &[u8], to: SocketAddr) -> std::io::Result<()> {
    socket.try_send(&Outgoing { bytes, segment_bytes: None, to, from: None, ecn: 0 })
}

pub(crate) fn spawned(endpoint: Endpoint<Echo>) -> Rc<Endpoint<Echo>> {
    let endpoint = Rc::new(endpoint);
    let running = endpoint.clone();
    drop(tidegate_rt::spawn_local(async move {
        running.run().await;
    }));
    endpoint
}

/// A relay between clients and servers, whose side towards the servers can be replaced, as by a NAT that forgets.
pub(crate) struct Relay {
    front: Datagram,
    back: RefCell<Rc<Datagram>>,
    pub(crate) server: Cell<SocketAddr>,
    client: Cell<Option<SocketAddr>>,
    /// The client's latest packet.
    pub(crate) latest: RefCell<Vec<u8>>,
    pub(crate) bell: Notify,
}

impl Relay {
    /// Returns a relay that runs, and its address for clients.
    pub(crate) fn start(server: SocketAddr) -> (Rc<Relay>, SocketAddr) {
        let front = datagram();
        let address = address(&front);
        let relay = Rc::new(Relay {
            front,
            back: RefCell::new(Rc::new(datagram())),
            server: Cell::new(server),
            client: Cell::default(),
            latest: RefCell::default(),
            bell: Notify::new(),
        });
        let running = relay.clone();
        drop(tidegate_rt::spawn_local(async move { running.run_front().await }));
        relay.clone().start_back();
        (relay, address)
    }

    /// Changes the address that servers see.
    pub(crate) fn rebind(self: Rc<Relay>) -> SocketAddr {
        let back = Rc::new(datagram());
        let address = address(&back);
        self.back.replace(back);
        self.start_back();
        address
    }

    async fn run_front(&self) {
        let mut buffer = vec![0; 65536];
        loop {
            let (count, from) = self.front.receive_from(&mut buffer).await.expect("received");
            self.client.set(from);
            self.latest.replace(buffer[..count].to_vec());
            self.bell.notify_one();
            let back = self.back.borrow().clone();
            let _ = back.try_send(&buffer[..count], Some(&self.server.get()));
        }
    }

    fn start_back(self: Rc<Relay>) {
        let back = self.back.borrow().clone();
        drop(tidegate_rt::spawn_local(async move {
            let mut buffer = vec![0; 65536];
            loop {
                let (count, _) = back.receive_from(&mut buffer).await.expect("received");
                let _ = self.front.try_send(&buffer[..count], self.client.get().as_ref());
            }
        }));
    }
}

fn datagram() -> Datagram {
    let any = ListenAddr::Inet(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    Datagram::bind(&any, &ListenOptions::default()).expect("a socket")
}

fn address(datagram: &Datagram) -> SocketAddr {
    match datagram.local_addr().expect("an address") {
        ListenAddr::Inet(address) => address,
        ListenAddr::Unix(_) => panic!("not an internet address"),
    }
}
