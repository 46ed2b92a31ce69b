//! How a body whose length was announced is cut.

use bytes::Bytes;
use tidegate_core::body::Chunk;
use tidegate_rt::timer::Deadline;

use super::Pull;

fn pull(left: Option<u64>) -> Pull {
    let deadline = Deadline::new();
    Pull { deadline, watch_client: true, waits_for_body: true, gathers: false, left }
}

fn piece(length: usize) -> Chunk {
    Chunk::Bytes(Bytes::from(vec![b'x'; length]))
}

#[test]
fn no_more_is_taken_than_was_announced() {
    for (announced, pieces, taken, lacks) in [
        (Some(5), vec![3, 4, 1], vec![3, 2], false),
        (Some(5), vec![5], vec![5], false),
        (Some(5), vec![0, 4], vec![4], true),
        (Some(0), vec![1], vec![], false),
        (None, vec![3, 0, 4], vec![3, 4], false),
    ] {
        let mut pull = pull(announced);
        let clipped = pieces.iter().filter_map(|length| pull.clip(piece(*length)));
        let lengths: Vec<u64> = clipped
            .map(|(chunk, length)| {
                assert_eq!(chunk.length(), length);
                length
            })
            .collect();
        assert_eq!(lengths, taken, "{announced:?}, {pieces:?}");
        assert_eq!(pull.lacks(), lacks, "{announced:?}, {pieces:?}");
    }
}

#[test]
fn what_waits_for_the_body_leaves_with_its_first_bytes() {
    let mut pull = pull(Some(2));
    assert!(pull.clip(piece(0)).is_none() && !pull.may_flush());
    assert!(pull.clip(piece(1)).is_some() && pull.may_flush());
}
