//! Headers of both versions.
use super::*;
use proptest::prelude::*;

fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let mut header = SIGNATURE.to_vec();
    header.extend([0x20 | command, family]);
    header.extend((body.len() as u16).to_be_bytes());
    header.extend(body);
    header
}

fn check(input: &[u8], expected: Result<Option<&str>, ProxyProtocolError>) {
    let found = parse(input).map(|parsed| match parsed {
        ParsedProxy::Partial => None,
        ParsedProxy::Complete(header, len) => Some(match header.addresses {
            None => format!("- {len}"),
            Some((source, destination)) => format!("{source} {destination} {len}"),
        }),
    });
    let expected = expected.map(|text| text.map(str::to_owned));
    assert_eq!(found, expected, "{}", String::from_utf8_lossy(input));
}

#[test]
fn version_1_lines() {
    let broken = Err(ProxyProtocolError);
    check(b"PROXY TCP4 1.2.3.4 5.6.7.8 1 65535\r\nGET", Ok(Some("1.2.3.4:1 5.6.7.8:65535 36")));
    check(b"PROXY TCP6 ::1 192.0.2.1 80 81\r\n", Ok(Some("[::1]:80 192.0.2.1:81 32")));
    check(b"PROXY TCP6 ::1 2001:db8::2 80 81\r\n", Ok(Some("[::1]:80 [2001:db8::2]:81 34")));
    check(b"PROXY UNKNOWN\r\n", Ok(Some("- 15")));
    check(b"PROXY UNKNOWN a b c\r\n", Ok(Some("- 21")));
    for partial in [&b""[..], b"P", b"PROXY", b"PROXY TCP4 1.2", b"PROXY UNKNOWN\r"] {
        check(partial, Ok(None));
    }
    for wrong in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1 65536\r\n",
        b"PROXY TCP4 1.2.3.4 5.6.7.8 +1 2\r\n",
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n",
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2 3\r\n",
        b"PROXY TCP4 ::1 ::2 1 2\r\n",
        b"PROXY TCP5 1.2.3.4 5.6.7.8 1 2\r\n",
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\n",
        &[&b"PROXY UNKNOWN "[..], &[b'x'; 100]].concat(),
    ] {
        check(wrong, broken);
    }
}

#[test]
fn version_2_headers() {
    let addresses = [1, 2, 3, 4, 5, 6, 7, 8, 0, 80, 1, 0];
    check(&v2(1, 0x11, &addresses), Ok(Some("1.2.3.4:80 5.6.7.8:256 28")));
    check(&v2(0, 0x11, &addresses), Ok(Some("- 28")));
    for family in [0x00, 0x10, 0x12, 0x13] {
        check(&v2(1, family, &addresses), Ok(Some("- 28")));
    }
    check(&v2(1, 0, b""), Ok(Some("- 16")));
    check(&v2(1, 0x31, &[0; 216]), Ok(Some("- 232")));
    check(&v2(1, 0x21, &[0; 36]), Ok(Some("[::]:0 [::]:0 52")));
    check(&v2(1, 0x11, &addresses)[..20], Ok(None));
    check(&v2(1, 0x11, &addresses[..11]), Err(ProxyProtocolError));
    check(&v2(2, 0x11, &addresses), Err(ProxyProtocolError));
    check(&v2(1, 0x41, &addresses), Ok(Some("- 28")));
    check(&v2(1, 0x11, &[0; 5000]), Err(ProxyProtocolError));
}

