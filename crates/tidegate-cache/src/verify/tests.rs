//! How far a file may be served by the comparisons of it.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use proptest::collection::vec;
use proptest::prelude::*;

use super::{BLOCK_BYTES, DamageHandler, Verification, VerifiedFile};
use crate::disk::Stamp;
use crate::key::KeyHash;

struct NoStore;

impl DamageHandler for NoStore {
    fn read_failed(&self, _: &io::Error) {}
    fn remove_damaged(&self, _: &KeyHash, _: u64, _: u64) {}
}

/// Returns a verification of a body of which these blocks were compared.
fn compared(body_bytes: u64, blocks: &[bool]) -> Verification {
    let subject = VerifiedFile {
        hash: KeyHash([0; 16]),
        generation: 1,
        store: Weak::<NoStore>::new(),
        alarm: Arc::default(),
        body_start: 0,
        body_bytes,
    };
    let verification = Verification::begun(subject, Stamp::default(), 0);
    for (block, _) in blocks.iter().enumerate().filter(|(_, is_done)| **is_done) {
        verification.done[block / 64].fetch_or(1 << (block % 64), Ordering::Release);
    }
    verification
}

/// Returns the same result by a walk over the blocks.
fn walked(body_bytes: u64, blocks: &[bool], offset: u64) -> u64 {
    let mut end = offset;
    for (block, is_done) in (0u64..).zip(blocks).skip((offset / BLOCK_BYTES) as usize) {
        if !is_done {
            break;
        }
        end = ((block + 1) * BLOCK_BYTES).min(body_bytes);
    }
    end.max(offset)
}

proptest! {
    #[test]
    fn blocks_compared_without_a_gap_may_be_served(
        blocks in vec(proptest::bool::weighted(0.98), 1..300), missing in 0..BLOCK_BYTES, offset in 0u64..400 * BLOCK_BYTES,
    ) {
        let body_bytes = blocks.len() as u64 * BLOCK_BYTES - missing;
        let offset = offset % (body_bytes + BLOCK_BYTES);
        let end = compared(body_bytes, &blocks).compared_to(offset, 0);
        prop_assert_eq!(end, walked(body_bytes, &blocks, offset));
    }

    #[test]
    fn files_of_this_process_may_be_served(body_bytes in 0u64..200 * BLOCK_BYTES, offset in 0u64..200 * BLOCK_BYTES) {
        let verification = compared(body_bytes, &[]);
        verification.done.iter().for_each(|word| word.store(u64::MAX, Ordering::Release));
        prop_assert_eq!(verification.compared_to(offset, 0), body_bytes.max(offset));
    }
}
