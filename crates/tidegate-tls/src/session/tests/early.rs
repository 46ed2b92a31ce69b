//! Data in the first flight of a resumed session (RFC 8446 section 2.3).

use super::*;

fn begin(config: &Arc<ServerConfig>) -> Session<UnbufferedServerConnection> {
    let connection = UnbufferedServerConnection::new(config.clone()).expect("a connection");
    Session::new(connection, Vec::new(), usize::MAX)
}

/// Data is read and responded to before the client's last message; the same flight is accepted once.
#[test]
fn data_comes_before_the_end_of_a_handshake() {
    for part in [1, 50, 10_000] {
        let (server, client) = configs(SUITES[0], true);
        let (mut server, mut client) = (Arc::unwrap_or_clone(server), Arc::unwrap_or_clone(client));
        (server.max_early_data_size, server.send_half_rtt_data) = (1000, true);
        client.enable_early_data = true;
        let (server, client) = (Arc::new(server), Arc::new(client));

        let mut session = begin(&server);
        let mut peer = ClientConnection::new(client.clone(), name()).expect("a connection");
        assert!(peer.early_data().is_none());
        shake(&mut session, &mut peer, part);
        assert!(session.early().is_none(), "a full handshake has none");

        let mut session = begin(&server);
        let mut peer = ClientConnection::new(client, name()).expect("a connection");
        peer.early_data().expect("a session").write_all(b"early").expect("written");
        let flight = peer.take_output();
        let mut progress = Progress::Blocked;
        for bytes in flight.chunks(part) {
            feed(&mut session, bytes);
            progress = session.handshake().expect("a handshake");
        }
        assert_eq!(progress, Progress::Ready);
        let early = session.early().expect("early data");
        let mut received = Vec::new();
        open_all(&mut session, 100, &mut received).expect("data");
        assert_eq!((&received[..], early.get()), (&b"early"[..], true));
        session.seal(&[IoSlice::new(b"response")]).expect("sealed");
        assert_eq!(peer.give(&output(&mut session)).expect("data"), b"response");
        assert!(peer.is_early_data_accepted() && early.get());

        peer.write(b"late");
        feed(&mut session, &peer.take_output());
        open_all(&mut session, 100, &mut received).expect("data");
        assert_eq!((&received[..], early.get()), (&b"earlylate"[..], false));

        let mut session = begin(&server);
        feed(&mut session, &flight);
        assert_eq!(session.handshake().expect("a handshake"), Progress::Blocked);
        open_all(&mut session, 100, &mut received).expect("no data");
        assert!(session.early().is_none() && received == b"earlylate");
    }
}
