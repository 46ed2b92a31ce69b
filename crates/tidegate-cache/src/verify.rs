//! Comparison of bodies with their checksums ([`crate::sums`]).
//!
//! Files that this process wrote are trusted. A file that it opens later (after a restart, or because it was
//! not requested for a while) is compared block by block before a block is served for the first time: the
//! first megabyte when the file is opened, so that damage there is a miss, and the rest as it is read, so
//! that a large file costs no more than the requested part. Each block is compared once, and again when the
//! file was changed since: its length and times are examined before a part of it is served, and once more
//! afterwards. For a while after damage was found only bytes that were compared in memory are served: a
//! program that changes one file may change others, between the check of a file and the moment when the
//! kernel takes its bytes.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use crate::disk::{DiskFile, Stamp, read_full_at};
use crate::key::KeyHash;
use crate::sums::{BLOCK_BYTES, SUM_BYTES, placed_sum};
use crate::sync::Mutex;

/// Bytes that are compared when a file is opened.
pub(crate) const VERIFIED_AT_OPEN: u64 = 1 << 20;

/// Bytes that are read into memory at a time, compared, and served from there: a multiple of [`BLOCK_BYTES`].
const READ_BYTES: u64 = 4 * BLOCK_BYTES;

/// The time after damage was found in which bodies are served from memory. It is longer than the pause of a
/// tool between two files that it overwrites, and short enough that one bad sector does not cost a day.
const ALARM: Duration = Duration::from_secs(60);

/// Whether damage was found in a store a moment ago.
#[derive(Default)]
pub(crate) struct Alarm {
    /// The end of the alarm in Unix milliseconds; 0: never raised, or long ago.
    until: AtomicU64,
}

impl Alarm {
    pub(crate) fn raise(&self, now: u64) {
        self.until.store(now + ALARM.as_millis() as u64, Ordering::Relaxed);
    }

    fn is_raised(&self, now: u64) -> bool {
        match self.until.load(Ordering::Relaxed) {
            0 => false,
            until if now < until => true,
            _ => {
                self.until.store(0, Ordering::Relaxed);
                false
            }
        }
    }
}

/// The verified blocks of an open file.
///
/// A block is unknown or done; a bit of `done` holds that. It becomes done when it was compared and the
/// file's stamp was the same before and after. All blocks become unknown when a change of the file is
/// detected. When a block differs, the file is removed ([`DamageHandler`]).
///
/// Invariant: bits are set and cleared under the lock of `seen`, so none is set by a stamp from before a
/// change that another thread has detected meanwhile. Bits are read without it: a later change is detected by
/// the next look at the file.
pub(crate) struct Verification {
    hash: KeyHash,
    generation: AtomicU64,
    store: Weak<dyn DamageHandler>,
    alarm: Arc<Alarm>,
    body_start: u64,
    body_bytes: u64,
    /// The stamp of the file when the done blocks were compared.
    seen: Mutex<Stamp>,
    /// The number of changes that were detected.
    changes: AtomicU64,
    done: Box<[AtomicU64]>,
}

/// The receiver of a verification's results: the store of the file, without the rest of it.
pub(crate) trait DamageHandler: Send + Sync {
    /// Notes that the body of a file of this generation could not be read.
    fn read_failed(&self, error: &io::Error);
    /// Removes the file of this generation: its body is damaged and is no longer to be served. Blocks.
    fn remove_damaged(&self, hash: &KeyHash, generation: u64, now: u64);
}

/// The file that a verification concerns.
pub(crate) struct VerifiedFile {
    pub hash: KeyHash,
    pub generation: u64,
    pub store: Weak<dyn DamageHandler>,
    pub alarm: Arc<Alarm>,
    pub body_start: u64,
    pub body_bytes: u64,
}

impl Verification {
    /// Makes a verification in which no block was compared yet.
    pub(crate) fn new(subject: VerifiedFile, file: &dyn DiskFile) -> io::Result<Verification> {
        Ok(Verification::begun(subject, file.stamp()?, 0))
    }

