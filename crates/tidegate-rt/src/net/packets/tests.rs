//! Batches over loopback.

use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tidegate_os::{ListenAddr, ListenOptions, OwnedSocket, Transport, listen};

use super::{Outgoing, PacketMemory, Packets, StopReceiving};
use crate::block_on;

fn bound() -> (Packets, SocketAddr) {
    watched(|owned| Packets::from_socket(owned).expect("watched"))
}

fn watched(make: impl FnOnce(OwnedSocket) -> Packets) -> (Packets, SocketAddr) {
    let any = ListenAddr::Inet(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let options = ListenOptions { transport: Transport::Datagram, ..ListenOptions::default() };
    let socket = listen::listen_socket(&any, &options).expect("a socket");
    let packets = make(socket);
    let ListenAddr::Inet(address) = packets.local_addr().expect("an address") else {
        panic!("not an internet address")
    };
    (packets, address)
}

#[test]
fn datagrams_arrive_whole_with_marks_and_addresses() {
    block_on(async {
        let ((server, to), (client, from)) = (bound(), bound());
        let sizes = [1200, 1200, 700];
        let bytes: Vec<u8> =
            sizes.iter().zip(1u8..).flat_map(|(size, byte)| vec![byte; *size]).collect();
        // Divided by the kernel where it can, else by the caller.
        let several = client.segments_max() >= sizes.len();
        let pieces: Vec<&[u8]> = if several { vec![&bytes] } else { bytes.chunks(1200).collect() };
        for bytes in pieces {
            let segment_bytes = several.then_some(1200);
            let from = Some(IpAddr::from(Ipv4Addr::LOCALHOST));
            client.try_send(&Outgoing { bytes, segment_bytes, to, from, ecn: 2 }).expect("sent");
        }
        let (mut memory, mut found) = (PacketMemory::default(), Vec::new());
        while found.len() < sizes.len() {
            let mut each = |received: super::Received<'_>| {
                assert_eq!((received.from, received.ecn), (from, 2));
                assert_eq!(received.to, Some(IpAddr::from(Ipv4Addr::LOCALHOST)));
                found.push((received.bytes.len(), received.bytes[0]));
            };
            let received = poll_fn(|context| server.poll_receive(context, &mut memory, &mut each));
            received.await.expect("received");
        }
        assert_eq!(found, [(1200, 1), (1200, 2), (700, 3)]);
    })
    .expect("a loop");
}

#[test]
fn without_the_options_of_batches_datagrams_are_received_and_sent_one_by_one() {
    block_on(async {
        let single = || watched(|owned| Packets::watching(owned, None).expect("watched"));
        let ((server, to), (client, from)) = (single(), single());
        assert_eq!((server.segments_max(), server.may_fragment()), (1, true));
        for (bytes, local) in [(&[1; 1200][..], None), (&[2; 700], Some(from.ip()))] {
            let outgoing = Outgoing { bytes, segment_bytes: None, to, from: local, ecn: 2 };
            poll_fn(|context| client.poll_send(context, &outgoing)).await.expect("sent");
        }
        let (mut memory, mut found) = (PacketMemory::default(), Vec::new());
        while found.len() < 2 {
            let mut each = |received: super::Received<'_>| {
                assert_eq!((received.from, received.ecn), (from, 0));
                // Where the system reports the local address, it is that one.
                assert!(received.to.is_none_or(|local| local == to.ip()));
                found.push((received.bytes.len(), received.bytes[0]));
            };
            let received = poll_fn(|context| server.poll_receive(context, &mut memory, &mut each));
            received.await.expect("received");
        }
        assert_eq!(found, [(1200, 1), (700, 2)]);
    })
    .expect("a loop");
}

#[test]
fn a_stopped_socket_leaves_datagrams_to_another_owner() {
    block_on(async {
        let (client, from) = bound();
        let any = ListenAddr::Inet(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let options = ListenOptions { transport: Transport::Datagram, ..ListenOptions::default() };
        let socket = listen::listen_socket(&any, &options).expect("a socket");
        let (stop, mut memory) = (StopReceiving::default(), PacketMemory::default());
        let other = Packets::from_socket(socket.try_clone().expect("a copy")).expect("watched");
        let stopped = Packets::from_socket(socket).expect("watched").stopped_by(&stop);
        stop.stop();
        let ListenAddr::Inet(to) = other.local_addr().expect("an address") else { return };
        let outgoing = |bytes, to| Outgoing { bytes, segment_bytes: None, to, from: None, ecn: 0 };
        client.try_send(&outgoing(b"one", to)).expect("sent");
        let mut got = Vec::new();
        let mut each = |received: super::Received<'_>| got.push(received.bytes.to_vec());
        poll_fn(|context| {
            let polled = stopped.poll_receive(context, &mut memory, &mut each);
            assert!(polled.is_pending());
            other.poll_receive(context, &mut memory, &mut each)
        })
        .await
        .expect("received");
        // It still sends.
        stopped.try_send(&outgoing(b"two", from)).expect("sent");
        let received = poll_fn(|context| client.poll_receive(context, &mut memory, &mut each));
        received.await.expect("received");
        assert_eq!(got, [b"one", b"two"]);
    })
    .expect("a loop");
}
