//! What a turn leaves behind, and marks of congestion.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tidegate_os::{ListenAddr, ListenOptions, Transport, listen};
use tidegate_rt::net::{Outgoing, PacketMemory, Packets};
use tidegate_rt::sync::Notify;

use super::Endpoint;
use crate::fuzzing::{NAME, World, world};
use crate::{Admission, Application, Connection, Direction, Event, Packet, Read, Served, StreamId};

/// Longer than the test takes.
const TEST_MAX: Duration = Duration::from_secs(60);

const REQUESTS: usize = 40;

/// Responds to each stream when it is opened.
struct Responds;

/// A server's side, with its connections.
#[derive(Default)]
struct Serves(RefCell<Vec<Rc<Connection>>>);

impl Application for Serves {
    fn admit(&self, _: SocketAddr, _: bool) -> Admission {
        Admission::Accept
    }

    fn begin(&self, connection: &Rc<Connection>) -> Rc<dyn Served> {
        self.0.borrow_mut().push(connection.clone());
        Rc::new(Responds)
    }

    fn pass_on(&self, _: u16, _: Packet) {}
}

impl Served for Responds {
    fn event(&self, connection: &Rc<Connection>, event: Event) {
        if let Event::Opened(direction) = event {
            while let Some(id) = connection.accept(direction) {
                let _ = connection.read(id, 100);
                connection.write(id, &mut Bytes::from_static(b"response")).expect("written");
                connection.finish(id).expect("finished");
            }
        }
    }
}

#[derive(Default)]
struct Asks {
    connected: Cell<bool>,
    ended: Cell<Option<StreamId>>,
    bell: Notify,
}

impl Asks {
    async fn until(&self, condition: impl Fn() -> bool) {
        while !condition() {
            self.bell.notified().await;
        }
    }
}

impl Served for Asks {
    fn event(&self, connection: &Rc<Connection>, event: Event) {
        match event {
            Event::Connected => self.connected.set(true),
            Event::Readable(id) => {
                if let Ok(Read::Last(_)) = connection.read(id, 100) {
                    self.ended.set(Some(id));
                }
            }
            _ => {}
        }
        self.bell.notify_one();
    }
}

fn socket() -> (Packets, SocketAddr) {
    let address = ListenAddr::Inet(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let options = ListenOptions { transport: Transport::Datagram, ..ListenOptions::default() };
    let socket = listen::listen_socket(&address, &options).expect("a socket");
    let packets = Packets::from_socket(socket).expect("watched");
    match packets.local_addr().expect("an address") {
        ListenAddr::Inet(address) => (packets, address),
        other => panic!("not an internet address: {other:?}"),
    }
}

/// Runs an endpoint, and counts its turns that leave a connection due.
fn spawned(endpoint: Endpoint<Serves>) -> (Rc<Endpoint<Serves>>, Rc<Cell<usize>>) {
    let (endpoint, left) = (Rc::new(endpoint), Rc::new(Cell::new(0)));
    let (running, counted) = (endpoint.clone(), left.clone());
    drop(tidegate_rt::spawn_local(async move {
        let mut turns = pin!(running.run());
        poll_fn(|context| {
            let turn = turns.as_mut().poll(context);
            let is_due = !running.due.queue.borrow().is_empty();
            counted.update(|count| count + usize::from(is_due));
            turn
        })
        .await;
    }));
    (endpoint, left)
}

/// Requests over a connection to a server, by way of `via` where it is given.
async fn ask(
    via: impl FnOnce(SocketAddr) -> SocketAddr,
    check: impl FnOnce(&Endpoint<Serves>, usize),
) {
    let World { keys, server, client } = world().expect("settings");
    let (packets, address) = socket();
    let server = Endpoint::new(packets, Serves::default(), &keys, Some(&server), (0, 1));
    let (server, left) = spawned(server);
    let (others, _) = spawned(Endpoint::new(socket().0, Serves::default(), &keys, None, (0, 1)));
    let asks = Rc::new(Asks::default());
    let connection = others.connect(&client, via(address), NAME, asks.clone()).expect("begun");
    asks.until(|| asks.connected.get()).await;
    left.set(0);
    for _ in 0..REQUESTS {
        let id = connection.open(Direction::Both).expect("a stream");
        connection.write(id, &mut Bytes::from_static(b"request")).expect("written");
        connection.finish(id).expect("finished");
        asks.until(|| asks.ended.get() == Some(id)).await;
    }
    check(&server, left.get());
}

fn run(test: impl Future<Output = ()>) {
    tidegate_rt::block_on(tidegate_rt::timer::timeout(TEST_MAX, test))
        .expect("a loop")
        .expect("the test ends");
}

#[test]
fn nothing_is_due_behind_a_response_that_was_sent() {
    run(ask(
        |server| server,
        |_, left| {
            // On a busy machine an event may use up the time share: then the connection is due for the next one.
            assert!(left < REQUESTS, "{left} turns left it due");
        },
    ));
}

/// The ECN fields of packets that can be marked, and that were (RFC 3168 section 5).
const ECT0: u8 = 2;
const CE: u8 = 3;

/// Passes packets between one client and a server, marks those of the server, and notes how they were marked before.
async fn mark_packets(packets: Packets, server: SocketAddr, seen: Rc<RefCell<BTreeSet<u8>>>) {
    let (mut memory, mut client) = (PacketMemory::default(), None);
    loop {
        let received = poll_fn(|context| {
            packets.poll_receive(context, &mut memory, &mut |received| {
                let (to, ecn) = match received.from == server {
                    true => {
                        seen.borrow_mut().insert(received.ecn);
                        (client, CE)
                    }
                    false => {
                        client = Some(received.from);
                        (Some(server), ECT0)
                    }
                };
                let Some(to) = to else { return };
                let bytes = received.bytes;
                // One that is lost is sent again.
                let _ =
                    packets.try_send(&Outgoing { bytes, segment_bytes: None, to, from: None, ecn });
            })
        });
        received.await.expect("received");
    }
}

/// RFC 9000 section 13.4.1, RFC 9002 section 7.1.
#[test]
fn a_server_marks_its_packets_and_heeds_what_is_reported_of_them() {
    let seen = Rc::new(RefCell::new(BTreeSet::new()));
    let noted = seen.clone();
    run(ask(
        |server| {
            let (packets, address) = socket();
            drop(tidegate_rt::spawn_local(mark_packets(packets, server, noted)));
            address
        },
        move |server, _| {
            assert!(seen.borrow().contains(&ECT0), "{:?}", seen.borrow());
            let connection = server.application().0.borrow()[0].clone();
            let path = connection.inner.borrow().stats().path;
            assert!(path.congestion_events > 0);
        },
    ));
}
