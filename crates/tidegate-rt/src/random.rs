//! Random numbers, per thread: fast ones for choices and jitter, and unpredictable ones for ids.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher, RandomState};

/// Bytes fetched from the kernel at a time: ids for 32 requests.
const POOL: usize = 512;

struct RandomPool {
    bytes: [u8; POOL],
    used: usize,
}

thread_local! {
    static STATE: Cell<[u64; 2]> = Cell::new(seed());
    static UNPREDICTABLE: RefCell<RandomPool> =
        const { RefCell::new(RandomPool { bytes: [0; POOL], used: POOL }) };
}

/// Returns a random number, fast and of good distribution, but predictable from earlier ones (xoroshiro128+ by Blackman
/// and Vigna, whose weak lowest bits are dropped by the functions below).
#[inline]
pub fn next_u64() -> u64 {
    STATE.with(|state| {
        let [first, mut second] = state.get();
        let result = first.wrapping_add(second);
        second ^= first;
        state.set([first.rotate_left(24) ^ second ^ (second << 16), second.rotate_left(37)]);
        result
    })
}

/// Returns a random number below `limit`; 0 when the limit is 0. The bias is below 2⁻³² for limits below 2³².
#[inline]
pub fn below(limit: u64) -> u64 {
    let product = u128::from(next_u64()) * u128::from(limit);
    u64::try_from(product >> 64).unwrap_or(0)
}

/// Fills a buffer with unpredictable bytes.
pub fn unpredictable(buffer: &mut [u8]) {
    if tidegate_os::time::random_bytes(buffer).is_err() {
        // Only in sandboxes without getrandom: the standard library's keys come from elsewhere.
        for (index, chunk) in buffer.chunks_mut(8).enumerate() {
            let hash = RandomState::new().hash_one(index).to_ne_bytes();
            chunk.copy_from_slice(&hash[..chunk.len()]);
        }
    }
}

/// Returns 16 unpredictable bytes as 32 lowercase hexadecimal digits (`$request_id`).
pub fn request_id() -> [u8; 32] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let bytes = UNPREDICTABLE.with_borrow_mut(RandomPool::take);
    let mut text = [0; 32];
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    text
}

impl RandomPool {
    fn take(&mut self) -> [u8; 16] {
        if self.used + 16 > POOL {
            unpredictable(&mut self.bytes);
            self.used = 0;
        }
        let mut taken = [0; 16];
        taken.copy_from_slice(&self.bytes[self.used..self.used + 16]);
        // Used bytes must not be found in memory again.
        self.bytes[self.used..self.used + 16].fill(0);
        self.used += 16;
        taken
    }
}

fn seed() -> [u64; 2] {
    let mut bytes = [0; 16];
    unpredictable(&mut bytes);
    let whole = u128::from_ne_bytes(bytes);
    // The state must not be zero as a whole.
    [(whole >> 64) as u64 | 1, whole as u64]
}
