//! The store against a plain map: whatever is done, it serves what was stored last.

use std::collections::HashMap;

use bytes::Bytes;
use proptest::prelude::*;

use super::support::*;
use crate::fake::MemoryDisk;
use crate::{Committed, Key};

#[derive(Clone, Debug)]
enum Operation {
    Fill { key: u8, length: u16 },
    Abort { key: u8 },
    Open { key: u8 },
    Lookup { key: u8 },
    Renew { key: u8, length: u16 },
    Remove { key: u8 },
    Manage { pass: u16 },
    Restart,
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let key = 0..12u8;
    let one = prop_oneof![
        4 => (key.clone(), 0..600u16).prop_map(|(key, length)| Operation::Fill { key, length }),
        1 => key.clone().prop_map(|key| Operation::Abort { key }),
        3 => key.clone().prop_map(|key| Operation::Open { key }),
        2 => key.clone().prop_map(|key| Operation::Lookup { key }),
        2 => (key.clone(), 0..600u16).prop_map(|(key, length)| Operation::Renew { key, length }),
        1 => key.prop_map(|key| Operation::Remove { key }),
        1 => (0..150u16).prop_map(|pass| Operation::Manage { pass }),
        1 => Just(Operation::Restart),
    ];
    prop::collection::vec(one, 1..80)
}

struct Expected {
    metadata: Vec<u8>,
    body: Vec<u8>,
    used: u64,
}

const INACTIVE: u64 = 300;
const BLOCKS_MAX: usize = 6;

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_store_is_a_map_with_an_order_of_use(operations in operations()) {
        let mut settings = options();
        settings.inactive = INACTIVE;
        settings.size_max = Some(BLOCKS_MAX as u64 * 4096);
        settings.memory_bytes = 8 * 2000;
        settings.open_files_max = 8;
        let mut disk = MemoryDisk::default();
        let mut store = loaded(&disk, settings.clone());
        let mut model: HashMap<Key, Expected> = HashMap::new();
        let mut now = 1;
        for (step, operation) in operations.into_iter().enumerate() {
            now += 1;
            match operation {
                Operation::Fill { key: number, length } => {
                    let (key, body) = (number_key(number), body(length.into(), step as u8));
                    let metadata = step.to_string();
                    let committed = fill(&store, &key, &metadata, &body, now);
                    prop_assert!(matches!(committed, Committed::Stored));
                    let metadata = metadata.into_bytes();
                    model.insert(key, Expected { metadata, body, used: now });
                }
                Operation::Abort { key: number } => {
                    let key = number_key(number);
                    begin(&store, &key, now).append(Bytes::from_static(b"unfinished"), now);
                    model.entry(key).and_modify(|expected| expected.used = now);
                }
                Operation::Open { key: number } => {
                    let key = number_key(number);
                    let expected = model.get(&key);
                    let found = served(&store, &key);
                    prop_assert_eq!(
                        found,
                        expected.map(|known| (known.metadata.clone(), known.body.clone()))
                    );
                }
                Operation::Lookup { key: number } => {
                    let key = number_key(number);
                    let found = store.lookup(&key, now);
                    let expected = model.get_mut(&key);
                    prop_assert_eq!(
                        found.entry.map(|entry| entry.body_bytes),
                        expected.as_ref().map(|known| known.body.len() as u64)
                    );
                    if let (Some(open), Some(known)) = (found.open, &expected) {
                        prop_assert_eq!(
                            contents(&open),
                            (known.metadata.clone(), known.body.clone())
                        );
                    }
                    expected.into_iter().for_each(|known| known.used = now);
                }
                Operation::Renew { key: number, length } => {
                    let key = number_key(number);
                    let metadata = body(length.into(), step as u8);
                    let done = store
                        .update_metadata(&key, Bytes::from(metadata.clone()), times(now))
                        .expect("disk");
                    prop_assert_eq!(done, model.contains_key(&key));
                    model.entry(key).and_modify(|expected| expected.metadata = metadata);
                }
                Operation::Remove { key: number } => {
                    let key = number_key(number);
                    let removed = store.remove(&key).expect("disk");
                    prop_assert_eq!(removed, model.remove(&key).is_some());
                }
                Operation::Manage { pass } => {
                    now += u64::from(pass);
                    while store.manage_step(now, 2).more {}
                    expire(&mut model, now);
                }
                Operation::Restart => {
                    while store.manage_step(now, 2).more {}
                    expire(&mut model, now);
                    disk = disk.after_crash();
                    store = open_with(&disk, settings.clone());
                    while !store.load_step(now, 4).done {}
                    model.values_mut().for_each(|expected| expected.used = now);
                    // What was loaded at one moment has no order of use: give it one.
                    let mut keys: Vec<Key> = model.keys().cloned().collect();
                    keys.sort_by_key(|key| *key.hash());
                    for key in keys {
                        now += 1;
                        store.touch(&key, now);
                        model.entry(key).and_modify(|expected| expected.used = now);
                    }
                }
            }
            prop_assert_eq!(store.stats().entries, model.len());
        }
        while store.manage_step(now, 2).more {}
        prop_assert_eq!(disk.paths().len(), store.stats().entries);
    }
}

fn number_key(number: u8) -> Key {
    key(&format!("http://origin/{number}"))
}

fn expire(model: &mut HashMap<Key, Expected>, now: u64) {
    model.retain(|_, expected| expected.used + INACTIVE > now);
    while model.len() > BLOCKS_MAX {
        let oldest = model.iter().min_by_key(|(_, expected)| expected.used);
        let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { return };
        model.remove(&oldest);
    }
}
