//! Two small tables of fixed size about keys: which ones a tier does not have, and how often they were used here. Both forget
//! by overwriting, so that neither grows; what is forgotten costs a request to the tier.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_cache::KeyHash;

/// How long it is remembered that a tier does not have a key.
pub(super) const ABSENT_FOR_MILLIS: u64 = 10_000;
/// Places of each table: 128 KB.
const PLACES: usize = 16 * 1024;
/// Bits of a place for its value; the others tell keys apart.
const VALUE_BITS: u32 = 24;
const VALUE_MASK: u64 = (1 << VALUE_BITS) - 1;
/// The value of a key that needs no upload.
const DONE: u64 = VALUE_MASK;
/// A unit of times in the table: the mask has 19 days of them, then they repeat.
const TICK_MILLIS: u64 = 100;

/// A place of a table for each of many keys.
struct Places(Box<[AtomicU64]>);

impl Default for Places {
    fn default() -> Places {
        Places((0..PLACES).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Places {
    /// Returns the place of a key, and its mark there: never 0.
    fn of(&self, hash: &KeyHash) -> (&AtomicU64, u64) {
        let number = |range: std::ops::Range<usize>| {
            hash.0[range].iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
        };
        let at = number(0..4) as usize % PLACES;
        (&self.0[at], (number(4..9) | 1) << VALUE_BITS)
    }
}

/// The keys that a tier was found not to have.
#[derive(Default)]
pub(super) struct Absent(Places);

impl Absent {
    /// Notes it at `now`, in Unix milliseconds.
    pub(super) fn note(&self, hash: &KeyHash, now: u64) {
        let (place, mark) = self.0.of(hash);
        let until = (now + ABSENT_FOR_MILLIS) / TICK_MILLIS;
        place.store(mark | until & VALUE_MASK, Ordering::Relaxed);
    }

    /// Returns whether the tier was found not to have a key within the last [`ABSENT_FOR_MILLIS`].
    pub(super) fn has(&self, hash: &KeyHash, now: u64) -> bool {
        let (place, mark) = self.0.of(hash);
        let found = place.load(Ordering::Relaxed);
        let left = (found & VALUE_MASK).wrapping_sub(now / TICK_MILLIS) & VALUE_MASK;
        found & !VALUE_MASK == mark && left > 0 && left <= ABSENT_FOR_MILLIS / TICK_MILLIS
    }

    /// Forgets a key: the tier has it now.
    pub(super) fn forget(&self, hash: &KeyHash) {
        self.0.of(hash).0.store(0, Ordering::Relaxed);
    }
}

/// Uses of keys on this server.
#[derive(Default)]
pub(super) struct Uses(Places);

impl Uses {
    /// Counts a use.
    pub(super) fn add(&self, hash: &KeyHash) {
        let (place, mark) = self.0.of(hash);
        let old = place.load(Ordering::Relaxed);
        let new = match old & VALUE_MASK {
            _ if old & !VALUE_MASK != mark => mark | 1,
            uses if uses < DONE - 1 => old + 1,
            _ => return,
        };
        // Of two threads one counts, which is enough: more uses follow.
        let _ = place.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns whether [`Uses::reaches`] would return true.
    pub(super) fn is_due(&self, hash: &KeyHash, min: u32) -> bool {
        let (place, mark) = self.0.of(hash);
        is_due(place.load(Ordering::Relaxed), mark, min)
    }

    /// Returns true once: when there have been `min` uses.
    pub(super) fn reaches(&self, hash: &KeyHash, min: u32) -> bool {
        let (place, mark) = self.0.of(hash);
        let old = place.load(Ordering::Relaxed);
        let exchange =
            || place.compare_exchange(old, mark | DONE, Ordering::Relaxed, Ordering::Relaxed);
        is_due(old, mark, min) && exchange().is_ok()
    }

    /// Lets a key count from the beginning: it has a new object, which has been used once.
    pub(super) fn restart(&self, hash: &KeyHash) {
        let (place, mark) = self.0.of(hash);
        place.store(mark | 1, Ordering::Relaxed);
    }

    /// Notes that the tier has the object.
    pub(super) fn done(&self, hash: &KeyHash) {
        let (place, mark) = self.0.of(hash);
        place.store(mark | DONE, Ordering::Relaxed);
    }
}

/// Returns whether a place has `min` uses of the key with this mark, which needs an upload.
fn is_due(place: u64, mark: u64, min: u32) -> bool {
    let uses = place & VALUE_MASK;
    place & !VALUE_MASK == mark && uses != DONE && uses >= u64::from(min)
}
