//! Buffers for encrypted bytes. A connection has them only while bytes are under way: a thread keeps a few spare ones.

use std::cell::RefCell;

/// Capacity of an input buffer in bytes: the longest record of TLS 1.2 (18,437 bytes, RFC 5246 section 6.2.3), and
/// most of a second one.
pub(crate) const INPUT_BYTES: usize = 32 * 1024;
/// The most bytes of input that are kept: a handshake message of 64 KiB, which the library joins in the buffer, and
/// the record behind it.
pub(crate) const INPUT_BYTES_MAX: usize = 96 * 1024;
/// Bytes of a waiting part of a record up to which it moves into memory of its size.
const COMPACT_BYTES: usize = 4 * 1024;
/// The alignment of output: a copy of a record to an odd address is several times slower on some processors.
pub(crate) const ALIGNMENT: usize = 64;
/// Length of an output buffer in bytes: four records of 16 KiB, small ones before them, and their alignment.
const OUTPUT_BYTES: usize = 64 * 1024 + 4 * 1024 + ALIGNMENT;
/// Spare buffers of a thread, of each kind.
const SPARES_MAX: usize = 16;

thread_local! {
    static INPUTS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    static OUTPUTS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Received bytes that the library has not used yet, from the start of a record or of a handshake message on.
#[derive(Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    /// The bytes before it are used.
    start: usize,
}

