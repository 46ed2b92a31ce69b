//! The bytes that a rate limit grants, and when.

use super::GrantInterval::{Quarters, Seconds};
use super::*;

#[test]
fn the_bytes_of_a_second_at_once_then_by_steps() {
    let check = |steps, rate, passed, millis, expected: Result<u64, u64>| {
        let got = allowance(rate, steps, passed, Duration::from_millis(millis));
        assert_eq!(
            got,
            expected.map_err(Duration::from_millis),
            "{steps:?} {rate} {passed} {millis}"
        );
    };
    check(Quarters, 1000, 0, 0, Ok(1000));
    check(Quarters, 1000, 999, 0, Ok(1));
    // The wait ends when there is something to send.
    check(Quarters, 1000, 1000, 0, Err(250));
    check(Quarters, 1000, 1000, 249, Err(1));
    check(Quarters, 1000, 1000, 250, Ok(250));
    check(Quarters, 1000, 1500, 400, Err(350));
    check(Quarters, 1000, 1500, 1000, Ok(500));
    // Less than a byte per step.
    check(Quarters, 1, 1, 0, Err(1000));
    check(Quarters, 3, 3, 0, Err(500));
    check(Quarters, 3, 4, 500, Err(250));
    check(Quarters, u64::MAX, 7, 5000, Ok(u64::MAX - 7));
    check(Seconds, 1000, 1000, 900, Err(100));
    check(Seconds, 1000, 1500, 999, Err(1));
    check(Seconds, 1000, 1500, 1000, Ok(500));
    check(Seconds, 1, 1, 0, Err(1000));
    check(Quarters, 1, u64::MAX, 0, Err(24 * 3_600_000));
}

proptest::proptest! {
    #[test]
    fn no_more_is_allowed_than_the_rate(
        rate in 1u64..1 << 40,
        passed in 0u64..1 << 40,
        time in 0u64..1 << 32,
        by_seconds: bool,
    ) {
        let steps = if by_seconds { Seconds } else { Quarters };
        match allowance(rate, steps, passed, Duration::from_millis(time)) {
            Ok(bytes) => proptest::prop_assert!(bytes > 0 && (passed + bytes) <= rate.saturating_mul(time / 1000 + 2)),
            Err(wait) if wait < WAIT_MAX => {
                let after = allowance(rate, steps, passed, Duration::from_millis(time) + wait);
                proptest::prop_assert!(after.is_ok());
                let before = Duration::from_millis(time) + wait - Duration::from_millis(1);
                let before = allowance(rate, steps, passed, before);
                proptest::prop_assert!(wait.as_millis() == 1 || before.is_err());
            }
            Err(_) => {}
        }
    }
}
