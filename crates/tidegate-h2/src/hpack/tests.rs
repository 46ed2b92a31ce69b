//! RFC 7541 appendix C, the properties of both directions, and what is refused.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tidegate_codec::Known;

use tidegate_fields::table::Table;

use super::{DecodeError, Decoder, Encoder, Indexing};

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.bytes().filter_map(|digit| (digit as char).to_digit(16).map(|d| d as u8)).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<(String, String)>, DecodeError> {
    let mut fields = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    decoder.decode(block, &mut |field| {
        assert_eq!(field.known, Known::of(field.name), "{:?}", field.name);
        fields.push((text(field.name), text(field.value)));
    })?;
    Ok(fields)
}

fn fields(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

/// Entries of a table, the newest first.
fn entries(table: &Table) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (0..table.len())
        .filter_map(|index| table.entry(index))
        .map(|field| (text(field.name), text(field.value)))
        .collect()
}

#[test]
fn fields_of_appendix_c2() {
    let key = fields(&[("custom-key", "custom-header")]);
    for (hex, expected, kept) in [
        ("400a637573746f6d2d6b65790d637573746f6d2d686561646572", key.clone(), key),
        ("040c2f73616d706c652f70617468", fields(&[(":path", "/sample/path")]), vec![]),
        ("100870617373776f726406736563726574", fields(&[("password", "secret")]), vec![]),
        ("82", fields(&[(":method", "GET")]), vec![]),
    ] {
        let mut decoder = Decoder::new();
        assert_eq!(decode(&mut decoder, &bytes(hex)), Ok(expected));
        assert_eq!(entries(decoder.table()), kept);
    }
    let mut never = Vec::new();
    Decoder::new()
        .decode(&bytes("100870617373776f726406736563726574"), &mut |field| {
            never.push(field.never_indexed);
        })
        .expect("the example is valid");
    assert_eq!(never, [true]);
}

/// One message of C.3 to C.6: its block, its fields, and the table's size and entries behind it.
type Example<'a> = (&'a str, &'a [(&'a str, &'a str)], usize, &'a [(&'a str, &'a str)]);

fn check_examples(table_bytes: u32, huffman: bool, examples: &[Example<'_>]) {
    let mut decoder = Decoder::new();
    decoder.announce(table_bytes);
    let mut encoder = Encoder::new(table_bytes, huffman);
    // The examples begin with the smaller table, and have no size update.
    let mut update = Vec::new();
    encoder.begin(&mut update);
    assert_eq!(decode(&mut decoder, &update), Ok(vec![]));
    for (hex, list, size, table) in examples {
        let block = bytes(hex);
        assert_eq!(decode(&mut decoder, &block), Ok(fields(list)));
        let mut out = Vec::new();
        encoder.begin(&mut out);
        for (name, value) in *list {
            let (known, name) = (Known::of(name.as_bytes()), name.as_bytes());
            encoder.field(known, name, value.as_bytes(), Indexing::Incremental, &mut out);
        }
        assert_eq!(out, block);
        for found in [decoder.table(), &encoder.table()] {
            assert_eq!((found.size(), entries(found)), (*size, fields(table)));
        }
    }
}

const HOST: (&str, &str) = (":authority", "www.example.com");
const NO_CACHE: (&str, &str) = ("cache-control", "no-cache");
const CUSTOM: (&str, &str) = ("custom-key", "custom-value");
const GET: (&str, &str) = (":method", "GET");

fn requests<'a>(blocks: [&'a str; 3]) -> [Example<'a>; 3] {
    const HTTP: (&str, &str) = (":scheme", "http");
    const ROOT: (&str, &str) = (":path", "/");
    const HTTPS: (&str, &str) = (":scheme", "https");
    const INDEX: (&str, &str) = (":path", "/index.html");
    [
        (blocks[0], &[GET, HTTP, ROOT, HOST], 57, &[HOST]),
        (blocks[1], &[GET, HTTP, ROOT, HOST, NO_CACHE], 110, &[NO_CACHE, HOST]),
        (blocks[2], &[GET, HTTPS, INDEX, HOST, CUSTOM], 164, &[CUSTOM, NO_CACHE, HOST]),
    ]
}

