//! Checksums of bodies: one for each block of 64 KiB, behind the body in the file.
//!
//! What this process wrote it trusts. A file that it opens later (after a restart, or since it was not
//! asked for in a while) is compared block by block before the first time that a block is served:
//! the first megabyte when the file is opened, so that damage there is a miss, and the rest as it is
//! read, so that a large file costs no more than what is asked of it. Each block is compared once.

use std::io;
use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};

use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_64_with_seed};

use crate::disk::{DiskFile, read_full_at};
use crate::key::KeyHash;
use crate::store::StoreInner;

/// Bytes of a body that one checksum is for.
pub(crate) const BLOCK_BYTES: u64 = 64 * 1024;

const SUM_BYTES: u64 = 8;

/// What is compared when a file is opened.
pub(crate) const VERIFIED_AT_OPEN: u64 = 1 << 20;

/// Room that the checksums of a body take.
pub(crate) fn sums_bytes(body_bytes: u64) -> u64 {
    body_bytes.div_ceil(BLOCK_BYTES).saturating_mul(SUM_BYTES)
}

/// Makes the checksums of a body as it is written.
pub(crate) struct BodySums {
    hasher: Box<Xxh3>,
    /// Bytes of the block that is being summed up.
    begun: u64,
    sums: Vec<u8>,
}

impl Default for BodySums {
    fn default() -> BodySums {
        BodySums { hasher: Box::new(Xxh3::new()), begun: 0, sums: Vec::new() }
    }
}

impl BodySums {
    /// Takes the next bytes of the body of `hash`.
    pub fn add(&mut self, mut bytes: &[u8], hash: &KeyHash) {
        while !bytes.is_empty() {
            let room = (BLOCK_BYTES - self.begun) as usize;
            let (now, later) = bytes.split_at(bytes.len().min(room));
            self.hasher.update(now);
            self.begun += now.len() as u64;
            bytes = later;
            if self.begun == BLOCK_BYTES {
                self.end_block(hash);
            }
        }
    }

    /// The checksums of all that was added, as they stand in the file.
    pub fn finish(&mut self, hash: &KeyHash) -> &[u8] {
        if self.begun > 0 {
            self.end_block(hash);
        }
        &self.sums
    }

    fn end_block(&mut self, hash: &KeyHash) {
        let block = self.sums.len() as u64 / SUM_BYTES;
        let sum = placed_sum(self.hasher.digest(), block, hash);
        self.sums.extend_from_slice(&sum.to_le_bytes());
        self.hasher.reset();
        self.begun = 0;
    }
}

/// Whether a whole body has these checksums.
pub(crate) fn is_sound(body: &[u8], sums: &[u8], hash: &KeyHash) -> bool {
    let blocks = body.chunks(BLOCK_BYTES as usize).zip(0u64..);
    let known = sums.chunks_exact(SUM_BYTES as usize);
    sums.len() as u64 == sums_bytes(body.len() as u64)
        && blocks.zip(known).all(|((bytes, block), sum)| {
            placed_sum(xxh3_64(bytes), block, hash).to_le_bytes() == *sum
        })
}

/// A block's sum holds for its place and key only.
fn placed_sum(sum: u64, block: u64, hash: &KeyHash) -> u64 {
    let seed = xxh3_64_with_seed(&hash.0, block);
    xxh3_64_with_seed(&sum.to_le_bytes(), seed)
}

/// Which blocks of an open file have been compared.
pub(crate) struct Verification {
    hash: KeyHash,
    generation: u64,
    store: Weak<StoreInner>,
    body_start: u64,
    body_bytes: u64,
    done: Box<[AtomicU64]>,
}

impl Verification {
    pub fn new(
        hash: KeyHash,
        generation: u64,
        store: Weak<StoreInner>,
        body_start: u64,
        body_bytes: u64,
    ) -> Verification {
        let words = body_bytes.div_ceil(BLOCK_BYTES).div_ceil(64);
        let done = (0..words).map(|_| AtomicU64::new(0)).collect();
        Verification { hash, generation, store, body_start, body_bytes, done }
    }

    /// Memory that it takes.
    pub fn bytes(&self) -> usize {
        size_of::<Verification>() + self.done.len() * 8
    }

    /// How far the body is sound from this offset on; the offset itself if its block was not
    /// compared yet. Never blocks.
    pub fn verified_to(&self, offset: u64) -> u64 {
        let mut block = offset / BLOCK_BYTES;
        while self.is_done(block) {
            block += 1;
        }
        (block * BLOCK_BYTES).clamp(offset, self.body_bytes.max(offset))
    }

    /// Compares a part of the body; false when it is damaged, and then the file is removed. So it is when
    /// it cannot be read: the next request shall not end there, too. Blocks, and takes the lock of the
    /// key's path.
    pub fn verify(&self, file: &dyn DiskFile, offset: u64, length: u64) -> io::Result<bool> {
        let compared = self.compare(file, offset, length);
        if !matches!(compared, Ok(true))
            && let Some(store) = self.store.upgrade()
        {
            if let Err(error) = &compared {
                store.disk_failed("reading a file", error);
            }
            store.remove_damaged(&self.hash, self.generation);
        }
        compared
    }

    /// Compares the blocks of a part of the body; false when one differs. Blocks.
    pub fn compare(&self, file: &dyn DiskFile, offset: u64, length: u64) -> io::Result<bool> {
        let end = offset.saturating_add(length).min(self.body_bytes);
        let mut buffer = vec![0; BLOCK_BYTES.min(self.body_bytes) as usize];
        for block in offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES) {
            if self.is_done(block) {
                continue;
            }
            let start = block * BLOCK_BYTES;
            let bytes = BLOCK_BYTES.min(self.body_bytes - start) as usize;
            let mut sum = [0; SUM_BYTES as usize];
            let sum_at = self.body_start + self.body_bytes + block * SUM_BYTES;
            let read = read_full_at(file, &mut buffer[..bytes], self.body_start + start)?;
            let whole = read == bytes && read_full_at(file, &mut sum, sum_at)? == sum.len();
            let found = placed_sum(xxh3_64(&buffer[..bytes]), block, &self.hash);
            if !whole || found.to_le_bytes() != sum {
                return Ok(false);
            }
            if let Some(word) = self.done.get((block / 64) as usize) {
                word.fetch_or(1 << (block % 64), Ordering::Release);
            }
        }
        Ok(true)
    }

    fn is_done(&self, block: u64) -> bool {
        let word = usize::try_from(block / 64).ok().and_then(|word| self.done.get(word));
        word.is_some_and(|word| word.load(Ordering::Acquire) >> (block % 64) & 1 == 1)
    }
}
