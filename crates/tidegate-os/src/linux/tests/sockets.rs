//! Sockets on loopback and between Unix paths.

use std::collections::HashSet;
use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use super::super::pass::Received;
use super::super::{connect, datagram, listen, pass, sendfile, socket};
use crate::types::{
    ConnectOptions, Keepalive, ListenAddr, ListenOptions, Peek, PeerAddr, Transport,
};

fn loopback() -> ListenAddr {
    ListenAddr::Inet(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
}

fn address_of(fd: impl AsFd) -> SocketAddr {
    match socket::local_addr(fd).unwrap() {
        ListenAddr::Inet(address) => address,
        ListenAddr::Unix(path) => panic!("unexpected {path:?}"),
    }
}

fn wait(fd: impl AsFd, flags: PollFlags) {
    poll(&mut [PollFd::from_borrowed_fd(fd.as_fd(), flags)], None).unwrap();
}

fn accept(listener: impl AsFd) -> (OwnedFd, PeerAddr) {
    wait(&listener, PollFlags::IN);
    listen::accept_nonblocking(&listener).unwrap().unwrap()
}

/// Makes a blocking client and the accepted, non-blocking side.
fn connected() -> (TcpStream, OwnedFd) {
    let listener = listen::listen_socket(&loopback(), &ListenOptions::default()).unwrap();
    let client = TcpStream::connect(address_of(&listener)).unwrap();
    let (server, peer) = accept(&listener);
    assert_eq!(peer, PeerAddr::Inet(client.local_addr().unwrap()));
    (client, server)
}

/// By chance, two of so many would nearly always have the same one.
#[test]
fn a_port_of_the_systems_choice_belongs_to_one_datagram_socket() {
    let options = ListenOptions { transport: Transport::Datagram, ..ListenOptions::default() };
    let bind = |_| listen::listen_socket(&loopback(), &options).unwrap();
    let sockets: Vec<_> = (0..600).map(bind).collect();
    let ports: HashSet<u16> = sockets.iter().map(|one| address_of(one).port()).collect();
    assert_eq!(ports.len(), sockets.len());
}

#[test]
fn a_listener_accepts_without_waiting() {
    let options = ListenOptions {
        reuseport: true,
        deferred: false,
        fastopen: Some(16),
        rcvbuf: Some(65_536),
        sndbuf: Some(65_536),
        keepalive: Some(Keepalive {
            on: true,
            idle: Some(Duration::from_secs(30)),
            interval: Some(Duration::from_secs(5)),
            count: Some(3),
        }),
        ..ListenOptions::default()
    };
    let listener = listen::listen_socket(&loopback(), &options).unwrap();
    let twin = listen::listen_socket(&ListenAddr::Inet(address_of(&listener)), &options).unwrap();
    drop(twin);
    assert!(listen::accept_nonblocking(&listener).unwrap().is_none());
    let client = TcpStream::connect(address_of(&listener)).unwrap();
    let (server, _) = accept(&listener);
    let server = socket2::SockRef::from(&server);
    assert!(server.keepalive().unwrap());
    assert_eq!(server.tcp_keepalive_time().unwrap(), Duration::from_secs(30));
    assert!(server.nonblocking().unwrap());
    drop(client);
    let changed = ListenOptions { deferred: true, backlog: 5, ..options };
    listen::apply_listen_options(&listener, &changed).unwrap();
}

#[test]
fn a_taken_address_is_refused() {
    let options = ListenOptions::default();
    let first = listen::listen_socket(&loopback(), &options).unwrap();
    let taken = ListenAddr::Inet(address_of(&first));
    let error = listen::listen_socket(&taken, &options).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
}

#[test]
fn ipv6_only_leaves_ipv4_alone() {
    let any = ListenAddr::Inet(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)));
    let Ok(six) = listen::listen_socket(&any, &ListenOptions::default()) else { return };
    let four = SocketAddr::from((Ipv4Addr::LOCALHOST, address_of(&six).port()));
    let four = listen::listen_socket(&four.into(), &ListenOptions::default());
    // Another process may own that IPv4 port by chance.
    assert!(four.is_ok() || four.unwrap_err().kind() == io::ErrorKind::AddrInUse);
}

#[test]
fn unix_sockets_listen_and_connect() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("socket");
    let address = ListenAddr::Unix(path.clone());
    let listener = listen::listen_socket(&address, &ListenOptions::default()).unwrap();
    assert_eq!(socket::local_addr(&listener).unwrap(), address);
    let (client, done) =
        connect::connect_nonblocking(&address, &ConnectOptions::default()).unwrap();
    assert!(done);
    let (server, peer) = accept(&listener);
    assert_eq!(peer, PeerAddr::Unix);
    assert_eq!(socket::peer_addr(&client).unwrap(), PeerAddr::Unix);
    let pieces = [IoSlice::new(b"he"), IoSlice::new(b"llo")];
    assert_eq!(socket::write_vectored(&client, &pieces).unwrap(), 5);
    let mut text = Vec::with_capacity(16);
    assert_eq!(socket::read_append(&server, &mut text).unwrap(), 5);
    assert_eq!(text, b"hello");
    assert!(listen::listen_socket(&address, &ListenOptions::default()).is_err());
    assert!(socket::tcp_info(&server).is_err());
}

