//! Idle timeouts of origins: learned from repetition, forgotten in time.

use super::*;

#[test]
fn a_timeout_is_confirmed_by_repetition() {
    let start = tidegate_rt::clock::now();
    let seconds = Duration::from_secs;
    let check = |closings: &[(u64, u64)], at: u64, expected: Option<u64>| {
        let mut learned = IdleTimeouts::default();
        for (when, idle) in closings {
            learned.closed(7, seconds(*idle), start + seconds(*when));
        }
        let limit = learned.limit(7, start + seconds(at));
        assert_eq!(limit, expected.map(seconds), "{closings:?}");
        assert_eq!(learned.limit(8, start + seconds(at)), None);
    };
    check(&[(10, 5)], 10, None);
    check(&[(10, 5), (20, 5)], 20, Some(3));
    check(&[(10, 6), (20, 5), (30, 6)], 30, Some(3));
    check(&[(10, 5), (10, 5), (11, 5)], 20, None);
    check(&[(10, 5), (20, 30)], 20, None);
    check(&[(10, 1), (20, 1)], 20, None);
    check(&[(10, 5), (20, 5)], 700, None);
    check(&[(10, 5), (700, 5)], 700, None);
}

#[test]
fn announced_timeouts() {
    for (field, expected) in [
        ("timeout=5", Some(4000)),
        ("timeout=5, max=100", Some(4000)),
        ("max=100, timeout=1", Some(500)),
        ("timeout=0", Some(0)),
        ("max=100", None),
        ("timeout=soon", None),
        ("timeout=99999999999999999999999", None),
        ("", None),
    ] {
        assert_eq!(announced(field.as_bytes()), expected.map(Duration::from_millis), "{field}");
    }
    assert_eq!(announced(b"\xff"), None);
}
