//! Average times: how long they remain valid, and when a slow server is tried.

use super::*;

#[test]
fn averages_hold_and_then_fade() {
    let average = Average::default();
    average.add(4000, 10_000);
    for (now, rest, expected) in [
        (10_000, 0, 4_000_000),
        (12_500, 0, 1_000_000),
        (18_000, 0, 15_625),
        (18_000, 10, 4_000_000),
        (20_999, 10, 4_000_000),
        (22_000, 10, 1_000_000),
        (9_000, 0, 4_000_000),
    ] {
        let rest = Duration::from_secs(rest);
        assert_eq!(average.at(now, rest), expected, "at {now} with {rest:?}");
    }
}

#[test]
fn slow_servers_are_tried_now_and_then() {
    let check = |average: &Average, now: u64, pause: u64, expected: bool| {
        assert_eq!(average.is_old(now, Duration::from_secs(pause)), expected, "at {now}");
    };
    let average = Average::default();
    check(&average, 60_000, 0, false);
    average.add(4000, 10_000);
    check(&average, 14_000, 0, false);
    check(&average, 14_001, 0, true);
    check(&average, 20_000, 10, false);
    check(&average, 20_001, 10, true);
    // It was fast this time: one trial a second shows its current speed.
    average.add(1, 14_800);
    check(&average, 15_200, 0, false);
    check(&average, 15_801, 0, true);
}
