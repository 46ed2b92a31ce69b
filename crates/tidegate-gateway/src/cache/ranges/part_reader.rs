//! The bytes of a part, for the fill of the complete object.

use std::sync::Arc;

use bytes::Bytes;
use tidegate_cache::{FileHandle, Fill, FillReader, Key, OpenEntry, Piece, Store, read_full_at};
use tidegate_core::blocking;

/// Bytes read from a file at a time.
const READ_BYTES: u64 = 256 * 1024;

/// A reader of a part that is stored or being filled.
pub(crate) struct PartReader {
    source: ReaderSource,
    /// Bytes that have not been read yet.
    left: u64,
}

enum ReaderSource {
    Memory(Bytes),
    File { handle: FileHandle, offset: u64 },
    Filling(FillReader),
}

impl PartReader {
    /// Opens a part; `None` when there is none of this length. `now` is in Unix milliseconds.
    pub(crate) async fn open(
        store: &Store,
        key: &Key,
        length: u64,
        now: u64,
    ) -> Option<PartReader> {
        let (entry, fill) = open(store, key, now).await;
        match entry {
            Some(entry) if entry.body_bytes() != length => None,
            Some(entry) => PartReader::of_entry(&entry, now).await,
            None => {
                Some(PartReader { source: ReaderSource::Filling(fill?.reader(0)), left: length })
            }
        }
    }

    /// Reads the body of this entry, even if its key has another one or none meanwhile; `None` where it does not match its
    /// checksums. `now` is in Unix milliseconds.
    pub(crate) async fn of_entry(entry: &OpenEntry, now: u64) -> Option<PartReader> {
        let left = entry.body_bytes();
        if !is_sound(entry, 0, left, now).await {
            return None;
        }
        let source = match (entry.body_in_memory(), entry.file()) {
            (Some(bytes), _) => ReaderSource::Memory(bytes),
            (None, Some(handle)) => {
                ReaderSource::File { handle: handle.clone(), offset: entry.body_start() }
            }
            (None, None) => return None,
        };
        Some(PartReader { source, left })
    }

    /// Returns the next bytes; `None` at the end and after any failure.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        if self.left == 0 {
            return None;
        }
        let bytes = match &mut self.source {
            ReaderSource::Memory(bytes) => std::mem::take(bytes),
            ReaderSource::File { handle, offset } => {
                let bytes = read(handle.clone(), *offset, self.left.min(READ_BYTES)).await?;
                *offset += bytes.len() as u64;
                bytes
            }
            ReaderSource::Filling(reader) => match reader.next(READ_BYTES as usize).await {
                Piece::Bytes(bytes) => bytes,
                Piece::File { handle, offset, length, .. } => read(handle, offset, length).await?,
                Piece::End | Piece::Broken(_) => return None,
            },
        };
        self.left = self.left.checked_sub(bytes.len() as u64)?;
        Some(bytes).filter(|bytes| !bytes.is_empty())
    }
}

/// Reads exactly `length` bytes of a file, on a pool thread.
async fn read(handle: FileHandle, offset: u64, length: u64) -> Option<Bytes> {
    let length = usize::try_from(length).ok()?;
    let work = move || {
        let mut bytes = vec![0; length];
        let count = read_full_at(&*handle, &mut bytes, offset)?;
        Ok((count == length).then(|| Bytes::from(bytes)))
    };
    blocking::run(work).await.ok().flatten()
}

/// Opens the entry stored under a key, and returns its running fill. Both are from one lookup: between two of them
/// the fill may become the file. `now` is in Unix milliseconds.
pub(crate) async fn open(
    store: &Store,
    key: &Key,
    now: u64,
) -> (Option<OpenEntry>, Option<Arc<Fill>>) {
    let lookup = store.peek(key);
    if lookup.open.is_some() || lookup.entry.is_none() && !lookup.cold {
        return (lookup.open, lookup.fill);
    }
    let (store, key) = (store.clone(), key.clone());
    let opened = blocking::run(move || store.open_entry(&key, now)).await;
    (opened.ok().flatten(), lookup.fill)
}

/// Returns whether a part of a stored body matches its checksums; otherwise its file has been removed. `now` is in
/// Unix milliseconds.
pub(crate) async fn is_sound(entry: &OpenEntry, start: u64, length: u64, now: u64) -> bool {
    if entry.verified_to(start, now) >= start.saturating_add(length) {
        return true;
    }
    let entry = entry.clone();
    blocking::run(move || entry.verify(start, length, now)).await.unwrap_or(false)
}
