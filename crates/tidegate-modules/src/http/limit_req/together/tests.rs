//! Questions in parts, and replies of every form.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use tidegate_rt::sync::oneshot;
use tidegate_store::Value;

use super::{Ask, Found, Held, KEYS_OF_CALL, Term, deliver, parts, passes};

fn term(most: u64) -> Term {
    Term { name: Vec::new(), request: 1, most, farthest: 9 }
}

fn ask(keys: usize) -> (Ask, oneshot::Receiver<Vec<Found>>) {
    let (reply, receiver) = oneshot::channel();
    let held = Held(Arc::new(AtomicUsize::new(1)));
    (Ask { terms: vec![term(0); keys], reply, _held: held }, receiver)
}

#[test]
fn a_call_has_a_bounded_number_of_keys() {
    let table: [(&[usize], &[usize]); 4] = [
        (&[1, 2, 3], &[3]),
        (&[KEYS_OF_CALL, 1], &[1, 1]),
        (&[KEYS_OF_CALL - 1, 1, 1], &[2, 1]),
        (&[1, KEYS_OF_CALL + 1, 1], &[1, 1, 1]),
    ];
    for (asks, expected) in table {
        let made = parts(asks.iter().map(|keys| ask(*keys).0).collect());
        let lengths: Vec<_> = made.iter().map(Vec::len).collect();
        assert_eq!(lengths, expected, "{asks:?}");
    }
}

#[test]
fn each_one_gets_what_was_found_about_it() {
    let numbers =
        |numbers: &[i64]| Value::List(numbers.iter().map(|n| Value::Integer(*n)).collect());
    let found = |micros, total| Found { micros, total };
    let (one, mut first) = ask(1);
    let (two, mut second) = ask(2);
    deliver(vec![one, two], &numbers(&[1, 2, 3, 4, 5, 6]));
    assert_eq!(first.try_recv(), Ok(vec![found(1, 2)]));
    assert_eq!(second.try_recv(), Ok(vec![found(3, 4), found(5, 6)]));
    for wrong in [numbers(&[1, 2]), numbers(&[1, 2, 3, 4, 5, -6]), Value::Null] {
        let (one, mut first) = ask(3);
        deliver(vec![one], &wrong);
        assert!(first.try_recv().is_err(), "{wrong:?}");
    }
}

#[test]
fn a_request_passes_where_all_keys_do() {
    let found = |micros| Found { micros, total: 0 };
    let terms = [term(5), term(0)];
    assert!(passes(&terms, &[found(5), found(0)]));
    assert!(!passes(&terms, &[found(6), found(0)]));
    assert!(!passes(&terms, &[found(0), found(1)]));
}
