//! Bodies as bytes: files are read piece by piece, and a file that is too short is an error.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::body::Resident;
use crate::tests::wait;

fn file(content: &[u8]) -> Arc<File> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    Arc::new(file)
}

/// Reads a body: the lengths of its pieces, `!` for a flush, `broken` for an error; and all bytes.
fn read(body: Body) -> (Vec<String>, Vec<u8>) {
    let (mut body, mut shown, mut all) = (ByteBody::new(body), Vec::new(), Vec::new());
    while let Some(piece) = wait(body.next()) {
        let is_broken = piece.is_err();
        shown.push(match piece {
            Ok(Piece::Bytes(bytes)) => {
                all.extend_from_slice(&bytes);
                bytes.len().to_string()
            }
            Ok(Piece::Flush) => "!".to_owned(),
            Err(_) => "broken".to_owned(),
        });
        if is_broken {
            break;
        }
    }
    (shown, all)
}

#[test]
fn pieces_are_never_empty_and_files_are_read_in_parts() {
    let content: Vec<u8> = (0..100_000_u32).map(|at| at as u8).collect();
    let kept = file(&content);
    let range = |offset, length| Chunk::File(FileRange::new(kept.clone(), offset, length));
    let in_memory = |offset, length| {
        let resident = Some(Arc::new(Resident::new(content.clone().into())));
        Chunk::File(FileRange { resident, ..FileRange::new(file(b""), offset, length) })
    };
    let bytes = |text: &'static str| Chunk::Bytes(text.into());
    for (chunks, expected) in [
        (vec![], &[][..]),
        (vec![bytes("ab"), bytes(""), bytes("c")], &["2", "1"]),
        (vec![bytes("ab"), Chunk::Flush, range(0, 0), Chunk::Flush], &["2", "!", "!"]),
        (vec![range(0, 100_000)], &["32768", "32768", "32768", "1696"]),
        (vec![range(99_990, 10), bytes("x")], &["10", "1"]),
        (vec![in_memory(0, 100_000)], &["100000"]),
        // A file that has become shorter is an error, not an end.
        (vec![range(99_990, 20), bytes("x")], &["10", "broken"]),
        (vec![range(100_000, 1)], &["broken"]),
        (vec![in_memory(99_999, 2)], &["broken"]),
    ] {
        let (shown, _) = read(Body::Chunks(chunks.clone().into()));
        assert_eq!(shown, expected, "{chunks:?}");
    }
    assert_eq!(read(Body::File(FileRange::new(kept.clone(), 0, 100_000))).1, content);
}

proptest! {
    /// A body's bytes are those of its parts, of any kind.
    #[test]
    fn the_bytes_are_those_of_the_parts(
        parts in prop::collection::vec((any::<bool>(), 0..40_000_usize, 0..40_000_usize), 0..5),
    ) {
        let content: Vec<u8> = (0..80_000_u32).map(|at| (at % 251) as u8).collect();
        let (kept, mut expected) = (file(&content), Vec::new());
        let chunks = parts.iter().map(|(in_file, start, length)| {
            let part = &content[*start..*start + *length];
            expected.extend_from_slice(part);
            match in_file {
                true => Chunk::File(FileRange::new(kept.clone(), *start as u64, *length as u64)),
                false => Chunk::Bytes(Bytes::copy_from_slice(part)),
            }
        });
        let chunks = chunks.collect();
        prop_assert_eq!(read(Body::Chunks(chunks)).1, expected);
    }
}
