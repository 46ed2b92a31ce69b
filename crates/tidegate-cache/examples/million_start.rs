//! Measures how long a start with a large cache takes, and the memory of its index.
//!
//! `cargo run --release -p tidegate-cache --example million_start -- [ENTRIES] [DIRECTORY]` writes a snapshot
//! of this number of entries (a million by default) into the directory (a new one by default). One of the
//! entries has a file. Then the example opens the store as a server does, opens that file at once, and
//! restores the snapshot.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_cache::{Key, Levels, Options, RealDisk, Store, Times, fuzz::write_snapshot_of};
use tidegate_rt::clock::{exact_now, unix_millis};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let entries: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let own = std::env::temp_dir().join(format!("million-start-{}", std::process::id()));
    let directory = arguments.next().map_or(own.clone(), PathBuf::from);
    let mut options = Options::new(&directory);
    options.levels = Levels::parse("1:2").unwrap_or_default();
    options.keys_bytes = entries * 128 + (1 << 20);
    options.owner = Some("measured".to_owned());
    // A body in a file, and nothing kept in memory: the hit opens the file.
    options.memory_body_bytes_max = 100;
    let key = Key::new(&b"http://origin/measured"[..]);
    let now = unix_millis();
    let store = open(&options);
    while store.load_step(now, 100).restoring {}
    fill(&store, &key, now);
    drop(store);
    write_snapshot_of(&RealDisk::default(), &directory, options.levels, &key, entries, now);

    let before = resident_bytes();
    let start = exact_now();
    let store = open(&options);
    let opened = start.elapsed();
    let hit = store.open_entry(&key, now).is_ok_and(|entry| entry.is_some());
    let first = start.elapsed();
    while store.load_step(now, 100).restoring {}
    let whole = start.elapsed();
    let (stats, memory) = (store.stats(), resident_bytes().saturating_sub(before));
    println!("entries in the index       {}", stats.entries);
    println!("opened after               {opened:?}");
    println!("first hit ({hit}) after     {first:?}");
    println!("index complete after       {whole:?}");
    let each = memory as f64 / stats.entries.max(1) as f64;
    println!("resident memory            {memory} bytes, {each:.1} for each entry");
    let start = exact_now();
    store.finish(now);
    println!("snapshot written in        {:?}", start.elapsed());
    drop(store);
    let _ = std::fs::remove_dir_all(own);
}

fn open(options: &Options) -> Store {
    match Store::open(options.clone(), Arc::new(RealDisk::default())) {
        Ok(store) => store,
        Err(error) => panic!("{}: {error}", options.path.display()),
    }
}

fn fill(store: &Store, key: &Key, now: u64) {
    let Ok(writer) = store.begin_fill(key, now) else { return };
    writer.publish_head(Bytes::from_static(b"head"), Times::default(), None, now);
    writer.append(Bytes::from(vec![b'x'; 20_000]), now);
    writer.commit(now);
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}
