//! A client of HTTP/3 over loopback: requests as frames, responses as it received them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

use bytes::Bytes;
use tidegate_fields::{Fields, RequestLine};
use tidegate_h3::frame::{Kind, PartialHeader, kind, write};
use tidegate_h3::qpack::{Decoder, Encoder};
use tidegate_os::{ListenAddr, ListenOptions, Transport, listen};
use tidegate_quic::{
    Admission, Application, ClientSettings, Closed, Connection, Direction, Endpoint, Event, Keys,
    Limits, Packet, Read, Served, StreamEnded, StreamId,
};
use tidegate_rt::net::Packets;
use tidegate_rt::sync::Notify;
use tidegate_tls::{TlsOptions, TlsSettings};

/// A socket at a port of the system's choice.
pub(super) fn socket(ip: Ipv4Addr) -> (Packets, SocketAddr) {
    let address = ListenAddr::Inet(SocketAddr::from((ip, 0)));
    let options = ListenOptions { transport: Transport::Datagram, ..ListenOptions::default() };
    let socket = listen::listen_socket(&address, &options).expect("a socket");
    let packets = Packets::from_socket(socket).expect("watched");
    let ListenAddr::Inet(address) = packets.local_addr().expect("an address") else {
        panic!("not an internet address")
    };
    (packets, address)
}

/// What was received of one stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) fields: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    pub(super) ended: bool,
    pub(super) reset: Option<StreamEnded>,
    bytes: Vec<u8>,
}

impl Response {
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn parse(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut rest = &bytes[..];
        loop {
            let before = rest;
            let Some(header) = PartialHeader::default().frame(&mut rest) else {
                self.bytes = before.to_vec();
                return;
            };
            if (rest.len() as u64) < header.length {
                self.bytes = before.to_vec();
                return;
            }
            let (payload, behind) = rest.split_at(header.length as usize);
            rest = behind;
            match header.kind {
                Kind::Data => self.body.extend_from_slice(payload),
                Kind::Headers => self.section(payload),
                _ => {}
            }
            if rest.is_empty() {
                return;
            }
        }
    }

    fn section(&mut self, payload: &[u8]) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Decoder::new(0, 0)
            .decode(0, payload, &mut |field| match field.name {
                b":status" => self.status = text(field.value).parse().expect("a status"),
                name => self.fields.push((text(name), text(field.value))),
            })
            .expect("a section");
    }
}

/// A client's connection and its record.
pub(super) struct Client {
    endpoint: Rc<Endpoint<NoServer>>,
    record: Rc<Record>,
    connection: Rc<Connection>,
}

#[derive(Default)]
struct Record {
    streams: RefCell<BTreeMap<u64, Response>>,
    unsent: RefCell<BTreeMap<u64, (Bytes, bool)>>,
    connected: Cell<bool>,
    closed: RefCell<Option<Closed>>,
    bell: Option<Notify>,
}

struct NoServer;

impl Application for NoServer {
    fn admit(&self, _: SocketAddr, _: bool) -> Admission {
        Admission::Ignore
    }

    fn begin(&self, _: &Rc<Connection>) -> Rc<dyn Served> {
        Rc::<Record>::default()
    }

    fn pass_on(&self, _: u16, _: Packet) {}
}

impl Record {
    fn ring(&self) {
        self.bell.iter().for_each(Notify::notify_one);
    }

    fn read(&self, connection: &Connection, id: StreamId) {
        let mut streams = self.streams.borrow_mut();
        let response = streams.entry(id.0).or_default();
        loop {
            match connection.read(id, 1 << 16) {
                Ok(Read::Bytes(bytes)) => response.bytes.extend_from_slice(&bytes),
                Ok(Read::Last(bytes)) => {
                    response.bytes.extend_from_slice(&bytes);
                    response.ended = true;
                    break;
                }
                Ok(Read::Blocked) => break,
                Ok(Read::End) => {
                    response.ended = true;
                    break;
                }
                Err(StreamEnded::Closed) => break,
                Err(ended) => {
                    response.reset = Some(ended);
                    break;
                }
            }
        }
        if id.direction() == Direction::Both {
            response.parse();
        }
    }

    fn pump(&self, connection: &Connection, id: StreamId) {
        let mut unsent = self.unsent.borrow_mut();
        let Some((bytes, ends)) = unsent.get_mut(&id.0) else { return };
        while !bytes.is_empty() {
            match connection.write(id, bytes) {
                Ok(0) => return,
                Ok(_) => {}
                Err(_) => return drop(unsent.remove(&id.0)),
            }
        }
        if *ends {
            let _ = connection.finish(id);
        }
        unsent.remove(&id.0);
    }
}

impl Served for Record {
    fn event(&self, connection: &Rc<Connection>, event: Event) {
        match event {
            Event::Connected => self.connected.set(true),
            Event::Opened(direction) => {
                while let Some(id) = connection.accept(direction) {
                    self.read(connection, id);
                }
            }
            Event::Readable(id) => self.read(connection, id),
            Event::Writable(id) => self.pump(connection, id),
            Event::Closed(closed) => drop(self.closed.replace(Some(closed))),
            _ => {}
        }
        self.ring();
    }
}

