//! Objects that follow from their number: size, bytes, and how the origin sends them.

/// Numbers below this are requested repeatedly.
const POPULAR: u64 = 300;

/// Numbers that are the same for the same seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed(self.0)
    }

    /// A number below this one, which is not 0.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }
}

/// Returns a popular object; small numbers are more frequent.
pub(crate) fn popular(random: &mut Random) -> u64 {
    let first = random.below(POPULAR);
    random.below(first + 1)
}

/// Returns mostly a popular object, otherwise a new one.
pub(crate) fn any(random: &mut Random) -> u64 {
    match random.below(5) {
        0 => POPULAR + random.below(1 << 40),
        _ => popular(random),
    }
}

/// Returns the length of an object: many are small, some exceed the limit for memory, few are large.
pub(crate) fn length(number: u64) -> u64 {
    let chance = mixed(number ^ 0xA5A5);
    match chance % 20 {
        0 => 1_000_000 + (chance >> 8) % 3_000_000,
        1..=4 => 50_000 + (chance >> 8) % 300_000,
        5 => 0,
        _ => 1 + (chance >> 8) % 20_000,
    }
}

/// The bytes of an object from `offset` on.
pub(crate) fn bytes(number: u64, offset: u64, length: usize) -> Vec<u8> {
    let first = offset / 8;
    let skipped = (offset % 8) as usize;
    let words = (skipped + length).div_ceil(8) as u64;
    let words = (first..first + words).flat_map(|at| mixed(number << 24 ^ at).to_le_bytes());
    words.skip(skipped).take(length).collect()
}

/// Sent in chunks, without a length.
pub(crate) fn is_chunked(number: u64) -> bool {
    number % 5 == 1
}

/// Sent slowly, so that it is in flight when the server is killed.
pub(crate) fn is_slow(number: u64) -> bool {
    number % 7 == 3
}

/// Fresh for a second only, and then requested with its tag.
pub(crate) fn is_short_lived(number: u64) -> bool {
    number % 6 == 2
}

fn mixed(number: u64) -> u64 {
    let mut mixed = number;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}
