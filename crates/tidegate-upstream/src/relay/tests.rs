//! Limits of bytes a second.

use std::time::Duration;

use super::allowance;

#[test]
fn seconds_that_have_begun_count_as_whole() {
    let check = |rate, read, millis, expected: Result<u64, u64>| {
        let got = allowance(rate, read, Duration::from_millis(millis));
        assert_eq!(got, expected.map_err(Duration::from_millis), "{rate} {read} {millis}");
    };
    check(1000, 0, 0, Ok(1000));
    check(1000, 999, 900, Ok(1));
    check(1000, 1000, 900, Err(1));
    check(1000, 1500, 900, Err(501));
    check(1000, 1500, 1000, Ok(500));
    check(u64::MAX, 7, 5000, Ok(u64::MAX - 7));
}

proptest::proptest! {
    #[test]
    fn no_more_is_allowed_than_the_rate(rate in 1u64..1 << 40, read in 0u64..1 << 40, passed in 0u64..1 << 32) {
        match allowance(rate, read, Duration::from_millis(passed)) {
            Ok(bytes) => proptest::prop_assert!(bytes > 0 && read + bytes <= rate * (passed / 1000 + 1)),
            Err(wait) => {
                // Time passes, so that something will be allowed.
                proptest::prop_assert!(!wait.is_zero());
            }
        }
    }
}
