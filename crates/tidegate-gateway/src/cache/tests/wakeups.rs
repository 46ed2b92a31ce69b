//! How often the readers of a fill are woken.

use std::time::Duration;

use tidegate_rt::clock::exact_now;

use crate::cache::fill::wakeups::{MANY_READERS, WakeupBatcher};

#[test]
fn many_readers_wait_for_their_round_and_few_do_not() {
    let wakeups = WakeupBatcher::default();
    let start = exact_now();
    let after = |micros| start + Duration::from_micros(micros);
    assert_eq!(wakeups.wait(1000, start), Duration::ZERO, "nothing waits for the first bytes");
    wakeups.begin(start);
    let check = |readers, micros, expected| {
        let wait = wakeups.wait(readers, after(micros));
        assert_eq!(wait, Duration::from_micros(expected), "{readers} readers after {micros} µs");
    };
    check(MANY_READERS - 1, 0, 0);
    check(100, 0, 4000);
    check(100, 1500, 2500);
    check(100, 4000, 0);
    check(100, 1_000_000, 0);
    check(1000, 0, 20_000);
    check(usize::MAX, 5000, 15_000);
    wakeups.reset();
    check(1000, 0, 0);
}
