//! Messages: requests in any pieces, responses, sections that wait, priorities, the end.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_fields::{Budget, Priority};

use super::support::{
    CONTROL, DECODER, ENCODER, GET, POST, data, feed, feed_part, frame, headers, headers_by,
    output, section, server,
};
use crate::connection::{Closing, OwnStream};
use crate::frame::kind;
use crate::qpack::{Decoder, Encoder};
use crate::{Config, ErrorCode, SendError};

const NOW: Duration = Duration::ZERO;

#[test]
fn settings_are_the_first_bytes() {
    let mut plain = server(Config::default());
    assert_eq!(output(&mut plain, OwnStream::Control), b"\x00\x04\x05\x01\x50\x00\x07\x10");
    assert_eq!(output(&mut plain, OwnStream::Encoder), b"");
    let mut bare = server(Config {
        decoder_table_bytes: 0,
        blocked_streams_max: 0,
        extended_connect: true,
        ..Config::default()
    });
    assert_eq!(output(&mut bare, OwnStream::Control), b"\x00\x04\x02\x08\x01");
    let settings = b"\x00\x04\x0a\x01\x50\x00\x07\x40\x64\x08\x01\x21\x00";
    assert_eq!(feed(&mut bare, CONTROL, settings, false), Ok(vec!["settings".to_owned()]));
    let peer = bare.peer();
    assert_eq!((peer.qpack_table_bytes, peer.qpack_blocked_streams), (4096, 100));
    assert!(peer.connect_protocol && !peer.datagrams);
}

#[test]
fn requests_and_responses() {
    let mut server = server(Config::default());
    let events = feed(&mut server, 0, &headers(&GET), true);
    assert_eq!(events, Ok(vec!["0 GET / HTTP/3.0 end".to_owned()]));
    let body = [headers(&POST), data(b"abc"), data(b"de"), headers(&[("x-t", "1")])].concat();
    let events = feed(&mut server, 4, &body, true);
    let expected =
        ["4 POST / HTTP/3.0", "4 data abc", "4 data de", "4 trailers x-t: 1"].map(str::to_owned);
    assert_eq!(events, Ok(expected.to_vec()));
    let (mut decoder, mut out) = (Decoder::new(0, 0), Vec::new());
    let early = server.respond_interim(4, 103, &mut out, |fields| fields.push(b"Link", b"</a>"));
    assert_eq!(early, Ok(0));
    assert_eq!(server.send_data_header(4, 3, false, &mut out), Err(SendError::Order));
    assert_eq!(server.respond(4, 99, true, &mut out, |_| {}), Err(SendError::Invalid));
    let invalid = server.respond(4, 200, false, &mut out, |fields| {
        fields.push(b"server", b"tidegate");
        fields.push(b"connection", b"close");
        fields.push(b"x-a", b"b\r\nc: d");
    });
    assert_eq!(invalid, Ok(1));
    assert_eq!(server.respond(4, 200, true, &mut out, |_| {}), Err(SendError::Order));
    assert_eq!(server.send_data_header(4, 3, false, &mut out), Ok(()));
    out.extend_from_slice(b"xyz");
    assert_eq!(server.send_trailers(4, &mut out, |fields| fields.push(b"x-t", b"2")), Ok(0));
    assert_eq!(server.send_data_header(4, 3, true, &mut out), Err(SendError::Closed));
    let mut input = out.as_slice();
    assert_eq!(section(&mut decoder, 4, &mut input), ":status: 103|link: </a>|");
    assert_eq!(section(&mut decoder, 4, &mut input), ":status: 200|server: tidegate|");
    assert_eq!(input.get(..5), Some(&b"\x00\x03xyz"[..]));
    assert_eq!(section(&mut decoder, 4, &mut &input[5..]), "x-t: 2|");
    assert_eq!(server.close(4, ErrorCode::INTERNAL_ERROR), Closing::default());
    // Neither a response nor the end of it.
    let reset = Some(ErrorCode::INTERNAL_ERROR);
    assert_eq!(server.close(0, ErrorCode::INTERNAL_ERROR), Closing { stop: None, reset });
    // What arrives of a stream that is over is dropped.
    assert_eq!(feed(&mut server, 0, &headers(&GET), true), Ok(vec![]));
    assert_eq!((server.streams(), server.close(0, ErrorCode::NO_ERROR)), (0, Closing::default()));
}