#[test]
fn tlvs_are_found() {
    let mut body = vec![0; 12];
    body.extend(b"\x01\0\x02h2\x20\0\x0d\x01\0\0\0\x07\x22\0\x05a.com\x30\0\x09short");
    let ParsedProxy::Complete(header, _) = parse(&v2(1, 0x11, &body)).unwrap() else {
        panic!("the header is whole")
    };
    assert_eq!(header.tlv(1), Some(&b"h2"[..]));
    assert_eq!(header.ssl_verify(), Some(7));
    assert_eq!(header.ssl_tlv(0x22), Some(&b"a.com"[..]));
    assert_eq!((header.tlv(0x30), header.tlv(9), header.ssl_tlv(1)), (None, None, None));
    for (name, expected) in [
        ("alpn", Some((false, 1))),
        ("ssl_cn", Some((true, 0x22))),
        ("0x3", Some((false, 3))),
        ("0x000ae", Some((false, 0xae))),
        ("ssl_0x21", Some((true, 0x21))),
        ("0x100", None),
        ("0x+1", None),
        ("foo", None),
    ] {
        assert_eq!(tlv_type(name), expected, "{name}");
    }
}

#[test]
fn lines_are_written() {
    let mut out = Vec::new();
    write_v1("1.2.3.4:5".parse().unwrap(), "6.7.8.9:10".parse().unwrap(), &mut out);
    write_v1("[::1]:5".parse().unwrap(), "[::2]:10".parse().unwrap(), &mut out);
    write_v1("[::1]:5".parse().unwrap(), "1.1.1.1:10".parse().unwrap(), &mut out);
    let expected =
        "PROXY TCP4 1.2.3.4 6.7.8.9 5 10\r\nPROXY TCP6 ::1 ::2 5 10\r\nPROXY UNKNOWN\r\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

proptest! {
    #[test]
    fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        crate::fuzzing::fuzz_proxy_protocol(&bytes);
        crate::fuzzing::fuzz_proxy_protocol(&v2(1, 0x11, &bytes));
    }

    #[test]
    fn written_headers_are_parsed(a in any::<[u8; 16]>(), b in any::<[u8; 16]>(), port in any::<u16>()) {
        let pair = (SocketAddr::new(a.into(), port), SocketAddr::new(b.into(), 80));
        let mut out = Vec::new();
        write_v1(pair.0, pair.1, &mut out);
        let expected = ProxyHeader { addresses: Some(pair), tlvs: vec![] };
        prop_assert_eq!(parse(&out), Ok(ParsedProxy::Complete(expected, out.len())));
    }
}

#[test]
fn version_2_is_written_with_a_checksum() {
    let pair = |source: &str, destination: &str| {
        Some((source.parse().unwrap(), destination.parse().unwrap()))
    };
    // As nginx 1.31.5 writes them.
    for (addresses, datagrams, expected) in [
        (
            pair("127.0.0.1:33854", "127.0.0.1:18401"),
            false,
            &b"\x21\x11\x00\x13\x7f\x00\x00\x01\x7f\x00\x00\x01\x84\x3e\x47\xe1\x03\x00\x04\x18\x20\x79\x38"[..],
        ),
        (None, false, b"\x20\x00\x00\x07\x03\x00\x04\xa9\xb8\x7e\x8f"),
        (
            pair("127.0.0.1:57489", "127.0.0.1:18403"),
            true,
            b"\x21\x12\x00\x13\x7f\x00\x00\x01\x7f\x00\x00\x01\xe0\x91\x47\xe3\x03\x00\x04\xa9\xcf\xae\xb1",
        ),
        (
            pair("[::1]:43916", "[::1]:18401"),
            false,
            b"\x21\x21\x00\x2b\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\xab\x8c\x47\xe1\x03\x00\x04\xd0\xfc\xd2\x74",
        ),
    ] {
        let mut out = b"before".to_vec();
        write_v2(addresses, datagrams, &mut out);
        let written = out.strip_prefix(b"before\r\n\r\n\0\r\nQUIT\n").unwrap();
        assert_eq!(written, expected, "{addresses:?}");
        let ParsedProxy::Complete(header, length) = parse(&out[6..]).unwrap() else { panic!() };
        // The addresses of datagrams are ignored on a listener.
        assert_eq!(header.addresses, addresses.filter(|_| !datagrams));
        assert_eq!(length, out.len() - 6);
    }
    // Two different families: `LOCAL`.
    let mut out = Vec::new();
    write_v2(pair("127.0.0.1:1", "[::1]:2"), false, &mut out);
    assert_eq!(out.len(), 16 + 7);
}
