//! Checksums of bodies: one for each block of 64 KiB, behind the body in the file.

use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_64_with_seed};

use crate::key::KeyHash;

/// Bytes of a body that one checksum covers.
pub(crate) const BLOCK_BYTES: u64 = 64 * 1024;

/// Bytes of one checksum.
pub(crate) const SUM_BYTES: u64 = 8;

/// Returns the bytes that the checksums of a body take.
pub(crate) fn sums_bytes(body_bytes: u64) -> u64 {
    body_bytes.div_ceil(BLOCK_BYTES).saturating_mul(SUM_BYTES)
}

/// Computes the checksums of a body as it is written.
pub(crate) struct BodySums {
    hasher: Box<Xxh3>,
    /// Bytes of the current block that were added.
    begun: u64,
    sums: Vec<u8>,
}

impl Default for BodySums {
    fn default() -> BodySums {
        BodySums { hasher: Box::new(Xxh3::new()), begun: 0, sums: Vec::new() }
    }
}

impl BodySums {
    /// Adds the next bytes of the body of `hash`.
    pub(crate) fn add(&mut self, mut bytes: &[u8], hash: &KeyHash) {
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

    /// Returns the checksums of all added bytes, in the format of the file.
    pub(crate) fn finish(&mut self, hash: &KeyHash) -> &[u8] {
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

/// Returns whether a whole body has these checksums.
pub(crate) fn is_sound(body: &[u8], sums: &[u8], hash: &KeyHash) -> bool {
    let blocks = body.chunks(BLOCK_BYTES as usize).zip(0u64..);
    let known = sums.chunks_exact(SUM_BYTES as usize);
    sums.len() as u64 == sums_bytes(body.len() as u64)
        && blocks.zip(known).all(|((bytes, block), sum)| {
            placed_sum(xxh3_64(bytes), block, hash).to_le_bytes() == *sum
        })
}

/// Returns a block's sum mixed with its position and key, so that it is valid only there.
pub(crate) fn placed_sum(sum: u64, block: u64, hash: &KeyHash) -> u64 {
    let seed = xxh3_64_with_seed(&hash.0, block);
    xxh3_64_with_seed(&sum.to_le_bytes(), seed)
}
