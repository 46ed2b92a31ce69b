//! Every frame type written and parsed, lengths that are none, and arbitrary bytes.

use proptest::collection::vec;
use proptest::prelude::*;

use super::parse::{Dependency, Frame, FrameError, parse};
use super::{FRAME_HEADER_BYTES, FrameHeader, Kind, StreamId, flags, write};
use crate::error::ErrorCode;

/// The frames of a text, each with its header.
fn frames(mut bytes: &[u8]) -> Vec<(FrameHeader, &[u8])> {
    let mut found = Vec::new();
    while let Some((header, rest)) = bytes.split_first_chunk() {
        let header = FrameHeader::parse(header);
        let (payload, rest) = rest.split_at(header.length as usize);
        found.push((header, payload));
        bytes = rest;
    }
    assert!(bytes.is_empty());
    found
}

/// The one frame that `write` appends.
fn check(write: impl FnOnce(&mut Vec<u8>), stream: u32, expected: Frame<'_>) {
    let mut out = Vec::new();
    write(&mut out);
    let all = frames(&out);
    let [(header, payload)] = all[..] else { panic!("{all:?}") };
    assert_eq!(header.stream, StreamId::new(stream));
    assert_eq!(header.to_bytes(), out[..FRAME_HEADER_BYTES]);
    assert_eq!(parse(header, payload), Ok(expected));
}

