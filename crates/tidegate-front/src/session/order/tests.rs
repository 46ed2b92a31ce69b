//! Which session ends first.

use std::cell::Cell;
use std::rc::Rc;

use super::*;

#[derive(Default)]
struct Fake {
    name: u32,
    over: Cell<bool>,
    received: Cell<bool>,
}

impl Member for Rc<Fake> {
    fn is_over(&self) -> bool {
        self.over.get()
    }

    fn has_received(&self) -> bool {
        self.received.take()
    }
}

/// Checks the order in which sessions 0, 1, 2 … end, if those in `heard` have received more than one datagram and those
/// in `over` have ended.
fn check(count: u32, heard: &[u32], over: &[u32], expected: &[u32]) {
    let mut order = EvictionOrder::default();
    let all: Vec<_> = (0..count).map(|name| Rc::new(Fake { name, ..Fake::default() })).collect();
    all.iter().for_each(|one| order.enter(one.clone()));
    heard.iter().for_each(|name| all[*name as usize].received.set(true));
    over.iter().for_each(|name| all[*name as usize].over.set(true));
    let ended: Vec<_> = std::iter::from_fn(|| order.take_first()).map(|one| one.name).collect();
    assert_eq!(ended, expected);
}

#[test]
fn sessions_of_one_datagram_end_before_others_and_the_oldest_first() {
    check(4, &[], &[], &[0, 1, 2, 3]);
    check(4, &[0, 2], &[], &[1, 3, 0, 2]);
    check(4, &[0, 1, 2, 3], &[], &[0, 1, 2, 3]);
    check(4, &[1], &[0], &[2, 3, 1]);
}

#[test]
fn a_session_that_has_received_again_ends_later() {
    let mut order = EvictionOrder::default();
    let all: Vec<_> = (0..3).map(|name| Rc::new(Fake { name, ..Fake::default() })).collect();
    all.iter().for_each(|one| order.enter(one.clone()));
    all.iter().for_each(|one| one.received.set(true));
    assert_eq!(order.take_first().map(|one| one.name), Some(0));
    all[1].received.set(true);
    assert_eq!(order.take_first().map(|one| one.name), Some(2));
}

#[test]
fn ended_sessions_do_not_pile_up() {
    let mut order = EvictionOrder::default();
    for name in 0..100_000 {
        let one = Rc::new(Fake { name, ..Fake::default() });
        order.enter(one.clone());
        one.over.set(true);
        order.leave(false);
    }
    assert!(order.young.len() <= OVER_MAX + 3);
}
