//! Which responses have a limit, and how many bytes leave without one.

use std::task::{Context, Poll, Waker};

use super::Pace;
use crate::testing::Bench;

#[test]
fn a_limit_is_the_variables_or_the_locations_and_zero_is_none() {
    for (config, own, expected) in [
        ("", None, None),
        ("limit_rate 0;", None, None),
        ("limit_rate 1k;", None, Some(0)),
        ("limit_rate 1k; limit_rate_after 2k;", None, Some(2048)),
        ("limit_rate_after 2k;", None, None),
        ("", Some(100), Some(0)),
        ("", Some(0), None),
        ("limit_rate 1k; limit_rate_after 3;", Some(100), Some(3)),
        ("limit_rate 1k;", Some(0), None),
        // A value that is no size counts as no limit.
        ("limit_rate $host;", None, None),
        ("limit_rate 1k; limit_rate_after $host;", None, Some(0)),
    ] {
        let bench = Bench::new(&format!("server {{ {config} }}"));
        let mut x = bench.received("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        x.limit_rate = own;
        let pace = Pace::of(&mut x);
        assert_eq!(pace.map(|pace| pace.after), expected, "{config} {own:?}");
    }
}

#[test]
fn bytes_before_the_limit_leave_at_once() {
    let bench = Bench::new("server { limit_rate 10; limit_rate_after 1000; }");
    let mut x = bench.received("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let pace = Pace::of(&mut x).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    for (sent, want, least, most) in [
        (0, 1000, 1000, 1000),
        (999, 1, 1, 1),
        (400, 600, 600, 600),
        // Past the limit, with what the rate allows besides: a second's worth at least.
        (0, 2000, 1010, 2000),
        (1000, 5, 5, 5),
    ] {
        match pace.poll_allowance(&mut context, sent, want) {
            Poll::Ready(allowed) => {
                assert!((least..=most).contains(&allowed), "{sent}, {want}: {allowed}");
            }
            Poll::Pending => panic!("{sent}, {want}"),
        }
    }
}
