//! Tests of the sockets of an address over reloads.

use tidegate_core::listen::{Names, SocketOptions, VirtualServers};
use tidegate_core::plan::ServerId;
use tidegate_os::socket::identity;

use super::*;

fn listener(address: Address, quic: bool) -> ListenerPlan {
    let (default, names) = (ServerId(0), Names::default());
    ListenerPlan {
        address,
        datagram: quic,
        quic,
        tls: false,
        proxy_protocol: false,
        http2: false,
        socket: SocketOptions { reuseport: !quic, ..SocketOptions::default() },
        servers: VirtualServers { default, names, parse_rules_differ: false },
        by_local: Vec::new(),
    }
}

/// Takes a port, for which further sockets may be opened while the returned one is open.
fn reserved(transport: Transport) -> (OwnedSocket, Address) {
    let any = ListenAddr::Inet(([127, 0, 0, 1], 0).into());
    let options = ListenOptions { transport, reuseport: true, ..ListenOptions::default() };
    let socket = listen_socket(&any, &options).unwrap();
    let place = place_of(&socket).unwrap();
    (socket, place.address)
}

/// Opens the sockets for each number of threads in turn, as reloads do; returns which of all they are, in order.
fn opened(listener: &ListenerPlan, threads: &[usize]) -> Vec<Vec<usize>> {
    let (mut seen, mut present) = (Vec::new(), Vec::new());
    let reload = |count: &usize| {
        let opening = open(&[listener], &mut present, *count);
        assert!(opening.failed.is_empty(), "{:?}", opening.failed);
        let mut index = |socket: &Arc<OwnedSocket>| {
            let inode = identity(&**socket);
            seen.iter().position(|known| *known == inode).unwrap_or_else(|| {
                seen.push(inode);
                seen.len() - 1
            })
        };
        let indices = opening.listening[0].sockets.iter().map(&mut index).collect();
        present = opening.listening;
        indices
    };
    threads.iter().map(reload).collect()
}

/// It would take connections and packets of a running server.
#[test]
#[cfg(unix)]
fn a_check_opens_no_socket_beside_others() {
    for (transport, quic) in [(Transport::Datagram, true), (Transport::Stream, false)] {
        let (held, address) = reserved(transport);
        let listener = listener(address, quic);
        let opening = try_to_open(&[&listener]);
        assert!(opening.failed.iter().all(BindError::is_taken));
        assert_eq!((opening.failed.len(), opening.listening[0].sockets.len()), (1, 0), "{quic}");
        drop(held);
        let opening = try_to_open(&[&listener]);
        assert_eq!((opening.failed.len(), opening.listening[0].sockets.len()), (0, 1), "{quic}");
    }
}

#[test]
fn sockets_of_quic_keep_their_order_and_stay_open() {
    let (_held, address) = reserved(Transport::Datagram);
    let found = opened(&listener(address, true), &[2, 4, 2, 1, 5]);
    let expected: [&[usize]; 5] = match HAS_REUSEPORT {
        true => [&[0, 1], &[0, 1, 2, 3], &[0, 1, 2, 3], &[0, 1, 2, 3], &[0, 1, 2, 3, 4]],
        false => [&[0]; 5],
    };
    assert_eq!(found, expected);
    let (_held, address) = reserved(Transport::Stream);
    let mut found = opened(&listener(address, false), &[2, 4, 2]);
    // Those that are closed may have their numbers again.
    found.truncate(2);
    assert_eq!(found, [vec![0, 1], vec![0, 1, 2, 3]]);
}

#[test]
fn an_inherited_socket_gets_others_beside_it() {
    let any = ListenAddr::Inet(([127, 0, 0, 1], 0).into());
    let options = ListenOptions { transport: Transport::Datagram, ..ListenOptions::default() };
    let inherited = listen_socket(&any, &options).unwrap();
    let place = place_of(&inherited).unwrap();
    let listener = listener(place.address.clone(), true);
    let mut present =
        vec![Listening { place, sockets: vec![inherited.into()], is_supervisors: false }];
    let opening = open(&[&listener], &mut present, 3);
    assert!(opening.failed.is_empty() && opening.new.is_empty(), "{opening:?}");
    assert_eq!(opening.listening[0].sockets.len(), 3);
}