impl Client {
    /// Opens a connection to the server `name`, or waits for its refusal.
    pub(super) async fn open(to: SocketAddr, name: &str, alpn: &str) -> Client {
        let client = Client::opening(to, name, alpn);
        client.until_opened().await;
        client
    }

    /// Waits until the connection is open, or refused.
    pub(super) async fn until_opened(&self) {
        self.until(|client| client.is_connected() || client.closed().is_some()).await;
        self.begin();
    }

    pub(super) fn is_connected(&self) -> bool {
        self.record.connected.get()
    }

    /// Begins to open a connection.
    pub(super) fn opening(to: SocketAddr, name: &str, alpn: &str) -> Client {
        let suites = tidegate_tls::cipher_suites::tls12("DEFAULT");
        let options = TlsOptions {
            tls12: true,
            tls13: true,
            suites,
            server_name: true,
            ..TlsOptions::default()
        };
        let tls = TlsSettings::new(&options).expect("settings");
        let alpn = vec![alpn.as_bytes().to_vec()];
        let settings = ClientSettings::new(&tls, alpn, &Limits::default()).expect("settings");
        let keys = Keys::derive(b"client");
        let endpoint =
            Rc::new(Endpoint::new(socket(Ipv4Addr::LOCALHOST).0, NoServer, &keys, None, (0, 1)));
        let running = endpoint.clone();
        tidegate_rt::spawn_local(async move { drop(running.run().await) });
        let record = Rc::new(Record { bell: Some(Notify::new()), ..Record::default() });
        let connection = endpoint.connect(&settings, to, name, record.clone()).expect("begun");
        Client { endpoint, record, connection }
    }

    /// Sends the control stream with empty SETTINGS.
    fn begin(&self) {
        if let Some(control) = self.connection.open(Direction::One) {
            let mut bytes = vec![0];
            write::settings(&mut bytes, &[]);
            let _ = self.connection.write(control, &mut Bytes::from(bytes));
        }
    }

    /// Sends a request's head and a body; the stream ends behind them if `ends` is set.
    pub(super) fn send(
        &self,
        (method, path): (&str, &str),
        fields: &[(&str, &str)],
        body: &[u8],
        ends: bool,
    ) -> u64 {
        let id = self.connection.open(Direction::Both).expect("a stream");
        let (mut encoder, mut lines, mut prefix) = (Encoder::new(0, false), Vec::new(), Vec::new());
        encoder.begin(id.0);
        let mut list = Fields::new(&mut encoder, &mut lines);
        list.request(&RequestLine {
            method: method.as_bytes(),
            scheme: b"https",
            authority: b"one.test",
            path: path.as_bytes(),
            protocol: None,
        });
        fields.iter().for_each(|(name, value)| list.push(name.as_bytes(), value.as_bytes()));
        encoder.finish(&mut prefix);
        let mut bytes = Vec::new();
        write::headers(&mut bytes, &prefix, &lines);
        if !body.is_empty() {
            write::header(&mut bytes, kind::DATA, body.len() as u64);
            bytes.extend_from_slice(body);
        }
        self.record.unsent.borrow_mut().insert(id.0, (Bytes::from(bytes), ends));
        self.record.pump(&self.connection, id);
        id.0
    }

    /// Sends `GET` and returns the response.
    pub(super) async fn get(&self, path: &str) -> Response {
        let id = self.send(("GET", path), &[], b"", true);
        self.response(id).await
    }

    /// Returns a response that has ended, or was reset.
    pub(super) async fn response(&self, id: u64) -> Response {
        let found = |client: &Client| {
            let streams = client.record.streams.borrow();
            streams.get(&id).filter(|stream| stream.ended || stream.reset.is_some()).cloned()
        };
        self.until(|client| found(client).is_some() || client.closed().is_some()).await;
        found(self).unwrap_or_default()
    }

    /// Returns what was received of a stream of the server's.
    pub(super) fn bytes(&self, id: u64) -> Vec<u8> {
        let streams = self.record.streams.borrow();
        streams.get(&id).map(|stream| stream.bytes.clone()).unwrap_or_default()
    }

    pub(super) fn closed(&self) -> Option<Closed> {
        self.record.closed.borrow().clone()
    }

    pub(super) fn connection(&self) -> &Rc<Connection> {
        &self.connection
    }

    /// Waits until a condition holds, which is looked at after each event.
    pub(super) async fn until(&self, condition: impl Fn(&Client) -> bool) {
        while !condition(self) {
            match &self.record.bell {
                Some(bell) => bell.notified().await,
                None => return,
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Its endpoint's task would wait for it.
        self.connection.close(0x100, "");
        let _ = self.endpoint.open_connections();
    }
}
