//! What one write call is given of many bytes.

use std::io::IoSlice;

/// Bytes given to one write call, as for files [`super::SENDFILE_CHUNK`]: a send buffer can take some MB at once, and
/// copying them would keep the event loop from other connections.
pub(super) const WRITE_CHUNK: usize = 512 * 1024;
/// Pieces of such a call.
pub(super) const PIECES_MAX: usize = 16;

/// Puts the first of the pieces into `room`, up to [`WRITE_CHUNK`]; returns those, and how many bytes they have.
pub(super) fn first_part<'r, 'p>(
    pieces: &'p [IoSlice<'_>],
    room: &'r mut [IoSlice<'p>; PIECES_MAX],
) -> (&'r [IoSlice<'p>], usize) {
    let (mut length, mut count) = (0, 0);
    for (place, piece) in room.iter_mut().zip(pieces) {
        let part = piece.get(..piece.len().min(WRITE_CHUNK - length)).unwrap_or_default();
        *place = IoSlice::new(part);
        length += part.len();
        count += 1;
        if length == WRITE_CHUNK {
            break;
        }
    }
    (room.get(..count).unwrap_or_default(), length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_bounded_in_bytes_and_pieces() {
        let bytes = vec![7; 2 * WRITE_CHUNK];
        let first = |lengths: &[usize]| {
            let pieces: Vec<_> =
                lengths.iter().map(|length| IoSlice::new(&bytes[..*length])).collect();
            let mut room = [IoSlice::new(&[]); PIECES_MAX];
            let (part, length) = first_part(&pieces, &mut room);
            assert_eq!(length, part.iter().map(|piece| piece.len()).sum::<usize>());
            (part.len(), length)
        };
        assert_eq!(first(&[100, WRITE_CHUNK + 5]), (2, WRITE_CHUNK));
        assert_eq!(first(&[WRITE_CHUNK, 100]), (1, WRITE_CHUNK));
        assert_eq!(first(&[2 * WRITE_CHUNK]), (1, WRITE_CHUNK));
        assert_eq!(first(&[1; 20]), (PIECES_MAX, PIECES_MAX));
        assert_eq!(first(&[3, 4]), (2, 7));
        assert_eq!(first(&[]), (0, 0));
    }
}