#[test]
fn connecting_does_not_wait() {
    let listener = listen::listen_socket(&loopback(), &ListenOptions::default()).unwrap();
    let options = ConnectOptions {
        local: Some(SocketAddr::from((Ipv4Addr::new(127, 0, 0, 9), 0))),
        keepalive: true,
        rcvbuf: Some(32_768),
        sndbuf: Some(16_384),
        ..ConnectOptions::default()
    };
    let to = ListenAddr::Inet(address_of(&listener));
    let (client, _) = connect::connect_nonblocking(&to, &options).unwrap();
    wait(&client, PollFlags::OUT);
    assert!(socket::take_error(&client).unwrap().is_none());
    let (_, peer) = accept(&listener);
    let PeerAddr::Inet(peer) = peer else { panic!("not inet") };
    assert_eq!(peer.ip(), Ipv4Addr::new(127, 0, 0, 9));
    assert_eq!(address_of(&client), peer);
    // Linux doubles the requested size.
    let buffers = socket2::SockRef::from(&client);
    assert_eq!(buffers.recv_buffer_size().unwrap(), 65_536);
    assert_eq!(buffers.send_buffer_size().unwrap(), 32_768);

    drop(listener);
    let refused = match connect::connect_nonblocking(&to, &ConnectOptions::default()) {
        Err(error) => error,
        Ok((client, _)) => {
            wait(&client, PollFlags::OUT);
            socket::take_error(&client).unwrap().unwrap()
        }
    };
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
}

