//! The form of a stored response in a tier: a head with everything that the cache knows of it, then the body.
//!
//! ```text
//! magic 8 | version u16 = 1 | reserved u16 | key length u32 | metadata length u32 | block count u32
//! body length u64 | created u64 | valid until u64 | updating until u64 | error until u64
//! checksum u64 of all other bytes of the head
//! key | metadata (`meta`) | checksums of the body's blocks, u64 each
//! body
//! ```
//! Numbers are little-endian, times Unix milliseconds, checksums XXH3. A block has 64 KiB, the last one the rest. All
//! checksums are in front of the body, so that no byte is used before the block that it is a part of was compared.

use bytes::{Bytes, BytesMut};
use tidegate_cache::{KEY_BYTES_MAX, METADATA_BYTES_MAX, Times};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

const MAGIC: [u8; 8] = *b"\x89TGTIER\n";
const VERSION: u16 = 1;
/// Bytes of the fields in front of the key.
pub(super) const FIXED_BYTES: usize = 72;
/// Where the checksum of the head is.
const SUM_AT: usize = FIXED_BYTES - 8;
/// Bytes of a block of the body.
pub(super) const BLOCK_BYTES: usize = 64 * 1024;

/// The head of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectHead {
    /// The text of the key, by which keys with the same hash are distinguished.
    pub key: Bytes,
    /// See [`crate::cache::meta::Meta`].
    pub metadata: Bytes,
    pub times: Times,
    pub body_bytes: u64,
    sums: Vec<u64>,
}

/// What the beginning of an object says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// The head has at least this many bytes.
    More(usize),
    /// The head, and how many bytes it has.
    Head(ObjectHead, usize),
    /// It is none, or of another version, or it is damaged, or larger than allowed.
    Invalid(&'static str),
}

/// A block of a body does not match its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damaged;

impl ObjectHead {
    /// Makes the head of an object with this body.
    pub(super) fn new(key: Bytes, metadata: Bytes, times: Times, body: &[u8]) -> ObjectHead {
        let sums = body.chunks(BLOCK_BYTES).map(xxh3_64).collect();
        ObjectHead { key, metadata, times, body_bytes: body.len() as u64, sums }
    }

    /// Returns the length of the head with these lengths of key, metadata and body.
    pub(super) fn length(key: usize, metadata: usize, body: usize) -> usize {
        FIXED_BYTES + key + metadata + 8 * body.div_ceil(BLOCK_BYTES)
    }

