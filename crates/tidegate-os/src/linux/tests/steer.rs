//! Tests of the choice among the sockets of an address.

use std::net::UdpSocket;
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;

use crate::linux::{listen, steer};
use crate::{ListenAddr, ListenOptions, Transport};

/// Binds several sockets to one address, in order.
fn group(count: usize) -> Vec<UdpSocket> {
    let options =
        ListenOptions { transport: Transport::Datagram, reuseport: true, ..Default::default() };
    let mut address = "127.0.0.1:0".parse().unwrap();
    let mut bind = || {
        let socket: OwnedFd = listen::listen_socket(&ListenAddr::Inet(address), &options).unwrap();
        let socket = UdpSocket::from(socket);
        address = socket.local_addr().unwrap();
        socket
    };
    (0..count).map(|_| bind()).collect()
}

/// Returns the first byte of the number of each packet that has arrived.
fn arrived(socket: &UdpSocket) -> Vec<u8> {
    let mut buffer = [0; 64];
    let byte = |buffer: &[u8]| if buffer[0] & 0x80 == 0 { buffer[1] } else { buffer[6] };
    std::iter::from_fn(|| socket.recv(&mut buffer).ok().map(|_| byte(&buffer))).collect()
}

#[test]
fn packets_arrive_where_their_number_leads() {
    let sockets = group(4);
    let to = sockets[0].local_addr().unwrap();
    for modulus in [1, 3, 4, 2] {
        steer::by_connection_number(&sockets[3], NonZeroU16::new(modulus).unwrap()).unwrap();
        // The client's port would choose otherwise: each packet has another one.
        for byte in 0..=60 {
            let client = UdpSocket::bind("127.0.0.1:0").unwrap();
            client.send_to(&[0x40, byte, 2, 3], to).unwrap();
            client.send_to(&[0xc0, 0, 0, 0, 1, 8, byte, 9], to).unwrap();
        }
        for (index, socket) in sockets.iter().enumerate() {
            let expected: Vec<u8> = (0..=60)
                .filter(|byte| usize::from(u16::from(*byte) % modulus) == index)
                .flat_map(|byte| [byte, byte])
                .collect();
            assert_eq!(arrived(socket), expected, "socket {index} of {modulus}");
        }
    }
}

#[test]
fn short_packets_go_to_the_first_socket() {
    let sockets = group(2);
    let to = sockets[0].local_addr().unwrap();
    steer::by_connection_number(&sockets[0], NonZeroU16::new(2).unwrap()).unwrap();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    let packets: [&[u8]; 4] = [&[], &[0x40], &[0x80], &[0xc0, 1, 1, 1, 1, 1]];
    for packet in packets {
        client.send_to(packet, to).unwrap();
    }
    let mut buffer = [0; 64];
    let count = std::iter::from_fn(|| sockets[0].recv(&mut buffer).ok()).count();
    assert_eq!((count, sockets[1].recv(&mut buffer).is_err()), (packets.len(), true));
}

#[test]
fn a_socket_that_can_have_no_others_cannot_choose() {
    let (one, _other) = crate::linux::socket::socketpair().unwrap();
    assert!(steer::by_connection_number(&one, NonZeroU16::MIN).is_err());
}
