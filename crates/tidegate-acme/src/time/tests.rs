//! Dates and pauses as servers write them.

use std::time::Duration;

use super::Time;

#[test]
fn dates_of_rfc_3339() {
    let cases = [
        ("1970-01-01T00:00:00Z", Some(0)),
        ("2025-01-03T00:00:00Z", Some(1_735_862_400)),
        ("2025-01-03T00:00:00.123456789Z", Some(1_735_862_400)),
        ("2025-01-03t01:30:00+01:30", Some(1_735_862_400)),
        ("2025-01-02 23:00:00-01:00", Some(1_735_862_400)),
        ("2016-12-31T23:59:60Z", Some(1_483_228_799)),
        ("2025-01-03T00:00:00", None),
        ("2025-01-03T00:00:00.Z", None),
        ("2025-02-29T00:00:00Z", None),
        ("2025-01-03T00:00:00+24:00", None),
        ("2025-01-03T00:00:00+01:00x", None),
        ("1969-12-31T23:59:59Z", None),
        ("2025-01-03", None),
        ("2025-01-0éT00:00:00Z", None),
        ("", None),
    ];
    for (text, seconds) in cases {
        assert_eq!(Time::from_rfc3339(text), seconds.map(Time), "{text}");
    }
    assert_eq!(Time(1_735_862_400).to_string(), "2025-01-03T00:00:00Z");
    assert!(Time(u64::MAX).to_string().starts_with("9999-12-31"));
}

#[test]
fn retry_after_is_seconds_or_a_date() {
    let now = Time(1000);
    let cases = [
        ("0", Some(Time(1000))),
        (" 120 ", Some(Time(1120))),
        ("99999999999999999999", Some(Time(u64::MAX))),
        ("Thu, 01 Jan 1970 01:00:00 GMT", Some(Time(3600))),
        ("-1", None),
        ("soon", None),
        ("", None),
    ];
    for (value, expected) in cases {
        assert_eq!(Time::from_retry_after(value, now), expected, "{value}");
    }
    assert_eq!(now.after(Duration::from_millis(1)), Time(1001));
    assert_eq!(now.since(Time(2000)), Duration::ZERO);
}