    /// Returns the bytes of the head; `None` for one that [`ObjectHead::parse`] would refuse.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        if self.key.len() > KEY_BYTES_MAX || self.metadata.len() > METADATA_BYTES_MAX {
            return None;
        }
        let Times { created, valid_until, updating_until, error_until } = self.times;
        let mut out = Vec::with_capacity(FIXED_BYTES + self.key.len() + self.metadata.len());
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        for length in [self.key.len(), self.metadata.len(), self.sums.len()] {
            out.extend_from_slice(&u32::try_from(length).ok()?.to_le_bytes());
        }
        for number in [self.body_bytes, created, valid_until, updating_until, error_until] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let mut rest =
            Vec::with_capacity(self.key.len() + self.metadata.len() + 8 * self.sums.len());
        rest.extend_from_slice(&self.key);
        rest.extend_from_slice(&self.metadata);
        for sum in &self.sums {
            rest.extend_from_slice(&sum.to_le_bytes());
        }
        let sum = sum_of(&out, &rest);
        out.extend_from_slice(&sum.to_le_bytes());
        out.extend_from_slice(&rest);
        Some(out)
    }

    /// Parses the beginning of an object of which these bytes have arrived. `body_max` limits its body in bytes. No length is
    /// trusted before it was compared with its limit, so that at most the largest head is collected.
    pub(super) fn parse(bytes: &[u8], body_max: u64) -> Beginning {
        let compared = bytes.len().min(MAGIC.len());
        if bytes[..compared] != MAGIC[..compared] {
            return Beginning::Invalid("another form");
        }
        let Some((fixed, rest)) = bytes.split_at_checked(FIXED_BYTES) else {
            return Beginning::More(FIXED_BYTES);
        };
        if fixed[8..10] != VERSION.to_le_bytes() {
            return Beginning::Invalid("another version");
        }
        let length = |at: usize| u32_at(fixed, at) as usize;
        let (key_bytes, metadata_bytes, blocks) = (length(12), length(16), length(20));
        let body_bytes = u64_at(fixed, 24);
        if key_bytes > KEY_BYTES_MAX || metadata_bytes > METADATA_BYTES_MAX || body_bytes > body_max
        {
            return Beginning::Invalid("larger than allowed");
        }
        if blocks as u64 != body_bytes.div_ceil(BLOCK_BYTES as u64) {
            return Beginning::Invalid("the number of blocks");
        }
        let Ok(body) = usize::try_from(body_bytes) else {
            return Beginning::Invalid("larger than allowed");
        };
        let total = ObjectHead::length(key_bytes, metadata_bytes, body);
        let Some(rest) = rest.get(..total - FIXED_BYTES) else { return Beginning::More(total) };
        if sum_of(&fixed[..SUM_AT], rest) != u64_at(fixed, SUM_AT) {
            return Beginning::Invalid("the checksum of the head");
        }
        let (key, rest) = rest.split_at(key_bytes);
        let (metadata, sums) = rest.split_at(metadata_bytes);
        let times = Times {
            created: u64_at(fixed, 32),
            valid_until: u64_at(fixed, 40),
            updating_until: u64_at(fixed, 48),
            error_until: u64_at(fixed, 56),
        };
        let head = ObjectHead {
            key: Bytes::copy_from_slice(key),
            metadata: Bytes::copy_from_slice(metadata),
            times,
            body_bytes,
            sums: sums.chunks_exact(8).map(|sum| u64_at(sum, 0)).collect(),
        };
        Beginning::Head(head, total)
    }

    /// Takes the checksums, to compare the body.
    pub(super) fn blocks(&mut self) -> Blocks {
        let sums = std::mem::take(&mut self.sums);
        Blocks { sums: sums.into_iter(), left: self.body_bytes }
    }
}

/// The blocks of a body that are still to come.
#[derive(Debug)]
pub(super) struct Blocks {
    sums: std::vec::IntoIter<u64>,
    /// Bytes of them.
    left: u64,
}

impl Blocks {
    /// Returns whether all have been taken.
    pub(super) fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Takes the next block out of what has arrived; `None` while it is not complete.
    ///
    /// # Errors
    /// It is damaged. No further block is to be taken then.
    pub(super) fn take(&mut self, arrived: &mut BytesMut) -> Result<Option<Bytes>, Damaged> {
        let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(BLOCK_BYTES);
        if length == 0 || arrived.len() < length {
            return Ok(None);
        }
        let block = arrived.split_to(length).freeze();
        self.left -= length as u64;
        match self.sums.next() {
            Some(sum) if sum == xxh3_64(&block) => Ok(Some(block)),
            _ => Err(Damaged),
        }
    }
}

/// Returns the checksum of a head: of the fields in front of it and of the bytes behind it.
fn sum_of(fields: &[u8], rest: &[u8]) -> u64 {
    let mut sum = Xxh3::new();
    sum.update(fields);
    sum.update(rest);
    sum.digest()
}

/// Reads a number. cannot fail: the callers have checked the length; zeros otherwise.
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let read = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    u64::from_le_bytes(read.unwrap_or_default())
}

/// As [`u64_at`].
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let read = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    u32::from_le_bytes(read.unwrap_or_default())
}

/// Checks, for fuzzers, that a head which is parsed encodes to the bytes that it was parsed from, and that any body is either
/// refused or complete.
pub(super) fn fuzz(data: &[u8]) {
    const BODY_MAX: u64 = 1 << 20;
    let Beginning::Head(mut head, bytes) = ObjectHead::parse(data, BODY_MAX) else { return };
    assert_eq!(head.encode().as_deref(), data.get(..bytes));
    let (mut arrived, mut length) = (BytesMut::from(&data[bytes..]), 0);
    let mut blocks = head.blocks();
    while let Ok(Some(block)) = blocks.take(&mut arrived) {
        length += block.len() as u64;
    }
    assert!(length <= head.body_bytes);
}