impl Input {
    /// Makes input of bytes that have been received already.
    pub(crate) fn new(bytes: Vec<u8>) -> Input {
        Input { bytes, start: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    /// Returns the bytes, which the library decrypts in place.
    pub(crate) fn filled(&mut self) -> &mut [u8] {
        // cannot fail: `start` is at most the length
        self.bytes.get_mut(self.start..).unwrap_or_default()
    }

    /// Drops the first `count` bytes: the library has used them.
    pub(crate) fn discard(&mut self, count: usize) {
        self.start = (self.start + count).min(self.bytes.len());
        if self.is_empty() {
            self.clear();
        }
    }

    /// Drops all bytes.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.start = 0;
    }

    /// Returns the vector to read into, with room at its end; `None` if more is buffered than any message needs.
    pub(crate) fn room(&mut self) -> Option<&mut Vec<u8>> {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        if self.bytes.capacity() < INPUT_BYTES {
            let mut pooled = input();
            pooled.extend_from_slice(&self.bytes);
            give_back_input(std::mem::replace(&mut self.bytes, pooled));
        }
        if self.bytes.len() == self.bytes.capacity() {
            if self.bytes.len() >= INPUT_BYTES_MAX {
                return None;
            }
            self.bytes.reserve_exact(INPUT_BYTES);
        }
        Some(&mut self.bytes)
    }

    /// Replaces empty input by `bytes`.
    pub(crate) fn replace(&mut self, bytes: Vec<u8>) {
        debug_assert!(self.is_empty());
        give_back_input(std::mem::replace(&mut self.bytes, bytes));
        self.start = 0;
    }

    /// Gives back memory that is not needed while nothing arrives: all of it without bytes, and most of it with a
    /// part of a record.
    pub(crate) fn rest(&mut self) {
        if self.bytes.capacity() == 0 {
            return;
        }
        let left = self.bytes.len() - self.start;
        if left == 0 {
            self.replace(Vec::new());
        } else if left <= COMPACT_BYTES && self.bytes.capacity() >= INPUT_BYTES {
            let part = self.filled().to_vec();
            give_back_input(std::mem::replace(&mut self.bytes, part));
            self.start = 0;
        }
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        give_back_input(std::mem::take(&mut self.bytes));
    }
}

/// Decrypted bytes for which the caller's vector had no room: at most those of one input.
#[derive(Default)]
pub(crate) struct Decrypted {
    bytes: Vec<u8>,
    start: usize,
}

impl Decrypted {
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    /// Adds bytes: to `target` as far as it has room, and keeps the rest.
    pub(crate) fn put(&mut self, mut bytes: &[u8], target: Option<&mut Vec<u8>>) {
        if let Some(target) = target.filter(|_| self.is_empty()) {
            let (now, later) = bytes.split_at(bytes.len().min(target.capacity() - target.len()));
            target.extend_from_slice(now);
            bytes = later;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Moves bytes into a vector's spare capacity.
    pub(crate) fn take(&mut self, target: &mut Vec<u8>) {
        let count = self.left().len().min(target.capacity() - target.len());
        target.extend_from_slice(&self.left()[..count]);
        self.taken(count);
    }

    /// Moves bytes into a slice; returns how many.
    pub(crate) fn take_slice(&mut self, target: &mut [u8]) -> usize {
        let count = self.left().len().min(target.len());
        target[..count].copy_from_slice(&self.left()[..count]);
        self.taken(count);
        count
    }

    fn left(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    fn taken(&mut self, count: usize) {
        self.start += count;
        if self.is_empty() {
            *self = Decrypted::default();
        }
    }
}

/// Encrypted bytes that the socket has still to take.
#[derive(Default)]
pub(crate) struct Output {
    /// A whole buffer, or empty.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Output {
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    pub(crate) fn pending(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Drops the first `count` bytes: the socket has taken them. The buffer is given back behind the last one.
    pub(crate) fn sent(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
        if self.is_empty() {
            self.clear();
        }
    }

    /// Drops all bytes.
    pub(crate) fn clear(&mut self) {
        give_back_output(std::mem::take(&mut self.buffer));
        (self.start, self.end) = (0, 0);
    }

    /// Returns the free bytes behind the pending ones, without making any.
    pub(crate) fn spare(&self) -> usize {
        self.buffer.len() - self.end
    }

    /// Prepares an empty buffer, in which the byte number `offset` behind the start will be aligned.
    pub(crate) fn align(&mut self, offset: usize) {
        if self.is_empty() {
            if self.buffer.is_empty() {
                self.buffer = output();
            }
            let base = self.buffer.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
            self.start = base + (ALIGNMENT - offset % ALIGNMENT) % ALIGNMENT;
            self.start = self.start.min(self.buffer.len());
            self.end = self.start;
        }
    }

    /// Returns the free bytes, at least `count`.
    pub(crate) fn room(&mut self, count: usize) -> &mut [u8] {
        if self.buffer.is_empty() {
            self.buffer = output();
        }
        if self.spare() < count {
            self.buffer.resize(self.end + count, 0);
        }
        self.buffer.get_mut(self.end..).unwrap_or_default()
    }

    /// Inserts bytes behind the first `at` pending ones.
    pub(crate) fn insert(&mut self, at: usize, bytes: &[u8]) {
        let place = self.start.saturating_add(at).min(self.end);
        self.room(bytes.len());
        self.buffer.copy_within(place..self.end, place + bytes.len());
        self.buffer[place..place + bytes.len()].copy_from_slice(bytes);
        self.end += bytes.len();
    }

    /// Counts `count` bytes that were written to [`Output::room`] as pending.
    pub(crate) fn written(&mut self, count: usize) {
        self.end = (self.end + count).min(self.buffer.len());
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Takes an input buffer: empty, with a capacity of at least [`INPUT_BYTES`].
pub(crate) fn input() -> Vec<u8> {
    take(&INPUTS).unwrap_or_else(|| Vec::with_capacity(INPUT_BYTES))
}

/// Takes back an input buffer; other vectors are dropped.
pub(crate) fn give_back_input(mut bytes: Vec<u8>) {
    bytes.clear();
    if bytes.capacity() == INPUT_BYTES {
        give_back(&INPUTS, bytes);
    }
}

fn output() -> Vec<u8> {
    take(&OUTPUTS).unwrap_or_else(|| vec![0; OUTPUT_BYTES])
}

fn give_back_output(buffer: Vec<u8>) {
    if buffer.len() == OUTPUT_BYTES {
        give_back(&OUTPUTS, buffer);
    }
}

type Spares = std::thread::LocalKey<RefCell<Vec<Vec<u8>>>>;

fn take(spares: &'static Spares) -> Option<Vec<u8>> {
    spares.try_with(|spares| spares.borrow_mut().pop()).ok().flatten()
}

/// Keeps a buffer. While the thread ends it is dropped.
fn give_back(spares: &'static Spares, buffer: Vec<u8>) {
    let _ = spares.try_with(|spares| {
        let mut spares = spares.borrow_mut();
        if spares.len() < SPARES_MAX {
            spares.push(buffer);
        }
    });
}
