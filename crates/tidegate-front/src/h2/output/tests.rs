//! Output and pieces leave in their order, however much each write takes.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

use super::{Bodies, Piece, SLICES_MAX};

proptest! {
    #[test]
    fn bytes_leave_in_order(
        parts in vec((0usize..20, 1usize..30), 0..40), rest in 0usize..20, most in 1usize..60,
    ) {
        let (mut output, mut expected, mut next) = (Vec::new(), Vec::new(), 0u8);
        let mut bytes = |count: usize| -> Vec<u8> {
            (0..count).map(|_| { next = next.wrapping_add(1); next }).collect()
        };
        let mut bodies = Bodies::default();
        for (text, piece) in parts {
            let (text, piece) = (bytes(text), bytes(piece));
            expected.extend([&text[..], &piece].concat());
            output.extend(text);
            bodies.bytes += piece.len();
            bodies.pieces.push_back(Piece { at: output.len(), bytes: Bytes::from(piece) });
        }
        let text = bytes(rest);
        expected.extend(&text);
        output.extend(text);
        let mut sent = Vec::<u8>::new();
        while !(output.is_empty() && bodies.is_empty()) {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = bodies.fill(&output, &mut slices);
            let all: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
            let taken = all.len().min(most);
            prop_assert!(taken > 0);
            sent.extend(&all[..taken]);
            let of_output = bodies.sent(taken);
            output.drain(..of_output);
        }
        prop_assert_eq!(sent, expected);
        prop_assert_eq!((bodies.bytes, bodies.pieces), (0, VecDeque::new()));
    }
}