    /// Makes a verification of a file that this process has just written, so all of it is sound. `before` is the
    /// stamp from before the file had its name, when no other program could find it. The rename changes the time of
    /// the inode alone: where the length or the time of the contents differ, another program has written since, and
    /// the file is compared as any other.
    pub(crate) fn written(
        subject: VerifiedFile,
        before: io::Result<Stamp>,
        file: &dyn DiskFile,
    ) -> Verification {
        let after = file.stamp();
        let is_sound =
            matches!((&before, &after), (Ok(before), Ok(after)) if before.has_contents_of(after));
        Verification::begun(subject, after.unwrap_or_default(), if is_sound { u64::MAX } else { 0 })
    }

    fn begun(subject: VerifiedFile, seen: Stamp, done: u64) -> Verification {
        let VerifiedFile { hash, generation, store, alarm, body_start, body_bytes } = subject;
        let words = body_bytes.div_ceil(BLOCK_BYTES).div_ceil(64);
        let done = (0..words).map(|_| AtomicU64::new(done)).collect();
        let (generation, seen) = (AtomicU64::new(generation), Mutex::new(seen));
        let changes = AtomicU64::new(0);
        Verification { hash, generation, store, alarm, body_start, body_bytes, seen, changes, done }
    }

    /// Returns the memory that it takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Verification>() + self.done.len() * 8
    }

    /// Returns whether the file's stamp is the one of the comparison. If not, no block is sound until it is
    /// compared again. One system call; never blocks.
    pub(crate) fn is_unchanged(&self, file: &dyn DiskFile) -> bool {
        let stamp = file.stamp();
        let mut seen = self.seen.lock();
        if stamp.as_ref().is_ok_and(|stamp| *stamp == *seen) {
            return true;
        }
        // Under the lock: no other thread marks a block as done by an older stamp.
        self.done.iter().for_each(|word| word.store(0, Ordering::Release));
        *seen = stamp.unwrap_or_default();
        self.changes.fetch_add(1, Ordering::Release);
        false
    }

    /// Returns whether bodies are to be served from memory for the moment.
    pub(crate) fn is_suspect(&self, now: u64) -> bool {
        self.alarm.is_raised(now)
    }

    /// Returns the number of changes that were detected until now, by any thread.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Notes that this process has written to the head of the file, whose stamp was `before`, under a new
    /// `generation`.
    pub(crate) fn renewed(&self, before: Option<Stamp>, file: &dyn DiskFile, generation: u64) {
        self.generation.store(generation, Ordering::Release);
        let mut seen = self.seen.lock();
        if let (Some(before), Ok(after)) = (before, file.stamp())
            && before == *seen
        {
            *seen = after;
        }
    }

    /// Returns the offset up to which the file may be served from `offset` on, by the comparisons until now;
    /// `offset` itself if its block was not compared, or if bodies are to be served from memory. Never
    /// blocks.
    pub(crate) fn compared_to(&self, offset: u64, now: u64) -> u64 {
        if self.is_suspect(now) {
            return offset;
        }
        let first = offset / BLOCK_BYTES;
        let word_bits = u64::from(u64::BITS);
        let mut block = first;
        let words = usize::try_from(first / word_bits).ok().and_then(|word| self.done.get(word..));
        for word in words.unwrap_or_default() {
            // Blocks before this one count as done; the last word's bits behind the body do no harm.
            let before = !(u64::MAX << (block % word_bits));
            let done = (word.load(Ordering::Acquire) | before).trailing_ones();
            block = block / word_bits * word_bits + u64::from(done);
            if done < u64::BITS {
                break;
            }
        }
        block.saturating_mul(BLOCK_BYTES).clamp(offset, self.body_bytes.max(offset))
    }

    /// Compares a part of the body. Returns false when it is damaged, and the file has been removed then. The
    /// same is done when it cannot be read, so that the next request does not end there, too. Blocks, and
    /// takes the lock of the key's path.
    pub(crate) fn verify(
        &self,
        file: &dyn DiskFile,
        offset: u64,
        length: u64,
        now: u64,
    ) -> io::Result<bool> {
        self.judged(self.compare(file, offset, length, now), now)
    }

    /// Reads the bytes from an offset on and compares them: at most `length`, and at most [`READ_BYTES`].
    /// Returns `None` when they are damaged; otherwise as [`Verification::verify`].
    pub(crate) fn read(
        &self,
        file: &dyn DiskFile,
        offset: u64,
        length: u64,
        now: u64,
    ) -> io::Result<Option<Bytes>> {
        let first = offset / BLOCK_BYTES;
        let wanted = offset.saturating_add(length).min(self.body_bytes);
        let end = wanted.min(first * BLOCK_BYTES + READ_BYTES).div_ceil(BLOCK_BYTES);
        let (mut bytes, mut buffer) = (Vec::new(), Vec::new());
        for block in first..end {
            if !self.judged(self.read_block(file, block, &mut buffer), now)? {
                return Ok(None);
            }
            bytes.extend_from_slice(&buffer);
        }
        let from = (offset % BLOCK_BYTES) as usize;
        let to =
            usize::try_from(length).map_or(bytes.len(), |length| bytes.len().min(from + length));
        let is_any = offset < self.body_bytes;
        Ok(is_any.then(|| Bytes::from(bytes).slice(from.min(to)..to)))
    }

    /// Removes a file that proved to be damaged.
    fn judged(&self, compared: io::Result<bool>, now: u64) -> io::Result<bool> {
        if !matches!(compared, Ok(true))
            && let Some(store) = self.store.upgrade()
        {
            if let Err(error) = &compared {
                store.read_failed(error);
            }
            store.remove_damaged(&self.hash, self.generation.load(Ordering::Acquire), now);
        }
        compared
    }

    /// Compares the blocks of a part of the body; returns false when one differs. Blocks of a file that is
    /// being changed do not stay done. Blocks.
    pub(crate) fn compare(
        &self,
        file: &dyn DiskFile,
        offset: u64,
        length: u64,
        now: u64,
    ) -> io::Result<bool> {
        let end = offset.saturating_add(length).min(self.body_bytes);
        let mut buffer = Vec::new();
        self.is_unchanged(file);
        for block in offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES) {
            if self.is_done(block) {
                continue;
            }
            let before = *self.seen.lock();
            if !self.read_block(file, block, &mut buffer)? {
                return Ok(false);
            }
            let after = file.stamp()?;
            let seen = self.seen.lock();
            if before == after
                && *seen == after
                && !after.is_young(now)
                && let Some(word) = self.done.get((block / 64) as usize)
            {
                word.fetch_or(1 << (block % 64), Ordering::Release);
            }
        }
        Ok(true)
    }

    /// Reads a block of the body; returns false when it differs from the written one.
    fn read_block(
        &self,
        file: &dyn DiskFile,
        block: u64,
        buffer: &mut Vec<u8>,
    ) -> io::Result<bool> {
        let start = block * BLOCK_BYTES;
        let bytes = BLOCK_BYTES.min(self.body_bytes - start) as usize;
        buffer.resize(bytes, 0);
        let mut sum = [0; SUM_BYTES as usize];
        let sum_at = self.body_start + self.body_bytes + block * SUM_BYTES;
        let read = read_full_at(file, buffer, self.body_start + start)?;
        let whole = read == bytes && read_full_at(file, &mut sum, sum_at)? == sum.len();
        let found = placed_sum(xxh3_64(buffer), block, &self.hash);
        Ok(whole && found.to_le_bytes() == sum)
    }

    fn is_done(&self, block: u64) -> bool {
        let word = usize::try_from(block / 64).ok().and_then(|word| self.done.get(word));
        word.is_some_and(|word| word.load(Ordering::Acquire) >> (block % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests;