#[test]
fn the_end_of_a_body_arrives_in_any_way() {
    for (bytes, pieces) in [
        (data(b"abc"), vec!["data abc end"]),
        ([data(b"abc"), data(b"")].concat(), vec!["data abc", "data  end"]),
        ([data(b"abc"), frame(0x21, b"x")].concat(), vec!["data abc", "data  end"]),
        (vec![], vec!["data  end"]),
    ] {
        let mut server = server(Config::default());
        let head = [frame(0x40, b"grease"), headers(&POST)].concat();
        assert_eq!(feed(&mut server, 0, &head, false), Ok(vec!["0 POST / HTTP/3.0".to_owned()]));
        let expected: Vec<String> = pieces.into_iter().map(|piece| format!("0 {piece}")).collect();
        assert_eq!(feed(&mut server, 0, &bytes, true), Ok(expected));
        assert_eq!(feed(&mut server, 0, b"", true), Ok(vec![]));
    }
}

#[test]
fn a_request_that_is_not_needed_to_its_end_is_stopped() {
    let mut server = server(Config::default());
    assert!(feed(&mut server, 0, &headers(&POST), false).is_ok());
    assert_eq!(server.respond(0, 413, true, &mut Vec::new(), |_| {}), Ok(0));
    let closing = Closing { stop: Some(ErrorCode::NO_ERROR), reset: None };
    assert_eq!(server.close(0, ErrorCode::REQUEST_CANCELLED), closing);
    // A section of it may have been on its way.
    assert_eq!(output(&mut server, OwnStream::Decoder), b"\x03\x40");
    assert!(feed(&mut server, 4, &headers(&POST), false).is_ok());
    let code = Some(ErrorCode::REQUEST_CANCELLED);
    let closing = server.close(4, ErrorCode::REQUEST_CANCELLED);
    assert_eq!(closing, Closing { stop: code, reset: code });
}

#[test]
fn sections_wait_for_insertions() {
    let mut server = server(Config::default());
    let mut encoder = Encoder::new(4096, true);
    encoder.limit(4096, 16);
    let list = [&GET[..], &[("x-a", "b")]].concat();
    let requests = [headers_by(&mut encoder, 0, &list), headers_by(&mut encoder, 4, &list)];
    // The body of the first one stays where it is.
    let first = [requests[0].clone(), data(b"abc")].concat();
    let (events, rest) = feed_part(&mut server, 0, &first, true).expect("a valid request");
    assert_eq!((events, rest.len(), server.is_blocked(0)), (vec![], 5, true));
    assert_eq!(feed(&mut server, 4, &requests[1][..5], false), Ok(vec![]));
    assert_eq!(feed(&mut server, 4, &requests[1][5..], true), Ok(vec![]));
    let mut insertions = vec![0x02];
    encoder.take_output(&mut insertions);
    let unblocked = vec!["0 unblocked".to_owned(), "4 unblocked".to_owned()];
    assert_eq!(feed(&mut server, ENCODER, &insertions, false), Ok(unblocked));
    let events = vec!["0 GET / HTTP/3.0".to_owned(), "0 data abc end".to_owned()];
    assert_eq!(feed(&mut server, 0, rest, true), Ok(events));
    let events = vec!["4 GET / HTTP/3.0 end".to_owned()];
    assert_eq!(feed(&mut server, 4, b"", true), Ok(events));
    // Two insertions were confirmed, then both sections.
    assert_eq!(output(&mut server, OwnStream::Decoder), b"\x03\x02\x80\x84");
    assert_eq!(encoder.receive(b"\x02\x80\x84"), Ok(()));
}

