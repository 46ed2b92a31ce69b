//! Tests of the variables of a supervisor, and of the turns of its watchdog.

use super::*;

#[test]
fn a_watchdog_is_for_one_process() {
    let check = |usec: Option<&str>, process: Option<&str>, expected: Option<u64>| {
        let now = tidegate_rt::clock::exact_now();
        let found = time(usec.map(OsStr::new), process.map(OsStr::new), 7);
        let found = found.map(|time| Watchdog::new(time, now).pause);
        assert_eq!(found, expected.map(Duration::from_millis), "{usec:?} {process:?}");
    };
    check(None, None, None);
    check(Some("30000000"), None, Some(10_000));
    check(Some("30000000"), Some("7"), Some(10_000));
    check(Some("30000000"), Some("8"), None);
    check(Some("30000000"), Some(""), None);
    check(Some("1"), Some("7"), Some(10));
    for wrong in ["", "0", "-1", "1s", "99999999999999999999999"] {
        check(Some(wrong), None, None);
    }
    // The longest time overflows nothing.
    let longest = OsStr::new("18446744073709551615");
    let now = tidegate_rt::clock::exact_now();
    let longest = time(Some(longest), None, 7).map(|time| Watchdog::new(time, now));
    assert!(longest.is_some());
}

#[test]
fn a_sign_of_life_follows_a_response() {
    let now = tidegate_rt::clock::exact_now();
    let pause = Duration::from_secs(10);
    let watchdog = Some(Watchdog::new(pause * SIGNS, now));
    let mut supervisor = Supervisor { socket: None, watchdog, has_failed: false };
    assert_eq!(supervisor.next_sign(), Some(now));
    assert!(supervisor.asks(now));
    assert!(!supervisor.asks(now + pause), "one question at a time");
    assert_eq!(supervisor.next_sign(), None);
    supervisor.alive(now, &ErrorLog::default());
    assert!(!supervisor.asks(now));
    assert_eq!(supervisor.next_sign(), Some(now + pause));
    assert!(supervisor.asks(now + pause));
}

#[test]
fn a_reload_may_take_longer() {
    let check = |time: Option<u64>, usual: &str, reload: &str| {
        let now = tidegate_rt::clock::exact_now();
        let watchdog = time.map(|seconds| Watchdog::new(Duration::from_secs(seconds), now));
        let supervisor = Supervisor { socket: None, watchdog, has_failed: false };
        assert_eq!(supervisor.watchdog_time(Duration::ZERO), usual);
        assert_eq!(supervisor.watchdog_time(RELOAD_MAX), reload);
    };
    check(None, "", "");
    check(Some(30), "WATCHDOG_USEC=30000000\n", "WATCHDOG_USEC=600000000\n");
    check(Some(900), "WATCHDOG_USEC=900000000\n", "WATCHDOG_USEC=900000000\n");
}
