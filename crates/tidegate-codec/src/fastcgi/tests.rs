//! Requests as records, and an application's records in pieces of any size.

use proptest::prelude::*;

use super::*;

fn record(kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
    let mut bytes = header(kind, content.len()).to_vec();
    bytes[6] = padding;
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len() + usize::from(padding), b'P');
    bytes
}

fn end() -> Vec<u8> {
    record(END_REQUEST, &[0; 8], 0)
}

/// Returns the result of the decoder for bytes that arrive in pieces of at most `piece`.
fn decoded(bytes: &[u8], piece: usize) -> (Result<(), RecordError>, Vec<u8>, Decoder) {
    let mut decoder = Decoder::new();
    let mut out = Vec::new();
    for part in bytes.chunks(piece) {
        let start = out.len();
        out.extend_from_slice(part);
        match decoder.decode(&mut out, start) {
            Ok(begin) => drop(out.drain(..begin)),
            Err(error) => return (Err(error), out, decoder),
        }
    }
    (Ok(()), out, decoder)
}

fn check(name: &str, bytes: &[u8], expected: Result<&str, RecordError>, stderr: &str, clean: bool) {
    for piece in [1, 7, 8, 9, 100_000] {
        let (outcome, out, mut decoder) = decoded(bytes, piece);
        let text = String::from_utf8_lossy(&out).into_owned();
        assert_eq!(outcome.map(|()| text.as_str()), expected, "{name} by {piece}");
        assert_eq!(decoder.is_clean(), clean, "{name} by {piece}");
        assert_eq!(decoder.take_stderr().0, stderr.as_bytes(), "{name} by {piece}");
    }
}

#[test]
fn only_output_remains() {
    let two = [record(STDOUT, b"Status: 200\r\n\r\n", 1), record(STDOUT, b"body", 0), end()];
    check("two records", &two.concat(), Ok("Status: 200\r\n\r\nbody"), "", true);
    let mixed = [record(STDERR, b"oh ", 3), record(STDOUT, b"a", 7), record(STDERR, b"no", 0)];
    check("errors in between", &mixed.concat(), Ok("a"), "oh no", false);
    let closed = [record(STDOUT, b"a", 0), record(STDOUT, b"", 0), end()];
    check("closed streams", &closed.concat(), Ok("a"), "", true);
    let padded = [record(STDOUT, b"a", 255), record(END_REQUEST, &[0; 8], 9)];
    check("long padding", &padded.concat(), Ok("a"), "", true);
    check("cut in the padding", &record(STDOUT, b"a", 9)[..12], Ok("a"), "", false);
    let excess = [record(STDOUT, b"a", 0), end(), b"x".to_vec()];
    check("bytes behind the end", &excess.concat(), Ok("a"), "", false);
}

#[test]
fn the_first_output_is_not_moved() {
    let check = |name: &str, held: &[u8], records: &[Vec<u8>], expected: (usize, &str)| {
        let mut buffer = [held, &records.concat()].concat();
        let begin = Decoder::new().decode(&mut buffer, held.len()).expect("records");
        let text = std::str::from_utf8(&buffer[begin..]).expect("text");
        assert_eq!((begin, text), expected, "{name}");
    };
    let (one, two) = (record(STDOUT, b"one", 5), record(STDOUT, b"two", 0));
    check("one record", b"", std::slice::from_ref(&one), (8, "one"));
    check("two records", b"", &[one.clone(), two.clone()], (8, "onetwo"));
    check("behind errors", b"", &[record(STDERR, b"oh no", 0), one.clone()], (21, "one"));
    check("behind bytes", b"held", &[one, two], (0, "heldonetwo"));
    check("nothing", b"", &[record(STDERR, b"oh no", 0)], (0, ""));
}