#[test]
fn requests_of_appendix_c3_without_huffman() {
    check_examples(
        4096,
        false,
        &requests([
            "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "8286 84be 5808 6e6f 2d63 6163 6865",
            "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
        ]),
    );
}

#[test]
fn requests_of_appendix_c4_with_huffman() {
    check_examples(
        4096,
        true,
        &requests([
            "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
            "8286 84be 5886 a8eb 1064 9cbf",
            "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
        ]),
    );
}

fn responses<'a>(blocks: [&'a str; 3]) -> [Example<'a>; 3] {
    const S302: (&str, &str) = (":status", "302");
    const S307: (&str, &str) = (":status", "307");
    const S200: (&str, &str) = (":status", "200");
    const PRIVATE: (&str, &str) = ("cache-control", "private");
    const DATE: (&str, &str) = ("date", "Mon, 21 Oct 2013 20:13:21 GMT");
    const LATER: (&str, &str) = ("date", "Mon, 21 Oct 2013 20:13:22 GMT");
    const LOCATION: (&str, &str) = ("location", "https://www.example.com");
    const GZIP: (&str, &str) = ("content-encoding", "gzip");
    const COOKIE: (&str, &str) =
        ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1");
    [
        (blocks[0], &[S302, PRIVATE, DATE, LOCATION], 222, &[LOCATION, DATE, PRIVATE, S302]),
        (blocks[1], &[S307, PRIVATE, DATE, LOCATION], 222, &[S307, LOCATION, DATE, PRIVATE]),
        (blocks[2], &[S200, PRIVATE, LATER, LOCATION, GZIP, COOKIE], 215, &[COOKIE, GZIP, LATER]),
    ]
}

#[test]
fn responses_of_appendix_c5_without_huffman() {
    check_examples(
        256,
        false,
        &responses([
            "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a
             3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "4803 3330 37c1 c0bf",
            "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04
             677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49
             553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
        ]),
    );
}

#[test]
fn responses_of_appendix_c6_with_huffman() {
    check_examples(
        256,
        true,
        &responses([
            "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e
             919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
            "4883 640e ffc1 c0bf",
            "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7
             821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed
             4ee5 b106 3d50 07",
        ]),
    );
}

#[test]
fn broken_blocks_are_refused() {
    for (hex, expected) in [
        ("80", DecodeError::Index),
        ("be", DecodeError::Index),
        ("7e00", DecodeError::Index),
        ("ff", DecodeError::Truncated),
        ("ffffffffffff", DecodeError::Integer),
        ("400a6375", DecodeError::Truncated),
        ("4001", DecodeError::Truncated),
        // EOS, nine bits of padding, padding that is not of ones.
        ("0084ffffffff00", DecodeError::Huffman),
        ("0083fcffff00", DecodeError::Huffman),
        ("00811800", DecodeError::Huffman),
        ("3fe21f", DecodeError::SizeUpdate),
        ("8220", DecodeError::SizeUpdatePlace),
        ("202020", DecodeError::SizeUpdatePlace),
    ] {
        assert_eq!(decode(&mut Decoder::new(), &bytes(hex)), Err(expected), "{hex}");
    }
    assert_eq!(decode(&mut Decoder::new(), &bytes("203fe11f82")), Ok(fields(&[GET])));
}

#[test]
fn a_reduced_table_has_to_be_acknowledged() {
    let mut decoder = Decoder::new();
    decoder.announce(100);
    assert_eq!(decode(&mut decoder, &bytes("82")), Err(DecodeError::SizeUpdateMissing));
    let mut decoder = Decoder::new();
    decoder.announce(100);
    assert_eq!(decode(&mut decoder, &bytes("3f4582")), Ok(fields(&[GET])));
    assert_eq!(decode(&mut decoder, &bytes("3f46")), Err(DecodeError::SizeUpdate));
    decoder.announce(8192);
    assert_eq!(decode(&mut decoder, &bytes("82")), Ok(fields(&[GET])));
}