#[test]
fn a_peek_shows_quiet_data_and_closed() {
    let (mut client, server) = connected();
    assert_eq!(socket::peek(&server), Peek::Quiet);
    assert!(!socket::peek_closed(&server));
    client.write_all(b"x").unwrap();
    wait(&server, PollFlags::IN);
    assert_eq!(socket::peek(&server), Peek::Data);
    assert_eq!(socket::read(&server, &mut [0; 9]).unwrap(), 1);
    let error = socket::read(&server, &mut [0; 9]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    drop(client);
    wait(&server, PollFlags::IN);
    assert_eq!(socket::peek(&server), Peek::Closed);
}

#[test]
fn options_and_figures_of_a_connection() {
    let (mut client, server) = connected();
    socket::set_nodelay(&server, true).unwrap();
    assert_eq!(socket::write_more(&server, b"corked").unwrap(), 6);
    assert_eq!(socket::write(&server, b".").unwrap(), 1);
    client.read_exact(&mut [0; 7]).unwrap();
    assert!(socket::tcp_info(&server).unwrap().snd_cwnd > 0);
    socket::set_receive_buffer(&server, 8192).unwrap();
    socket::set_send_buffer(&server, 8192).unwrap();
    socket::shutdown_write(&server).unwrap();
    assert_eq!(client.read(&mut [0; 6]).unwrap(), 0);

    let (mut client, server) = connected();
    socket::set_linger_reset(&server).unwrap();
    drop(server);
    let error = client.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

#[test]
fn datagrams_have_senders() {
    let options = ListenOptions { transport: Transport::Datagram, ..ListenOptions::default() };
    let server = listen::listen_socket(&loopback(), &options).unwrap();
    let client = listen::listen_socket(&loopback(), &options).unwrap();
    assert_eq!(socket::send_to(&client, b"ping", &address_of(&server)).unwrap(), 4);
    wait(&server, PollFlags::IN);
    let mut buffer = [0; 16];
    let received = socket::receive_from(&server, &mut buffer).unwrap();
    assert_eq!(received, (4, Some(address_of(&client))));
    let none = socket::receive_from(&server, &mut buffer).unwrap_err();
    assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn sendfile_sends_a_range() {
    let (mut client, server) = connected();
    let file = tempfile::tempfile().unwrap();
    (&file).write_all(b"0123456789").unwrap();
    assert_eq!(sendfile::sendfile(&server, &file, 2, 5).unwrap(), 5);
    assert_eq!(sendfile::sendfile(&server, &file, 10, 5).unwrap(), 0);
    let mut text = [0; 5];
    client.read_exact(&mut text).unwrap();
    assert_eq!(&text, b"23456");
}

#[test]
fn messages_with_descriptors_of_any_size() {
    #[track_caller]
    fn check(length: usize, count: usize) {
        let (left, right) = socket::socketpair().unwrap();
        socket::set_nonblocking(&left, true).unwrap();
        let (passed, kept) = socket::socketpair().unwrap();
        let sender = std::thread::spawn(move || {
            let bytes: Vec<u8> = (0..length).map(|index| index as u8).collect();
            let fds = vec![passed.as_fd(); count];
            pass::send_with_fds(&left, &bytes, &fds).unwrap();
            pass::send_with_fds(&left, b"second", &[]).unwrap();
        });
        let Received { bytes, descriptors } =
            pass::recv_with_fds(&right, 1 << 24).unwrap().unwrap();
        let fds = descriptors.expect("all of them");
        assert_eq!((bytes.len(), fds.len()), (length, count));
        assert!(bytes.iter().enumerate().all(|(index, byte)| *byte == index as u8));
        if let Some(last) = fds.last() {
            socket::write(last, b"!").unwrap();
            assert_eq!(socket::read(&kept, &mut [0; 1]).unwrap(), 1);
            let flags = rustix::io::fcntl_getfd(last).unwrap();
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        }
        let second = pass::recv_with_fds(&right, 1 << 24).unwrap().unwrap();
        assert_eq!(
            (&second.bytes[..], second.descriptors.map(|fds| fds.len())),
            (&b"second"[..], Some(0))
        );
        sender.join().unwrap();
        assert!(pass::recv_with_fds(&right, 1 << 24).unwrap().is_none());
    }
    check(0, 0);
    check(0, 1);
    check(5, 128);
    check(100, 300);
    check(3_000_000, 3);
}

#[test]
fn malformed_messages_are_refused() {
    fn check(sent: &[u8], expected: io::ErrorKind) {
        let (left, right) = socket::socketpair().unwrap();
        socket::write(&left, sent).unwrap();
        drop(left);
        let error = pass::recv_with_fds(&right, 100).unwrap_err();
        assert_eq!(error.kind(), expected, "{sent:?}");
    }
    check(&[1], io::ErrorKind::UnexpectedEof);
    check(&[101, 0, 0, 0, 0, 0, 0, 0], io::ErrorKind::InvalidData);
    check(&[0, 0, 0, 0, 255, 255, 255, 0], io::ErrorKind::InvalidData);
    check(&[5, 0, 0, 0, 0, 0, 0, 0, b'a'], io::ErrorKind::UnexpectedEof);
    check(&[5, 0, 0, 0, 0, 0, 0, 0], io::ErrorKind::UnexpectedEof);

    let (left, _right) = socket::socketpair().unwrap();
    let many: Vec<BorrowedFd<'_>> = vec![left.as_fd(); (1 << 20) + 1];
    let error = pass::send_with_fds(&left, b"", &many).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "nothing was sent");
}

/// As the kernel delivers a message to a process that may not open as many files.
#[test]
fn a_message_without_its_descriptors_is_received() {
    let (left, right) = socket::socketpair().unwrap();
    socket::write(&left, &[1, 0, 0, 0, 1, 0, 0, 0, 0, b'a']).unwrap();
    pass::send_with_fds(&left, b"b", &[left.as_fd()]).unwrap();
    let receive = || pass::recv_with_fds(&right, 100).unwrap().expect("a message");
    let short = receive();
    assert_eq!((&short.bytes[..], short.descriptors.is_none()), (&b"a"[..], true));
    let whole = receive();
    assert_eq!((&whole.bytes[..], whole.descriptors.map(|all| all.len())), (&b"b"[..], Some(1)));
}

#[test]
fn datagrams_have_their_local_address_and_leave_from_it() {
    for (bound, asked) in [("0.0.0.0:0", "127.0.0.2"), ("[::]:0", "::1")] {
        let server = std::net::UdpSocket::bind(bound).unwrap();
        let port = server.local_addr().unwrap().port();
        let asked: IpAddr = asked.parse().unwrap();
        datagram::set_packet_info(&server, asked.is_ipv6()).unwrap();
        let any = if asked.is_ipv6() { "[::1]:0" } else { "127.0.0.1:0" };
        let client = std::net::UdpSocket::bind(any).unwrap();
        client.send_to(b"request", (asked, port)).unwrap();
        let mut buffer = [0; 64];
        wait(&server, PollFlags::IN);
        let (length, sender, local) = datagram::receive_with_local(&server, &mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"request");
        assert_eq!((sender, local), (client.local_addr().ok(), Some(asked)));
        datagram::send_from(&server, b"response", &sender.unwrap(), asked).unwrap();
        let (length, from) = client.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..length], from), (&b"response"[..], SocketAddr::new(asked, port)));
    }
}
