//! Entry points for fuzzers; plain functions, so that ordinary tests replay a corpus through them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidegate_codec::Known;
use tidegate_fields::Budget;

use crate::connection::{Connection, Event, OwnStream};
use crate::frame::parse::{Frame, parse};
use crate::frame::{CONTROL_FRAME_BYTES_MAX, FrameHeader, PartialHeader, write};
use crate::qpack::{Decoded, Decoder, Encoder, Indexing};
use crate::{Config, ErrorCode};

/// The table and the blocked streams of the fuzzed decoder.
const TABLE_BYTES: u32 = 1024;
const BLOCKED_MAX: u32 = 4;
/// Memory that a decoder with such a table may take, bytes.
const DECODER_BYTES_MAX: usize = 64 * 1024;

/// Pieces with one byte in front that is their length, and one that says what they are: a piece of the encoder stream,
/// a section, a piece of the decoder stream, or a cancelled stream. What was decoded can be encoded and decoded again.
pub fn fuzz_qpack(data: &[u8]) {
    let mut decoder = Decoder::new(TABLE_BYTES, BLOCKED_MAX);
    let mut pair = Pair::new(data.len().is_multiple_of(2));
    let (mut budget, mut rest) = (Budget::new(u32::MAX), data);
    let mut waiting: Vec<(u64, Vec<u8>)> = Vec::new();
    while let Some(([length, kind], behind)) = rest.split_first_chunk() {
        let (piece, behind) = behind.split_at(behind.len().min(usize::from(*length)));
        rest = behind;
        let stream = u64::from(*kind) & !3;
        match kind & 3 {
            0 => {
                if decoder.receive(piece, &mut budget).is_err() {
                    return;
                }
                while let Some(stream) = decoder.unblocked() {
                    let found = waiting.iter().position(|(waiting, _)| *waiting == stream);
                    let section = found.map(|at| waiting.remove(at).1).unwrap_or_default();
                    let decoded = decoder.decode(stream, &section, &mut |_| {});
                    assert_ne!(decoded, Ok(Decoded::Blocked));
                    if decoded.is_err() {
                        return;
                    }
                }
            }
            1 => {
                if waiting.iter().any(|(waiting, _)| *waiting == stream) {
                    continue;
                }
                let mut list = Vec::new();
                let decoded = decoder.decode(stream, piece, &mut |field| {
                    // Most fields stand for what was sent once; a limit keeps bombs out of this test's own memory.
                    if list.len() < 64 {
                        list.push((field.name.to_ascii_lowercase(), field.value.to_vec()));
                    }
                });
                match decoded {
                    Ok(Decoded::Blocked) => waiting.push((stream, piece.to_vec())),
                    Ok(Decoded::Done) => pair.check(stream, &list),
                    Err(_) => return,
                }
            }
            2 => {
                decoder.cancel(stream);
                waiting.retain(|(waiting, _)| *waiting != stream);
            }
            _ => {
                // An encoder that has sent nothing takes cancellations alone.
                let _ = Encoder::new(TABLE_BYTES, false).receive(piece);
            }
        }
        assert_eq!(decoder.blocked(), waiting.len());
        assert!(waiting.len() <= BLOCKED_MAX as usize);
        let mut output = Vec::new();
        decoder.take_output(&mut output);
        assert!(decoder.capacity() < DECODER_BYTES_MAX, "{}", decoder.capacity());
    }
}

/// Frames: what is understood is written in the same way, but for integers that could be shorter.
pub fn fuzz_frames(data: &[u8]) {
    let (mut partial, mut rest) = (PartialHeader::default(), data);
    while let Some(header) = partial.frame(&mut rest) {
        let length = header.length.min(CONTROL_FRAME_BYTES_MAX) as usize;
        let (payload, behind) = rest.split_at(length.min(rest.len()));
        rest = behind;
        let header = FrameHeader { length: payload.len() as u64, ..header };
        let Ok(frame) = parse(header, payload) else { continue };
        let mut out = Vec::new();
        match frame {
            Frame::Settings(entries) => write::settings(&mut out, &entries.collect::<Vec<_>>()),
            Frame::CancelPush(id) => write::cancel_push(&mut out, id),
            Frame::GoAway(id) => write::go_away(&mut out, id),
            Frame::MaxPushId(id) => write::max_push_id(&mut out, id),
            Frame::PriorityUpdate { stream, value } => {
                write::priority_update(&mut out, stream, value);
            }
            Frame::PriorityUpdatePush(_) | Frame::Other => continue,
        }
        let mut again = out.as_slice();
        let read = PartialHeader::default().frame(&mut again);
        let read = read.map(|header| parse(header, again));
        match (read, frame) {
            (Some(Ok(Frame::Settings(read))), Frame::Settings(entries)) => {
                assert!(read.eq(entries));
            }
            (read, frame) => assert_eq!(read, Some(Ok(frame))),
        }
    }
}

