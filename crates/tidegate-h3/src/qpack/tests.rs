//! RFC 9204 appendix B, the properties of both directions, and what is refused.

use std::collections::VecDeque;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tidegate_codec::Known;
use tidegate_fields::Budget;

use super::dynamic::DynamicTable;
use super::{
    DecodeError, Decoded, Decoder, DecoderStreamError, Encoder, EncoderStreamError, Indexing,
};

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.bytes().filter_map(|digit| (digit as char).to_digit(16).map(|d| d as u8)).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

type Fields = Vec<(String, String)>;

fn fields(list: &[(&str, &str)]) -> Fields {
    list.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

fn receive(decoder: &mut Decoder, hex: &str) -> Result<(), EncoderStreamError> {
    decoder.receive(&bytes(hex), &mut Budget::new(1000))
}

/// `None` for a section that is blocked.
fn decode(
    decoder: &mut Decoder,
    stream: u64,
    section: &[u8],
) -> Result<Option<Fields>, DecodeError> {
    let mut list = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let decoded = decoder.decode(stream, section, &mut |field| {
        assert_eq!(field.known, Known::of(field.name), "{:?}", field.name);
        list.push((text(field.name), text(field.value)));
    })?;
    match decoded {
        Decoded::Done => Ok(Some(list)),
        Decoded::Blocked => {
            assert_eq!(list, fields(&[]));
            Ok(None)
        }
    }
}

/// Entries of a table, the oldest first.
fn entries(table: &DynamicTable) -> Fields {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (table.oldest()..table.inserted())
        .filter_map(|absolute| table.entry(absolute))
        .map(|field| (text(field.name), text(field.value)))
        .collect()
}

fn output(decoder: &mut Decoder) -> Vec<u8> {
    let mut out = Vec::new();
    decoder.take_output(&mut out);
    out
}

/// A section of an encoder, with its prefix in front.
fn encode(encoder: &mut Encoder, stream: u64, list: &[(&str, &str)], how: Indexing) -> Vec<u8> {
    let (mut lines, mut section) = (Vec::new(), Vec::new());
    encoder.begin(stream);
    for (name, value) in list {
        let known = Known::of(name.as_bytes());
        encoder.field(known, name.as_bytes(), value.as_bytes(), how, &mut lines);
    }
    encoder.finish(&mut section);
    section.extend_from_slice(&lines);
    section
}

fn instructions(encoder: &mut Encoder) -> Vec<u8> {
    let mut out = Vec::new();
    encoder.take_output(&mut out);
    out
}

const AUTHORITY: (&str, &str) = (":authority", "www.example.com");
const PATH: (&str, &str) = (":path", "/sample/path");
const CUSTOM: (&str, &str) = ("custom-key", "custom-value");
const CUSTOM_2: (&str, &str) = ("custom-key", "custom-value2");

#[test]
fn examples_of_appendix_b() {
    let mut decoder = Decoder::new(220, 1);
    // B.1
    let section = bytes("0000 510b 2f69 6e64 6578 2e68 746d 6c");
    let index = fields(&[(":path", "/index.html")]);
    assert_eq!(decode(&mut decoder, 0, &section), Ok(Some(index)));
    assert_eq!(output(&mut decoder), bytes(""));
    // B.2, first with the section before its insertions.
    let section = bytes("0381 10 11");
    assert_eq!(decode(&mut decoder, 4, &section), Ok(None));
    assert_eq!((decoder.blocked(), decoder.unblocked()), (1, None));
    let insertions = "3fbd01 c00f 7777 772e 6578 616d 706c 652e 636f 6d
                      c10c 2f73 616d 706c 652f 7061 7468";
    assert_eq!(receive(&mut decoder, insertions), Ok(()));
    assert_eq!(entries(decoder.table()), fields(&[AUTHORITY, PATH]));
    assert_eq!(decoder.table().size(), 106);
    assert_eq!((decoder.unblocked(), decoder.unblocked()), (Some(4), None));
    assert_eq!(decode(&mut decoder, 4, &section), Ok(Some(fields(&[AUTHORITY, PATH]))));
    // The insertions were confirmed when they arrived, then the section.
    assert_eq!(output(&mut decoder), bytes("02 84"));
    // B.3
    let insertion = "4a63 7573 746f 6d2d 6b65 790c 6375 7374 6f6d 2d76 616c 7565";
    assert_eq!(receive(&mut decoder, insertion), Ok(()));
    assert_eq!(decoder.table().size(), 160);
    assert_eq!(output(&mut decoder), bytes("01"));
    // B.4, with the section read instead of given up.
    assert_eq!(receive(&mut decoder, "02"), Ok(()));
    let all = fields(&[AUTHORITY, PATH, CUSTOM, AUTHORITY]);
    assert_eq!((entries(decoder.table()), decoder.table().size()), (all, 217));
    let list = fields(&[AUTHORITY, (":path", "/"), CUSTOM]);
    assert_eq!(decode(&mut decoder, 8, &bytes("0500 80 c1 81")), Ok(Some(list)));
    decoder.cancel(8);
    assert_eq!(output(&mut decoder), bytes("01 88 48"));
    // B.5
    let insertion = "810d 6375 7374 6f6d 2d76 616c 7565 32";
    assert_eq!(receive(&mut decoder, insertion), Ok(()));
    let all = fields(&[PATH, CUSTOM, AUTHORITY, CUSTOM_2]);
    assert_eq!((entries(decoder.table()), decoder.table().size()), (all, 215));
}

#[test]
fn the_encoder_writes_the_examples() {
    let mut encoder = Encoder::new(200, false);
    encoder.limit(220, 1);
    let section = encode(&mut encoder, 4, &[AUTHORITY, PATH], Indexing::Incremental);
    assert_eq!(section, bytes("0381 10 11"));
    let expected = "3fa901 c00f 7777 772e 6578 616d 706c 652e 636f 6d
                    c10c 2f73 616d 706c 652f 7061 7468";
    assert_eq!(instructions(&mut encoder), bytes(expected));
    // Another stream may not be blocked, one that is may use all.
    let section = encode(&mut encoder, 8, &[AUTHORITY, CUSTOM], Indexing::Incremental);
    assert_eq!(section[..2], bytes("0000"));
    let expected = "4a63 7573 746f 6d2d 6b65 790c 6375 7374 6f6d 2d76 616c 7565";
    assert_eq!(instructions(&mut encoder), bytes(expected));
    let section = encode(&mut encoder, 4, &[CUSTOM], Indexing::Incremental);
    assert_eq!(section, bytes("0400 80"));
    // Nothing is confirmed, so nothing can be evicted.
    let section = encode(&mut encoder, 4, &[CUSTOM_2, CUSTOM_2], Indexing::Incremental);
    assert_eq!((section[..2].to_vec(), instructions(&mut encoder)), (bytes("0000"), bytes("")));
    assert_eq!(encoder.receive(&bytes("84 01")), Ok(()));
    // The first section and the insertion are confirmed, the second section of stream 4 is not.
    let section = encode(&mut encoder, 8, &[AUTHORITY, CUSTOM], Indexing::Incremental);
    assert_eq!(section, bytes("0400 82 80"));
    assert_eq!(encoder.receive(&bytes("84 48")), Ok(()));
    let section = encode(&mut encoder, 12, &[CUSTOM_2], Indexing::Incremental);
    assert_eq!(section, bytes("0580 10"));
    let expected = "800d 6375 7374 6f6d 2d76 616c 7565 32";
    assert_eq!(instructions(&mut encoder), bytes(expected));
    assert_eq!(entries(encoder.table()), fields(&[PATH, CUSTOM, CUSTOM_2]));
}

#[test]
fn representations_without_a_table() {
    let mut encoder = Encoder::new(0, true);
    encoder.limit(4096, 16);
    assert!(!encoder.has_output());
    for (field, how, expected) in [
        ((":status", "200"), Indexing::Incremental, "0000 d9"),
        ((":status", "418"), Indexing::Incremental, "0000 5f09 83682f7f"),
        (("Server", "a"), Indexing::Incremental, "0000 5f4d 811f"),
        (("authorization", "a"), Indexing::Never, "0000 7f45 811f"),
        (("X-A", "b"), Indexing::Never, "0000 33 782d61 818f"),
        (("x-a", "b"), Indexing::Without, "0000 2b f2b18f 818f"),
    ] {
        let section = encode(&mut encoder, 0, &[field], how);
        if !field.0.starts_with("x-") {
            assert_eq!(section, bytes(expected), "{field:?}");
        }
        let (mut decoder, name) = (Decoder::new(0, 0), field.0.to_ascii_lowercase());
        let mut never = Vec::new();
        let decoded = decoder.decode(0, &section, &mut |field| never.push(field.never_indexed));
        assert_eq!((decoded, never), (Ok(Decoded::Done), vec![how == Indexing::Never]));
        let list = fields(&[(&name, field.1)]);
        assert_eq!(decode(&mut decoder, 0, &section), Ok(Some(list)));
    }
}

#[test]
fn broken_sections_are_refused() {
    use DecodeError::*;
    for (hex, expected) in [
        ("", Truncated),
        ("00", Truncated),
        ("0000 5f", Truncated),
        ("0000 5f0a", Truncated),
        ("0000 5102 61", Truncated),
        ("0000 ff24", Index),
        ("0000 80", Index),
        ("0000 10", Index),
        ("0000 4001 61", Index),
        ("0000 0001 61", Index),
        ("0000 ffffffffffffffffffff01", Integer),
        ("0000 5184 ffffffff", Huffman),
        ("0080", Base),
        ("0282", Base),
        // Entry 0 is there, but the section does not say so; entry 1 is not there.
        ("0001 80", Index),
        ("0200 81", Index),
        ("0200 10", Index),
        // 2 x 6 is the range, 1 + 6 the largest count.
        ("0d00", RequiredInsertCount),
        ("0900", RequiredInsertCount),
        ("0300", BlockedStreams),
    ] {
        let mut decoder = Decoder::new(220, 0);
        assert_eq!(receive(&mut decoder, "3fbd01 c00161"), Ok(()));
        assert_eq!(decode(&mut decoder, 0, &bytes(hex)).err(), Some(expected), "{hex}");
    }
    let mut decoder = Decoder::new(0, 100);
    assert_eq!(decode(&mut decoder, 0, &bytes("0100")).err(), Some(RequiredInsertCount));
    let mut decoder = Decoder::new(64, 2);
    for (stream, expected) in [(0, None), (4, None), (4, None), (8, Some(BlockedStreams))] {
        assert_eq!(decode(&mut decoder, stream, &bytes("0200 80")).err(), expected);
    }
    decoder.cancel(4);
    assert_eq!(decode(&mut decoder, 8, &bytes("0200 80")), Ok(None));
}

/// The count is sent modulo twice the number of entries: it is read when the section arrives, not when it is decoded.
#[test]
fn a_section_that_waits_keeps_its_count() {
    let mut decoder = Decoder::new(64, 1);
    assert_eq!(decode(&mut decoder, 0, &bytes("0200 80")), Ok(None));
    assert_eq!(receive(&mut decoder, "3f21 c00161 c00162 c00163"), Ok(()));
    assert_eq!(decoder.unblocked(), Some(0));
    // Its entry is evicted: a mistake of the encoder, and not a count of 5.
    assert_eq!(decode(&mut decoder, 0, &bytes("0200 80")), Err(DecodeError::Index));
}

#[test]
fn broken_streams_are_refused() {
    use EncoderStreamError::*;
    for (hex, expected) in [
        ("3fbe01", Err(Capacity)),
        ("c00161", Err(EntrySize)),
        ("3f21 c001 61", Ok(())),
        ("3f21 c03f", Err(EntrySize)),
        ("3f21 ff2401 61", Err(Index)),
        ("3f21 8001 61", Err(Index)),
        ("3f21 00", Err(Index)),
        ("3f21 c001 61 01", Err(Index)),
        ("3f21 c001 61 00", Ok(())),
        ("3f21 c084 ffffffff", Err(Huffman)),
        ("3f21 1fffffffffffffffffffff", Err(Integer)),
        // 32 + 11 + 21 bytes fit into 64, one more does not.
        ("3f21 4b61616161616161616161611561616161616161616161616161616161616161616161", Ok(())),
        (
            "3f21 4b6161616161616161616161166161616161616161616161616161616161616161616161",
            Err(EntrySize),
        ),
    ] {
        assert_eq!(receive(&mut Decoder::new(220, 0), hex), expected, "{hex}");
    }
    let mut decoder = Decoder::new(220, 0);
    let many = [&bytes("3fbd01 c00161")[..], &[0; 9]].concat();
    assert_eq!(decoder.receive(&many, &mut Budget::new(10)), Err(TooMany));
    for (hex, expected) in [
        ("80", Err(DecoderStreamError::Acknowledgment)),
        ("00", Err(DecoderStreamError::Increment)),
        ("01", Err(DecoderStreamError::Increment)),
        ("40", Ok(())),
        ("7f", Ok(())),
        ("7fffffffffffffffffffff", Err(DecoderStreamError::Integer)),
    ] {
        assert_eq!(Encoder::new(0, false).receive(&bytes(hex)), expected, "{hex}");
    }
}

/// An instruction in progress is no larger than its strings may be, and a reference costs no memory.
#[test]
fn memory_has_limits() {
    let mut decoder = Decoder::new(4096, 0);
    assert_eq!(receive(&mut decoder, "3fe11f"), Ok(()));
    let mut insertion = bytes("ffa1800000 ff e1 3f");
    insertion[1..5].copy_from_slice(&[0x1d, 0x7f, 0xa1, 0x1e]);
    insertion.truncate(5);
    insertion.resize(4000, b'x');
    assert_eq!(decoder.receive(&insertion, &mut Budget::new(9)), Ok(()));
    assert!(decoder.capacity() < 8192, "{}", decoder.capacity());
    insertion.resize(5 + 4000, b'x');
    assert_eq!(decoder.receive(&insertion[4000..], &mut Budget::new(9)), Ok(()));
    assert_eq!(decoder.table().inserted(), 1);
    let mut section = bytes("0200");
    section.resize(16_000, 0x80);
    let mut total = 0;
    let decoded = decoder.decode(0, &section, &mut |field| total += field.value.len());
    assert_eq!((decoded, total), (Ok(Decoded::Done), 4000 * 15_998));
    assert!(decoder.capacity() < 32_768, "{}", decoder.capacity());
}

#[test]
fn counts_wrap() {
    let (mut encoder, mut decoder) = (Encoder::new(128, false), Decoder::new(128, 1));
    encoder.limit(128, 1);
    for number in 0u64..100 {
        let value = number.to_string();
        let list = [("x-a", value.as_str()), ("x-b", "same")];
        let section = encode(&mut encoder, 4 * number, &list, Indexing::Incremental);
        assert_eq!(decoder.receive(&instructions(&mut encoder), &mut Budget::new(9)), Ok(()));
        assert_eq!(decode(&mut decoder, 4 * number, &section), Ok(Some(fields(&list))));
        assert_eq!(encoder.receive(&output(&mut decoder)), Ok(()));
    }
    assert!(decoder.table().inserted() > 100);
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        select(vec!["content-type", ":path", "x-a", "date", "cookie", ":status", "etag"])
            .prop_map(str::to_owned),
        "[a-z0-9_-]{0,12}",
    ]
}

