//! Keys, and hellos in pieces. Handshakes over sockets are tests of `tidegate-quic`.

use super::QuicHostKeys;

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
