//! Mistakes of the client, and the code or the event that each of them leads to.

use std::time::Duration;

use super::support::{
    CONTROL, DECODER, ENCODER, GET, POST, code_of, data, feed, frame, headers, server, text,
};
use crate::connection::OwnStream;
use crate::frame::kind;
use crate::{Config, ErrorCode, Event};

const NOW: Duration = Duration::ZERO;

/// Streams of a connection in their order, with their bytes and their end.
type Streams<'a> = &'a [(u64, &'a [u8], bool)];

fn check(expected: ErrorCode, streams: Streams<'_>) {
    let mut server = server(Config::default());
    let (last, before) = streams.split_last().expect("a stream");
    for (stream, bytes, end) in before {
        assert!(feed(&mut server, *stream, bytes, *end).is_ok(), "{streams:x?}");
    }
    let (stream, bytes, end) = *last;
    assert_eq!(code_of(&mut server, stream, bytes, end), Some(expected), "{streams:x?}");
}

#[test]
fn unidirectional_streams() {
    use ErrorCode as E;
    const SETTINGS: &[u8] = b"\x00\x04\x00";
    for (expected, streams) in [
        (E::STREAM_CREATION_ERROR, &[(1, &b""[..], false)][..]),
        (E::STREAM_CREATION_ERROR, &[(3, b"", false)]),
        (E::STREAM_CREATION_ERROR, &[(CONTROL, b"\x01", false)]),
        (E::STREAM_CREATION_ERROR, &[(CONTROL, SETTINGS, false), (ENCODER, b"\x00", false)]),
        (E::STREAM_CREATION_ERROR, &[(ENCODER, b"\x02", false), (DECODER, b"\x02", false)]),
        (E::STREAM_CREATION_ERROR, &[(ENCODER, b"\x03", false), (DECODER, b"\x03", false)]),
        (E::CLOSED_CRITICAL_STREAM, &[(CONTROL, SETTINGS, true)]),
        (E::CLOSED_CRITICAL_STREAM, &[(CONTROL, SETTINGS, false), (CONTROL, b"", true)]),
        (E::CLOSED_CRITICAL_STREAM, &[(ENCODER, b"\x02", true)]),
        (E::CLOSED_CRITICAL_STREAM, &[(DECODER, b"\x03", true)]),
        (E::QPACK_ENCODER_STREAM_ERROR, &[(ENCODER, b"\x02\x3f\xff\xff\x01", false)]),
        (E::QPACK_DECODER_STREAM_ERROR, &[(DECODER, b"\x03\x80", false)]),
        (E::MISSING_SETTINGS, &[(CONTROL, b"\x00\x0d\x01\x00", false)]),
        (E::MISSING_SETTINGS, &[(CONTROL, b"\x00\x21\x00", false)]),
        (E::FRAME_UNEXPECTED, &[(CONTROL, b"\x00\x04\x00\x04\x00", false)]),
        (E::FRAME_UNEXPECTED, &[(CONTROL, b"\x00\x04\x00\x00\x00", false)]),
        (E::FRAME_UNEXPECTED, &[(CONTROL, b"\x00\x04\x00\x01\x00", false)]),
        (E::FRAME_UNEXPECTED, &[(CONTROL, b"\x00\x04\x00\x05\x00", false)]),
        (E::FRAME_UNEXPECTED, &[(CONTROL, b"\x00\x04\x00\x06\x00", false)]),
        (E::FRAME_ERROR, &[(CONTROL, b"\x00\x04\x01\x40", false)]),
        (E::FRAME_ERROR, &[(CONTROL, b"\x00\x04\x00\x07\x00", false)]),
        (E::FRAME_ERROR, &[(CONTROL, b"\x00\x04\x00\x0d\x02\x01\x01", false)]),
        (E::SETTINGS_ERROR, &[(CONTROL, b"\x00\x04\x02\x02\x00", false)]),
        (E::SETTINGS_ERROR, &[(CONTROL, b"\x00\x04\x04\x01\x00\x01\x00", false)]),
        (E::SETTINGS_ERROR, &[(CONTROL, b"\x00\x04\x02\x33\x02", false)]),
        (E::ID_ERROR, &[(CONTROL, b"\x00\x04\x00\x03\x01\x00", false)]),
        (E::ID_ERROR, &[(CONTROL, b"\x00\x04\x00\x0d\x01\x05\x0d\x01\x04", false)]),
        (E::ID_ERROR, &[(CONTROL, b"\x00\x04\x00\x07\x01\x05\x07\x01\x06", false)]),
        (E::ID_ERROR, &[(CONTROL, b"\x00\x04\x00\x80\x0f\x07\x00\x01\x02", false)]),
        (E::ID_ERROR, &[(CONTROL, b"\x00\x04\x00\x80\x0f\x07\x01\x01\x00", false)]),
        (E::EXCESSIVE_LOAD, &[(CONTROL, b"\x00\x04\x50\x01", false)]),
    ] {
        check(expected, streams);
    }
}

#[test]
fn unknown_streams_are_stopped_and_short_ones_ignored() {
    let mut server = server(Config::default());
    let stop = vec!["2 stop H3_STREAM_CREATION_ERROR".to_owned()];
    assert_eq!(feed(&mut server, 2, b"\x40\x54abc", false), Ok(stop));
    for (stream, bytes) in [(6, &b""[..]), (10, b"\x40"), (14, b"\x21"), (18, b"\x21abc")] {
        assert_eq!(feed(&mut server, stream, bytes, true), Ok(vec![]));
    }
    assert_eq!(feed(&mut server, 22, b"", false), Ok(vec![]));
    assert_eq!(server.reset_received(22, ErrorCode::NO_ERROR, NOW), Ok(None));
    // The streams that are needed may be neither reset nor stopped.
    for kind in [0, 2, 3] {
        let mut server = super::support::server(Config::default());
        assert!(feed(&mut server, 2, &[kind], false).is_ok());
        let error = server.reset_received(2, ErrorCode::NO_ERROR, NOW).expect_err("it is needed");
        assert_eq!(error.code(), ErrorCode::CLOSED_CRITICAL_STREAM);
    }
    let error = server.stop_received(3, ErrorCode::NO_ERROR, NOW).expect_err("it is needed");
    assert_eq!(error.code(), ErrorCode::CLOSED_CRITICAL_STREAM);
}

#[test]
fn frames_of_request_streams() {
    use ErrorCode as E;
    let connect = headers(&[(":method", "CONNECT"), (":authority", "a:1")]);
    let trailers = headers(&[("a", "b")]);
    for (expected, bytes, end) in [
        (E::FRAME_UNEXPECTED, data(b"a"), false),
        (E::FRAME_UNEXPECTED, [headers(&POST), trailers.clone(), data(b"a")].concat(), false),
        (E::FRAME_UNEXPECTED, [headers(&POST), trailers.clone(), trailers.clone()].concat(), false),
        (E::FRAME_UNEXPECTED, [connect, trailers].concat(), false),
        (E::FRAME_UNEXPECTED, frame(kind::SETTINGS, b""), false),
        (E::FRAME_UNEXPECTED, frame(kind::GOAWAY, b"\x00"), false),
        (E::FRAME_UNEXPECTED, frame(kind::CANCEL_PUSH, b"\x00"), false),
        (E::FRAME_UNEXPECTED, frame(kind::MAX_PUSH_ID, b"\x00"), false),
        (E::FRAME_UNEXPECTED, frame(kind::PRIORITY_UPDATE, b"\x00"), false),
        (E::FRAME_UNEXPECTED, [headers(&POST), frame(kind::PUSH_PROMISE, b"\x00")].concat(), false),
        (E::FRAME_UNEXPECTED, frame(0x2, b""), false),
        (E::FRAME_UNEXPECTED, frame(0x9, b""), false),
        (E::FRAME_ERROR, b"\x01".to_vec(), true),
        (E::FRAME_ERROR, b"\x01\x05\x00".to_vec(), true),
        (E::FRAME_ERROR, b"\x21\x05\x00".to_vec(), true),
        (E::FRAME_ERROR, [headers(&POST), b"\x00\x05a".to_vec()].concat(), true),
        (E::QPACK_DECOMPRESSION_FAILED, b"\x01\x00".to_vec(), false),
        (E::QPACK_DECOMPRESSION_FAILED, b"\x01\x03\x00\x00\x80".to_vec(), false),
    ] {
        check(expected, &[(0, &bytes, end)]);
    }
}

#[test]
fn malformed_messages_concern_their_stream() {
    let with = |list: &[(&str, &str)]| headers(&[&POST[..], list].concat());
    for (bytes, end, expected) in [
        (headers(&[(":method", "GET")]), true, "missing pseudo-header field"),
        (with(&[("connection", "close")]), true, "connection-specific field"),
        (with(&[("X-A", "b")]), true, ""),
        (with(&[("x-a", "b\nc")]), true, "invalid field value"),
        (with(&[("x-a", "b\0")]), true, "invalid field value"),
        (with(&[(":path", "/")]), true, "pseudo-header field behind others"),
        (with(&[("content-length", "5")]), true, "body length"),
        ([with(&[("content-length", "5")]), data(b"abcdef")].concat(), false, "body length"),
        ([with(&[("content-length", "5")]), data(b"abcd")].concat(), true, "body length"),
        ([with(&[("content-length", "5")]), headers(&[("a", "b")])].concat(), true, "body length"),
        ([with(&[]), headers(&[(":path", "/")])].concat(), true, "unknown pseudo-header field"),
        ([with(&[("content-length", "5")]), data(b"abcde")].concat(), true, ""),
    ] {
        let mut server = server(Config::default());
        let events = feed(&mut server, 0, &bytes, end).expect("the connection goes on");
        let last = events.last().map_or("", String::as_str);
        match expected {
            "" => assert!(!last.contains("malformed"), "{events:?}"),
            fault if fault.starts_with("pseudo-header field behind") => {
                // A repeated one is found at the same place.
                assert!(last.starts_with("0 malformed: "), "{events:?}");
            }
            fault => assert!(last.starts_with(&format!("0 malformed: {fault}")), "{events:?}"),
        }
        // What follows is dropped, and the response goes out.
        if !end {
            assert_eq!(feed(&mut server, 0, b"\x00\x05\x00\x00\x00", true), Ok(vec![]));
        }
        assert_eq!(server.respond(0, 400, true, &mut Vec::new(), |_| {}), Ok(0));
        assert_eq!(server.close(0, ErrorCode::MESSAGE_ERROR), Default::default());
        assert!(feed(&mut server, 4, &headers(&GET), true).is_ok());
    }
}

#[test]
fn incomplete_requests_and_resets() {
    let mut server = server(Config::default());
    let refused = vec!["0 refused H3_REQUEST_INCOMPLETE".to_owned()];
    assert_eq!(feed(&mut server, 0, &frame(0x21, b""), true), Ok(refused));
    assert!(feed(&mut server, 4, &headers(&POST), false).is_ok());
    let cancelled = ErrorCode::REQUEST_CANCELLED;
    let event = server.reset_received(4, cancelled, NOW).expect("the connection goes on");
    let event = event.map(|event| text(&mut server, event));
    assert_eq!(event, Some("4 reset H3_REQUEST_CANCELLED".to_owned()));
    // Both ways are one reset.
    assert_eq!(server.stop_received(4, cancelled, NOW), Ok(None));
    assert!(server.respond(4, 200, true, &mut Vec::new(), |_| {}).is_err());
    assert_eq!(server.close(4, cancelled).reset, Some(cancelled));
    assert!(feed(&mut server, 8, &headers(&GET), true).is_ok());
    let event = server.stop_received(8, cancelled, NOW).expect("the connection goes on");
    assert!(event.is_some());
    assert_eq!(server.reset_received(8, cancelled, NOW), Ok(None));
    assert_eq!(server.close(8, cancelled).reset, Some(cancelled));
    assert_eq!(server.streams(), 0);
    // A stream of which nothing has arrived: its other half is to be reset, and a section of it may use the table.
    let sent = server.output(OwnStream::Decoder).len();
    let refused = Some(Event::Refused { stream: 12, code: cancelled });
    assert_eq!(server.reset_received(12, cancelled, NOW), Ok(refused));
    assert_eq!(server.reset_received(12, cancelled, NOW), Ok(None));
    assert_eq!(server.output(OwnStream::Decoder).get(sent..), Some(&b"\x4c"[..]));
    assert_eq!(feed(&mut server, 12, &headers(&GET), true), Ok(vec![]));
}
