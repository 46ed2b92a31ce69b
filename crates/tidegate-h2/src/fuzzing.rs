//! Entry points for fuzzers; plain functions, so that ordinary tests replay a corpus through them.

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate_codec::Known;

use crate::connection::{Client, Connection, Event, Role, Server};
use crate::frame::parse::{Frame, parse};
use crate::frame::{FrameHeader, Kind, PREFACE, flags, write};
use crate::hpack::{Decoder, Encoder, Indexing, huffman};
use crate::{Config, ErrorCode, RequestLine, StreamId};

/// Header blocks, in pieces whose length is in front (one byte): what was decoded can be encoded and decoded again.
pub fn fuzz_hpack(data: &[u8]) {
    let (mut decoder, mut again) = (Decoder::new(), Decoder::new());
    let (mut encoder, mut rest) = (Encoder::new(1000, data.len().is_multiple_of(2)), data);
    while let Some((length, behind)) = rest.split_first() {
        let (block, behind) = behind.split_at(behind.len().min(usize::from(*length)));
        rest = behind;
        let (mut list, mut back, mut encoded) = (Vec::new(), Vec::new(), Vec::new());
        let outcome = decoder.decode(block, &mut |field| {
            // Most fields stand for what was sent once; a limit keeps bombs out of this test's own memory.
            if list.len() < 64 {
                list.push((field.name.to_ascii_lowercase(), field.value.to_vec()));
            }
        });
        encoder.begin(&mut encoded);
        for (name, value) in &list {
            encoder.field(Known::of(name), name, value, Indexing::Incremental, &mut encoded);
        }
        let decoded = again.decode(&encoded, &mut |field| {
            back.push((field.name.to_vec(), field.value.to_vec()));
        });
        assert_eq!(decoded, Ok(()));
        assert_eq!(back, list);
        assert!(decoder.capacity() < 40_000);
        if outcome.is_err() {
            break;
        }
    }
    let mut text = Vec::new();
    if huffman::decode(data, &mut text).is_ok() {
        let mut coded = Vec::new();
        huffman::encode(text.iter().copied(), &mut coded);
        // A string that ends with a byte may have one more byte of padding; our own encoder does not write it.
        assert!(coded == data || data.split_last() == Some((&0xff, &coded[..])), "{data:?}");
    }
}

/// Frames: what is understood is written in the same way, but for padding and reserved bits.
pub fn fuzz_frames(data: &[u8]) {
    let mut rest = data;
    while let Some((header, behind)) = rest.split_first_chunk() {
        let header = FrameHeader::parse(header);
        let length = (header.length as usize).min(behind.len());
        let (payload, behind) = behind.split_at(length);
        rest = behind;
        let header = FrameHeader { length: length as u32, ..header };
        let Ok(frame) = parse(header, payload) else { continue };
        let mut out = Vec::new();
        match frame {
            Frame::Data { data, end_stream } => {
                write::data(&mut out, header.stream, data, end_stream);
            }
            Frame::Headers { fragment, end_stream, end_headers: true, dependency: None } => {
                write::header_block(&mut out, header.stream, fragment, end_stream, u32::MAX);
            }
            Frame::Priority(dependency) => write::priority(&mut out, header.stream, dependency),
            Frame::ResetStream(code) => write::reset_stream(&mut out, header.stream, code),
            Frame::Settings { ack: true, .. } => write::settings_ack(&mut out),
            Frame::Settings { entries, .. } => {
                write::settings(&mut out, &entries.collect::<Vec<_>>());
            }
            Frame::Ping { ack, data } => write::ping(&mut out, data, ack),
            Frame::GoAway { last, code, debug } => write::go_away(&mut out, last, code, debug),
            Frame::WindowUpdate(increment) => {
                write::window_update(&mut out, header.stream, increment);
            }
            Frame::PriorityUpdate { stream, value } => {
                write::priority_update(&mut out, stream, value);
            }
            Frame::Headers { .. }
            | Frame::PushPromise
            | Frame::Continuation { .. }
            | Frame::Unknown => continue,
        }
        let again = out
            .split_first_chunk()
            .map(|(header, payload)| parse(FrameHeader::parse(header), payload));
        assert_eq!(again, Some(Ok(frame)));
    }
}

