//! MurmurHash2 of Austin Appleby, 32 bits with seed 0, which nginx's documentation names for
//! `split_clients`.

const MULTIPLIER: u32 = 0x5bd1_e995;

/// Returns the hash of a text.
pub(super) fn hash(text: &[u8]) -> u32 {
    // The length counts modulo 2^32, which only texts above 4 GB would notice.
    let mut hash = text.len() as u32;
    let (words, rest) = text.as_chunks::<4>();
    for word in words {
        let word = u32::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        hash = hash.wrapping_mul(MULTIPLIER);
        hash ^= (word ^ (word >> 24)).wrapping_mul(MULTIPLIER);
    }
    if !rest.is_empty() {
        let rest = rest.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
        hash = (hash ^ rest).wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(MULTIPLIER);
    hash ^ (hash >> 15)
}