#[test]
fn a_stream_that_waits_can_be_reset() {
    let mut server = server(Config::default());
    let mut encoder = Encoder::new(4096, true);
    encoder.limit(4096, 16);
    let request = headers_by(&mut encoder, 0, &[("x-a", "b")]);
    assert_eq!(feed(&mut server, 0, &request, false), Ok(vec![]));
    let event = server.reset_received(0, ErrorCode::REQUEST_CANCELLED, NOW);
    let event = event.map(|event| event.map(|event| super::support::text(&mut server, event)));
    assert_eq!(event, Ok(Some("0 refused H3_REQUEST_CANCELLED".to_owned())));
    assert_eq!((server.streams(), server.is_blocked(0)), (0, false));
    let mut insertions = vec![0x02];
    encoder.take_output(&mut insertions);
    assert_eq!(feed(&mut server, ENCODER, &insertions, false), Ok(vec![]));
    assert_eq!(output(&mut server, OwnStream::Decoder), b"\x03\x40\x01");
}

#[test]
fn responses_use_a_table_within_the_clients_limits() {
    let config = Config { encoder_table_bytes: 4096, huffman: true, ..Config::default() };
    let (mut server, mut decoder) = (server(config), Decoder::new(1024, 1));
    let settings = b"\x00\x04\x05\x01\x44\x00\x07\x01";
    assert!(feed(&mut server, CONTROL, settings, false).is_ok());
    let respond = |server: &mut crate::Connection, stream, decoder: &mut Decoder| {
        assert!(feed(server, stream, &headers(&GET), true).is_ok());
        let mut out = Vec::new();
        let sent = server.respond(stream, 200, true, &mut out, |fields| {
            fields.push(b"server", b"tidegate");
        });
        assert_eq!(sent, Ok(0));
        let insertions = output(server, OwnStream::Encoder);
        let insertions = insertions.strip_prefix(b"\x02").unwrap_or(&insertions);
        assert_eq!(decoder.receive(insertions, &mut Budget::new(9)), Ok(()));
        let text = section(decoder, stream, &mut out.as_slice());
        assert_eq!(text, ":status: 200|server: tidegate|");
        server.close(stream, ErrorCode::NO_ERROR);
        out.len()
    };
    assert_eq!(respond(&mut server, 0, &mut decoder), 6);
    let mut confirmations = vec![0x03];
    decoder.take_output(&mut confirmations);
    assert_eq!(feed(&mut server, DECODER, &confirmations, false), Ok(vec![]));
    assert_eq!(respond(&mut server, 4, &mut decoder), 6);
}

#[test]
fn priorities() {
    let mut server = server(Config::default());
    let update =
        |stream: u8, value: &[u8]| frame(kind::PRIORITY_UPDATE, &[&[stream], value].concat());
    let control = [b"\x00\x04\x00".to_vec(), update(4, b"u=1"), update(4, b"u=2, i")].concat();
    assert_eq!(feed(&mut server, CONTROL, &control, false), Ok(vec!["settings".to_owned()]));
    let list = [&GET[..], &[("priority", "u=5")]].concat();
    for (stream, expected) in [(0, (5, false)), (4, (2, true))] {
        assert!(feed(&mut server, stream, &headers(&list), true).is_ok());
        let (urgency, incremental) = expected;
        assert_eq!(server.priority(stream), Some(Priority { urgency, incremental }));
    }
    let event = vec!["0 urgency 0 false".to_owned()];
    assert_eq!(feed(&mut server, CONTROL, &update(0, b"u=0"), false), Ok(event));
    server.prioritise(0, Priority { urgency: 7, incremental: true });
    assert_eq!(server.priority(0).map(|priority| priority.urgency), Some(7));
    assert!(feed(&mut server, 8, &headers(&GET), true).is_ok());
    assert_eq!(server.priority(8), Some(Priority::UNSIGNALLED));
}

