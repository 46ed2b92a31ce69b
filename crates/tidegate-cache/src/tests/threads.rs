//! Many threads on one store, synchronised by barriers and wake-ups only.

use std::sync::Barrier;
use std::thread;

use bytes::Bytes;

use super::support::*;
use crate::fake::MemoryDisk;
use crate::fuzz::block_on;
use crate::{Head, Store};

#[test]
fn one_fills_and_all_follow() {
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

/// Returns how many fills this thread began.
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

/// One step of a thread: the body of a key says which key it is of.
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
            store.update_metadata(&key, metadata, times(step.into())).expect("disk");
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
