//! Any sequence of changes of a table, against a list that is searched from its beginning.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use tidegate_rt::clock;

use crate::keyval::index::Matching;
use crate::keyval::table::{Record, Table, TableError};

#[derive(Clone, Debug)]
enum Step {
    Add(String, String, Option<u64>),
    Put(String, String, Option<u64>),
    Change(String, Option<String>, Option<u64>),
    Remove(String),
    Clear,
    Sweep(usize),
    /// Seconds pass.
    Wait(u64),
}

/// The records in the order of their making: key, value, second of the end.
#[derive(Default)]
struct Model(Vec<(String, String, Option<u64>)>);

const ROOM: usize = 1200;

fn cost(key: &str, value: &str, matching: Matching) -> usize {
    let index = if matching == Matching::Text { 0 } else { 64 };
    160 + index + key.len() + value.len()
}

impl Model {
    fn live(&self, now: u64) -> impl Iterator<Item = &(String, String, Option<u64>)> {
        self.0.iter().filter(move |(_, _, end)| end.is_none_or(|end| now < end))
    }

    fn has(&self, key: &str, now: u64) -> bool {
        self.live(now).any(|(known, ..)| known == key)
    }

    /// Returns the bytes of all records but one.
    fn bytes_without(&self, key: &str, matching: Matching, now: u64) -> usize {
        let others = self.live(now).filter(|(known, ..)| known != key);
        others.map(|(key, value, _)| cost(key, value, matching)).sum()
    }

    fn remove(&mut self, key: &str) {
        self.0.retain(|(known, ..)| known != key);
    }

    fn longest_prefix(&self, text: &str, now: u64) -> Option<&str> {
        let fitting = self.live(now).filter(|(key, ..)| text.starts_with(key.as_str()));
        fitting.max_by_key(|(key, ..)| key.len()).map(|(_, value, _)| value.as_str())
    }
}

fn key() -> impl Strategy<Value = String> {
    "[abé]{1,4}"
}

fn end() -> impl Strategy<Value = Option<u64>> {
    proptest::option::of(0..6_u64)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (key(), "[xy]{0,40}", end()).prop_map(|(key, value, end)| Step::Add(key, value, end)),
        2 => (key(), "[xy]{0,40}", end()).prop_map(|(key, value, end)| Step::Put(key, value, end)),
        2 => (key(), proptest::option::of("[xy]{0,40}"), end())
            .prop_map(|(key, value, end)| Step::Change(key, value, end)),
        2 => key().prop_map(Step::Remove),
        1 => Just(Step::Clear),
        1 => (0..4_usize).prop_map(Step::Sweep),
        2 => (1..3_u64).prop_map(Step::Wait),
    ]
}

/// A table and its model, at a second.
struct Pair {
    matching: Matching,
    table: Table,
    model: Model,
    start: Instant,
    now: u64,
}

impl Pair {
    fn at(&self, second: u64) -> Instant {
        self.start + Duration::from_secs(second)
    }

    fn record(&self, key: &str, value: &str, end: Option<u64>) -> Record {
        let expires = end.map(|end| self.at(self.now + end));
        Record { key: key.into(), value: value.into(), expires }
    }

    /// Takes a step with both; returns whether it is a change, or a difference between the two.
    fn step(&mut self, step: &Step) -> Result<bool, TestCaseError> {
        let (time, now) = (self.at(self.now), self.now);
        let (table, model) = (&mut self.table, &mut self.model);
        let done = match step {
            Step::Add(key, value, end) | Step::Put(key, value, end) => {
                let record = self.record(key, value, *end);
                let (table, model) = (&mut self.table, &mut self.model);
                let known = model.has(key, now);
                let done = match step {
                    Step::Add(..) => table.add(record, ROOM, time),
                    _ => table.put(record, ROOM, time),
                };
                let exists = matches!(done, Err(TableError::Exists(_)));
                prop_assert_eq!(exists, known && matches!(step, Step::Add(..)));
                if done == Err(TableError::NoRoom) {
                    let others = model.bytes_without(key, self.matching, now);
                    prop_assert!(others + cost(key, value, self.matching) > ROOM);
                }
                if done.is_ok() {
                    model.remove(key);
                    model.0.push((key.clone(), value.clone(), end.map(|end| now + end)));
                }
                done.is_ok()
            }
            Step::Change(key, value, end) => {
                let expires = self.record(key, "", *end).expires;
                let (table, model) = (&mut self.table, &mut self.model);
                let given = value.as_deref().map(Into::into);
                let done = table.change(key, given, expires, ROOM, time);
                let missing = matches!(done, Err(TableError::Missing(_)));
                prop_assert_eq!(missing, !model.has(key, now));
                if done.is_ok() {
                    let known = model.0.iter_mut().find(|(known, ..)| known == key);
                    let Some(known) = known else { return Err(TestCaseError::fail("no record")) };
                    known.1 = value.clone().unwrap_or_else(|| known.1.clone());
                    known.2 = end.map(|end| now + end);
                }
                done.is_ok()
            }
            Step::Remove(key) => {
                let done = table.remove(key, time);
                prop_assert_eq!(done.is_ok(), model.has(key, now));
                model.remove(key);
                done.is_ok()
            }
            Step::Clear => {
                let empty = Table::new(self.matching);
                table.replace(empty);
                model.0.clear();
                true
            }
            Step::Sweep(count) => {
                prop_assert!(table.sweep(time, *count) <= *count);
                false
            }
            Step::Wait(seconds) => {
                self.now += seconds;
                false
            }
        };
        Ok(done)
    }

