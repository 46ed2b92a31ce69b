//! What each frame does to a connection, and what RFC 9113 forbids.

use super::support::{Peer, client, feed, output, sent, sent_with, server};
use crate::connection::{Client, Connection, Server};
use crate::frame::{FrameHeader, Kind, PREFACE, StreamId, flags, write};
use crate::hpack::{DecodeError, Decoder};
use crate::settings::id;
use crate::stream::state::{Closed, State};
use crate::{Config, ErrorCode, Fault, Priority, RequestLine, SendError};

fn frame(kind: Kind, flags: u8, stream: u32, length: usize) -> FrameHeader {
    FrameHeader { length: length as u32, kind, flags, stream: StreamId::new(stream) }
}

const ONE: StreamId = StreamId::new(1);

#[test]
fn a_connection_begins_with_settings() {
    let server = Connection::<Server>::new(Config::default().shared());
    let expected = ["settings [(3, 128), (4, 65536)]", "window 0 2147418112"];
    assert_eq!(sent(server.output()), expected);
    let client = Connection::<Client>::new(Config::default().shared());
    assert!(client.output().starts_with(PREFACE));
    assert_eq!(sent(client.output()), ["settings [(2, 0), (4, 65536)]", "window 0 2147418112"]);
    let config = Config { extended_connect: true, decoder_table_bytes: 0, ..Config::default() };
    let server = Connection::<Server>::new(config.shared());
    assert_eq!(sent(server.output())[0], "settings [(1, 0), (3, 128), (4, 65536), (8, 1)]");
}

#[test]
fn a_request_and_its_response() {
    let mut server = server(Config::default());
    let mut peer = Peer::client();
    peer.get(1, &[("content-length", "3")], false).data(1, b"ab", false).data(1, b"c", true);
    let events = feed(&mut server, &peer.take());
    let expected = ["settings", "head 1", "data 1 ab", "data 1 c end"];
    assert_eq!(events.as_deref(), Ok(&expected.map(str::to_owned)[..]));
    assert_eq!(server.state(ONE), Some(State::HalfClosedRemote));
    let respond = server.respond(ONE, 200, false, |fields| fields.push(b"X-A", b"b"));
    assert_eq!(respond, Ok(0));
    assert_eq!(server.send_data(ONE, b"body", false), Ok(4));
    assert_eq!(server.send_trailers(ONE, |fields| fields.push(b"t", b"u")), Ok(0));
    assert_eq!(server.state(ONE), Some(State::Closed(Closed::Ended)));
    server.close(ONE, ErrorCode::CANCEL);
    assert_eq!((server.state(ONE), server.streams()), (None, 0));
    assert_eq!(
        output(&mut server),
        ["settings ack", "head 1 :status=200 x-a=b", "data 1 body", "head 1 t=u end"]
    );
    assert!(server.is_quiet());
    let buffers = server.take_back().expect("it is quiet");
    // What is left is the memory of its tables.
    server.release_memory();
    assert!(server.memory() < 256, "{}", server.memory());
    server.lend(buffers);
    assert!(server.memory() < 1024, "{}", server.memory());
}

#[test]
fn bytes_may_be_cut_anywhere() {
    let mut peer = Peer::client();
    let long = "x".repeat(300);
    peer.get(1, &[("x-long", &long)], false);
    write::data_padded(&mut peer.out, ONE, b"abc", 9, true);
    write::ping(&mut peer.out, *b"12345678", false);
    peer.raw(frame(Kind::Unknown(0x77), 0, 9, 4), b"wxyz");
    let bytes = peer.take();
    for piece in [1, 2, 8, 9, 10, 1000] {
        let mut server = server(Config::default());
        let mut events = Vec::new();
        for part in bytes.chunks(piece) {
            events.extend(feed(&mut server, part).expect("all of it is right"));
        }
        let data: String =
            events[2..].iter().filter_map(|event| event.strip_prefix("data 1 ")).collect();
        assert_eq!(events[..2], ["settings", "head 1"]);
        assert_eq!(data, "abc end", "{piece}");
        assert_eq!(output(&mut server), ["settings ack", "pong 12345678"]);
        let received = server.head().headers.first_named(b"x-long").map(<[u8]>::len);
        assert_eq!(received, Some(300));
    }
}

#[test]
fn blocks_are_put_together() {
    let mut server = server(Config::default());
    let mut peer = Peer::client();
    let list = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a")];
    let block = peer.block(&list);
    write::header_block(&mut peer.out, ONE, &block, true, 3);
    let cut = peer.out.split_off(peer.out.len() - 1);
    assert_eq!(feed(&mut server, &peer.take()), Ok(vec!["settings".to_owned()]));
    assert!(server.is_in_block() && !server.is_quiet());
    assert_eq!(feed(&mut server, &cut), Ok(vec!["head 1 end".to_owned()]));
    assert!(!server.is_in_block());
    // Priority and padding in front of a block.
    let block = peer.block(&list);
    let payload = [&[2, 0, 0, 0, 1, 7], &block[..], &[0, 0]].concat();
    let all = flags::PADDED | flags::PRIORITY | flags::END_HEADERS;
    peer.raw(frame(Kind::Headers, all, 3, payload.len()), &payload);
    assert_eq!(feed(&mut server, &peer.take()), Ok(vec!["head 3".to_owned()]));
}