#[test]
fn every_type_comes_back() {
    let id = StreamId::new(5);
    let data = *b"12345678";
    check(
        |out| write::data(out, id, b"abc", true),
        5,
        Frame::Data { data: b"abc", end_stream: true },
    );
    check(
        |out| write::data_padded(out, id, b"abc", 255, false),
        5,
        Frame::Data { data: b"abc", end_stream: false },
    );
    let headers = |end_stream| Frame::Headers {
        fragment: b"block",
        end_stream,
        end_headers: true,
        dependency: None,
    };
    check(|out| write::header_block(out, id, b"block", true, 16_384), 5, headers(true));
    check(|out| write::header_block(out, id, b"block", false, 5), 5, headers(false));
    let dependency = Dependency { exclusive: true, parent: StreamId::new(3), weight: 7 };
    check(|out| write::priority(out, id, dependency), 5, Frame::Priority(dependency));
    check(
        |out| write::reset_stream(out, id, ErrorCode::CANCEL),
        5,
        Frame::ResetStream(ErrorCode::CANCEL),
    );
    for ack in [true, false] {
        check(|out| write::ping(out, data, ack), 0, Frame::Ping { ack, data });
    }
    let last = StreamId::MAX;
    let code = ErrorCode(77);
    check(
        |out| write::go_away(out, last, code, b"why"),
        0,
        Frame::GoAway { last, code, debug: b"why" },
    );
    check(|out| write::window_update(out, id, 9), 5, Frame::WindowUpdate(9));
    check(
        |out| write::priority_update(out, id, b"u=1"),
        0,
        Frame::PriorityUpdate { stream: id, value: b"u=1" },
    );
    let mut out = Vec::new();
    write::settings(&mut out, &[(1, 2), (3, 4)]);
    write::settings_ack(&mut out);
    let acks: Vec<_> = frames(&out)
        .into_iter()
        .map(|(header, payload)| match parse(header, payload) {
            Ok(Frame::Settings { ack, entries }) => (ack, entries.collect::<Vec<_>>()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(acks, [(false, vec![(1, 2), (3, 4)]), (true, vec![])]);
}

#[test]
fn blocks_are_continued() {
    let mut out = Vec::new();
    write::header_block(&mut out, StreamId::new(1), b"abcdefgh", true, 3);
    let found: Vec<_> = frames(&out)
        .into_iter()
        .map(|(header, payload)| (header.kind, header.flags, payload))
        .collect();
    assert_eq!(
        found,
        [
            (Kind::Headers, flags::END_STREAM, &b"abc"[..]),
            (Kind::Continuation, 0, b"def"),
            (Kind::Continuation, flags::END_HEADERS, b"gh"),
        ]
    );
}

#[test]
fn wrong_lengths_and_streams_are_refused() {
    for (kind, flags, stream, length, expected) in [
        (Kind::Data, 0, 0, 1, FrameError::StreamZero),
        (Kind::Data, flags::PADDED, 1, 0, FrameError::Size),
        (Kind::Data, flags::PADDED, 1, 3, FrameError::Padding),
        (Kind::Headers, 0, 0, 1, FrameError::StreamZero),
        (Kind::Headers, flags::PADDED, 1, 2, FrameError::Padding),
        (Kind::Headers, flags::PRIORITY, 1, 4, FrameError::Size),
        (Kind::Headers, flags::PRIORITY | flags::PADDED, 1, 12, FrameError::Size),
        (Kind::Priority, 0, 0, 5, FrameError::StreamZero),
        (Kind::Priority, 0, 1, 4, FrameError::StreamSize),
        (Kind::Priority, 0, 0x0909_0909, 5, FrameError::SelfDependency),
        (Kind::ResetStream, 0, 0, 4, FrameError::StreamZero),
        (Kind::ResetStream, 0, 1, 5, FrameError::Size),
        (Kind::Settings, 0, 1, 6, FrameError::StreamZero),
        (Kind::Settings, 0, 0, 7, FrameError::Size),
        (Kind::Settings, flags::ACK, 0, 6, FrameError::Size),
        (Kind::PushPromise, 0, 0, 9, FrameError::StreamZero),
        (Kind::Ping, 0, 1, 8, FrameError::StreamZero),
        (Kind::Ping, 0, 0, 7, FrameError::Size),
        (Kind::GoAway, 0, 1, 8, FrameError::StreamZero),
        (Kind::GoAway, 0, 0, 7, FrameError::Size),
        (Kind::WindowUpdate, 0, 0, 3, FrameError::Size),
        (Kind::Continuation, 0, 0, 3, FrameError::StreamZero),
        (Kind::PriorityUpdate, 0, 1, 8, FrameError::StreamZero),
        (Kind::PriorityUpdate, 0, 0, 3, FrameError::Size),
    ] {
        let stream = StreamId::new(stream);
        let header = FrameHeader { length, kind, flags, stream };
        let payload = vec![9; length as usize];
        assert_eq!(parse(header, &payload), Err(expected), "{header:?}");
    }
    for (stream, expected) in [(0, FrameError::WindowZero), (1, FrameError::StreamWindowZero)] {
        let stream = StreamId::new(stream);
        let header = FrameHeader { length: 4, kind: Kind::WindowUpdate, flags: 0, stream };
        assert_eq!(parse(header, &[0x80, 0, 0, 0]), Err(expected));
    }
}

proptest! {
    #[test]
    fn headers_come_back(bytes: [u8; FRAME_HEADER_BYTES]) {
        let mut expected = bytes;
        expected[5] &= 0x7f;
        prop_assert_eq!(FrameHeader::parse(&bytes).to_bytes(), expected);
    }

    #[test]
    fn what_is_parsed_lies_in_the_payload(
        kind in 0u8..18, flags: u8, stream: u32, payload in vec(any::<u8>(), 0..40),
    ) {
        let kind = Kind::of(kind);
        let header =
            FrameHeader { length: payload.len() as u32, kind, flags, stream: StreamId::new(stream) };
        if let Ok(Frame::Data { data, .. }) = parse(header, &payload) {
            let padding = if header.has(flags::PADDED) { 1 + usize::from(payload[0]) } else { 0 };
            prop_assert_eq!(data.len() + padding, payload.len());
        }
    }

    #[test]
    fn padded_data_comes_back(data in vec(any::<u8>(), 0..300), padding: u8, end: bool) {
        let mut out = Vec::new();
        write::data_padded(&mut out, StreamId::new(1), &data, padding, end);
        let (header, payload) = frames(&out)[0];
        prop_assert_eq!(parse(header, payload), Ok(Frame::Data { data: &data, end_stream: end }));
    }
}
