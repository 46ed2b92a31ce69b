//! Connections, listeners and datagrams over loopback and Unix sockets.

use std::io::{self, IoSlice, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use super::{on_loop, poll_once};
use crate::net::{
    Addr, ConnectOptions, Datagram, IdlePoller, Keepalive, ListenOptions, Listener, PeerAddr,
    ReadyEvent, Stream,
};
use crate::spawn_local;

fn loopback() -> Addr {
    Addr::Inet(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
}

fn listener() -> Listener {
    Listener::bind(&loopback(), &ListenOptions::default()).unwrap()
}

async fn connect(listener: &Listener) -> Stream {
    let address = listener.local_addr().unwrap();
    Stream::connect(&address, &ConnectOptions::default()).await.unwrap()
}

async fn connected() -> (Stream, Stream) {
    let listener = listener();
    let client = connect(&listener).await;
    (client, listener.accept().await.unwrap())
}

/// Makes more bytes than the send and receive buffers hold.
fn much() -> Vec<u8> {
    (0..8_000_000_u32).map(|number| number as u8).collect()
}

async fn read_to_end(stream: &Stream) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        all.reserve(65_536);
        if stream.read_append(&mut all).await.unwrap() == 0 {
            return all;
        }
    }
}

#[test]
fn bytes_go_both_ways() {
    on_loop(async {
        let (client, server) = connected().await;
        assert_eq!(PeerAddr::Inet(inet(&client)), server.peer_addr().unwrap());
        assert_eq!(PeerAddr::Inet(inet(&server)), client.peer_addr().unwrap());
        let mut buffer = [0; 16];
        for _ in 0..3 {
            client.write_all(b"ping").await.unwrap();
            assert_eq!(server.read(&mut buffer).await.unwrap(), 4);
            server.write_all(b"pong!").await.unwrap();
            assert_eq!(client.read(&mut buffer).await.unwrap(), 5);
        }
        client.shutdown_write().unwrap();
        assert_eq!(server.read(&mut buffer).await.unwrap(), 0);
        server.write_all(b"after").await.unwrap();
        assert_eq!(client.read(&mut buffer).await.unwrap(), 5);
    });
}

fn inet(stream: &Stream) -> SocketAddr {
    let Addr::Inet(address) = stream.local_addr().unwrap() else { panic!("not inet") };
    address
}

/// The kernel is not asked again after a short read, yet nothing is missed.
#[test]
fn a_short_read_clears_the_readiness() {
    on_loop(async {
        let (client, server) = connected().await;
        client.write_all(b"first").await.unwrap();
        let mut buffer = [0; 16];
        assert_eq!(server.read(&mut buffer).await.unwrap(), 5);
        assert!(poll_once(server.readable()).await.is_none());
        assert!(poll_once(server.read(&mut buffer)).await.is_none());
        client.write_all(b"0123456789abcdef").await.unwrap();
        // A read that fills its buffer leaves the readiness: there may be more.
        assert_eq!(server.read(&mut buffer[..8]).await.unwrap(), 8);
        assert!(poll_once(server.readable()).await.is_some());
        assert_eq!(server.read(&mut buffer[..8]).await.unwrap(), 8);
        assert!(poll_once(server.read(&mut buffer)).await.is_none());
        client.write_all(b"last").await.unwrap();
        drop(client);
        assert_eq!(server.read(&mut buffer).await.unwrap(), 4);
        assert_eq!(server.read(&mut buffer).await.unwrap(), 0);
    });
}

#[test]
fn much_is_written_in_pieces() {
    on_loop(async {
        let (client, server) = connected().await;
        let sent = much();
        let expected = sent.clone();
        let writer = spawn_local(async move {
            let (one, rest) = sent.split_at(3);
            let (two, three) = rest.split_at(4_000_000);
            let mut pieces =
                [IoSlice::new(one), IoSlice::new(b""), IoSlice::new(two), IoSlice::new(three)];
            client.write_vectored_all(&mut pieces).await.unwrap();
            client.write_vectored_all(&mut [IoSlice::new(b"")]).await.unwrap();
            client.write_all(b"end").await.unwrap();
        });
        let received = read_to_end(&server).await;
        writer.await.unwrap();
        assert_eq!(received.len(), expected.len() + 3);
        assert!(received.starts_with(&expected) && received.ends_with(b"end"));
    });
}