#[test]
fn other_bytes_are_refused() {
    let mut version = record(STDOUT, b"a", 0);
    version[0] = 2;
    check("version", &version, Err(RecordError::Version(2)), "", false);
    let mut id = record(STDOUT, b"a", 0);
    id[2] = 1;
    check("request", &id, Err(RecordError::RequestId(257)), "", false);
    check("kind", &record(STDIN, b"a", 0), Err(RecordError::Kind(STDIN)), "", false);
    check("end", &record(END_REQUEST, &[0; 7], 0), Err(RecordError::EndLength(7)), "", false);
    let busy = record(END_REQUEST, &[0, 0, 0, 0, 2, 0, 0, 0], 0);
    check("overloaded", &busy, Err(RecordError::Refused(2)), "", false);
    check("HTTP", b"HTTP/1.1 200 OK\r\n\r\n", Err(RecordError::Version(b'H')), "", false);
}

#[test]
fn a_huge_error_stream_is_cut() {
    let mut decoder = Decoder::new();
    let mut taken = Vec::new();
    for _ in 0..4 {
        let mut bytes = record(STDERR, &vec![b'e'; 60_000], 0);
        assert_eq!(decoder.decode(&mut bytes, 0), Ok(0));
        assert!(bytes.is_empty());
        let (text, is_cut) = decoder.take_stderr();
        taken.push((text.len(), is_cut));
    }
    assert_eq!(taken, [(60_000, false), (STDERR_BYTES_MAX - 60_000, true), (0, false), (0, false)]);
}

type Pair = (Vec<u8>, Vec<u8>);

/// Decodes the parameters of a request.
fn params(mut bytes: &[u8]) -> (u8, Vec<Pair>) {
    let mut content = Vec::new();
    let mut flags = 0;
    while !bytes.is_empty() {
        let length = usize::from(u16::from_be_bytes([bytes[4], bytes[5]]));
        let body = &bytes[8..8 + length];
        match bytes[1] {
            BEGIN_REQUEST => flags = body[2],
            _ => content.extend_from_slice(body),
        }
        assert_eq!(bytes[1] == PARAMS && length == 0, bytes.len() == 8, "one end, at the end");
        bytes = &bytes[8 + length + usize::from(bytes[6])..];
    }
    let mut pairs = Vec::new();
    let mut at = 0;
    let length = |at: &mut usize| {
        let long = content[*at] & 0x80 != 0;
        let bytes = if long { 4 } else { 1 };
        let raw = content[*at..*at + bytes].iter().fold(0, |sum, b| sum << 8 | usize::from(*b));
        *at += bytes;
        if long { raw & 0x7fff_ffff } else { raw }
    };
    while at < content.len() {
        let (name, value) = (length(&mut at), length(&mut at));
        let start = at;
        at += name + value;
        pairs.push((content[start..start + name].to_vec(), content[start + name..at].to_vec()));
    }
    (flags, pairs)
}

proptest! {
    #[test]
    fn parameters_arrive(
        pairs in prop::collection::vec((
            prop::collection::vec(any::<u8>(), 0..200),
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..300),
                prop::collection::vec(any::<u8>(), 60_000..70_000),
            ],
        ), 0..6),
        keep: bool,
    ) {
        let mut out = b"before".to_vec();
        let mut writer = ParamsWriter::begin(keep, &mut out);
        for (name, value) in &pairs {
            writer.pairs(|out| pair(name, out, |out| out.extend_from_slice(value)));
        }
        writer.end();
        prop_assert_eq!(params(&out[6..]), (u8::from(keep), pairs));
    }

    #[test]
    fn pieces_do_not_matter(
        records in prop::collection::vec((
            prop_oneof![Just(STDOUT), Just(STDERR)],
            prop::collection::vec(any::<u8>(), 0..50),
            any::<u8>(),
        ), 0..8),
        piece in 1usize..64,
    ) {
        let mut bytes = Vec::new();
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        for (kind, content, padding) in &records {
            bytes.extend(record(*kind, content, *padding));
            if *kind == STDOUT { &mut stdout } else { &mut stderr }.extend_from_slice(content);
        }
        bytes.extend(end());
        let (outcome, out, mut decoder) = decoded(&bytes, piece);
        prop_assert_eq!(outcome, Ok(()));
        prop_assert_eq!(out, stdout);
        prop_assert_eq!(decoder.take_stderr(), (stderr, false));
        prop_assert!(decoder.is_clean() && decoder.is_ended());
    }
}
