//! The store against a plain map: after any operations it serves the last stored object, never takes more
//! room than its limit, and removes nothing without need.

use std::collections::HashMap;

use bytes::Bytes;
use proptest::prelude::*;

use super::support::*;
use crate::fake::MemoryDisk;
use crate::{Committed, Key, Options, Store};

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

const INACTIVE: u64 = 300;
const BLOCKS_MAX: usize = 6;

struct Expected {
    metadata: Vec<u8>,
    body: Vec<u8>,
    used: u64,
}

/// The store and the map that it has to agree with.
struct Pair {
    settings: Options,
    disk: MemoryDisk,
    store: Store,
    model: HashMap<Key, Expected>,
    now: u64,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_store_is_a_bounded_map(operations in operations()) {
        let mut pair = Pair::new();
        for (step, operation) in operations.into_iter().enumerate() {
            pair.now += 1;
            let surplus = pair.surplus_of(&operation);
            pair.apply(operation, step);
            pair.check_room(surplus);
        }
        pair.manage();
        assert_eq!(pair.disk.paths().len(), pair.model.len());
        let bytes = pair.model.len() as u64 * 4096;
        assert_eq!(pair.store.stats().disk_bytes, bytes);
    }
}

impl Pair {
    fn new() -> Pair {
        let mut settings = options();
        settings.inactive = INACTIVE;
        settings.size_max = Some(BLOCKS_MAX as u64 * 4096);
        settings.memory_bytes = 8 * 2000;
        settings.open_files_max = 8;
        let disk = MemoryDisk::default();
        let store = loaded(&disk, settings.clone());
        Pair { settings, disk, store, model: HashMap::new(), now: 1 }
    }

    /// Returns the blocks beyond the limit that an operation needs at one time.
    fn surplus_of(&self, operation: &Operation) -> usize {
        let writes = matches!(operation, Operation::Fill { .. } | Operation::Renew { .. });
        (self.model.len() + usize::from(writes)).saturating_sub(BLOCKS_MAX)
    }

    /// Checks that files were removed for want of room, but no more than necessary.
    fn check_room(&mut self, surplus: usize) {
        let before = self.model.len();
        let store = &self.store;
        self.model.retain(|key, _| store.peek(key).entry.is_some());
        assert!(before - self.model.len() <= surplus, "removed without need");
        let stats = self.store.stats();
        assert_eq!(stats.entries, self.model.len());
        assert!(stats.charged_bytes <= BLOCKS_MAX as u64 * 4096);
        assert!(self.disk.paths().len() <= BLOCKS_MAX, "more files than there is room");
    }

    fn apply(&mut self, operation: Operation, step: usize) {
        match operation {
            Operation::Fill { key, length } => self.fill(number_key(key), length, step),
            Operation::Abort { key } => {
                let key = number_key(key);
                begin(&self.store, &key, self.now)
                    .append(Bytes::from_static(b"unfinished"), self.now);
                self.used(&key);
            }
            Operation::Open { key } => {
                let key = number_key(key);
                let expected = self.model.get(&key);
                let expected = expected.map(|known| (known.metadata.clone(), known.body.clone()));
                assert_eq!(served(&self.store, &key), expected);
            }
            Operation::Lookup { key } => self.lookup(&number_key(key)),
            Operation::Renew { key, length } => self.renew(number_key(key), length, step),
            Operation::Remove { key } => {
                let key = number_key(key);
                let removed = self.store.remove(&key).expect("disk");
                assert_eq!(removed, self.model.remove(&key).is_some());
            }
            Operation::Manage { pass } => {
                self.now += u64::from(pass);
                self.manage();
            }
            Operation::Restart => self.restart(),
        }
    }

    fn fill(&mut self, key: Key, length: u16, step: usize) {
        let (metadata, body) = (step.to_string(), body(length.into(), step as u8));
        let committed = fill(&self.store, &key, &metadata, &body, self.now);
        assert!(matches!(committed, Committed::Stored));
        let metadata = metadata.into_bytes();
        self.model.insert(key, Expected { metadata, body, used: self.now });
    }

    fn lookup(&mut self, key: &Key) {
        let found = self.store.lookup(key, self.now);
        self.used(key);
        let expected = self.model.get(key);
        assert_eq!(
            found.entry.map(|entry| entry.body_bytes),
            expected.map(|known| known.body.len() as u64)
        );
        if let Some(open) = found.open {
            let expected = expected.map(|known| (known.metadata.clone(), known.body.clone()));
            assert_eq!(Some(contents(&open)), expected);
        }
    }

    fn renew(&mut self, key: Key, length: u16, step: usize) {
        let metadata = body(length.into(), step as u8);
        let bytes = Bytes::from(metadata.clone());
        let done = renew(&self.store, &key, bytes, times(self.now)).expect("disk");
        // The copy that longer metadata need may have evicted the very file that is renewed.
        assert_eq!(done, self.store.peek(&key).entry.is_some());
        self.model.entry(key).and_modify(|expected| expected.metadata = metadata);
    }

    fn manage(&mut self) {
        while self.store.manage_step(self.now, 2).more {}
        expire(&mut self.model, self.now);
    }

    fn restart(&mut self) {
        self.manage();
        self.check_room(0);
        self.disk = self.disk.after_crash();
        self.store = open_with(&self.disk, self.settings.clone());
        while !self.store.load_step(self.now, 4).done {}
        // Objects loaded at one moment have no order of use: give them one.
        let mut keys: Vec<Key> = self.model.keys().cloned().collect();
        keys.sort_by_key(|key| *key.hash());
        for key in keys {
            self.now += 1;
            self.store.touch(&key, self.now);
            self.used(&key);
        }
    }

    fn used(&mut self, key: &Key) {
        if let Some(expected) = self.model.get_mut(key) {
            expected.used = self.now;
        }
    }
}

fn number_key(number: u8) -> Key {
    key(&format!("http://origin/{number}"))
}

fn expire(model: &mut HashMap<Key, Expected>, now: u64) {
    model.retain(|_, expected| expected.used + INACTIVE > now);
}