/// A step of two ends whose bytes are on their way for any time.
#[derive(Clone, Debug)]
enum Step {
    /// A section of a stream.
    Send(u64, Vec<(String, String, u8)>),
    /// Bytes of the encoder stream arrive.
    Insertions(usize),
    /// The first section of the waiting streams arrives, of this one in their order.
    Section(usize),
    /// The reader of a stream gives it up.
    Cancel(u64),
    /// Bytes of the decoder stream arrive.
    Confirmations(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let field = (name(), "[ -~]{0,40}", 0u8..4);
    prop_oneof![
        4 => (0u64..8, vec(field, 0..8)).prop_map(|(stream, list)| Step::Send(4 * stream, list)),
        4 => (1usize..100).prop_map(Step::Insertions),
        4 => any::<usize>().prop_map(Step::Section),
        1 => (0u64..8).prop_map(|stream| Step::Cancel(4 * stream)),
        3 => (1usize..20).prop_map(Step::Confirmations),
    ]
}

/// Both ends, and the bytes between them.
struct Ends {
    encoder: Encoder,
    decoder: Decoder,
    to_decoder: VecDeque<u8>,
    to_encoder: VecDeque<u8>,
    /// Sections that were sent and not decoded, with their fields.
    sections: Vec<(u64, Vec<u8>, Fields)>,
    cancelled: Vec<u64>,
}

impl Ends {
    fn step(&mut self, step: Step) {
        match step {
            Step::Send(stream, _) if self.cancelled.contains(&stream) => {}
            Step::Send(stream, list) => self.send(stream, list),
            Step::Insertions(count) => self.insertions(count),
            Step::Section(which) => self.section(which),
            Step::Cancel(stream) => {
                if self.sections.iter().any(|(of, ..)| *of == stream) {
                    self.sections.retain(|(of, ..)| *of != stream);
                    self.decoder.cancel(stream);
                    self.cancelled.push(stream);
                }
            }
            Step::Confirmations(count) => {
                self.to_encoder.extend(output(&mut self.decoder));
                let count = count.min(self.to_encoder.len());
                let piece: Vec<u8> = self.to_encoder.drain(..count).collect();
                assert_eq!(self.encoder.receive(&piece), Ok(()));
            }
        }
    }

