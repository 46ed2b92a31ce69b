//! Responses and control streams in any pieces, and the relay.

use std::net::UdpSocket;
use std::time::Duration;

use tidegate_h3::frame::{kind, write};
use tidegate_h3::qpack::Decoder;

use super::message::{Response, ServerStream, control_stream, request};
use super::relay::{Path, Relay};
use crate::h2::client::Ask;

/// A field section with this status, and a field after it.
fn section(status: &str) -> Vec<u8> {
    let mut encoder = tidegate_h3::qpack::Encoder::new(0, true);
    let (mut lines, mut prefix) = (Vec::new(), Vec::new());
    encoder.begin(0);
    for (name, value) in [(":status", status), ("server", "any")] {
        let (name, value) = (name.as_bytes(), value.as_bytes());
        let known = tidegate_fields::Known::of(name);
        encoder.field(known, name, value, tidegate_h3::qpack::Indexing::Without, &mut lines);
    }
    encoder.finish(&mut prefix);
    [prefix, lines].concat()
}

fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write::header(&mut out, kind, payload.len() as u64);
    out.extend_from_slice(payload);
    out
}

/// Feeds pieces of a size; returns whether the response is that of the request, or the error.
fn check(bytes: &[u8], size: usize, ask: &Ask) -> Result<bool, String> {
    let (mut response, mut decoder) = (Response::default(), Decoder::new(0, 0));
    for piece in bytes.chunks(size) {
        response.feed(0, piece, &mut decoder)?;
    }
    Ok(response.suits(ask))
}

#[test]
fn responses_are_read_however_they_are_cut() {
    let head = frame(kind::HEADERS, &section("200"));
    let hints = frame(kind::HEADERS, &section("103"));
    let missing = frame(kind::HEADERS, &section("404"));
    let (body, empty, reserved) =
        (frame(kind::DATA, &[7; 200]), frame(kind::DATA, b""), frame(0x21, b"abc"));
    let ask = Ask::get("/", 200);
    for (parts, expected) in [
        (vec![&head, &body], Ok(true)),
        (vec![&hints, &head, &empty, &reserved, &body, &empty], Ok(true)),
        (vec![&head], Ok(false)),
        (vec![&head, &body, &body], Ok(false)),
        (vec![&missing, &body], Ok(false)),
        (vec![&body], Err(())),
        (vec![&hints, &body], Err(())),
        (vec![&head, &head], Err(())),
    ] {
        let bytes = parts.into_iter().flatten().copied().collect::<Vec<u8>>();
        for size in 1..bytes.len() + 1 {
            assert_eq!(check(&bytes, size, &ask).map_err(|_| ()), expected, "{size}");
        }
    }
    let all = [head, body].concat();
    // A response that is cut within a frame is none.
    assert_eq!(check(&all[..all.len() - 1], 10, &Ask::get("/", 199)), Ok(false));
}

#[test]
fn an_empty_section_is_malformed() {
    assert!(check(&frame(kind::HEADERS, b""), 9, &Ask::get("/", 0)).is_err());
}

#[test]
fn goaway_is_found_however_the_stream_is_cut() {
    let mut bytes = control_stream().to_vec();
    write::priority_update(&mut bytes, 4, b"u=1");
    write::go_away(&mut bytes, 1024);
    for size in 1..bytes.len() + 1 {
        let mut stream = ServerStream::default();
        let found: Vec<u64> =
            bytes.chunks(size).filter_map(|piece| stream.feed(piece).expect("frames")).collect();
        assert_eq!(found, [1024], "{size}");
    }
    // A stream of QPACK.
    assert_eq!(ServerStream::default().feed(b"\x02\x07\x01\x00"), Ok(None));
}

#[test]
fn requests_are_one_frame() {
    let bytes = request(&Ask::get("/return", 0), "127.0.0.1:1");
    let mut rest = &bytes[..];
    let header = tidegate_h3::frame::PartialHeader::default().frame(&mut rest).expect("a header");
    assert_eq!(
        (header.kind, header.length),
        (tidegate_h3::frame::Kind::Headers, rest.len() as u64)
    );
}

#[test]
fn the_relay_loses_the_same_datagrams_each_time() {
    let lost = || {
        let server = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let path = Path { lost_per_thousand: 100, delay: Duration::ZERO };
        let relay = Relay::start(server.local_addr().expect("an address"), path).expect("a relay");
        let client = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        client.connect(relay.address()).expect("connected");
        server.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        let (mut arrived, mut buffer) = (Vec::new(), [0; 8]);
        for number in 0..100_u8 {
            client.send(&[number]).expect("sent");
        }
        // The last ones are not lost.
        while arrived.last() != Some(&99) {
            let (_, from) = server.recv_from(&mut buffer).expect("received");
            arrived.push(buffer[0]);
            server.send_to(&buffer[..1], from).expect("sent");
        }
        assert!(relay.lost_percent() > 0.0);
        arrived
    };
    let first = lost();
    assert!((80..100).contains(&first.len()), "{}", first.len());
    assert_eq!(first, lost());
}
