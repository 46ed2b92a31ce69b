//! Batches over loopback.

use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tidegate_os::{ListenAddr, ListenOptions, Transport, listen};

use super::{Outgoing, PacketMemory, Packets};
use crate::block_on;

fn bound() -> (Packets, SocketAddr) {
    let any = ListenAddr::Inet(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let options = ListenOptions { transport: Transport::Datagram, ..ListenOptions::default() };
    let socket = listen::listen_socket(&any, &options).expect("a socket");
    let packets = Packets::from_socket(socket).expect("watched");
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
