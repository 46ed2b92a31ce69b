//! Hellos as clients send them, cut and changed.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn sized16(content: &[u8]) -> Vec<u8> {
    [&(content.len() as u16).to_be_bytes()[..], content].concat()
}

fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &sized16(content)].concat()
}

fn server_name(name: &[u8]) -> Vec<u8> {
    extension(SERVER_NAME, &sized16(&[&[0][..], &sized16(name)].concat()))
}

fn alpn(names: &[&[u8]]) -> Vec<u8> {
    let list: Vec<u8> =
        names.iter().flat_map(|name| [&[name.len() as u8][..], name].concat()).collect();
    extension(ALPN, &sized16(&list))
}

fn versions(list: &[u16]) -> Vec<u8> {
    let bytes: Vec<u8> = list.iter().flat_map(|version| version.to_be_bytes()).collect();
    extension(SUPPORTED_VERSIONS, &[&[bytes.len() as u8][..], &bytes].concat())
}

/// Returns the handshake message without records.
fn message(version: u16, extensions: &[u8]) -> Vec<u8> {
    let mut body = version.to_be_bytes().to_vec();
    body.extend_from_slice(&[7; 32]);
    body.extend_from_slice(&[3, 1, 2, 3]);
    body.extend_from_slice(&sized16(&[0x13, 0x01, 0xc0, 0x2f]));
    body.extend_from_slice(&[1, 0]);
    body.extend_from_slice(&sized16(extensions));
    let length = (body.len() as u32).to_be_bytes();
    [&[CLIENT_HELLO][..], &length[1..], &body].concat()
}

/// Returns the message in records of at most `most` bytes.
fn records(message: &[u8], most: usize) -> Vec<u8> {
    let parts = message.chunks(most.max(1));
    parts.flat_map(|part| [&[HANDSHAKE, 3, 1][..], &sized16(part)].concat()).collect()
}

fn hello(version: u16, name: &str, protocols: &[&str]) -> ClientHello {
    ClientHello {
        version,
        server_name: name.as_bytes().to_vec(),
        alpn: protocols.iter().map(|name| name.as_bytes().to_vec()).collect(),
    }
}

#[test]
fn hellos_have_names_protocols_and_versions() {
    let grease = extension(0x3a3a, b"");
    for (version, extensions, expected) in [
        (0x0303, vec![], hello(0x0303, "", &[])),
        (0x0300, vec![server_name(b"foo")], hello(0x0300, "foo", &[])),
        (
            0x0303,
            vec![grease, alpn(&[b"h2", b"http/1.1"]), server_name(b"Example.com")],
            hello(0x0303, "Example.com", &["h2", "http/1.1"]),
        ),
        (0x0303, vec![versions(&[0x6a6a, 0x0304, 0x0303])], hello(0x0304, "", &[])),
        (0x0303, vec![versions(&[0x7f1c])], hello(0x0304, "", &[])),
        (0x0303, vec![versions(&[0x6a6a])], hello(0x0303, "", &[])),
    ] {
        let message = message(version, &extensions.concat());
        for most in [1, 7, 1000] {
            let bytes = records(&message, most);
            assert_eq!(parse(&bytes), Ok(ParsedHello::Complete(expected.clone())), "{most}");
        }
    }
}

#[test]
fn other_bytes_are_refused_as_soon_as_possible() {
    for bytes in
        [&b"G"[..], b"\x16\x02", b"\x16\x03\x01\x00\x00", b"\x16\x03\x01\xff\xff", b"\x80\x1c\x02"]
    {
        assert_eq!(parse(bytes), Err(NotHello), "{bytes:?}");
    }
    // A server's hello, and one that is too long.
    assert_eq!(parse(b"\x16\x03\x01\x00\x05\x02"), Err(NotHello));
    assert_eq!(parse(b"\x16\x03\x01\x00\x05\x01\x02\x00\x00"), Err(NotHello));
}

#[test]
fn hellos_of_ssl2_have_a_version() {
    let bytes = |version: u16| [&[0x80, 0x1c, 1][..], &version.to_be_bytes(), &[0; 8]].concat();
    for version in [0x0002, 0x0301] {
        let expected = hello(version, "", &[]);
        assert_eq!(parse(&bytes(version)), Ok(ParsedHello::Complete(expected)));
    }
    assert_eq!(parse(b"\x80\x1c\x01\x00"), Ok(ParsedHello::Partial));
    assert_eq!(version_name(0x0002), "SSLv2");
    assert_eq!(version_name(0x0a0a), "");
}

proptest! {
    #[test]
    fn any_cut_of_a_hello_is_partial(name in "[a-z.]{0,40}", most in 1usize..300, cut in 0usize..400) {
        let extensions = [server_name(name.as_bytes()), alpn(&[b"h2"])].concat();
        let bytes = records(&message(0x0303, &extensions), most);
        let cut = cut.min(bytes.len() - 1);
        prop_assert_eq!(parse(&bytes[..cut]), Ok(ParsedHello::Partial));
        let whole = parse(&[&bytes[..], b"more"].concat());
        prop_assert_eq!(whole, Ok(ParsedHello::Complete(hello(0x0303, &name, &["h2"]))));
    }

    #[test]
    fn any_bytes_are_read(bytes in vec(0u8..=255, 0..200), extensions in vec(0u8..=255, 0..200)) {
        let _ = parse(&bytes);
        let _ = parse(&[&[HANDSHAKE, 3, 1][..], &bytes].concat());
        let whole = parse(&records(&message(0x0303, &extensions), 50));
        prop_assert!(whole != Ok(ParsedHello::Partial));
    }
}
