//! A copy of shared pairs, by replies that a test makes.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Level;
use tidegate_core::error_log::ErrorLog;
use tidegate_rt::clock;
use tidegate_store::{CallError, Command, Value};

use super::{Copy, EMPTY_PAUSE, PAIRS_READ, PAIRS_READ_MIN, ROUND_BYTES, SharedPairs};
use crate::keyval::index::Matching;
use crate::keyval::store::Store;
use crate::keyval::table::Record;
use crate::zone_sync::{Member, SyncStore};

fn text(text: &str) -> Value {
    Value::Text(text.as_bytes().to_vec())
}

fn texts(words: &[&str]) -> Value {
    Value::List(words.iter().map(|word| text(word)).collect())
}

fn head(epoch: &str, number: i64, changes: Vec<Value>) -> Value {
    let clock = Value::Integer(1000);
    Value::List(vec![text(epoch), Value::Integer(number), clock, Value::List(changes)])
}

fn change(id: &str, words: &[&str]) -> Value {
    Value::List(vec![text(id), texts(words)])
}

struct Test {
    pairs: SharedPairs,
    store: Arc<SyncStore>,
}

impl Test {
    /// Makes a copy that follows from number 7 on, with one pair.
    fn following() -> Test {
        let store = SyncStore::detached(Duration::from_millis(50));
        let log = ErrorLog::stderr(Level::Emerg);
        let own = (Arc::new(Store::new(Matching::Text)), 1 << 20);
        let test = Test { pairs: SharedPairs::new("z", store.clone(), own, log), store };
        test.round(vec![head("e", 7, vec![])]);
        let part = |cursor: &str, pairs: &[&str]| Value::List(vec![text(cursor), texts(pairs)]);
        test.round(vec![head("e", 8, vec![]), part("5", &["a", "0:1"])]);
        assert_eq!(test.value("a"), None, "the copy is used when it is complete");
        test.round(vec![head("e", 9, vec![]), part("0", &["old", "1000:1", "b", "1001:x:y"])]);
        assert!(test.follows());
        test
    }

    fn round(&self, replies: Vec<Value>) {
        let commands = self.pairs.begin(&self.store);
        assert_eq!(commands.len(), replies.len());
        self.pairs.end(&self.store, replies.into_iter().map(Ok).collect(), clock::now());
    }

    fn value(&self, key: &str) -> Option<String> {
        let table = self.pairs.pairs.table();
        table.get(key, clock::now()).map(|record| (*record.value).to_owned())
    }

    fn follows(&self) -> bool {
        matches!(*self.pairs.lock(), Copy::Following(_))
    }
}

#[test]
fn changes_are_applied_in_their_order() {
    let test = Test::following();
    assert_eq!((test.value("a").as_deref(), test.value("old")), (Some("1"), None));
    test.round(vec![head(
        "e",
        10,
        vec![
            change("8-0", &["set", "a", "to", "0:2:3"]),
            change("9-0", &["remove", "b"]),
            change("10-0", &["remove", "unknown"]),
        ],
    )]);
    assert_eq!((test.value("a").as_deref(), test.value("b")), (Some("2:3"), None));
    assert_eq!(*test.pairs.applied.borrow(), 10);
    test.round(vec![head("e", 11, vec![change("11-0", &["clear", ""])])]);
    assert_eq!(test.value("a"), None);
    // More than is read at once.
    test.round(vec![head("e", 14, vec![change("12-0", &["set", "c", "to", "0:1"])])]);
    test.round(vec![head(
        "e",
        14,
        vec![
            change("13-0", &["set", "d", "to", "0:1"]),
            change("14-0", &["set", "d", "to", "900:2"]),
        ],
    )]);
    assert!(test.follows());
    assert_eq!(test.value("c").as_deref(), Some("1"));
}

#[test]
fn what_does_not_follow_is_read_anew() {
    let table: [(&str, Value); 7] = [
        ("another epoch", head("f", 7, vec![])),
        ("an older state", head("e", 6, vec![])),
        ("a change is missing", head("e", 9, vec![change("9-0", &["clear", ""])])),
        ("all changes are missing", head("e", 9, vec![])),
        ("an unknown change", head("e", 8, vec![change("8-0", &["what", ""])])),
        ("a value without a time", head("e", 8, vec![change("8-0", &["set", "a", "to", "1"])])),
        ("another reply", Value::Integer(1)),
    ];
    for (what, reply) in table {
        let test = Test::following();
        test.round(vec![reply]);
        assert!(matches!(*test.pairs.lock(), Copy::Unknown { .. }), "{what}");
        assert_eq!(test.value("a").as_deref(), Some("1"), "{what}: lookups go on");
    }
}

#[test]
fn an_engine_without_pairs_gets_them() {
    let test = Test::following();
    test.round(vec![head("", 0, vec![])]);
    assert!(matches!(*test.pairs.lock(), Copy::Giving(_)));
    // Pairs, their time, and the script, behind the removal of an earlier attempt.
    test.round(vec![Value::Integer(0), Value::Integer(2), Value::Integer(1), Value::Integer(1)]);
    assert!(matches!(*test.pairs.lock(), Copy::Unknown { .. }));
}

