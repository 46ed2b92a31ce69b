//! Tests that the judge detects wrong responses.

use super::judge::{Consistency, History, Response, State};
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
fn stale_and_mixed_responses_are_errors() {
    let (one, one_response) = file(1, 100);
    let (two, two_response) = file(2, 100);
    let history = History::new(one);
    assert_eq!(history.judge(history.done(), &one_response), Ok(Consistency::Complete));
    assert!(history.judge(history.done(), &two_response).is_err());
    let before = history.done();
    set(&history, two);
    // A request sent before the change may get either version, a later one only the new one.
    assert_eq!(history.judge(before, &one_response), Ok(Consistency::Complete));
    assert_eq!(history.judge(before, &two_response), Ok(Consistency::Complete));
    assert_eq!(history.judge(history.done(), &two_response), Ok(Consistency::Complete));
    let stale = history.judge(history.done(), &one_response).expect_err("it is old");
    assert!(stale.contains("the state 1 before"), "{stale}");
    let mut mixed = one_response.clone();
    mixed.body[50..].copy_from_slice(&two_response.body[50..]);
    assert!(history.judge(before, &mixed).is_err());
}

#[test]
fn a_change_counts_from_its_begin() {
    let (one, one_response) = file(1, 10);
    let (two, two_response) = file(2, 10);
    let history = History::new(one);
    let changed = history.change(two, || {
        assert_eq!(history.judge(history.done(), &one_response), Ok(Consistency::Complete));
        assert_eq!(history.judge(history.done(), &two_response), Ok(Consistency::Complete));
        Ok::<(), ()>(())
    });
    assert_eq!(changed, Ok(()));
    assert!(history.judge(history.done(), &one_response).is_err());
}

#[test]
fn only_a_cut_file_may_cut_its_response() {
    let (long, served) = file(1, 100);
    let mut cut = served.clone();
    cut.body.truncate(60);
    let history = History::new(long);
    let before = history.done();
    assert!(history.judge(before, &cut).is_err());
    set(&history, State::File { base: 1, length: 40 });
    assert_eq!(history.judge(before, &cut), Ok(Consistency::Truncated));
    assert!(history.judge(history.done(), &cut).is_err());
    let none = response(0, 0, Vec::new());
    assert_eq!(history.judge(before, &none), Ok(Consistency::Truncated));
    assert!(history.judge(history.done(), &none).is_err());
    // A shorter length that the file never had.
    let wrong = response(200, 60, cut.body.clone());
    assert!(history.judge(before, &wrong).is_err());
}

#[test]
fn names_that_are_no_files() {
    let history = History::new(State::Absent);
    assert_eq!(history.judge(0, &response(404, 9, Vec::new())), Ok(Consistency::Absent));
    assert!(history.judge(0, &response(403, 9, Vec::new())).is_err());
    set(&history, State::Directory);
    assert_eq!(history.judge(1, &response(301, 9, Vec::new())), Ok(Consistency::Complete));
    assert!(history.judge(1, &response(404, 9, Vec::new())).is_err());
    assert!(history.judge(1, &response(500, 9, Vec::new())).is_err());
}
