//! `$ssl_client_v_remain`.

use super::days_left;

#[test]
fn whole_days_are_left_and_none_behind_the_end() {
    let day = 86_400;
    for (last, now, expected) in [
        (10 * day, 0, 10),
        (10 * day, 1, 9),
        (10 * day, 9 * day, 1),
        (10 * day, 9 * day + 1, 0),
        (10 * day, 10 * day, 0),
        (10 * day, 11 * day, 0),
        (i64::MIN, i64::MAX, 0),
    ] {
        assert_eq!(days_left(last, now), expected, "{last}, {now}");
    }
}