    fn send(&mut self, stream: u64, list: Vec<(String, String, u8)>) {
        let (mut lines, mut section) = (Vec::new(), Vec::new());
        self.encoder.begin(stream);
        for (name, value, how) in &list {
            let how = match how {
                0 => Indexing::Without,
                1 => Indexing::Never,
                _ => Indexing::Incremental,
            };
            let (known, name) = (Known::of(name.as_bytes()), name.as_bytes());
            self.encoder.field(known, name, value.as_bytes(), how, &mut lines);
        }
        self.encoder.finish(&mut section);
        section.extend_from_slice(&lines);
        self.to_decoder.extend(instructions(&mut self.encoder));
        let list = list.into_iter().map(|(name, value, _)| (name, value)).collect();
        self.sections.push((stream, section, list));
    }

    fn insertions(&mut self, count: usize) {
        let count = count.min(self.to_decoder.len());
        let piece: Vec<u8> = self.to_decoder.drain(..count).collect();
        assert_eq!(self.decoder.receive(&piece, &mut Budget::new(1000)), Ok(()));
        while let Some(stream) = self.decoder.unblocked() {
            let at = self.sections.iter().position(|(of, ..)| *of == stream);
            let (_, section, list) = self.sections.remove(at.expect("a blocked section"));
            assert_eq!(decode(&mut self.decoder, stream, &section), Ok(Some(list)));
        }
    }