/// What a peer writes.
type Write = fn(&mut Peer);

/// Frames behind a request on stream 1, which has no end: each ends the connection.
fn check_faults(cases: &[(Fault, Write)]) {
    for (index, (fault, write)) in cases.iter().enumerate() {
        let mut server = server(Config::default());
        let mut peer = Peer::client();
        peer.get(1, &[], false);
        write(&mut peer);
        let error = feed(&mut server, &peer.take()).err();
        assert_eq!(error.map(|error| error.0), Some(*fault), "case {index}");
        let last = output(&mut server).pop().unwrap_or_default();
        let code = fault.code().to_string();
        assert!(last.starts_with("goaway ") && last.ends_with(&code), "{last}");
        // It stays so, and nothing more is sent.
        assert_eq!(feed(&mut server, b"x").err(), error);
        assert_eq!(server.respond(ONE, 200, true, |_| {}), Err(SendError::Closed));
        server.close(ONE, ErrorCode::CANCEL);
        assert_eq!(output(&mut server), [""; 0]);
    }
}

#[test]
fn frames_out_of_place_end_the_connection() {
    check_faults(&[
        (Fault::StreamZero, |peer| peer.data(0, b"x", false).done()),
        (Fault::StreamZero, |peer| peer.raw(frame(Kind::Settings, 0, 1, 0), b"").done()),
        (Fault::Push, |peer| {
            peer.raw(frame(Kind::PushPromise, flags::END_HEADERS, 1, 4), &[0, 0, 0, 2]).done();
        }),
        (Fault::Continuation, |peer| {
            peer.raw(frame(Kind::Continuation, flags::END_HEADERS, 1, 0), b"").done();
        }),
        (Fault::Continuation, |peer| {
            peer.raw(frame(Kind::Headers, 0, 3, 1), &[0x82]);
            write::ping(&mut peer.out, [0; 8], false);
        }),
        (Fault::Continuation, |peer| {
            peer.raw(frame(Kind::Headers, 0, 3, 1), &[0x82]);
            peer.raw(frame(Kind::Continuation, 0, 5, 1), &[0x82]).done();
        }),
        (Fault::StreamId, |peer| peer.get(2, &[], true).done()),
        (Fault::StreamId, |peer| peer.get(7, &[], true).get(5, &[], true).done()),
        (Fault::IdleStream, |peer| peer.data(3, b"x", false).done()),
        (Fault::IdleStream, |peer| peer.window(3, 1).done()),
        (Fault::IdleStream, |peer| peer.window(3, 0).done()),
        (Fault::IdleStream, |peer| peer.reset(3).done()),
        (Fault::Role, |peer| {
            write::go_away(&mut peer.out, ONE, ErrorCode::NO_ERROR, b"");
            write::go_away(&mut peer.out, StreamId::new(3), ErrorCode::NO_ERROR, b"");
        }),
        (Fault::StreamId, |peer| {
            write::priority_update(&mut peer.out, StreamId::CONNECTION, b"u=1");
        }),
        (Fault::SelfDependency, |peer| {
            peer.raw(frame(Kind::Priority, 0, 1, 5), &[0, 0, 0, 1, 9]).done();
        }),
        (Fault::SelfDependency, |peer| {
            let flags = flags::PRIORITY | flags::END_HEADERS;
            peer.raw(frame(Kind::Headers, flags, 3, 5), &[0x80, 0, 0, 3, 9]).done();
        }),
        (Fault::Compression(DecodeError::Index), |peer| {
            write::header_block(&mut peer.out, StreamId::new(3), &[0xff, 0], true, 100);
        }),
    ]);
}

#[test]
fn lengths_and_values_end_the_connection() {
    check_faults(&[
        (Fault::FrameSize, |peer| peer.raw(frame(Kind::Data, 0, 1, 16_385), b"").done()),
        (Fault::FrameSize, |peer| peer.raw(frame(Kind::Settings, 0, 0, 5), b"12345").done()),
        (Fault::FrameSize, |peer| peer.raw(frame(Kind::Ping, 0, 0, 7), b"1234567").done()),
        (Fault::FrameSize, |peer| peer.raw(frame(Kind::ResetStream, 0, 1, 3), b"123").done()),
        (Fault::FrameSize, |peer| peer.raw(frame(Kind::Data, flags::PADDED, 1, 0), b"").done()),
        (Fault::Padding, |peer| {
            peer.raw(frame(Kind::Data, flags::PADDED, 1, 3), &[3, 0, 0]).done();
        }),
        (Fault::Padding, |peer| {
            let flags = flags::PADDED | flags::END_HEADERS;
            peer.raw(frame(Kind::Headers, flags, 3, 2), &[2, 0]).done();
        }),
        (Fault::Setting, |peer| peer.settings(&[(id::MAX_FRAME_SIZE, 1)]).done()),
        (Fault::WindowOverflow, |peer| {
            peer.settings(&[(id::INITIAL_WINDOW_SIZE, 1 << 31)]).done();
        }),
        (Fault::WindowOverflow, |peer| {
            peer.window(1, 1000).settings(&[(id::INITIAL_WINDOW_SIZE, 0x7fff_ffff)]).done();
        }),
        (Fault::WindowOverflow, |peer| peer.window(0, 0x7fff_ffff).done()),
        (Fault::WindowZero, |peer| peer.window(0, 0).done()),
    ]);
}

