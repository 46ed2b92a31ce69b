//! States of connections, and what one costs while it is idle.

use std::mem::size_of;
use std::time::Duration;

use tidegate_core::client::CancelCode::{Close, Reset};
use tidegate_rt::clock::exact_now;

use super::ConnectionState::{Cancelled, Idle, Serving};
use super::{IdleLimits, Link, Order, ParkState};

#[test]
fn a_request_is_given_up_once_and_only_while_there_is_one() {
    let since = exact_now();
    for (state, code, expected) in [
        (Serving, Close, Cancelled { code: Close }),
        (Serving, Reset, Cancelled { code: Reset }),
        (Cancelled { code: Close }, Reset, Cancelled { code: Close }),
        (Cancelled { code: Reset }, Close, Cancelled { code: Reset }),
        (Idle { since }, Reset, Idle { since }),
    ] {
        assert_eq!(state.cancelled(code), expected, "{state:?}, {code:?}");
    }
}

#[test]
fn only_an_idle_connection_is_idle_since() {
    let since = exact_now();
    assert_eq!(Idle { since }.idle_since(), Some(since));
    assert_eq!(Serving.idle_since(), None);
    assert_eq!(Cancelled { code: Close }.idle_since(), None);
}

#[test]
fn limits_are_renewed_by_a_response() {
    let (accepted, second) = (exact_now(), Duration::from_secs(1));
    let fresh = IdleLimits::new(accepted, 60 * second);
    assert_eq!((fresh.until, fresh.kept_until), (accepted + 60 * second, accepted));
    let now = accepted + second;
    let kept = fresh.renewed(now, 75 * second, 10 * second);
    assert_eq!((kept.until, kept.kept_until), (now + 75 * second, now + 10 * second));
    let later = kept.renewed(now + second, 5 * second, Duration::ZERO);
    assert_eq!((later.until, later.kept_until), (now + 6 * second, now + 10 * second));
}

#[test]
fn the_larger_order_counts() {
    let rising = [Order::None, Order::Park, Order::CloseWhenIdle, Order::Abort];
    assert!(rising.is_sorted() && rising[0] == Order::default());
}

#[test]
fn an_idle_connection_is_small() {
    // A parked connection is this, its `Connection`, its socket, and eight bytes in the table of members.
    assert!(size_of::<Link>() <= LINK_BYTES_MAX, "{}", size_of::<Link>());
    assert_eq!(size_of::<ParkState>(), 8);
}

/// The size of a connection before it had separate states, bytes.
const LINK_BYTES_MAX: usize = 200;