/// Memory that a connection of these limits may take, whatever is received, bytes.
const MEMORY_MAX: usize = 400_000;

/// A server that responds to requests, and a client with requests in progress: neither panics, and what they
/// keep and what they send has limits. The input is taken twice: as bytes, in pieces with their length in front (one
/// byte, times 8), and as a list of frames whose headers are right.
pub fn fuzz_connection(data: &[u8]) {
    let config = Config { streams_max: 8, extended_connect: true, ..Config::default() }.shared();
    for frames in [None, Some(frames_of(data))] {
        let mut server = Connection::<Server>::new(config.clone());
        feed(&mut server, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", respond);
        let mut client = Connection::<Client>::new(config.clone());
        feed(&mut client, b"\0\0\0\x04\0\0\0\0\0", |_, _| {});
        let line = RequestLine {
            method: b"POST",
            scheme: b"https",
            authority: b"a.test",
            path: b"/",
            protocol: None,
        };
        for end in [true, false, true] {
            let _ = client.request(&line, end, |_| {});
        }
        let close = |client: &mut Connection<Client>, stream| {
            if client.state(stream).is_some_and(|state| state.is_closed()) {
                client.close(stream, ErrorCode::CANCEL);
            }
        };
        match frames {
            None => {
                feed_pieces(&mut server, data, respond);
                feed_pieces(&mut client, data, close);
            }
            Some(frames) => {
                let (mut by_server, mut by_client) = (Watch::default(), Watch::default());
                for frame in frames {
                    let open = feed(&mut server, &frame, respond);
                    if !feed(&mut client, &frame, close) && !open {
                        break;
                    }
                    check_limits(&server);
                    check_limits(&client);
                    if frame.len() % 3 > 0 {
                        by_server.look(&mut server);
                        by_client.look(&mut client);
                    }
                }
            }
        }
    }
}

/// Header blocks that are right at any time.
const BLOCKS: [&[u8]; 8] = [
    b"\x82\x86\x84\x41\x01a",
    b"\x83\x86\x84\x41\x01a\x5c\x015",
    b"\x82\x87\x85\x41\x01a\x40\x03x-a\x01b\x40\x08priority\x03u=1",
    b"\x88\x5c\x015",
    b"\x88\x0f\x0d\x0210",
    b"\x48\x03103",
    b"\x40\x01t\x01u",
    b"\x3f\xe1\x1f\x82\x86\x84\x41\x01b",
];

/// Makes frames of the input: four bytes say type, flags, stream and length, the payload follows. Every second header
/// block is one of [`BLOCKS`].
fn frames_of(data: &[u8]) -> Vec<Vec<u8>> {
    const KINDS: [u8; 16] = [0, 0, 0, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0x10, 0x77];
    let (mut frames, mut rest) = (Vec::new(), data);
    while let Some(([kind, flags, stream, length], behind)) = rest.split_first_chunk() {
        let (payload, behind) = behind.split_at(behind.len().min(usize::from(*length) % 64));
        rest = behind;
        let kind = KINDS[usize::from(*kind) % KINDS.len()];
        let is_block = kind == 1 && length % 2 == 0;
        let stream = match kind {
            4 | 6 | 7 | 0x10 => 0,
            // A HEADERS frame that is complete begins a stream now and then; most are on few streams.
            _ => u32::from(*stream) % 24,
        };
        // Blocks that are not meant to be continued end; nothing is padded by chance.
        let flags = if is_block { flags & 1 | 4 } else { *flags };
        let payload = if is_block { BLOCKS[usize::from(*length) / 2 % 8] } else { payload };
        let header = FrameHeader {
            length: payload.len() as u32,
            kind: Kind::of(kind),
            flags,
            stream: StreamId::new(stream),
        };
        frames.push([&header.to_bytes()[..], payload].concat());
    }
    frames
}

/// What an end has sent: whole frames that are right, and nothing on a stream that it has ended.
#[derive(Default)]
struct Watch {
    ended: BTreeSet<StreamId>,
    reset: BTreeSet<StreamId>,
    output: Vec<u8>,
}

impl Watch {
    fn look<R: Role>(&mut self, connection: &mut Connection<R>) {
        self.output.clear();
        connection.take_output(&mut self.output);
        let mut rest = self.output.strip_prefix(PREFACE).unwrap_or(&self.output);
        while let Some((header, behind)) = rest.split_first_chunk() {
            let header = FrameHeader::parse(header);
            let (payload, behind) = behind.split_at(header.length as usize);
            rest = behind;
            assert!(parse(header, payload).is_ok(), "{header:?}");
            let stream = header.stream;
            match header.kind {
                Kind::Data | Kind::Headers => {
                    assert!(!self.ended.contains(&stream) && !self.reset.contains(&stream));
                    if header.has(flags::END_STREAM) {
                        self.ended.insert(stream);
                    }
                }
                Kind::ResetStream => {
                    self.reset.insert(stream);
                }
                Kind::WindowUpdate => assert!(!self.reset.contains(&stream)),
                _ => {}
            }
        }
        assert!(rest.is_empty());
    }
}

fn check_limits<R: Role>(connection: &Connection<R>) {
    assert!(connection.memory() < MEMORY_MAX, "{}", connection.memory());
    assert!(connection.streams() <= 8);
    assert!(connection.output().len() < 200_000);
}

fn respond(server: &mut Connection<Server>, stream: StreamId) {
    let ends = stream.value() % 8 == 1;
    let _ = server.respond(stream, 200, ends, |fields| fields.push(b"server", b"tidegate"));
    server.want(stream, true);
    while let Some(next) = server.next_to_send().filter(|_| !server.output_is_full()) {
        let _ = server.send_data(next, &[b'x'; 3000], next.value() % 3 == 0);
        server.want(next, next.value() % 5 == 0 && server.sendable(next) > 10_000);
    }
    if ends {
        server.close(stream, ErrorCode::CANCEL);
    }
}

fn feed_pieces<R: Role>(
    connection: &mut Connection<R>,
    data: &[u8],
    mut act: impl FnMut(&mut Connection<R>, StreamId),
) {
    let mut rest = data;
    let mut watch = Watch::default();
    while let Some((length, behind)) = rest.split_first() {
        let (piece, behind) = behind.split_at(behind.len().min(usize::from(*length) * 8));
        rest = behind;
        if !feed(connection, piece, &mut act) {
            break;
        }
        check_limits(connection);
        if length % 2 == 0 {
            watch.look(connection);
        }
    }
    connection.release_memory();
}

/// `false` once the connection is over.
fn feed<R: Role>(
    connection: &mut Connection<R>,
    mut input: &[u8],
    mut act: impl FnMut(&mut Connection<R>, StreamId),
) -> bool {
    loop {
        match connection.receive(&mut input, Duration::ZERO) {
            Ok(None) => {
                assert!(input.is_empty());
                return true;
            }
            Err(error) => {
                assert_eq!(connection.receive(&mut input, Duration::ZERO).err(), Some(error));
                return false;
            }
            Ok(Some(event)) => match event {
                Event::Head { stream, .. } | Event::Malformed { stream, .. } => {
                    check_head(connection, matches!(event, Event::Head { .. }));
                    act(connection, stream);
                }
                Event::Data { stream, bytes, .. } => {
                    connection.consumed(stream, bytes.len() as u32);
                }
                Event::Reset { stream, .. } => connection.close(stream, ErrorCode::CANCEL),
                Event::Trailers { stream } => {
                    act(connection, stream);
                    if stream.value() % 3 == 0 {
                        connection.close(stream, ErrorCode::CANCEL);
                    }
                }
                _ => {}
            },
        }
    }
}

/// Nothing that was taken can be a line of its own, and a request has what a request line needs.
fn check_head<R: Role>(connection: &mut Connection<R>, is_valid: bool) {
    let head = connection.head();
    for (_, name, value) in head.headers.iter() {
        assert!(!name.is_empty() && !name.iter().any(u8::is_ascii_uppercase));
        assert!(![name, value].concat().iter().any(|byte| b"\r\n\0".contains(byte)));
    }
    if R::IS_SERVER && is_valid {
        let line = head.text(head.line);
        assert_eq!(line.iter().filter(|byte| **byte == b' ').count(), 2);
        assert!(!head.text(head.method).is_empty() && !head.text(head.target).is_empty());
        assert!(head.headers.contains(Known::Host));
    }
}