#[test]
fn a_frame_of_data_may_be_as_large_as_a_window() {
    let config = Config { frame_bytes_max: 1 << 20, ..Config::default() };
    for (length, expected) in [(65_536, None), (65_537, Some(Fault::WindowExceeded))] {
        let mut server = server(config.clone());
        let mut peer = Peer::client();
        peer.get(1, &[], false);
        feed(&mut server, &peer.take()).expect("a request is right");
        let data = frame(Kind::Data, flags::END_STREAM, 1, length);
        // The header alone: nothing is waited for.
        peer.raw(data, b"");
        let fault = feed(&mut server, &peer.take()).err().map(|error| error.0);
        assert_eq!(fault, expected);
    }
    // What was on its way when the stream was reset is dropped as it arrives.
    let mut server = server(config);
    let mut peer = Peer::client();
    peer.get(1, &[], false);
    feed(&mut server, &peer.take()).expect("a request is right");
    server.close(ONE, ErrorCode::CANCEL);
    output(&mut server);
    let before = server.memory();
    peer.raw(frame(Kind::Data, 0, 1, 65_536), &[0; 65_000]);
    assert_eq!(feed(&mut server, &peer.take()), Ok(vec![]));
    assert_eq!(server.memory(), before);
    peer.raw(frame(Kind::Data, flags::END_STREAM, 1, 65_537), b"");
    let mut rest = peer.take();
    rest.splice(0..0, [0; 536]);
    let error = feed(&mut server, &rest).expect_err("no window is as large");
    assert_eq!(error.0, Fault::WindowExceeded);
}

#[test]
fn other_frames_are_no_larger_than_the_protocol_grants() {
    let server = || server(Config { frame_bytes_max: 1 << 24, ..Config::default() });
    let header = |kind, length| frame(kind, 0, 0, length).to_bytes();
    // The header alone: nothing is waited for. Text of HTTP/1 is the header of a long frame, too.
    let long = [Kind::Unknown(0x77), Kind::Ping].map(|kind| header(kind, 16_385));
    for bytes in [&long[0][..], &long[1], b"HTTP/1.1 400 Bad Request"] {
        let bytes = [&Peer::client().take(), bytes].concat();
        let error = feed(&mut server(), &bytes).err();
        assert_eq!(error.map(|error| error.0), Some(Fault::FrameSize), "{bytes:?}");
    }
    let mut peer = Peer::client();
    peer.raw(frame(Kind::Unknown(0x77), 0, 0, 16_384), &[0; 16_384]);
    assert_eq!(feed(&mut server(), &peer.take()), Ok(vec!["settings".to_owned()]));
}

#[test]
fn the_begin_is_checked() {
    for (bytes, fault) in [
        (&b"GET / HTTP/1.1\r\n"[..], Fault::Preface),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\rx", Fault::Preface),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x08\x06\0\0\0\0\0", Fault::FirstFrame),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\x01\0\0\0\0", Fault::FirstFrame),
    ] {
        let error = feed(&mut server(Config::default()), bytes).err();
        assert_eq!(error.map(|error| error.0), Some(fault));
    }
    assert_eq!(feed(&mut server(Config::default()), b"PRI * HT"), Ok(vec![]));
    let tolerant = Config { requires_settings: false, ..Config::default() };
    let begin = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\x01\0\0\0\0";
    assert_eq!(feed(&mut server(tolerant), begin), Ok(vec!["acknowledged".to_owned()]));
}

/// Frames behind a request on stream 1 that end a stream alone: what is reported and sent.
#[test]
fn what_ends_a_stream() {
    let cases: [(Write, &[&str], &[&str]); 9] = [
        (
            |peer| peer.window(1, 0x7fff_ffff).done(),
            &["reset 1 FLOW_CONTROL_ERROR"],
            &["reset 1 FLOW_CONTROL_ERROR"],
        ),
        (|peer| peer.window(1, 0).done(), &["reset 1 PROTOCOL_ERROR"], &["reset 1 PROTOCOL_ERROR"]),
        (
            |peer| peer.raw(frame(Kind::Priority, 0, 1, 4), b"1234").done(),
            &["reset 1 FRAME_SIZE_ERROR"],
            &["reset 1 FRAME_SIZE_ERROR"],
        ),
        (
            |peer| peer.get(1, &[], false).done(),
            &["reset 1 PROTOCOL_ERROR"],
            &["reset 1 PROTOCOL_ERROR"],
        ),
        (
            |peer| peer.data(1, b"x", true).data(1, b"y", true).done(),
            &["data 1 x end", "reset 1 STREAM_CLOSED"],
            &["reset 1 STREAM_CLOSED"],
        ),
        (
            |peer| peer.data(1, b"", true).get(1, &[], true).done(),
            &["data 1  end", "reset 1 STREAM_CLOSED"],
            &["reset 1 STREAM_CLOSED"],
        ),
        (
            |peer| peer.window(1, 0).data(1, b"x", false).get(1, &[], true).window(1, 0).done(),
            &["reset 1 PROTOCOL_ERROR"],
            &["reset 1 PROTOCOL_ERROR"],
        ),
        (|peer| peer.reset(1).reset(1).window(1, 5).done(), &["reset 1 CANCEL by peer"], &[]),
        (
            |peer| peer.reset(1).data(1, b"x", false).data(1, b"y", true).done(),
            &["reset 1 CANCEL by peer"],
            &["reset 1 STREAM_CLOSED"],
        ),
    ];
    for (index, (write, events, frames)) in cases.into_iter().enumerate() {
        let mut server = server(Config::default());
        let mut peer = Peer::client();
        peer.get(1, &[], false);
        feed(&mut server, &peer.take()).expect("a request is right");
        output(&mut server);
        write(&mut peer);
        assert_eq!(
            feed(&mut server, &peer.take()),
            Ok(events.iter().map(|e| e.to_string()).collect()),
            "case {index}"
        );
        assert_eq!(output(&mut server), frames, "case {index}");
        // The table is in step, and the connection goes on.
        peer.get(3, &[("x-a", "b")], true);
        assert_eq!(
            feed(&mut server, &peer.take()),
            Ok(vec!["head 3 end".to_owned()]),
            "case {index}"
        );
    }
}

