//! Chunked bodies, whole and in pieces.
use super::*;
use proptest::prelude::*;

/// Decodes in pieces of `piece` bytes; returns the body and the bytes behind it.
fn decode(input: &[u8], piece: usize) -> Result<(Vec<u8>, usize, bool), ChunkError> {
    let mut decoder = ChunkedDecoder::new(64);
    let mut body = Vec::new();
    let mut at = 0;
    while at < input.len() && !decoder.is_done() {
        let end = (at + piece).min(input.len());
        let step = decoder.decode(&input[at..end])?;
        body.extend_from_slice(&input[at..end][step.data]);
        at += step.consumed;
    }
    Ok((body, at, decoder.is_done()))
}

/// Decodes in place, in pieces of `piece` bytes.
fn gather(input: &[u8], piece: usize) -> Result<String, ChunkError> {
    let mut decoder = ChunkedDecoder::new(64);
    let (mut body, mut rest) = (Vec::new(), &b"\xe2\x80\xa6"[..]);
    let mut at = 0;
    while at < input.len() && !decoder.is_done() {
        let end = (at + piece).min(input.len());
        let mut buffer = input[at..end].to_vec();
        let length = decoder.gather(&mut buffer)?;
        body.extend_from_slice(&buffer[..length]);
        if decoder.is_done() {
            rest = &input[end - (buffer.len() - length)..];
        }
        assert!(decoder.is_done() || buffer.len() == length);
        at = end;
    }
    decoder.gather(&mut Vec::new())?;
    Ok(String::from_utf8([&body, &b"|"[..], rest].concat()).unwrap())
}

fn check(input: &str, expected: Result<&str, ChunkError>) {
    for piece in 1..=input.len() {
        let found = decode(input.as_bytes(), piece).map(|(body, at, done)| {
            let rest = if done { &input[at..] } else { "…" };
            format!("{}|{rest}", String::from_utf8(body).unwrap())
        });
        assert_eq!(found, expected.map(str::to_owned), "{input:?} in pieces of {piece}");
        let found = gather(input.as_bytes(), piece);
        assert_eq!(found, expected.map(str::to_owned), "{input:?} in place, in pieces of {piece}");
    }
}

#[test]
fn bodies_are_decoded() {
    check("4\r\nabcd\r\n0\r\n\r\nGET", Ok("abcd|GET"));
    check("0\r\n\r\n", Ok("|"));
    check("00a;x=\"y\" ;z\r\n0123456789\r\n1 \r\nb\r\n000\r\n\r\n", Ok("0123456789b|"));
    check("4\r\nabcd\r\n0\r\nA: b\r\nC: d\r\n\r\nx", Ok("abcd|x"));
    check("4\r\nab", Ok("ab|…"));
    check("7fffffffffffffff\r\nab", Ok("ab|…"));
}

#[test]
fn broken_bodies_are_refused() {
    use ChunkError::*;
    for (input, error) in [
        ("4\r\nSEE-THIS\r\n0\r\n\r\n", LineEnd),
        ("4\nabcd\r\n", LineEnd),
        ("4;a\nabcd\r\n", LineEnd),
        ("4\r\nabcd\n0\r\n\r\n", LineEnd),
        ("4\rabcd", LineEnd),
        ("\r\n", Size),
        (";a\r\n", Size),
        ("-1\r\n", Size),
        ("0x4\r\nabcd\r\n", Extension),
        (" 4\r\n", Size),
        ("8000000000000000\r\n", Size),
        ("10000000000000000\r\n", Size),
        ("00000000000000000\r\n", Size),
        ("4;a\0\r\n", Extension),
        ("0\r\nA: b\n\r\n", LineEnd),
        ("0\r\nA\r\n\r\n", Trailer),
        ("0\r\n A: b\r\n\r\n", Trailer),
    ] {
        let error = if input.starts_with("0x") { Size } else { error };
        check(input, Err(error));
    }
    check(&format!("4;{}\r\n", "a".repeat(2000)), Err(Extension));
    check(&format!("0\r\nA: {}\r\n\r\n", "a".repeat(64)), Err(TrailerTooLarge));
}

#[test]
fn trailers_become_fields() {
    let mut decoder = ChunkedDecoder::new(100);
    let step = decoder.decode(b"0\r\nEtag: a\r\nX-B: c \r\n\r\n").unwrap();
    assert!(step.done);
    let mut headers = Headers::new();
    decoder.trailers(&mut headers);
    let mut out = Vec::new();
    write_last_chunk(&headers, &mut out);
    assert_eq!(out, b"0\r\nEtag: a\r\nX-B: c\r\n\r\n");
}

#[test]
fn sizes_are_written() {
    for (size, expected) in [(1, "1\r\n"), (0x1a2b, "1a2b\r\n"), (u64::MAX, "ffffffffffffffff\r\n")]
    {
        assert_eq!(ChunkHeader::new(size).as_bytes(), expected.as_bytes());
    }
}

proptest! {
    #[test]
    fn encoded_bodies_are_decoded(
        chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 0..6),
        piece in 1usize..50,
    ) {
        let mut encoded = Vec::new();
        for chunk in &chunks {
            encoded.extend_from_slice(ChunkHeader::new(chunk.len() as u64).as_bytes());
            encoded.extend_from_slice(chunk);
            encoded.extend_from_slice(CHUNK_END);
        }
        encoded.extend_from_slice(LAST_CHUNK);
        prop_assert_eq!(decode(&encoded, piece), Ok((chunks.concat(), encoded.len(), true)));
        crate::fuzzing::fuzz_chunked(&encoded);
    }

    #[test]
    fn pieces_do_not_matter(input in "[0-3a;\r\n: ]{0,30}", piece in 1usize..9) {
        prop_assert_eq!(decode(input.as_bytes(), piece), decode(input.as_bytes(), 100));
        crate::fuzzing::fuzz_chunked(input.as_bytes());
    }
}
