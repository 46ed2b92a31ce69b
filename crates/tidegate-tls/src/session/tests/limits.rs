//! Limits of messages without data, and of records per key.

use rustls::{CipherSuiteCommon, Tls13CipherSuite};

use super::*;

/// Returns our suite with keys for at most `records` records.
fn limited(suite: SupportedCipherSuite, records: u64) -> SupportedCipherSuite {
    let SupportedCipherSuite::Tls13(suite) = own(suite) else { panic!("TLS 1.3") };
    SupportedCipherSuite::Tls13(Box::leak(Box::new(Tls13CipherSuite {
        common: CipherSuiteCommon {
            suite: suite.common.suite,
            hash_provider: suite.common.hash_provider,
            confidentiality_limit: records,
        },
        hkdf_provider: suite.hkdf_provider,
        aead_alg: suite.aead_alg,
        quic: None,
    })))
}

/// Keys are updated before their limit, in the middle of a write too: the update is in front of the record with the
/// new key, behind those with the old one.
#[test]
fn keys_are_updated_at_their_limit() {
    for suite in &SUITES[..3] {
        let (server, client) = configs_of(limited(*suite, 7), *suite);
        let connection = UnbufferedServerConnection::new(server).expect("a connection");
        let mut session = Session::new(connection, Vec::new(), usize::MAX);
        let mut peer = ClientConnection::new(client, name()).expect("a connection");
        session.record_bytes_max = 100;
        shake(&mut session, &mut peer, 10_000);
        let mut course = Course::default();
        for sizes in [&[3000_usize][..], &[50], &[50, 3000], &[10_000], &[1]] {
            course.write(&mut session, &mut peer, sizes).expect("the bytes");
            // Updates that the peer asks for are in between.
            peer.update_keys();
            course.pass(&mut session, &mut peer, &Event::Arrive(1000, 1000)).expect("an update");
        }
        session.close();
        peer.give(&output(&mut session)).expect("a close");
        assert!(peer.process_new_packets().expect("a close").peer_has_closed());
    }
}

/// Messages without data are limited.
#[test]
fn floods_are_errors() {
    // KeyUpdate, each with a reply of ours that waits for the next write.
    let (mut session, mut peer) = server(0);
    shake(&mut session, &mut peer, 10_000);
    let mut buffer = Vec::with_capacity(100);
    let mut updates = 0;
    let failed = loop {
        peer.update_keys();
        let bytes = peer.take_output();
        assert!(!bytes.is_empty());
        feed(&mut session, &bytes);
        match session.open(&mut buffer) {
            Ok(count) => assert_eq!(count, 0),
            Err(error) => break error,
        }
        updates += 1;
        assert!(updates <= 32, "too many");
    };
    assert_eq!(failed.kind(), io::ErrorKind::InvalidData);
    assert_eq!(updates, 32);
    assert!(session.has_failed());
}
