//! Memory and order of bodies in pieces of any size.

use super::*;

/// Returns the memory of the bytes and of the list of pieces.
fn held(kept: &BodyBuffer) -> usize {
    let pieces = kept.pieces.iter().map(Bytes::len).sum::<usize>();
    pieces + kept.pieces.capacity() * size_of::<Bytes>() + kept.buffer.capacity()
}

#[test]
fn memory_is_at_most_twice_the_bytes() {
    // (length of each piece, pieces)
    for (length, pieces) in [(1, 100_000), (7, 10_000), (2047, 500), (2048, 500), (2049, 500)] {
        let mut kept = BodyBuffer::default();
        for _ in 0..pieces {
            kept.push(vec![b'x'; length].into());
        }
        let bytes = length * pieces;
        assert_eq!(kept.len(), bytes as u64);
        assert!(held(&kept) <= 2 * bytes, "{length}: {} for {bytes}", held(&kept));
        assert_eq!(kept.take().iter().map(Bytes::len).sum::<usize>(), bytes);
        assert!(kept.is_empty());
    }
}

#[test]
fn bytes_come_out_in_their_order() {
    let mut kept = BodyBuffer::default();
    let mut expected = Vec::new();
    for (at, length) in [1, 3000, 5, 2048, 16_000, 1, 1, 40_000, 0, 9].into_iter().enumerate() {
        let piece = vec![b'a' + at as u8; length];
        expected.extend_from_slice(&piece);
        kept.push(piece.into());
    }
    let mut found = kept.pop().unwrap().to_vec();
    assert_eq!(found.len() as u64 + kept.len(), expected.len() as u64);
    while let Some(bytes) = kept.pop() {
        found.extend_from_slice(&bytes);
    }
    assert!(found == expected && kept.is_empty());
}
