//! When connections of an application's processes are kept, and when they are closed for waiting requests.

use tidegate_rt::clock;

use super::*;

fn queue() -> Arc<ProcessQueue> {
    Arc::default()
}

#[test]
fn a_connection_is_kept_unless_a_request_is_left_behind() {
    let ms = Duration::from_millis;
    // (waiting, to close, the oldest before it has waited, it took) → left to close, or kept
    let table = [
        (0, 0, None, ms(1), None),
        (0, 100, None, ms(1), None),
        (3, 0, None, ms(1), None),
        (3, 0, Some(ms(4)), ms(1), None),
        (3, 0, Some(ms(5)), ms(1), Some(3 * CLOSED_PER_WAITING)),
        (3, 7, None, ms(1), Some(6)),
        (3, 1, Some(ms(9)), ms(1), Some(0)),
    ];
    for (waiting, to_close, oldest, took, left) in table {
        let case = (waiting, to_close, oldest, took);
        assert_eq!(left_to_close(waiting, to_close, oldest, took), left, "{case:?}");
    }
}

#[test]
fn a_later_request_that_was_served_first_has_its_connection_closed() {
    let queue = queue();
    let start = clock::now();
    let first = queue.enter(start);
    let waiting = first.wait();
    // Another arrives and ends while the first one waits: it takes almost no time.
    let now = start + Duration::from_millis(1);
    assert!(!queue.enter(now).may_keep(now));
    assert!(queue.is_closing());
    let closed =
        (0..).take_while(|_| !queue.enter(now).may_keep(now)).take(2 * CLOSED_PER_WAITING).count();
    assert!(closed >= CLOSED_PER_WAITING, "{closed}");
    drop(waiting);
    assert!(first.may_keep(now) && !queue.is_closing(), "no request waits any more");
}

#[test]
fn a_request_before_the_waiting_ones_keeps_its_connection() {
    let queue = queue();
    let now = clock::now();
    let first = queue.enter(now);
    let second = queue.enter(now);
    let _waiting = second.wait();
    assert!(first.may_keep(now));
    assert!(!queue.is_closing());
}

#[test]
fn an_address_has_one_line() {
    let address = |port| Addr::Inet((std::net::Ipv4Addr::LOCALHOST, port).into());
    let queue = ProcessQueue::of(&address(1));
    assert!(Arc::ptr_eq(&queue, &ProcessQueue::of(&address(1))));
    assert!(!Arc::ptr_eq(&queue, &ProcessQueue::of(&address(2))));
}
