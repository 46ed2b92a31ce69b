//! A change of the index in the format of snapshots and journals.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::evict::HEAT_MAX;
use crate::index::Remembered;
use crate::key::KeyHash;

pub(super) const VERSION: u16 = 1;

pub(super) const RECORD_BYTES: usize = 32;

/// A change of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexChange {
    Placed(Remembered),
    Removed(KeyHash),
}

const PLACED_SMALL: u8 = 0x10;
const PLACED_MAIN: u8 = 0x20;
const REMOVED: u8 = 0x30;

pub(super) fn encode(change: &IndexChange, bytes: &mut Vec<u8>) {
    let (hash, body_bytes, last_access, blocks, kind) = match change {
        IndexChange::Removed(hash) => (hash, 0, 0, 0, REMOVED),
        IndexChange::Placed(known) => {
            let kind = if known.is_main { PLACED_MAIN } else { PLACED_SMALL };
            let kind = kind | known.heat.min(HEAT_MAX);
            (&known.hash, known.body_bytes, known.last_access, known.blocks, kind)
        }
    };
    // Rounded up: no object shall count as older than it is.
    let seconds = u32::try_from(last_access.div_ceil(1000)).unwrap_or(u32::MAX);
    bytes.extend_from_slice(&hash.0);
    bytes.extend_from_slice(&body_bytes.to_le_bytes()[..6]);
    bytes.extend_from_slice(&seconds.to_le_bytes());
    bytes.extend_from_slice(&blocks.to_le_bytes());
    bytes.extend_from_slice(&[kind, 0]);
}

pub(super) fn decode(record: &[u8]) -> Option<IndexChange> {
    let hash = KeyHash(record.get(..16)?.try_into().ok()?);
    let kind = *record.get(30)?;
    let is_main = match kind & 0xF0 {
        REMOVED => return Some(IndexChange::Removed(hash)),
        PLACED_MAIN => true,
        PLACED_SMALL => false,
        _ => return None,
    };
    Some(IndexChange::Placed(Remembered {
        hash,
        body_bytes: number(record, 16, 6),
        last_access: number(record, 22, 4) * 1000,
        blocks: number(record, 26, 4) as u32,
        heat: kind & 0x0F,
        is_main,
    }))
}

/// Reads a number of up to eight bytes; the caller has checked the length.
pub(super) fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let mut number = [0; 8];
    number[..length].copy_from_slice(&bytes[at..at + length]);
    u64::from_le_bytes(number)
}

pub(super) fn checksum(bytes: &[u8], sequence: u64, position: u64) -> u64 {
    let seed = sequence.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ position;
    xxh3_64_with_seed(bytes, seed)
}