#[test]
fn late_frames_of_closed_streams() {
    let mut server = server(Config::default());
    let mut peer = Peer::client();
    peer.get(1, &[], true).get(3, &[], false).get(5, &[], true);
    feed(&mut server, &peer.take()).expect("requests are right");
    for stream in [1, 3] {
        server.respond(StreamId::new(stream), 200, true, |_| {}).expect("it is open");
        server.close(StreamId::new(stream), ErrorCode::INTERNAL_ERROR);
    }
    server.close(StreamId::new(5), ErrorCode::INTERNAL_ERROR);
    let frames = output(&mut server);
    // A response in full needs no more of the request.
    assert_eq!(
        frames[2..],
        ["head 3 :status=200 end", "reset 3 NO_ERROR", "reset 5 INTERNAL_ERROR"]
    );
    // What was on its way is ignored; what the client had ended is not.
    peer.data(3, b"late", true).window(1, 1).reset(1);
    peer.raw(frame(Kind::Priority, 0, 1, 5), &[0, 0, 0, 0, 9]);
    assert_eq!(feed(&mut server, &peer.take()), Ok(vec![]));
    assert_eq!(output(&mut server), [""; 0]);
    peer.data(1, b"late", true).data(1, b"late", true);
    assert_eq!(feed(&mut server, &peer.take()), Ok(vec![]));
    assert_eq!(output(&mut server), ["reset 1 STREAM_CLOSED"]);
    peer.get(9, &[], true);
    feed(&mut server, &peer.take()).expect("a request is right");
    server.respond(StreamId::new(9), 200, true, |_| {}).expect("it is open");
    server.close(StreamId::new(9), ErrorCode::CANCEL);
    peer.get(9, &[], true);
    let error = feed(&mut server, &peer.take()).err();
    assert_eq!(error.map(|error| error.code()), Some(ErrorCode::STREAM_CLOSED));
}

#[test]
fn malformed_requests_are_left_to_the_caller() {
    let mut server = server(Config::default());
    let mut peer = Peer::client();
    peer.get(1, &[("connection", "close")], false).data(1, b"dropped", true);
    peer.get(3, &[("content-length", "3")], false).data(3, b"ab", false).data(3, b"cd", true);
    peer.get(5, &[("content-length", "3")], false).data(5, b"ab", true);
    peer.get(7, &[("content-length", "3")], true);
    peer.get(9, &[("content-length", "3")], false).head(9, &[("t", "u")], true);
    peer.get(11, &[], false).head(11, &[(":path", "/")], true);
    let expected = [
        "settings",
        "malformed 1 ConnectionField",
        "head 3",
        "data 3 ab",
        "malformed 3 BodyLength",
        "head 5",
        "malformed 5 BodyLength",
        "malformed 7 BodyLength",
        "head 9",
        "malformed 9 BodyLength",
        "head 11",
        "malformed 11 PseudoUnknown",
    ];
    assert_eq!(feed(&mut server, &peer.take()).as_deref(), Ok(&expected.map(str::to_owned)[..]));
    assert_eq!(server.respond(ONE, 400, true, |_| {}), Ok(0));
    server.close(ONE, ErrorCode::PROTOCOL_ERROR);
    assert_eq!(output(&mut server), ["settings ack", "head 1 :status=400 end"]);
}

