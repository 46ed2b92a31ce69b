//! Many threads on one store, synchronised by barriers and wake-ups only.

use std::sync::Barrier;
use std::thread;

use bytes::Bytes;

use super::support::*;
use crate::fake::MemoryDisk;
use crate::fuzz::block_on;
use crate::{Head, Store};

#[test]
fn one_thread_fills_and_all_follow() {
    let disk = MemoryDisk::default();
    let mut settings = options();
    settings.fill_tail_bytes_max = 8000;
    let store = open_with(&disk, settings);
    let whole = body(200_000, 5);
    const THREADS: usize = 8;
    let barrier = Barrier::new(THREADS);
    let writers: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| scope.spawn(|| fill_or_follow(&store, &whole, &barrier)))
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("thread")).sum()
    });
    assert!(writers >= 1);
    assert_eq!(served(&store, &key("a")).map(|(_, body)| body), Some(whole));
}

/// Returns the number of fills that this thread began.
fn fill_or_follow(store: &Store, whole: &[u8], barrier: &Barrier) -> usize {
    barrier.wait();
    match store.begin_fill(&key("a"), 1) {
        Ok(writer) => {
            let mut own = writer.fill().reader(0);
            writer.publish_head(Bytes::new(), times(1), Some(whole.len() as u64), 1);
            let flusher = writer.flusher();
            thread::scope(|scope| {
                for part in whole.chunks(997) {
                    let appended = writer.append(Bytes::copy_from_slice(part), 1);
                    if appended.flush_due {
                        scope.spawn(|| flusher.flush_step());
                    }
                    block_on(writer.backpressure());
                }
            });
            writer.commit(2);
            assert_eq!(drain(&mut own, 1000), (whole.to_vec(), Ok(())));
            1
        }
        Err(fill) => {
            let mut reader = fill.reader(0);
            assert!(matches!(block_on(reader.head()), Head::Ready(_)));
            let (got, end) = drain(&mut reader, 1000);
            assert_eq!(end, Ok(()));
            assert_eq!(got, whole);
            0
        }
    }
}

#[test]
fn fills_removals_and_eviction_at_once() {
    let disk = MemoryDisk::default();
    let mut settings = options();
    settings.size_max = Some(5 * 4096);
    let store = loaded(&disk, settings);
    const THREADS: u8 = 4;
    let barrier = Barrier::new(usize::from(THREADS) + 1);
    thread::scope(|scope| {
        for seed in 0..THREADS {
            let (store, barrier) = (&store, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for step in 0..300u32 {
                    work(store, seed, step);
                }
            });
        }
        barrier.wait();
        for now in 0..300 {
            store.manage_step(now, 5);
        }
    });
    while store.manage_step(1000, 100).more {}
    assert_eq!(disk.paths().len(), store.stats().entries);
    let total: usize = disk.paths().len() * 4096;
    assert_eq!(store.stats().disk_bytes, total as u64);
}

/// Runs one step of a thread: the body of a key contains the number of that key.
fn work(store: &Store, seed: u8, step: u32) {
    let number = (step.wrapping_mul(7) + u32::from(seed) * 3) % 8;
    let key = key(&number.to_string());
    let text = body(50 + number as usize * 60, number as u8);
    match step % 5 {
        0 => {
            store.remove(&key).expect("disk");
        }
        1 => {
            let metadata = Bytes::from(number.to_string());
            renew(store, &key, metadata, times(step.into())).expect("disk");
        }
        _ => match store.begin_fill(&key, step.into()) {
            Ok(writer) => {
                let metadata = Bytes::from(number.to_string());
                let length = Some(text.len() as u64);
                writer.publish_head(metadata, times(step.into()), length, step.into());
                for part in text.chunks(60) {
                    writer.append(Bytes::copy_from_slice(part), step.into());
                }
                writer.commit(step.into());
            }
            Err(fill) => assert_eq!(drain(&mut fill.reader(0), 64), (text.clone(), Ok(()))),
        },
    }
    if let Some(found) = served(store, &key) {
        assert_eq!(found, (number.to_string().into_bytes(), text));
    }
}

/// In any order of events the files never take more room than `max_size`, and in the end only present files
/// are charged.
#[test]
fn room_is_never_exceeded() {
    const BLOCKS: u64 = 12;
    let disk = MemoryDisk::default();
    let mut settings = options();
    settings.size_max = Some(BLOCKS * 4096);
    let store = loaded(&disk, settings);
    let done = std::sync::atomic::AtomicUsize::new(0);
    const THREADS: usize = 4;
    thread::scope(|scope| {
        for seed in 0..THREADS as u32 {
            let (store, done) = (&store, &done);
            scope.spawn(move || {
                for step in 0..300u32 {
                    let number = step.wrapping_mul(7).wrapping_add(seed * 11) % 16;
                    // Of known and unknown length, some of many blocks, some too large for the cache.
                    let text = body(number as usize * 4000, number as u8);
                    let length = (step % 2 == 0).then_some(text.len() as u64);
                    grow(store, &key(&number.to_string()), &text, length, step.into());
                    if step % 5 == 0 {
                        store.remove(&key(&(number / 2).to_string())).expect("disk");
                    }
                }
                done.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            });
        }
        while done.load(std::sync::atomic::Ordering::SeqCst) < THREADS {
            let (blocks, stats) = (disk.blocks(), store.stats());
            assert!(blocks <= BLOCKS, "{blocks} blocks, {stats:?}");
            assert!(stats.charged_bytes <= BLOCKS * 4096);
            store.manage_step(0, 3);
        }
    });
    while store.manage_step(0, 100).more {}
    let stats = store.stats();
    assert_eq!(stats.charged_bytes, stats.disk_bytes, "{stats:?}");
    assert_eq!(disk.blocks() * 4096, stats.disk_bytes);
    assert!(stats.refused > 0 && stats.evicted > 0, "{stats:?}");
}

/// Fills a key unless it is being filled; some fills are aborted.
fn grow(store: &Store, key: &crate::Key, text: &[u8], length: Option<u64>, now: u64) {
    let Ok(writer) = store.begin_fill(key, now) else { return };
    writer.publish_head(Bytes::from_static(b"m"), times(now), length, now);
    for part in text.chunks(1500) {
        if !writer.append(Bytes::copy_from_slice(part), now).has_room {
            writer.flush_step();
        }
    }
    match now % 7 {
        0 => writer.abort("enough"),
        _ => drop(writer.commit(now)),
    }
}