#[test]
fn files_are_sent_and_may_end_early() {
    on_loop(async {
        let (client, server) = connected().await;
        let mut file = tempfile::tempfile().unwrap();
        let content = much();
        file.write_all(&content).unwrap();
        let length = content.len() as u64;
        let sender = spawn_local(async move {
            let mut offset = 7;
            let sent = server.sendfile(&file, &mut offset, 5_000_000).await.unwrap();
            assert_eq!((sent, offset), (5_000_000, 5_000_007));
            let sent = server.sendfile(&file, &mut offset, u64::MAX).await.unwrap();
            assert_eq!((sent, offset), (length - 5_000_007, length));
        });
        let received = read_to_end(&client).await;
        sender.await.unwrap();
        assert!(received == content[7..]);
    });
}

#[test]
fn trying_never_waits() {
    on_loop(async {
        let (client, server) = connected().await;
        let error = server.try_read(&mut [0; 4]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        client.writable().await.unwrap();
        assert_eq!(client.try_write(b"ab").unwrap(), 2);
        let pieces = [IoSlice::new(b"c"), IoSlice::new(b"d")];
        assert_eq!(client.try_write_vectored(&pieces).unwrap(), 2);
        server.readable().await.unwrap();
        assert!(server.try_read(&mut [0; 4]).unwrap() > 0);
        let block = vec![0; 1 << 20];
        let full = loop {
            if let Err(error) = client.try_write(&block) {
                break error;
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        assert!(poll_once(client.writable()).await.is_none());
    });
}

/// A client that closes is noticed while its bytes are unread, which a peek could not see.
#[test]
fn a_peer_that_closes_is_noticed() {
    on_loop(async {
        let (client, server) = connected().await;
        client.write_all(b"pipelined").await.unwrap();
        server.readable().await.unwrap();
        assert!(poll_once(server.peer_closed()).await.is_none());
        assert!(server.peek_closed());
        drop(client);
        server.peer_closed().await;
        let mut buffer = [0; 64];
        assert_eq!(server.read(&mut buffer).await.unwrap(), 9);
        assert_eq!(server.read(&mut buffer).await.unwrap(), 0);

        let (client, server) = connected().await;
        client.set_linger_reset().unwrap();
        drop(client);
        server.peer_closed().await;
        assert!(server.read(&mut buffer).await.is_err());

        let (left, right) = Stream::pair().unwrap();
        assert!(poll_once(right.peer_closed()).await.is_none());
        drop(left);
        right.peer_closed().await;
    });
}

#[test]
fn refused_connections_are_errors() {
    on_loop(async {
        let gone = listener().local_addr().unwrap();
        let error = Stream::connect(&gone, &ConnectOptions::default()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        let absent = Addr::Unix("/nonexistent/socket".into());
        let error = Stream::connect(&absent, &ConnectOptions::default()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    });
}

#[test]
fn unix_streams_are_the_same_type() {
    on_loop(async {
        let directory = tempfile::tempdir().unwrap();
        let address = Addr::Unix(directory.path().join("socket"));
        let listener = Listener::bind(&address, &ListenOptions::default()).unwrap();
        let client = Stream::connect(&address, &ConnectOptions::default()).await.unwrap();
        let server = listener.accept().await.unwrap();
        assert_eq!(server.peer_addr().unwrap(), PeerAddr::Unix);
        assert_eq!(server.local_addr().unwrap(), address);
        server.set_nodelay(true).unwrap();
        server.set_keepalive(&Keepalive::default()).unwrap();
        client.write_all(b"hello").await.unwrap();
        drop(client);
        assert_eq!(read_to_end(&server).await, b"hello");
    });
}

#[test]
fn options_of_connections() {
    on_loop(async {
        let (_client, server) = connected().await;
        server.set_nodelay(true).unwrap();
        let keepalive =
            Keepalive { on: true, idle: Some(Duration::from_secs(9)), ..Keepalive::default() };
        server.set_keepalive(&keepalive).unwrap();
        assert!(server.tcp_info().unwrap().snd_cwnd > 0);
        assert!(!server.peek_closed());
        server.writable().await.unwrap();
        server.unwatch();
        server.writable().await.unwrap();
    });
}

/// Accepts at once until there are `limit` connections; returns how many further ones were accepted.
async fn accept_up_to(listener: &Listener, limit: usize, servers: &mut Vec<Stream>) -> usize {
    let each = |server, _| {
        servers.push(server);
        servers.len() < limit
    };
    listener.accept_some(each).await.unwrap()
}

#[test]
fn several_connections_are_accepted_at_once() {
    on_loop(async {
        let listener = listener();
        let mut clients = Vec::new();
        for _ in 0..5 {
            clients.push(connect(&listener).await);
        }
        let mut servers = Vec::new();
        let first = accept_up_to(&listener, 3, &mut servers).await;
        let rest = accept_up_to(&listener, 100, &mut servers).await;
        assert_eq!((first, rest, servers.len()), (3, 2, 5));
        assert!(poll_once(listener.accept()).await.is_none());
        assert!(
            Stream::from_fd(
                tidegate_os::listen::listen_socket(&loopback(), &ListenOptions::default()).unwrap()
            )
            .is_err()
        );
    });
}

#[test]
fn accepting_once_ends_with_a_connection() {
    on_loop(async {
        let listener = listener();
        listener.pause();
        let mut clients = Vec::new();
        for _ in 0..3 {
            clients.push(connect(&listener).await);
        }
        let done = Rc::new(tokio::sync::Notify::new());
        listener.resume_once(done.clone());
        let mut servers = Vec::new();
        let count = accept_up_to(&listener, 2, &mut servers).await;
        assert_eq!(count, 2);
        assert!(poll_once(done.notified()).await.is_some());
        assert!(listener.is_paused());
        assert!(poll_once(listener.accept()).await.is_none(), "the third waits for another resume");
        listener.resume();
        assert!(listener.accept().await.is_ok());
        assert!(!listener.is_paused(), "without a limit nothing ends");
    });
}

#[test]
fn a_paused_listener_leaves_connections_in_the_queue() {
    on_loop(async {
        let listener = Rc::new(listener());
        let accepting = Rc::clone(&listener);
        let task = spawn_local(async move { accepting.accept().await });
        crate::yield_now().await;
        listener.pause();
        let client = connect(&listener).await;
        let other = connect(&listener).await;
        // The other connection is established, so the event loop has seen the readiness of the listener.
        crate::yield_now().await;
        assert!(listener.is_paused() && !task.is_finished());
        listener.resume();
        let server = task.await.unwrap().unwrap();
        assert_eq!(server.peer_addr().unwrap(), PeerAddr::Inet(inet(&client)));
        drop(other);
        let inherited = Listener::from_fd(listener_fd()).unwrap();
        let client = connect(&inherited).await;
        inherited.accept().await.unwrap();
        drop(client);
    });
}

fn listener_fd() -> std::os::fd::OwnedFd {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().into()
}

#[test]
fn datagrams_are_exchanged() {
    on_loop(async {
        let server = Datagram::bind(&loopback(), &ListenOptions::default()).unwrap();
        let address = server.local_addr().unwrap();
        let client = Datagram::connect(&address, &ConnectOptions::default()).unwrap();
        client.send(b"ping", None).await.unwrap();
        let mut buffer = [0; 32];
        let (length, sender) = server.receive_from(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..length], b"ping");
        server.send(b"pong", sender.as_ref()).await.unwrap();
        let (length, _) = client.receive_from(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..length], b"pong");
        assert!(poll_once(client.receive_from(&mut buffer)).await.is_none());
        drop(server);
        client.send(b"anyone?", None).await.unwrap();
        let error = client.receive_from(&mut buffer).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    });
}

#[test]
fn a_poller_reports_each_arrival_once_and_the_end() {
    on_loop(async {
        let (client, server) = connected().await;
        let poller = IdlePoller::new().unwrap();
        client.write_all(b"before").await.unwrap();
        poller.add(&server, 7).unwrap();
        let mut events = Vec::new();
        assert!(!poller.ready(&mut events).await.unwrap());
        assert_eq!(events, [ReadyEvent { key: 7, ended: false }]);
        // The bytes were not read, and the event is not reported again.
        assert!(poll_once(poller.ready(&mut events)).await.is_none());
        let mut bytes = Vec::with_capacity(64);
        assert_eq!(server.read_append(&mut bytes).await.unwrap(), 6);
        events.clear();
        client.write_all(b"then").await.unwrap();
        drop(client);
        poller.ready(&mut events).await.unwrap();
        assert!(
            events.contains(&ReadyEvent { key: 7, ended: true }) || {
                poller.ready(&mut events).await.unwrap();
                events.contains(&ReadyEvent { key: 7, ended: true })
            }
        );
        poller.remove(&server).unwrap();
        assert_eq!(server.read_append(&mut bytes).await.unwrap(), 4);
        assert_eq!(server.read_append(&mut bytes).await.unwrap(), 0);
    });
}