/// Our own encoder and a decoder of its sections.
struct Pair {
    encoder: Encoder,
    decoder: Decoder,
}

impl Pair {
    fn new(huffman: bool) -> Pair {
        let mut encoder = Encoder::new(700, huffman);
        encoder.limit(u64::from(TABLE_BYTES), u64::from(BLOCKED_MAX));
        Pair { encoder, decoder: Decoder::new(TABLE_BYTES, BLOCKED_MAX) }
    }

    fn check(&mut self, stream: u64, list: &[(Vec<u8>, Vec<u8>)]) {
        let (mut lines, mut section, mut back) = (Vec::new(), Vec::new(), Vec::new());
        self.encoder.begin(stream);
        for (name, value) in list {
            let known = Known::of(name);
            self.encoder.field(known, name, value, Indexing::Incremental, &mut lines);
        }
        self.encoder.finish(&mut section);
        section.extend_from_slice(&lines);
        let mut instructions = Vec::new();
        self.encoder.take_output(&mut instructions);
        let received = self.decoder.receive(&instructions, &mut Budget::new(u32::MAX));
        assert_eq!(received, Ok(()));
        let decoded = self.decoder.decode(stream, &section, &mut |field| {
            back.push((field.name.to_vec(), field.value.to_vec()));
        });
        assert_eq!(decoded, Ok(Decoded::Done));
        assert_eq!(back, list);
        let mut confirmed = Vec::new();
        self.decoder.take_output(&mut confirmed);
        assert_eq!(self.encoder.receive(&confirmed), Ok(()));
    }
}

/// Memory that a connection of these limits may take, whatever is received, bytes.
const MEMORY_MAX: usize = 500_000;
/// Requests at once.
const STREAMS_MAX: u32 = 8;

/// Bytes that are right on a request stream at any time, or on the client's unidirectional streams.
const PIECES: [&[u8]; 12] = [
    b"\x01\x08\x00\x00\xd1\xd7\xc1\x50\x01a",
    b"\x01\x0b\x00\x00\xd4\xd7\xc1\x50\x01a\x54\x015",
    b"\x01\x07\x02\x00\xd1\xd7\xc1\x50\x01",
    b"\x01\x07\x03\x80\xd1\xd7\xc1\x80\x10",
    b"\x00\x05hello",
    b"\x01\x06\x00\x00\x21t\x01u",
    b"\x00\x04\x05\x01\x50\x00\x07\x10",
    b"\x02\x3f\xe1\x1f\xc0\x01a",
    b"\xc0\x01a\xc1\x01/\x00",
    b"\x03",
    b"\x80\x0f\x07\x00\x04\x04u=1",
    b"\x21\x02ab",
];

/// A server that responds to requests does not panic, and what it keeps has limits. The input is a list of steps: three
/// bytes say what happens, on which stream, and with how many bytes behind them.
pub fn fuzz_connection(data: &[u8]) {
    let config = Config {
        streams_max: STREAMS_MAX,
        encoder_table_bytes: 512,
        extended_connect: true,
        sections_bytes_max: 64 * 1024,
        ..Config::default()
    };
    let mut client = Client {
        server: Connection::new(config.shared()),
        over: BTreeSet::new(),
        held: BTreeMap::new(),
    };
    let mut rest = data;
    while let Some(([what, stream, length], behind)) = rest.split_first_chunk() {
        let stream = u64::from(*stream) % 64;
        let known = PIECES[usize::from(*length) % PIECES.len()];
        let end = what & 8 != 0;
        let is_open = match what % 8 {
            0..=2 => {
                let (piece, behind) = behind.split_at(behind.len().min(usize::from(*length)));
                rest = behind;
                client.bytes(stream, piece, end)
            }
            3..=5 => {
                rest = behind;
                client.bytes(stream & !1, known, end)
            }
            6 => {
                rest = behind;
                client.reset(stream)
            }
            _ => {
                rest = behind;
                client.stop(stream)
            }
        };
        client.check();
        if !is_open {
            break;
        }
    }
    client.server.release_memory();
}

/// The client's side of [`fuzz_connection`], which keeps to what a caller has to do.
struct Client {
    server: Connection,
    /// Streams of which nothing more is passed on.
    over: BTreeSet<u64>,
    /// What was not used of streams that wait, and whether they end.
    held: BTreeMap<u64, (Vec<u8>, bool)>,
}

