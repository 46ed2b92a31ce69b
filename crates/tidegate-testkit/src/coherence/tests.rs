//! The judge notices what is wrong.

use super::judge::{History, Response, State, Verdict};
use crate::torture::object;

fn response(status: u16, length: u64, body: Vec<u8>) -> Response {
    Response { status, length, body }
}

fn file(base: u64, length: u64) -> (State, Response) {
    let body = object::bytes(base, 0, length as usize);
    (State::File { base, length }, response(200, length, body))
}

fn set(history: &History, state: State) {
    history.change(state, || Ok::<(), ()>(())).expect("a change");
}

#[test]
fn old_and_mixed_answers_are_mistakes() {
    let (one, one_answer) = file(1, 100);
    let (two, two_answer) = file(2, 100);
    let history = History::new(one);
    assert_eq!(history.judge(history.done(), &one_answer), Ok(Verdict::Whole));
    assert!(history.judge(history.done(), &two_answer).is_err());
    let before = history.done();
    set(&history, two);
    // Who asked before the change may get either, who asks behind it only the new one.
    assert_eq!(history.judge(before, &one_answer), Ok(Verdict::Whole));
    assert_eq!(history.judge(before, &two_answer), Ok(Verdict::Whole));
    assert_eq!(history.judge(history.done(), &two_answer), Ok(Verdict::Whole));
    let stale = history.judge(history.done(), &one_answer).expect_err("it is old");
    assert!(stale.contains("the state 1 before"), "{stale}");
    let mut mixed = one_answer.clone();
    mixed.body[50..].copy_from_slice(&two_answer.body[50..]);
    assert!(history.judge(before, &mixed).is_err());
}

#[test]
fn a_change_counts_from_its_begin() {
    let (one, one_answer) = file(1, 10);
    let (two, two_answer) = file(2, 10);
    let history = History::new(one);
    let changed = history.change(two, || {
        assert_eq!(history.judge(history.done(), &one_answer), Ok(Verdict::Whole));
        assert_eq!(history.judge(history.done(), &two_answer), Ok(Verdict::Whole));
        Ok::<(), ()>(())
    });
    assert_eq!(changed, Ok(()));
    assert!(history.judge(history.done(), &one_answer).is_err());
}

#[test]
fn only_a_cut_file_may_cut_its_answer() {
    let (long, answer) = file(1, 100);
    let mut cut = answer.clone();
    cut.body.truncate(60);
    let history = History::new(long);
    let before = history.done();
    assert!(history.judge(before, &cut).is_err());
    set(&history, State::File { base: 1, length: 40 });
    assert_eq!(history.judge(before, &cut), Ok(Verdict::Cut));
    assert!(history.judge(history.done(), &cut).is_err());
    let none = response(0, 0, Vec::new());
    assert_eq!(history.judge(before, &none), Ok(Verdict::Cut));
    assert!(history.judge(history.done(), &none).is_err());
    // A shorter length that the file never had.
    let wrong = response(200, 60, cut.body.clone());
    assert!(history.judge(before, &wrong).is_err());
}

#[test]
fn names_that_are_no_files() {
    let history = History::new(State::Absent);
    assert_eq!(history.judge(0, &response(404, 9, Vec::new())), Ok(Verdict::Absent));
    assert!(history.judge(0, &response(403, 9, Vec::new())).is_err());
    set(&history, State::Directory);
    assert_eq!(history.judge(1, &response(301, 9, Vec::new())), Ok(Verdict::Whole));
    assert!(history.judge(1, &response(404, 9, Vec::new())).is_err());
    assert!(history.judge(1, &response(500, 9, Vec::new())).is_err());
}