#[test]
fn the_encoder_sends_the_smallest_and_the_present_size() {
    let mut encoder = Encoder::new(4096, false);
    let mut begin = |limits: &[u32]| {
        limits.iter().for_each(|limit| encoder.limit(*limit));
        let mut out = Vec::new();
        encoder.begin(&mut out);
        out
    };
    assert_eq!(begin(&[]), bytes(""));
    assert_eq!(begin(&[4096]), bytes(""));
    assert_eq!(begin(&[65536]), bytes(""));
    assert_eq!(begin(&[100]), bytes("3f45"));
    assert_eq!(begin(&[0, 100]), bytes("203f45"));
    assert_eq!(begin(&[100]), bytes(""));
    let mut encoder = Encoder::new(0, false);
    for (limit, expected) in [(None, ""), (Some(8192), ""), (Some(100), "20"), (Some(50), "")] {
        limit.into_iter().for_each(|limit| encoder.limit(limit));
        let mut out = Vec::new();
        encoder.begin(&mut out);
        assert_eq!(out, bytes(expected));
    }
}

#[test]
fn secrets_are_never_indexed_and_names_are_lower_case() {
    for (indexing, expected) in [
        (Indexing::Never, "1f0801 61 0003 782d6101 62"),
        (Indexing::Without, "0f0801 61 0003 782d6101 62"),
    ] {
        let mut encoder = Encoder::new(4096, false);
        let mut out = Vec::new();
        encoder.field(Known::Authorization, b"Authorization", b"a", indexing, &mut out);
        encoder.field(Known::Other, b"X-A", b"b", Indexing::Without, &mut out);
        assert_eq!(out, bytes(expected));
        assert_eq!(encoder.table().len(), 0);
    }
}

/// The HPACK bomb: one large entry, then thousands of one-byte references to it.
#[test]
fn references_cost_no_memory() {
    let mut decoder = Decoder::new();
    let mut block = Vec::new();
    Encoder::new(4096, false).field(
        Known::Other,
        b"a",
        &[b'x'; 4000],
        Indexing::Incremental,
        &mut block,
    );
    block.resize(block.len() + 16_000, 0xbe);
    let mut total = 0;
    let outcome = decoder.decode(&block, &mut |field| total += field.value.len());
    assert_eq!((outcome, total), (Ok(()), 4000 * 16_001));
    assert!(decoder.capacity() < 16_384, "{}", decoder.capacity());
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        select(vec!["content-type", ":path", "x-a", "date", "cookie", ":status", "etag"])
            .prop_map(str::to_owned),
        "[a-z0-9_-]{0,12}",
    ]
}

proptest! {
    #[test]
    fn blocks_come_back_whatever_the_sizes_of_tables(
        table_bytes in prop_oneof![Just(0), 0u32..600], huffman: bool,
        blocks in vec((
            proptest::option::of(0u32..600),
            vec((name(), "[ -~]{0,60}", 0u8..3), 0..12),
        ), 1..12),
    ) {
        let mut encoder = Encoder::new(table_bytes, huffman);
        let mut decoder = Decoder::new();
        for (limit, list) in blocks {
            if let Some(limit) = limit {
                // The decoder takes the size once the encoder has acknowledged it: before the next block.
                decoder.announce(limit);
                encoder.limit(limit);
            }
            let mut block = Vec::new();
            encoder.begin(&mut block);
            for (name, value, indexing) in &list {
                let indexing = match indexing {
                    0 => Indexing::Incremental,
                    1 => Indexing::Without,
                    _ => Indexing::Never,
                };
                let known = Known::of(name.as_bytes());
                encoder.field(known, name.as_bytes(), value.as_bytes(), indexing, &mut block);
            }
            let expected: Vec<_> =
                list.into_iter().map(|(name, value, _)| (name, value)).collect();
            prop_assert_eq!(decode(&mut decoder, &block), Ok(expected));
            prop_assert_eq!(entries(&encoder.table()), entries(decoder.table()));
            prop_assert_eq!(encoder.table().size(), decoder.table().size());
        }
    }
}