#[test]
fn windows_open_as_bodies_are_used() {
    let mut server = server(Config { stream_window: 100_000, ..Config::default() });
    let mut peer = Peer::client();
    write::settings_ack(&mut peer.out);
    peer.get(1, &[], false).data(1, &[b'x'; 16_000], false);
    for _ in 0..5 {
        peer.data(1, &[b'x'; 16_000], false);
    }
    feed(&mut server, &peer.take()).expect("it fits the window");
    output(&mut server);
    server.consumed(ONE, 49_999);
    assert_eq!(output(&mut server), [""; 0]);
    server.consumed(ONE, 1);
    assert_eq!(output(&mut server), ["window 1 50000"]);
    server.consumed(ONE, 1_000_000);
    assert_eq!(output(&mut server), [""; 0]);
    // 54,000 are left.
    for _ in 0..4 {
        peer.data(1, &[b'x'; 13_500], false);
    }
    feed(&mut server, &peer.take()).expect("it fits the window");
    peer.data(1, b"x", false);
    assert_eq!(feed(&mut server, &peer.take()), Ok(vec!["reset 1 FLOW_CONTROL_ERROR".to_owned()]));
}

#[test]
fn a_smaller_window_counts_from_its_acknowledgement() {
    let mut server = server(Config { stream_window: 200, ..Config::default() });
    let mut peer = Peer::client();
    // The client has not seen our settings yet.
    peer.get(1, &[], false).data(1, &[b'x'; 1000], false);
    feed(&mut server, &peer.take()).expect("it fits the window that connections begin with");
    output(&mut server);
    server.consumed(ONE, 900);
    assert_eq!(output(&mut server), [""; 0]);
    // Its window is at 64,535 - 65,335 then.
    write::settings_ack(&mut peer.out);
    feed(&mut server, &peer.take()).expect("an acknowledgement");
    assert_eq!(output(&mut server), ["window 1 900"]);
    peer.data(1, &[b'x'; 100], false);
    feed(&mut server, &peer.take()).expect("it fits");
    server.consumed(ONE, 200);
    assert_eq!(output(&mut server), ["window 1 200"]);
    peer.data(1, &[b'x'; 201], false);
    assert_eq!(feed(&mut server, &peer.take()), Ok(vec!["reset 1 FLOW_CONTROL_ERROR".to_owned()]));
}

#[test]
fn padding_is_given_back_at_once() {
    let mut server = server(Config { stream_window: 200, ..Config::default() });
    let mut peer = Peer::client();
    write::settings_ack(&mut peer.out);
    peer.get(1, &[], false);
    write::data_padded(&mut peer.out, ONE, b"0123456789", 189, false);
    feed(&mut server, &peer.take()).expect("it fits the window");
    assert_eq!(output(&mut server), ["settings ack", "window 1 190"]);
}

#[test]
fn the_connection_s_window_is_kept() {
    let config = Config { connection_window: 0, stream_window: 1 << 20, ..Config::default() };
    let mut server = server(config);
    let mut peer = Peer::client();
    peer.get(1, &[], false).get(3, &[], false);
    for _ in 0..4 {
        peer.data(1, &[b'x'; 16_383], false);
    }
    feed(&mut server, &peer.take()).expect("it fits the window");
    output(&mut server);
    // What the caller leaves unread is given back as the stream is closed.
    server.close(ONE, ErrorCode::CANCEL);
    assert_eq!(output(&mut server), ["reset 1 CANCEL", "window 0 65532"]);
    for _ in 0..4 {
        peer.data(3, &[b'x'; 16_383], false);
    }
    peer.data(3, &[b'x'; 4], false);
    let error = feed(&mut server, &peer.take()).err();
    assert_eq!(error.map(|error| error.0), Some(Fault::WindowExceeded));
}

#[test]
fn windows_of_bodies_that_are_used_at_once_grow() {
    let config = Config {
        stream_window: 10_000,
        stream_window_max: 35_000,
        grown_bytes_max: 40_000,
        ..Config::default()
    };
    let mut server = server(config);
    let mut peer = Peer::client();
    write::settings_ack(&mut peer.out);
    peer.get(1, &[], false).get(3, &[], false).get(5, &[], false);
    feed(&mut server, &peer.take()).expect("requests are right");
    output(&mut server);
    let mut used = |stream: u32, bytes: usize, consumed: u32| {
        peer.data(stream, &vec![b'x'; bytes], false);
        feed(&mut server, &peer.take()).expect("it fits the window");
        server.consumed(StreamId::new(stream), consumed);
        let sent = output(&mut server);
        if stream == 3 && bytes == 3000 {
            server.close(ONE, ErrorCode::CANCEL);
            output(&mut server);
        }
        sent
    };
    // A handler that leaves bytes unread has window enough.
    assert_eq!(used(1, 5001, 5000), ["window 1 5000"]);
    assert_eq!(used(1, 5000, 5001), ["window 1 15001"]);
    assert_eq!(used(1, 10_000, 10000), ["window 1 25000"]);
    assert_eq!(used(1, 16_000, 16000), [""; 0]);
    assert_eq!(used(1, 2_000, 2000), ["window 1 18000"]);
    // 15,000 are left for others, until the stream is closed.
    assert_eq!(used(3, 5000, 5000), ["window 3 15000"]);
    assert_eq!(used(3, 10_000, 10000), ["window 3 15000"]);
    assert_eq!(used(5, 5000, 5000), ["window 5 5000"]);
    assert_eq!(used(3, 3000, 3000), [""; 0]);
    assert_eq!(used(5, 5000, 5000), ["window 5 15000"]);
}