    /// Sections of one stream are decoded in their order.
    fn section(&mut self, which: usize) {
        let Some(index) = which.checked_rem(self.sections.len()) else { return };
        let stream = self.sections[index].0;
        let at = self.sections.iter().position(|(of, ..)| *of == stream).unwrap_or(0);
        let (_, section, list) = self.sections[at].clone();
        match decode(&mut self.decoder, stream, &section) {
            Ok(None) => {}
            outcome => {
                assert_eq!(outcome, Ok(Some(list)));
                self.sections.remove(at);
            }
        }
    }
}

proptest! {
    /// Whatever the order of arrival: sections decode to their fields, and no more streams are blocked than allowed.
    #[test]
    fn sections_come_back_in_any_order(
        own in 0u32..600, peer in 0u32..600, blocked in 0u32..4, huffman: bool,
        steps in vec(step(), 1..60),
    ) {
        let mut encoder = Encoder::new(own, huffman);
        encoder.limit(u64::from(peer), u64::from(blocked));
        let mut ends = Ends {
            encoder,
            decoder: Decoder::new(peer, blocked),
            to_decoder: VecDeque::new(),
            to_encoder: VecDeque::new(),
            sections: Vec::new(),
            cancelled: Vec::new(),
        };
        steps.into_iter().for_each(|step| ends.step(step));
        ends.insertions(usize::MAX);
        while !ends.sections.is_empty() {
            ends.section(0);
        }
        prop_assert_eq!(entries(ends.encoder.table()), entries(ends.decoder.table()));
        ends.step(Step::Confirmations(usize::MAX));
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        insertions: Vec<u8>, section: Vec<u8>, confirmations: Vec<u8>,
    ) {
        let mut decoder = Decoder::new(512, 2);
        let _ = receive(&mut decoder, "3fe103 c00161 c00162");
        let _ = decoder.receive(&insertions, &mut Budget::new(1000));
        let _ = decoder.decode(0, &section, &mut |_| {});
        let _ = Encoder::new(512, true).receive(&confirmations);
    }

    #[test]
    fn data_of_the_fuzzer(data: Vec<u8>) {
        crate::fuzzing::fuzz_qpack(&data);
    }
}