impl Client {
    /// `false` once the connection is over.
    fn bytes(&mut self, stream: u64, piece: &[u8], end: bool) -> bool {
        // What is passed on of a stream that is over is dropped.
        if self.over.contains(&stream) {
            let (before, mut input) = (self.server.streams(), piece);
            let received = self.server.receive(stream, &mut input, end, Duration::ZERO);
            assert!(received.is_err() || stream & 3 != 0 || received == Ok(None));
            assert!(self.server.streams() <= before);
            return received.is_ok();
        }
        let (mut bytes, ended) = self.held.remove(&stream).unwrap_or_default();
        if !ended {
            bytes.extend_from_slice(piece);
        }
        self.feed(stream, &bytes, end || ended)
    }

    fn feed(&mut self, stream: u64, bytes: &[u8], end: bool) -> bool {
        let (mut input, mut ready) = (bytes, Vec::new());
        loop {
            match self.server.receive(stream, &mut input, end, Duration::ZERO) {
                Ok(None) => break,
                Ok(Some(Event::Unblocked { stream })) => ready.push(stream),
                Ok(Some(Event::Refused { stream, .. } | Event::Stop { stream, .. })) => {
                    self.over.insert(stream);
                    return true;
                }
                Ok(Some(event)) => {
                    self.act(event);
                    if self.over.contains(&stream) {
                        return true;
                    }
                }
                Err(error) => {
                    let again = self.server.receive(stream, &mut input, end, Duration::ZERO);
                    assert_eq!(again, Err(error));
                    return false;
                }
            }
        }
        match self.server.is_blocked(stream) {
            true => drop(self.held.insert(stream, (input.to_vec(), end))),
            false => {
                assert!(input.is_empty());
                if end {
                    self.over.insert(stream);
                }
            }
        }
        ready.into_iter().all(|stream| {
            let (bytes, end) = self.held.remove(&stream).unwrap_or_default();
            self.feed(stream, &bytes, end)
        })
    }

    fn act(&mut self, event: Event<'_>) {
        match event {
            Event::Head { stream, .. } | Event::Malformed { stream, .. } => {
                check_head(&mut self.server, matches!(event, Event::Head { .. }));
                let (ends, mut out) = (stream % 8 == 0, Vec::new());
                let _ = self.server.respond(stream, 200, ends, &mut out, |fields| {
                    fields.push(b"server", b"tidegate");
                    fields.push(b"x-a", b"b");
                });
                if stream % 16 == 0 {
                    self.close(stream);
                }
            }
            Event::Trailers { stream } => {
                check_head(&mut self.server, false);
                let _ = self.server.send_trailers(stream, &mut Vec::new(), |_| {});
            }
            Event::Reset { stream, .. } => self.close(stream),
            Event::Data { stream, end: true, .. } => {
                let _ = self.server.send_data_header(stream, 5, true, &mut Vec::new());
            }
            _ => {}
        }
    }

    fn close(&mut self, stream: u64) {
        self.server.close(stream, ErrorCode::REQUEST_CANCELLED);
        self.over.insert(stream);
        self.held.remove(&stream);
    }

    fn reset(&mut self, stream: u64) -> bool {
        if !self.over.insert(stream) {
            return true;
        }
        self.held.remove(&stream);
        let event = self.server.reset_received(stream, ErrorCode::NO_ERROR, Duration::ZERO);
        if let Ok(Some(event)) = event {
            self.act(event);
        }
        event.is_ok()
    }

    fn stop(&mut self, stream: u64) -> bool {
        let event = self.server.stop_received(stream, ErrorCode::NO_ERROR, Duration::ZERO);
        if let Ok(Some(event)) = event {
            self.act(event);
        }
        event.is_ok()
    }

    fn check(&mut self) {
        assert!(self.server.memory() < MEMORY_MAX, "{}", self.server.memory());
        assert!(self.server.streams() <= STREAMS_MAX as usize);
        for stream in OwnStream::ALL {
            let half = self.server.output(stream).len() / 2;
            self.server.output_sent(stream, half);
        }
    }
}

/// Nothing that was taken can be a line of its own, and a request has what a request line needs.
fn check_head(server: &mut Connection, is_valid: bool) {
    let head = server.head();
    for (_, name, value) in head.headers.iter() {
        assert!(!name.is_empty() && !name.iter().any(u8::is_ascii_uppercase));
        assert!(![name, value].concat().iter().any(|byte| b"\r\n\0".contains(byte)));
    }
    if is_valid {
        let line = head.text(head.line);
        assert_eq!(line.iter().filter(|byte| **byte == b' ').count(), 2);
        assert!(!head.text(head.method).is_empty() && !head.text(head.target).is_empty());
        assert!(head.headers.contains(Known::Host));
    }
}
