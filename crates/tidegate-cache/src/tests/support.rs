//! Helpers of the tests: a store on a disk in memory, filling and reading in one call.

use std::sync::Arc;

use bytes::Bytes;

use crate::disk::read_full_at;
use crate::fake::MemoryDisk;
use crate::fuzz::block_on;
use crate::{
    Committed, FillReader, FillWriter, Key, Levels, OpenEntry, Options, Piece, Store, Times,
};

pub(super) const ROOT: &str = "/cache";

pub(super) fn key(text: &str) -> Key {
    Key::new(text.as_bytes())
}

pub(super) fn options() -> Options {
    let mut options = Options::new(ROOT);
    options.levels = Levels::parse("1:2").expect("levels");
    options.memory_body_bytes_max = 100;
    options.fill_tail_bytes_max = 256;
    options
}

pub(super) fn open(disk: &MemoryDisk) -> Store {
    open_with(disk, options())
}

pub(super) fn open_with(disk: &MemoryDisk, options: Options) -> Store {
    Store::open(options, Arc::new(disk.clone())).expect("open")
}

/// Returns a store whose loader is done.
pub(super) fn loaded(disk: &MemoryDisk, options: Options) -> Store {
    let store = open_with(disk, options);
    load(&store);
    store
}

pub(super) fn load(store: &Store) -> usize {
    let mut added = 0;
    loop {
        let report = store.load_step(0, 3);
        added += report.added;
        if report.done {
            return added;
        }
    }
}

pub(super) fn times(now: u64) -> Times {
    Times { created: now, valid_until: now + 10, updating_until: now + 20, error_until: now + 30 }
}

pub(super) fn begin(store: &Store, key: &Key, now: u64) -> FillWriter {
    store.begin_fill(key, now).unwrap_or_else(|_| panic!("{key:?} is being filled"))
}

/// Fills a key in pieces of 50 bytes and flushes after each.
pub(super) fn fill(store: &Store, key: &Key, metadata: &str, body: &[u8], now: u64) -> Committed {
    let writer = begin(store, key, now);
    let length = Some(body.len() as u64);
    writer.publish_head(Bytes::copy_from_slice(metadata.as_bytes()), times(now), length, now);
    for part in body.chunks(50) {
        if !writer.append(Bytes::copy_from_slice(part), now).has_room {
            writer.flush_step();
        }
    }
    writer.commit(now)
}

/// Renews the present file of a key, whichever that is.
pub(super) fn renew(
    store: &Store,
    key: &Key,
    metadata: Bytes,
    times: Times,
) -> std::io::Result<bool> {
    let generation = store.peek(key).entry.map_or(0, |entry| entry.generation);
    store.update_metadata(key, generation, metadata, times)
}

/// Returns the metadata and the body that the store serves for a key.
pub(super) fn served(store: &Store, key: &Key) -> Option<(Vec<u8>, Vec<u8>)> {
    store.open_entry(key, 0).expect("disk").map(|entry| contents(&entry))
}

pub(super) fn contents(entry: &OpenEntry) -> (Vec<u8>, Vec<u8>) {
    let body = match (entry.body_in_memory(), entry.file()) {
        (Some(body), _) => body.to_vec(),
        (None, Some(file)) => {
            let mut body = vec![0; entry.body_bytes() as usize];
            let count = read_full_at(&**file, &mut body, entry.body_start()).expect("read");
            assert_eq!(count, body.len());
            body
        }
        (None, None) => panic!("an entry without a body"),
    };
    (entry.metadata().to_vec(), body)
}

/// Reads to the end; returns the bytes, and how the body ended.
pub(super) fn drain(
    reader: &mut FillReader,
    max: usize,
) -> (Vec<u8>, Result<(), crate::BreakReason>) {
    let mut body = Vec::new();
    loop {
        match block_on(reader.next(max)) {
            Piece::Bytes(bytes) => body.extend_from_slice(&bytes),
            Piece::File { handle, offset, length, .. } => {
                let mut bytes = vec![0; length as usize];
                let count = read_full_at(&*handle, &mut bytes, offset).expect("read");
                assert_eq!(count, bytes.len());
                body.extend_from_slice(&bytes);
            }
            Piece::End => return (body, Ok(())),
            Piece::Broken(reason) => return (body, Err(reason)),
        }
    }
}

/// Returns a body whose bytes depend on their position.
pub(super) fn body(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at as u8).wrapping_mul(13) ^ (at >> 8) as u8 ^ seed).collect()
}