#[test]
fn a_graceful_end() {
    let mut server = server(Config::default());
    output(&mut server, OwnStream::Control);
    assert!(feed(&mut server, 4, &headers(&GET), true).is_ok());
    server.announce_end();
    let most = b"\x07\x08\xff\xff\xff\xff\xff\xff\xff\xfc";
    assert_eq!(output(&mut server, OwnStream::Control), most);
    // A stream below may arrive late.
    assert!(feed(&mut server, 0, &headers(&GET), true).is_ok());
    server.go_away();
    server.go_away();
    server.announce_end();
    assert_eq!(output(&mut server, OwnStream::Control), b"\x07\x01\x08");
    let refused = vec!["8 refused H3_REQUEST_REJECTED".to_owned()];
    assert_eq!(feed(&mut server, 8, &headers(&GET), true), Ok(refused));
    assert!(!server.is_drained());
    server.close(0, ErrorCode::NO_ERROR);
    server.close(4, ErrorCode::NO_ERROR);
    assert!(server.is_drained());
    let event = vec!["goaway 4".to_owned()];
    let control = b"\x00\x04\x00\x07\x01\x04".to_vec();
    assert_eq!(
        feed(&mut server, CONTROL, &control, false).map(|events| events[1..].to_vec()),
        Ok(event)
    );
    assert_eq!(server.abort(ErrorCode::INTERNAL_ERROR).code(), ErrorCode::INTERNAL_ERROR);
    assert!(server.receive(12, &mut &[][..], false, NOW).is_err());
}

#[test]
fn an_idle_connection_holds_no_memory() {
    let mut server = server(Config { extended_connect: true, ..Config::default() });
    let connect = [&GET[1..], &[(":method", "CONNECT"), (":protocol", "websocket")]].concat();
    let events = feed(&mut server, 0, &headers(&connect), false);
    assert_eq!(events, Ok(vec!["0 CONNECT / HTTP/3.0".to_owned()]));
    assert!(feed(&mut server, 0, &data(&[b'x'; 1000]), true).is_ok());
    assert_eq!(server.respond(0, 200, true, &mut Vec::new(), |_| {}), Ok(0));
    server.close(0, ErrorCode::NO_ERROR);
    for stream in OwnStream::ALL {
        output(&mut server, stream);
    }
    assert!(server.is_quiet());
    server.release_memory();
    assert_eq!(server.memory(), 0);
}

proptest! {
    /// However a stream is cut, the same is reported, but for the pieces of bodies.
    #[test]
    fn streams_arrive_in_any_pieces(
        body in vec(0usize..40, 0..4), pieces in vec(1usize..9, 1..40), trailers: bool,
    ) {
        let mut bytes = [frame(0x21, b"grease"), headers(&POST)].concat();
        for length in &body {
            bytes.extend(data(&vec![b'x'; *length]));
            bytes.extend(frame(0x21, b""));
        }
        if trailers {
            bytes.extend(headers(&[("x-t", "1")]));
        }
        let mut server = server(Config::default());
        let (mut rest, mut sizes) = (bytes.as_slice(), pieces.into_iter().cycle());
        let (mut events, mut received) = (Vec::new(), 0);
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(sizes.next().unwrap_or(1).min(rest.len()));
            rest = behind;
            let end = rest.is_empty() && piece.len() % 2 == 0;
            events.extend(feed(&mut server, 0, piece, end).expect("a valid stream"));
        }
        events.extend(feed(&mut server, 0, b"", true).expect("a valid stream"));
        let mut others = Vec::new();
        for event in events {
            match event.strip_prefix("0 data ") {
                Some(piece) => {
                    received += piece.bytes().filter(|byte| *byte == b'x').count();
                    if piece.ends_with("end") {
                        others.push("end".to_owned());
                    }
                }
                None => match event.strip_suffix(" end") {
                    Some(head) => others.extend([head.to_owned(), "end".to_owned()]),
                    None => others.push(event),
                },
            }
        }
        prop_assert_eq!(received, body.iter().sum::<usize>());
        let last = if trailers { "0 trailers x-t: 1" } else { "end" };
        prop_assert_eq!(others, vec!["0 POST / HTTP/3.0".to_owned(), last.to_owned()]);
        prop_assert_eq!(server.close(0, ErrorCode::NO_ERROR).stop, None);
    }

    #[test]
    fn data_of_the_fuzzer(data in vec((any::<u8>(), 0u8..20, any::<u8>(), vec(any::<u8>(), 0..3)), 0..200)) {
        let bytes: Vec<u8> = data
            .into_iter()
            .flat_map(|(what, stream, length, more)| {
                [&[what, stream, length % 16], more.as_slice()].concat()
            })
            .collect();
        crate::fuzzing::fuzz_connection(&bytes);
    }
}
