//! Bodies: lengths, chunks, and ranges of files that are in memory.

use super::*;
use crate::tests::wait;

fn file(content: &str) -> Arc<File> {
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, content.as_bytes()).unwrap();
    Arc::new(file)
}

/// Returns the chunks of a body: text, `<offset+length>` of a file, `!` for a flush.
fn pieces(body: &mut Body) -> Vec<String> {
    let mut pieces = Vec::new();
    while let Some(chunk) = wait(body.next()) {
        pieces.push(match chunk.unwrap() {
            Chunk::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Chunk::File(range) => format!("<{}+{}>", range.offset, range.length),
            Chunk::Flush => "!".to_owned(),
        });
    }
    pieces
}

#[test]
fn bodies_have_a_length_and_yield_their_chunks_once() {
    let range = |offset, length| FileRange::new(file("0123456789"), offset, length);
    let chunks = vec![
        Chunk::Bytes("ab".into()),
        Chunk::Flush,
        Chunk::File(range(2, 5)),
        Chunk::Bytes(Bytes::new()),
    ];
    for (mut body, length, expected) in [
        (Body::Empty, Some(0), &[][..]),
        (Body::default(), Some(0), &[]),
        (Body::from(Bytes::new()), Some(0), &[]),
        (Body::from(Bytes::from("abc")), Some(3), &["abc"]),
        (Body::File(range(3, 4)), Some(4), &["<3+4>"]),
        (Body::Chunks(chunks.into()), Some(7), &["ab", "!", "<2+5>", ""]),
        (Body::Chunks(VecDeque::new()), Some(0), &[]),
        (Body::of_unknown_length(), None, &[]),
        (Body::Tunnel(Box::new(|_| Box::pin(async {}))), None, &[]),
    ] {
        assert_eq!((body.known_length(), body.is_empty()), (length, length == Some(0)));
        assert_eq!(pieces(&mut body), expected);
        assert_eq!(pieces(&mut body), Vec::<String>::new());
        assert!(body.trailers().is_none());
    }
    assert!(matches!(Body::from(Bytes::new()), Body::Empty));
}

#[test]
fn a_part_of_a_file_in_memory_is_cut_from_there() {
    let resident = Arc::new(Resident::new("0123456789".into()));
    for (offset, length, expected) in [
        (0, 10, Some("0123456789")),
        (3, 4, Some("3456")),
        (10, 0, Some("")),
        (9, 1, Some("9")),
        // The file may be longer than its contents in memory.
        (9, 2, None),
        (11, 0, None),
        (u64::MAX, 1, None),
        (1, u64::MAX, None),
    ] {
        let range = FileRange {
            resident: Some(resident.clone()),
            ..FileRange::new(file(""), offset, length)
        };
        assert_eq!(range.in_memory().as_deref(), expected.map(str::as_bytes), "{offset} {length}");
    }
    assert!(FileRange::new(file("a"), 0, 1).in_memory().is_none());
}

/// A stream with the trait's default methods.
struct Plain;

impl BodyStream for Plain {
    fn poll_chunk(&mut self, _context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        Poll::Ready(None)
    }
}

#[test]
fn default_methods_of_a_stream_promise_nothing() {
    let mut plain = Plain;
    assert!(!plain.narrow(ByteRange { start: 0, end: 1 }) && !plain.is_over());
    assert_eq!((plain.skip(7), plain.trailers().is_none()), (0, true));
}
