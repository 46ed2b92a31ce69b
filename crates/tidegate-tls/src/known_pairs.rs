//! Certificates with their keys that were made of files for an earlier configuration: a reload parses the same bytes
//! once.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::key_pair::KeyPair;

/// Pairs by the digest of their texts, see [`crate::key_files::digest`]. A pair that two generations in a row have not
/// used is forgotten. A lock is held for a look or a change; handshakes do not use it.
#[derive(Default)]
pub struct KnownPairs(Mutex<Pairs>);

#[derive(Default)]
struct Pairs {
    /// Pairs, and the last generation that has used each.
    by_digest: HashMap<[u8; 32], (KeyPair, u64)>,
    generation: u64,
}

impl KnownPairs {
    /// Returns a pair for a generation.
    pub fn find(&self, digest: &[u8; 32], generation: u64) -> Option<KeyPair> {
        let mut pairs = self.pairs(generation);
        let (pair, used) = pairs.by_digest.get_mut(digest)?;
        *used = generation;
        Some(pair.clone())
    }

    /// Keeps a pair of a generation.
    pub fn keep(&self, digest: [u8; 32], pair: KeyPair, generation: u64) {
        self.pairs(generation).by_digest.insert(digest, (pair, generation));
    }

    fn pairs(&self, generation: u64) -> MutexGuard<'_, Pairs> {
        let mut pairs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pairs.generation < generation {
            pairs.generation = generation;
            pairs.by_digest.retain(|_, (_, used)| *used + 1 >= generation);
        }
        pairs
    }
}

impl fmt::Debug for KnownPairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnownPairs").finish_non_exhaustive()
    }
}