    fn compare(&self, prefixes: bool) -> Result<(), TestCaseError> {
        let (time, now) = (self.at(self.now), self.now);
        let (table, model) = (&self.table, &self.model);
        let records = table.records(0, time).map(|(_, record)| record);
        let mut shown: Vec<(&str, &str)> = records.map(|one| (&*one.key, &*one.value)).collect();
        let places = table.records(0, time).map(|(place, _)| place);
        let behind = places.last().map_or(0, |place| place + 1);
        prop_assert!(table.records(behind, time).next().is_none());
        shown.sort_unstable();
        let live = model.live(now).map(|(key, value, _)| (key.as_str(), value.as_str()));
        let mut expected: Vec<(&str, &str)> = live.collect();
        expected.sort_unstable();
        prop_assert_eq!(&shown, &expected);
        prop_assert_eq!(table.is_empty(time), expected.is_empty());
        prop_assert!(table.used().bytes <= ROOM as u64);
        prop_assert!(table.used().entries >= expected.len() as u64);
        for text in ["a", "ab", "abéa", "éé", "bab", ""] {
            let equal = || expected.iter().find(|(key, _)| *key == text).map(|(_, value)| *value);
            let found = if prefixes { model.longest_prefix(text, now) } else { equal() };
            prop_assert_eq!(table.find(text.as_bytes(), time), found);
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn a_table_is_its_model(
        steps in proptest::collection::vec(step(), 0..60),
        prefixes in any::<bool>(),
    ) {
        let matching = if prefixes { Matching::Prefix } else { Matching::Text };
        let (table, model) = (Table::new(matching), Model::default());
        let mut pair = Pair { matching, table, model, start: clock::now(), now: 0 };
        for step in steps {
            let version = pair.table.version();
            let done = pair.step(&step)?;
            prop_assert!(!done || pair.table.version() > version);
            pair.compare(prefixes)?;
        }
    }

    #[test]
    fn a_network_is_found_like_by_a_list(
        networks in proptest::collection::vec((any::<bool>(), 0..4_u8, 0..=32_u8), 0..20),
        searched in (any::<bool>(), 0..4_u8, 0..=32_u8),
    ) {
        let now = clock::now();
        let written = |(v6, byte, bits): (bool, u8, u8)| match v6 {
            true => format!("{byte:x}{byte:x}01::{byte}/{}", u16::from(bits) * 4),
            false => format!("{byte}.{byte}.0.{byte}/{bits}"),
        };
        let parse = |text: &str| tidegate_conf::network::Network::parse(text).unwrap().0;
        let mut table = Table::new(Matching::Network);
        let mut list = Vec::new();
        for network in networks {
            let key = written(network);
            let added = table.add(
                Record { key: key.as_str().into(), value: key.as_str().into(), expires: None },
                1 << 20,
                now,
            );
            let network = parse(&key);
            prop_assert_eq!(added.is_ok(), list.iter().all(|(known, _)| *known != network));
            if added.is_ok() {
                list.push((network, key));
            }
        }
        let text = written(searched);
        let wanted = parse(&text);
        let fitting = list.iter().filter(|(network, _)| {
            network.bits() <= wanted.bits() && network.contains(wanted.address())
        });
        let expected = fitting.max_by_key(|(network, _)| network.bits()).map(|(_, key)| &**key);
        prop_assert_eq!(table.find(text.as_bytes(), now), expected);
    }

    #[test]
    fn any_bytes_are_pairs_or_an_error(text in proptest::collection::vec(any::<u8>(), 0..80)) {
        crate::keyval::pairs::fuzz_keyval_pairs(&text);
    }

    #[test]
    fn any_json_is_pairs_or_an_error(text in r#"\{("[ab]{0,2}":("[xé]*"|-?[0-9]{1,22}|null|\{"value":"y","expire":[0-9]{1,21}\}),?){0,4}\}"#) {
        crate::keyval::pairs::fuzz_keyval_pairs(text.as_bytes());
    }
}
