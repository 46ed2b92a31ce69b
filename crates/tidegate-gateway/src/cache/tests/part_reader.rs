//! The reading of a stored body while its key gets another one.

use std::sync::Arc;

use bytes::Bytes;
use tidegate_cache::fake::MemoryDisk;
use tidegate_cache::{Key, Options, Store, Times};
use tidegate_rt::worker::block_on;

use crate::cache::ranges::part_reader::{PartReader, open};

const NOW: u64 = 1;

/// Begins to store a body.
fn begin(store: &Store, key: &Key, body: &'static [u8]) -> tidegate_cache::FillWriter {
    let writer = store.begin_fill(key, NOW).expect("no other fill");
    let times = Times { created: 1, valid_until: 100, updating_until: 100, error_until: 100 };
    writer.publish_head(Bytes::new(), times, Some(body.len() as u64), NOW);
    writer.append(Bytes::from_static(body), NOW);
    writer
}

#[test]
fn a_body_is_that_of_its_entry() {
    let store = Store::open(Options::new("/cache"), Arc::new(MemoryDisk::default())).expect("open");
    while !store.load_step(0, 9).done {}
    let key = Key::new(&b"/a"[..]);
    block_on(async {
        let read = async |mut reader: PartReader| {
            let mut body = Vec::new();
            while let Some(bytes) = reader.next().await {
                body.extend_from_slice(&bytes);
            }
            body
        };
        drop(begin(&store, &key, b"before").commit(NOW));
        let (entry, _) = open(&store, &key, NOW).await;
        let entry = entry.expect("an entry");
        // Replaced by one of the same length.
        drop(begin(&store, &key, b"behind").commit(NOW));
        let other = PartReader::open(&store, &key, 6, NOW).await.expect("another entry");
        assert_eq!(read(other).await, b"behind");
        let own = PartReader::of_entry(&entry, NOW).await.expect("the entry");
        assert_eq!(read(own).await, b"before");
        // Removed, while another one arrives.
        drop(store.remove(&key));
        let _running = begin(&store, &key, b"third.");
        let own = PartReader::of_entry(&entry, NOW).await.expect("the entry");
        assert_eq!(read(own).await, b"before");
    })
    .expect("a loop");
}