#[test]
fn too_much_unread_holds_windows_back() {
    let config = Config { unread_bytes_max: 20_000, stream_window: 16_000, ..Config::default() };
    let mut server = server(config);
    let mut peer = Peer::client();
    write::settings_ack(&mut peer.out);
    for stream in [1, 3] {
        peer.get(stream, &[], false).data(stream, &[b'x'; 16_000], false);
    }
    feed(&mut server, &peer.take()).expect("it fits the windows");
    output(&mut server);
    server.consumed(ONE, 10_000);
    assert_eq!(output(&mut server), [""; 0]);
    server.consumed(StreamId::new(3), 9_000);
    assert_eq!(output(&mut server), ["window 1 10000", "window 3 9000"]);
    // Closing a stream is as good as reading what it has.
    peer.data(1, &[b'x'; 10_000], false).data(3, &[b'x'; 9_000], false);
    feed(&mut server, &peer.take()).expect("it fits the windows");
    server.consumed(StreamId::new(3), 8_000);
    assert_eq!(output(&mut server), [""; 0]);
    server.close(ONE, ErrorCode::CANCEL);
    assert_eq!(output(&mut server), ["reset 1 CANCEL", "window 3 8000"]);
}

#[test]
fn bodies_are_sent_as_windows_allow() {
    let mut server = server(Config::default());
    let mut peer = Peer::client();
    peer.settings(&[(id::INITIAL_WINDOW_SIZE, 5)]).get(1, &[], true).get(3, &[], true);
    feed(&mut server, &peer.take()).expect("requests are right");
    let three = StreamId::new(3);
    assert_eq!(server.send_data(ONE, b"x", true), Err(SendError::Order));
    for stream in [ONE, three] {
        server.respond(stream, 200, false, |_| {}).expect("it is open");
        server.want(stream, true);
    }
    output(&mut server);
    assert_eq!(server.next_to_send(), Some(ONE));
    assert_eq!(server.sendable(ONE), 5);
    assert_eq!(server.send_data(ONE, b"1234567", true), Ok(5));
    assert_eq!(server.next_to_send(), Some(three));
    assert_eq!(server.send_data_header(three, 6, true), Err(SendError::Window));
    assert_eq!(server.send_data_header(three, 5, true), Ok([0, 0, 5, 0, 1, 0, 0, 0, 3]));
    assert_eq!(server.next_to_send(), None);
    assert_eq!(output(&mut server), ["data 1 12345"]);
    peer.window(1, 1);
    assert_eq!(feed(&mut server, &peer.take()), Ok(vec!["window 1".to_owned()]));
    assert_eq!(server.next_to_send(), Some(ONE));
    peer.settings(&[(id::INITIAL_WINDOW_SIZE, 4)]);
    feed(&mut server, &peer.take()).expect("it may change");
    assert_eq!((server.next_to_send(), server.sendable(ONE)), (None, 0));
    // Below zero: an increment alone does not open it.
    peer.settings(&[(id::INITIAL_WINDOW_SIZE, 0)]).window(1, 3).window(1, 1).window(1, 1);
    let events = feed(&mut server, &peer.take());
    assert_eq!(events, Ok(vec!["settings".to_owned(), "window 1".to_owned()]));
    assert_eq!(server.send_data(ONE, b"67", true), Ok(1));
    // The end needs no window.
    assert_eq!(server.send_data(ONE, b"", true), Ok(0));
    assert_eq!(server.state(ONE), Some(State::Closed(Closed::Ended)));
    assert_eq!(server.send_data(ONE, b"x", true), Err(SendError::Closed));
}

#[test]
fn a_larger_initial_window_lets_streams_go_on() {
    let mut server = server(Config::default());
    let mut peer = Peer::client();
    peer.settings(&[(id::INITIAL_WINDOW_SIZE, 0)]).get(1, &[], true);
    feed(&mut server, &peer.take()).expect("a request is right");
    server.respond(ONE, 200, false, |_| {}).expect("it is open");
    server.want(ONE, true);
    assert_eq!(server.next_to_send(), None);
    peer.settings(&[(id::INITIAL_WINDOW_SIZE, 7)]);
    feed(&mut server, &peer.take()).expect("it may change");
    assert_eq!((server.next_to_send(), server.sendable(ONE)), (Some(ONE), 7));
}

#[test]
fn priorities_order_what_is_sent() {
    let mut server = server(Config::default());
    let mut peer = Peer::client();
    write::priority_update(&mut peer.out, StreamId::new(7), b"u=0");
    peer.get(1, &[("priority", "u=5")], true).get(3, &[("priority", "u=1, i")], true);
    peer.get(5, &[], true).get(7, &[("priority", "u=6")], true);
    write::priority_update(&mut peer.out, StreamId::new(5), b"u=4");
    feed(&mut server, &peer.take()).expect("requests are right");
    let mut order = Vec::new();
    for stream in [1, 3, 5, 7].map(StreamId::new) {
        server.respond(stream, 200, false, |_| {}).expect("it is open");
        server.want(stream, true);
    }
    server.prioritise(ONE, Priority { urgency: 2, incremental: false });
    while let Some(stream) = server.next_to_send() {
        server.send_data(stream, b"x", true).expect("it is open");
        order.push(stream.value());
    }
    assert_eq!(order, [7, 3, 1, 5]);
}

