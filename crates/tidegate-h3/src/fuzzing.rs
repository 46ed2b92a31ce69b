//! Entry points for fuzzers; plain functions, so that ordinary tests replay a corpus through them.

use tidegate_codec::Known;
use tidegate_fields::Budget;

use crate::frame::parse::{Frame, parse};
use crate::frame::{CONTROL_FRAME_BYTES_MAX, FrameHeader, PartialHeader, write};
use crate::qpack::{Decoded, Decoder, Encoder, Indexing};

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