#[test]
fn many_pairs_are_given_in_rounds_and_taken_over_when_all_are_there() {
    let test = Test::following();
    let now = clock::now();
    let value = "x".repeat(1000);
    for number in 0..3000 {
        let key = number.to_string();
        let record = Record { key: key.into(), value: value.as_str().into(), expires: None };
        test.pairs.pairs.change().put(record, 4 << 20, now).expect("room");
    }
    test.round(vec![head("", 0, vec![])]);
    let mut given = Vec::new();
    while matches!(*test.pairs.lock(), Copy::Giving(_)) {
        let commands = test.pairs.begin(&test.store);
        assert!(commands.iter().map(Command::bytes).sum::<usize>() <= ROUND_BYTES * 2);
        if let Copy::Giving(so_far) = &*test.pairs.lock() {
            given.push((so_far.pairs, so_far.is_last));
        }
        let replies = commands.iter().map(|_| Ok(Value::Integer(1))).collect();
        test.pairs.end(&test.store, replies, now);
    }
    // With those that it had, of which one ends about now.
    assert!(matches!(given.last(), Some((3001..=3002, true))), "{given:?}");
    assert!(given.len() > 1 && given.iter().filter(|(_, is_last)| *is_last).count() == 1);
}

#[test]
fn a_server_without_pairs_gives_none_at_once() {
    let store = SyncStore::detached(Duration::from_millis(50));
    let log = ErrorLog::stderr(Level::Emerg);
    let own = (Arc::new(Store::new(Matching::Text)), 1 << 20);
    let test = Test { pairs: SharedPairs::new("z", store.clone(), own, log), store };
    let ask = |now| {
        test.pairs.begin(&test.store);
        test.pairs.end(&test.store, vec![Ok(head("", 0, vec![]))], now);
        matches!(*test.pairs.lock(), Copy::Giving(_))
    };
    let now = clock::now();
    assert!(!ask(now));
    assert!(!ask(now + EMPTY_PAUSE - Duration::from_millis(1)));
    assert!(ask(now + EMPTY_PAUSE));
}

#[test]
fn a_change_that_has_expired_on_its_way_takes_the_older_value() {
    let test = Test::following();
    let late = change("10-0", &["set", "a", "to", "900:2"]);
    let before = ["8-0", "9-0"].map(|id| change(id, &["set", "c", "to", "0:1"]));
    let [one, two] = before;
    test.round(vec![head("e", 10, vec![one, two, late])]);
    assert_eq!((test.value("a"), test.value("c").as_deref()), (None, Some("1")));
}

#[test]
fn a_lost_reply_changes_nothing_but_a_giving() {
    let test = Test::following();
    let lost = || vec![Err(CallError::TimedOut)];
    test.pairs.end(&test.store, lost(), clock::now());
    assert!(test.follows());
    test.round(vec![head("f", 1, vec![])]);
    test.round(vec![head("f", 1, vec![])]);
    test.pairs.end(&test.store, lost(), clock::now());
    assert!(matches!(*test.pairs.lock(), Copy::Reading { .. }));
    test.pairs.connection.store(99, std::sync::atomic::Ordering::Relaxed);
    test.pairs.begin(&test.store);
    assert!(matches!(*test.pairs.lock(), Copy::Unknown { .. }), "another connection");
    test.round(vec![head("", 0, vec![])]);
    test.pairs.end(&test.store, lost(), clock::now());
    assert!(matches!(*test.pairs.lock(), Copy::Unknown { .. }));
    assert_eq!(test.value("a").as_deref(), Some("1"));
}

#[test]
fn parts_are_as_large_as_fits_into_a_round() {
    let test = Test::following();
    let count = || test.pairs.pairs_read.load(std::sync::atomic::Ordering::Relaxed);
    let part = |bytes: usize| {
        let pairs = texts(&["a", &format!("0:{}", "x".repeat(bytes))]);
        Value::List(vec![text("5"), pairs])
    };
    test.round(vec![head("f", 1, vec![])]);
    test.round(vec![head("f", 1, vec![])]);
    let before = count();
    assert!(before >= PAIRS_READ);
    test.round(vec![head("f", 1, vec![]), part(10)]);
    assert_eq!(count(), before * 2);
    test.round(vec![head("f", 1, vec![]), part(100_000)]);
    assert_eq!(count(), PAIRS_READ_MIN);
    for bytes in [1000; 9] {
        test.round(vec![head("f", 1, vec![]), part(bytes)]);
    }
    assert_eq!(count(), ROUND_BYTES / 1003);
    test.pairs.end(&test.store, vec![Err(CallError::TimedOut)], clock::now());
    assert_eq!(count(), ROUND_BYTES / 1003 / 2);
}
