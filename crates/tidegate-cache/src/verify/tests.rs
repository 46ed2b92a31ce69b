//! How far a file may be served by the comparisons of it.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use proptest::collection::vec;
use proptest::prelude::*;

use super::{BLOCK_BYTES, DamageHandler, Verification, VerifiedFile};
use crate::disk::{DiskFile, Stamp};
use crate::key::KeyHash;

struct NoStore;

impl DamageHandler for NoStore {
    fn read_failed(&self, _: &io::Error) {}
    fn remove_damaged(&self, _: &KeyHash, _: u64, _: u64) {}
}

fn subject(body_bytes: u64) -> VerifiedFile {
    VerifiedFile {
        hash: KeyHash([0; 16]),
        generation: 1,
        store: Weak::<NoStore>::new(),
        alarm: Arc::default(),
        body_start: 0,
        body_bytes,
    }
}

/// Returns a verification of a body of which these blocks were compared.
fn compared(body_bytes: u64, blocks: &[bool]) -> Verification {
    let verification = Verification::begun(subject(body_bytes), Stamp::default(), 0);
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

/// A file of which nothing but the stamp is asked.
struct StampedFile(Stamp);

impl DiskFile for StampedFile {
    fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.bytes)
    }
    fn stamp(&self) -> io::Result<Stamp> {
        Ok(self.0)
    }
    fn sync(&self, _: bool) -> io::Result<()> {
        Ok(())
    }
    fn system_file(&self) -> Option<&Arc<std::fs::File>> {
        None
    }
}

/// How far a file may be served that had the stamp `before` when this process had written it, and has `after` behind
/// the rename.
fn written_to(before: io::Result<Stamp>, after: Stamp) -> u64 {
    Verification::written(subject(3 * BLOCK_BYTES), before, &StampedFile(after)).compared_to(0, 0)
}

#[test]
fn a_rename_leaves_a_written_file_sound() {
    let before = Stamp { bytes: 3 * BLOCK_BYTES, modified: 5, changed: 5 };
    assert_eq!(written_to(Ok(before), Stamp { changed: 9, ..before }), 3 * BLOCK_BYTES);
}

#[test]
fn a_file_that_was_changed_right_behind_its_rename_is_compared() {
    let before = Stamp { bytes: 3 * BLOCK_BYTES, modified: 5, changed: 5 };
    assert_eq!(written_to(Ok(before), Stamp { modified: 8, changed: 8, ..before }), 0);
    assert_eq!(written_to(Ok(before), Stamp { bytes: 7, ..before }), 0);
    assert_eq!(written_to(Err(io::ErrorKind::Other.into()), before), 0);
}
