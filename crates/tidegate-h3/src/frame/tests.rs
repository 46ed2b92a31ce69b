//! Frames come back, in any pieces, and lengths that do not fit are refused.

use proptest::collection::vec;
use proptest::prelude::*;

use super::parse::{Frame, InvalidFrame, parse};
use super::{FrameHeader, Kind, PartialHeader, StreamKind, kind, write};
use crate::varint;

#[test]
fn payloads_have_exact_lengths() {
    for (number, payload, is_valid) in [
        (kind::SETTINGS, &b""[..], true),
        (kind::SETTINGS, b"\x01\x40\x64\x07\x10", true),
        (kind::SETTINGS, b"\x01", false),
        (kind::SETTINGS, b"\x01\x40", false),
        (kind::GOAWAY, b"\x04", true),
        (kind::GOAWAY, b"", false),
        (kind::GOAWAY, b"\x04\x00", false),
        (kind::GOAWAY, b"\x40", false),
        (kind::MAX_PUSH_ID, b"\x00", true),
        (kind::MAX_PUSH_ID, b"\x00\x00", false),
        (kind::CANCEL_PUSH, b"\x00", true),
        (kind::CANCEL_PUSH, b"\x80\x00\x00", false),
        (kind::PRIORITY_UPDATE, b"\x00u=1", true),
        (kind::PRIORITY_UPDATE, b"", false),
        (kind::PRIORITY_UPDATE_PUSH, b"\x01", true),
        (kind::PRIORITY_UPDATE_PUSH, b"", false),
    ] {
        let header = FrameHeader { kind: Kind::of(number), length: payload.len() as u64 };
        let parsed = parse(header, payload);
        assert_eq!(parsed.is_ok(), is_valid, "{number:x} {payload:x?}");
        assert!(is_valid || parsed == Err(InvalidFrame));
    }
}

#[test]
fn types_of_frames_and_streams() {
    for number in [0x2, 0x6, 0x8, 0x9] {
        assert_eq!(Kind::of(number), Kind::Http2(number));
    }
    for number in [0xa, 0xb, 0xc, 0xe, 0x21, 0x40, 0xf_0702, varint::MAX] {
        assert_eq!(Kind::of(number), Kind::Unknown(number));
    }
    for (number, expected) in [
        (0, StreamKind::Control),
        (1, StreamKind::Push),
        (2, StreamKind::Encoder),
        (3, StreamKind::Decoder),
        (0x54, StreamKind::Unknown(0x54)),
    ] {
        assert_eq!(StreamKind::of(number), expected);
    }
}

proptest! {
    #[test]
    fn frames_come_back(
        entries in vec((0..=varint::MAX, 0..=varint::MAX), 0..6),
        id in 0..=varint::MAX,
        value in vec(any::<u8>(), 0..20),
    ) {
        let read = |out: &[u8], expected: Frame<'_>| {
            let mut rest = out;
            let header = PartialHeader::default().frame(&mut rest);
            let header = header.expect("the header is complete");
            assert_eq!(header.length, rest.len() as u64);
            assert_eq!(parse(header, rest), Ok(expected));
        };
        let mut out = Vec::new();
        write::go_away(&mut out, id);
        read(&out, Frame::GoAway(id));
        out.clear();
        write::max_push_id(&mut out, id);
        read(&out, Frame::MaxPushId(id));
        out.clear();
        write::cancel_push(&mut out, id);
        read(&out, Frame::CancelPush(id));
        out.clear();
        write::priority_update(&mut out, id, &value);
        read(&out, Frame::PriorityUpdate { stream: id, value: &value });
        out.clear();
        write::settings(&mut out, &entries);
        let mut rest = out.as_slice();
        let header = PartialHeader::default().frame(&mut rest).expect("the header is complete");
        let Ok(Frame::Settings(read)) = parse(header, rest) else {
            panic!("no settings");
        };
        prop_assert_eq!(read.collect::<Vec<_>>(), entries);
    }

    /// A header is the same in any pieces, and what follows it stays in the input.
    #[test]
    fn headers_arrive_in_any_pieces(
        number in 0..=varint::MAX, length in 0..=varint::MAX, shifts: (u8, u8),
        pieces in vec(1usize..5, 1..20),
    ) {
        let (number, length) = (number >> (shifts.0 % 62), length >> (shifts.1 % 62));
        let mut out = Vec::new();
        write::header(&mut out, number, length);
        out.extend_from_slice(b"payload");
        let expected = FrameHeader { kind: Kind::of(number), length };
        let (mut partial, mut rest) = (PartialHeader::default(), out.as_slice());
        let mut sizes = pieces.into_iter().cycle();
        let found = loop {
            let (piece, behind) = rest.split_at(sizes.next().unwrap_or(1).min(rest.len()));
            let mut input = piece;
            if let Some(header) = partial.frame(&mut input) {
                rest = &out[out.len() - behind.len() - input.len()..];
                break header;
            }
            prop_assert!(input.is_empty() && !behind.is_empty());
            rest = behind;
        };
        prop_assert_eq!((found, rest), (expected, &b"payload"[..]));
        prop_assert!(partial.is_empty());
    }

    #[test]
    fn data_of_the_fuzzer(data: Vec<u8>) {
        crate::fuzzing::fuzz_frames(&data);
    }
}
