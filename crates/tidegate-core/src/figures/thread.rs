//! A value for each thread, found by the thread's number.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Chunks of slots; each has twice the slots of the one before. There are fewer threads than slots: 65,535.
const CHUNKS: usize = 16;

/// A value for each thread, made at first use. Values are never removed: that of a thread that ended is the next one's.
pub(super) struct Slots<T>([OnceLock<Chunk<T>>; CHUNKS]);

/// A run of slots.
type Chunk<T> = Box<[OnceLock<Box<T>>]>;

impl<T> Default for Slots<T> {
    fn default() -> Slots<T> {
        Slots([const { OnceLock::new() }; CHUNKS])
    }
}

impl<T: Default> Slots<T> {
    /// Returns the calling thread's value; `None` while the thread ends.
    #[inline]
    pub(super) fn own(&self) -> Option<&T> {
        let number = match KNOWN.get() {
            0 => first_number()?,
            known => known - 1,
        };
        let (chunk, place) = position(number);
        let chunk = match self.0.get(chunk)?.get() {
            Some(chunk) => chunk,
            None => self.make_chunk(chunk),
        };
        let slot = &chunk[place];
        Some(match slot.get() {
            Some(value) => value,
            None => slot.get_or_init(Box::default),
        })
    }

    #[cold]
    fn make_chunk(&self, chunk: usize) -> &Chunk<T> {
        self.0[chunk].get_or_init(|| (0..1_usize << chunk).map(|_| OnceLock::new()).collect())
    }

    /// Returns the values of all threads, ended ones included.
    pub(super) fn all(&self) -> impl Iterator<Item = &T> {
        let chunks = self.0.iter().filter_map(OnceLock::get);
        chunks.flat_map(|chunk| chunk.iter().filter_map(OnceLock::get)).map(|value| &**value)
    }
}

/// Returns the chunk of a thread's slot and the place in it.
#[inline]
fn position(number: usize) -> (usize, usize) {
    let chunk = (number + 1).ilog2() as usize;
    (chunk, number + 1 - (1 << chunk))
}

/// The number of a running thread: the lowest that no other one has.
struct ThreadNumber(usize);

thread_local! {
    static NUMBER: ThreadNumber = ThreadNumber::take();
    /// The number and 1, once it is taken and as long as it is the thread's: read without a look at a destructor's state.
    static KNOWN: Cell<usize> = const { Cell::new(0) };
}

/// Takes the calling thread's number; `None` while the thread ends.
#[cold]
fn first_number() -> Option<usize> {
    let number = NUMBER.try_with(|number| number.0).ok()?;
    KNOWN.set(number + 1);
    Some(number)
}

/// Numbers that were given back, and the lowest one that was never taken.
static FREE: Mutex<(BTreeSet<usize>, usize)> = Mutex::new((BTreeSet::new(), 0));

impl ThreadNumber {
    fn take() -> ThreadNumber {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let (returned, next) = &mut *free;
        ThreadNumber(returned.pop_first().unwrap_or_else(|| {
            *next += 1;
            *next - 1
        }))
    }
}

impl Drop for ThreadNumber {
    /// Gives the number back. The lock orders this thread's counts before those of the next one with the number.
    fn drop(&mut self) {
        KNOWN.set(0);
        FREE.lock().unwrap_or_else(PoisonError::into_inner).0.insert(self.0);
    }
}
