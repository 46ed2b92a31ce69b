//! Measures the cost of the comparison of a body with its checksums, which takes place when a file is opened
//! after a restart.
//!
//! `cargo run --release -p tidegate-cache --example verify_cost -- [MEGABYTES]` stores an object of this
//! number of megabytes (512 by default), opens it with a store that did not write it, and compares all of it.
//! It does the same for small objects. The files are in the page cache, so only the work of the processor is
//! measured.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate_cache::{Key, Levels, Options, RealDisk, Store, Times};
use tidegate_rt::clock::exact_now;

/// The number of small objects that are opened, and their size in bytes.
const SMALL: u64 = 2000;
const SMALL_BYTES: usize = 32 * 1024;

fn main() {
    let argument = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let megabytes: usize = argument.unwrap_or(512);
    let directory = std::env::temp_dir().join(format!("verify-cost-{}", std::process::id()));
    let mut options = Options::new(&directory);
    options.levels = Levels::parse("1:2").unwrap_or_default();
    let store = open(&options);
    fill(&store, &key(0), megabytes, 1 << 20);
    (1..=SMALL).for_each(|number| fill(&store, &key(number), 1, SMALL_BYTES));
    drop(store);

    let store = open(&options);
    let start = exact_now();
    let Ok(Some(entry)) = store.open_entry(&key(0), 1) else { return };
    println!("opened, first megabyte compared   {:?}", start.elapsed());
    let start = exact_now();
    let sound = entry.verify(0, u64::MAX, 1).is_ok_and(|sound| sound);
    let time = start.elapsed();
    println!(
        "{megabytes} MB compared ({sound})         {time:?}, {:.2} GB/s",
        rate(megabytes, time)
    );
    let start = exact_now();
    let found = (1..=SMALL)
        .filter(|number| store.open_entry(&key(*number), 1).is_ok_and(|entry| entry.is_some()));
    let count = found.count();
    let each = start.elapsed() / SMALL as u32;
    println!("{count} objects of {SMALL_BYTES} bytes        {each:?} each to open, read, compare");
    let _ = std::fs::remove_dir_all(directory);
}

fn key(number: u64) -> Key {
    Key::new(number.to_le_bytes())
}

fn open(options: &Options) -> Store {
    match Store::open(options.clone(), Arc::new(RealDisk::default())) {
        Ok(store) => store,
        Err(error) => panic!("{}: {error}", options.path.display()),
    }
}

fn fill(store: &Store, key: &Key, pieces: usize, piece_bytes: usize) {
    let Ok(writer) = store.begin_fill(key, 1) else { return };
    let length = (pieces * piece_bytes) as u64;
    writer.publish_head(Bytes::from_static(b"head"), Times::default(), Some(length), 1);
    let piece = Bytes::from(vec![b'x'; piece_bytes]);
    for _ in 0..pieces {
        writer.append(piece.clone(), 1);
        writer.flush_step();
    }
    writer.commit(1);
}

fn rate(megabytes: usize, time: Duration) -> f64 {
    megabytes as f64 / 1024.0 / time.as_secs_f64()
}