#[test]
fn a_graceful_end_has_two_steps() {
    let mut server = server(Config::default());
    let mut peer = Peer::client();
    peer.get(1, &[], true);
    feed(&mut server, &peer.take()).expect("requests are right");
    output(&mut server);
    server.announce_end();
    server.announce_end();
    server.ping(*b"goodbye!");
    assert_eq!(output(&mut server), ["goaway 2147483647 NO_ERROR", "ping goodbye!"]);
    peer.get(3, &[], true);
    write::ping(&mut peer.out, *b"goodbye!", true);
    let events = feed(&mut server, &peer.take());
    assert_eq!(events, Ok(vec!["head 3 end".to_owned(), "pong goodbye!".to_owned()]));
    server.go_away(ErrorCode::NO_ERROR);
    server.announce_end();
    assert_eq!(output(&mut server), ["goaway 3 NO_ERROR"]);
    // Not processed, but its block is decoded.
    peer.get(5, &[("x-a", "b")], false).data(5, b"x", true).get(7, &[("x-a", "b")], true);
    assert_eq!(feed(&mut server, &peer.take()), Ok(vec![]));
    assert_eq!(output(&mut server), [""; 0]);
    for stream in [1, 3] {
        assert!(!server.is_drained());
        server.respond(StreamId::new(stream), 200, true, |_| {}).expect("it is open");
        server.close(StreamId::new(stream), ErrorCode::CANCEL);
    }
    assert!(server.is_drained());
}

#[test]
fn streams_beyond_the_limit_are_refused() {
    let mut server = server(Config { streams_max: 2, ..Config::default() });
    let mut peer = Peer::client();
    for stream in [1, 3, 5] {
        peer.get(stream, &[("x-a", "b")], true);
    }
    feed(&mut server, &peer.take()).expect("requests are right");
    assert_eq!(output(&mut server), ["settings ack", "reset 5 REFUSED_STREAM"]);
    // A reset makes no room before the exchange is over (CVE-2023-44487).
    peer.reset(1).get(7, &[("x-a", "b")], true);
    assert_eq!(feed(&mut server, &peer.take()), Ok(vec!["reset 1 CANCEL by peer".to_owned()]));
    assert_eq!(output(&mut server), ["reset 7 REFUSED_STREAM"]);
    server.close(ONE, ErrorCode::CANCEL);
    peer.get(9, &[("x-a", "b")], true);
    assert_eq!(feed(&mut server, &peer.take()), Ok(vec!["head 9 end".to_owned()]));
    assert_eq!(output(&mut server), [""; 0]);
}

#[test]
fn a_client_receives_responses() {
    let mut client = client(Config::default(), 2);
    let mut peer = Peer::server();
    peer.head(1, &[(":status", "103"), ("link", "x")], false);
    peer.head(1, &[(":status", "200"), ("content-length", "3")], false).data(1, b"abc", false);
    peer.head(1, &[("t", "u")], true);
    peer.head(3, &[(":status", "304"), ("content-length", "3")], true);
    let expected = ["settings", "interim 1", "head 1", "data 1 abc", "trailers 1", "head 3 end"];
    assert_eq!(feed(&mut client, &peer.take()).as_deref(), Ok(&expected.map(str::to_owned)[..]));
    assert_eq!(client.state(ONE), Some(State::Closed(Closed::Ended)));
}

/// Behind requests on streams 1 to 7.
#[test]
fn what_a_server_must_not_send() {
    let cases: [(Write, Result<&[&str], Fault>); 10] = [
        (|peer| peer.data(1, b"x", false).done(), Ok(&["reset 1 PROTOCOL_ERROR"])),
        (|peer| peer.head(1, &[(":status", "103")], true).done(), Ok(&["malformed 1 PseudoValue"])),
        (|peer| peer.head(1, &[("a", "b")], true).done(), Ok(&["malformed 1 PseudoMissing"])),
        (
            |peer| peer.head(1, &[(":status", "200"), ("content-length", "1")], true).done(),
            Ok(&["malformed 1 BodyLength"]),
        ),
        (|peer| peer.head(9, &[(":status", "200")], true).done(), Err(Fault::IdleStream)),
        (|peer| peer.head(2, &[(":status", "200")], true).done(), Err(Fault::StreamId)),
        (|peer| peer.settings(&[(id::ENABLE_PUSH, 1)]).done(), Err(Fault::Setting)),
        (
            |peer| peer.raw(frame(Kind::PushPromise, 0, 1, 4), &[0, 0, 0, 2]).done(),
            Err(Fault::Push),
        ),
        (|peer| write::priority_update(&mut peer.out, ONE, b"u=1"), Err(Fault::Role)),
        (|peer| peer.data(2, b"x", false).done(), Err(Fault::IdleStream)),
    ];
    for (index, (write, expected)) in cases.into_iter().enumerate() {
        let mut client = client(Config::default(), 4);
        let mut peer = Peer::server();
        write(&mut peer);
        let events = feed(&mut client, &peer.take()).map_err(|error| error.0);
        let expected = expected
            .map(|events| [&["settings"], events].concat().iter().map(|e| e.to_string()).collect());
        assert_eq!(events, expected, "case {index}");
    }
}

