//! Keys, and hellos in pieces. Handshakes over sockets are tests of `tidegate-quic`.

use super::{QuicHostKeys, limit_connection_ids};

#[test]
fn host_keys_are_those_of_the_secret() {
    let sign = |secret: &[u8]| {
        let mut signature = [0; 32];
        QuicHostKeys::derive(secret).reset.sign(b"number", &mut signature);
        signature
    };
    assert_eq!(sign(b"secret"), sign(b"secret"));
    assert_ne!(sign(b"secret"), sign(b"other"));
    let numbers = |secret: &[u8]| QuicHostKeys::derive(secret).numbers;
    assert_eq!(numbers(b"secret"), numbers(b"secret"));
    assert_ne!(numbers(b"secret"), numbers(b"other"));
}

#[test]
fn the_number_of_connection_ids_is_overwritten_in_place() {
    // max_idle_timeout of two bytes, the limit, an unknown parameter whose value looks like the limit.
    let before = [0x01, 2, 0x40, 0x80, 0x0e, 1, 5, 0x1f, 3, 0x0e, 1, 5];
    let mut parameters = before;
    limit_connection_ids(&mut parameters, 2);
    let mut expected = before;
    expected[6] = 2;
    assert_eq!(parameters, expected);
    for cut in 0..before.len() {
        let mut parameters = before[..cut].to_vec();
        limit_connection_ids(&mut parameters, 5);
        assert_eq!(parameters, before[..cut]);
    }
}