#[test]
fn a_client_keeps_to_what_the_server_allows() {
    let mut client = client(Config { streams_max: 3, ..Config::default() }, 1);
    let line = RequestLine {
        method: b"HEAD",
        scheme: b"http",
        authority: b"a.test",
        path: b"/",
        protocol: None,
    };
    assert_eq!(client.request(&line, true, |_| {}), Ok(StreamId::new(3)));
    let mut peer = Peer::server();
    peer.settings(&[(id::MAX_CONCURRENT_STREAMS, 2)]);
    peer.head(3, &[(":status", "200"), ("content-length", "9")], true);
    let events = feed(&mut client, &peer.take());
    let expected = ["settings", "settings", "head 3 end"].map(str::to_owned);
    assert_eq!(events.as_deref(), Ok(&expected[..]));
    assert_eq!(client.request(&line, true, |_| {}), Err(SendError::StreamsMax));
    client.close(StreamId::new(3), ErrorCode::CANCEL);
    let websocket = RequestLine { method: b"CONNECT", protocol: Some(b"websocket"), ..line };
    assert_eq!(client.request(&websocket, false, |_| {}), Err(SendError::Invalid));
    peer.settings(&[(id::ENABLE_CONNECT_PROTOCOL, 1)]);
    feed(&mut client, &peer.take()).expect("it may be on");
    assert_eq!(client.request(&websocket, false, |_| {}), Ok(StreamId::new(5)));
    write::go_away(&mut peer.out, StreamId::new(3), ErrorCode::NO_ERROR, b"");
    assert_eq!(feed(&mut client, &peer.take()), Ok(vec!["goaway 3 NO_ERROR".to_owned()]));
    assert_eq!(client.request(&line, true, |_| {}), Err(SendError::GoingAway));
    assert!(client.is_unprocessed(StreamId::new(5)) && !client.is_unprocessed(ONE));
    client.close(ONE, ErrorCode::CANCEL);
    client.close(StreamId::new(5), ErrorCode::CANCEL);
    assert!(client.is_drained());
}

#[test]
fn commands_out_of_order_send_nothing() {
    let mut server = server(Config::default());
    let mut peer = Peer::client();
    peer.get(1, &[], true);
    feed(&mut server, &peer.take()).expect("a request is right");
    output(&mut server);
    assert_eq!(server.respond(StreamId::new(3), 200, true, |_| {}), Err(SendError::Closed));
    assert_eq!(server.respond(ONE, 199, true, |_| {}), Err(SendError::Invalid));
    assert_eq!(server.respond_interim(ONE, 101, |_| {}), Err(SendError::Invalid));
    assert_eq!(server.send_trailers(ONE, |_| {}), Err(SendError::Order));
    assert_eq!(output(&mut server), [""; 0]);
    assert_eq!(server.respond_interim(ONE, 103, |fields| fields.push(b"link", b"x")), Ok(0));
    assert_eq!(server.respond(ONE, 204, true, |fields| fields.push(b"a", b"\r\n")), Ok(1));
    assert_eq!(server.respond(ONE, 200, true, |_| {}), Err(SendError::Closed));
    server.reset(ONE, ErrorCode::CANCEL);
    assert_eq!(output(&mut server), ["head 1 :status=103 link=x", "head 1 :status=204 end"]);
}

#[test]
fn tables_follow_the_settings() {
    let config = Config { encoder_table_bytes: 4096, huffman: true, ..Config::default() };
    let mut server = server(config);
    let (mut peer, mut decoder) = (Peer::client(), Decoder::new());
    let respond = |server: &mut Connection<Server>, stream: u32| {
        let id = StreamId::new(stream);
        server
            .respond(id, 302, true, |fields| fields.push(b"server", b"tidegate"))
            .expect("it is open");
        server.close(id, ErrorCode::CANCEL);
        let mut bytes = Vec::new();
        server.take_output(&mut bytes);
        bytes
    };
    let mut lengths = Vec::new();
    for (stream, setting) in [(1, 4096), (3, 4096), (5, 0), (7, 0), (9, 100), (11, 100)] {
        peer.settings(&[(id::HEADER_TABLE_SIZE, setting)]).get(stream, &[], true);
        feed(&mut server, &peer.take()).expect("a request is right");
        server.take_output(&mut Vec::new());
        decoder.announce(setting);
        let bytes = respond(&mut server, stream);
        lengths.push(bytes.len());
        let expected = format!("head {stream} :status=302 server=tidegate end");
        assert_eq!(sent_with(&mut decoder, &bytes), [expected]);
    }
    // Two indices where the table has both.
    assert_eq!(lengths[1], 9 + 2);
    assert!(lengths[3] > lengths[1] && lengths[5] == lengths[1]);
}

/// An idle connection is this, its tables, and a number for each stream whose end is remembered.
#[test]
fn an_idle_connection_is_small() {
    assert!(
        size_of::<Connection<Server>>() <= CONNECTION_BYTES_MAX,
        "{}",
        size_of::<Connection<Server>>()
    );
}

/// Size of the state of a connection without its buffers, bytes.
const CONNECTION_BYTES_MAX: usize = 544;
