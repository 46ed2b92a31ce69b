//! Dates against known moments, and round trips.
use super::*;
use proptest::prelude::*;

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn known_moments_are_formatted() {
    assert_eq!(text(&format_http(784_111_777)), "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_eq!(text(&format_http(0)), "Thu, 01 Jan 1970 00:00:00 GMT");
    assert_eq!(text(&format_http(-1)), "Wed, 31 Dec 1969 23:59:59 GMT");
    assert_eq!(text(&format_http(i64::MAX)), "Fri, 31 Dec 9999 23:59:59 GMT");
    assert_eq!(text(&format_http(i64::MIN)), "Sat, 01 Jan 0000 00:00:00 GMT");
    assert_eq!(text(&format_iso8601(971_186_136, 0)), "2000-10-10T13:55:36+00:00");
    assert_eq!(text(&format_iso8601(971_186_136, 330)), "2000-10-10T19:25:36+05:30");
    for (seconds, expected) in [
        (2_145_916_555, "Thu, 31-Dec-37 23:55:55 GMT"),
        (2_145_916_555 + 366 * DAY, "Sat, 01-Jan-2039 23:55:55 GMT"),
    ] {
        let mut out = Vec::new();
        write_cookie(seconds, &mut out);
        assert_eq!(text(&out), expected);
    }
}

#[test]
fn dates_are_parsed_in_three_forms() {
    for (input, expected) in [
        ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
        ("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777)),
        ("Sun Nov  6 08:49:37 1994", Some(784_111_777)),
        ("Sun Nov 16 08:49:37 1994", Some(784_975_777)),
        ("Sun, 06 Nov 1994 08:49:37", Some(784_111_777)),
        ("Fri, 25 Feb 2174 09:42:23 GMT", Some(0x1_7FFF_FFFF)),
        ("Thu, 31-Dec-37 23:55:55 GMT", Some(2_145_916_555)),
        ("Mon, 28 Sep 1970 06:00:00 GMT", Some(23_349_600)),
        ("Thu, 29 Feb 2024 00:00:00 GMT", Some(1_709_164_800)),
        ("Wed, 29 Feb 2023 00:00:00 GMT", None),
        ("Sun, 06 Nov 1994 24:00:00 GMT", None),
        ("Sun, 06 Nov 1994 08:60:00 GMT", None),
        ("Sun, 06 Nov 1994 08:49:37 CET", None),
        ("Sun, 00 Nov 1994 08:49:37 GMT", None),
        ("Sun, 06 Foo 1994 08:49:37 GMT", None),
        ("Sun, 06 Nov 94 08:49:37 GMT", None),
        ("0", None),
        ("", None),
        (",", None),
    ] {
        assert_eq!(parse_http(input.as_bytes()), expected, "{input}");
    }
}

proptest! {
    #[test]
    fn formatted_dates_are_parsed(seconds in SECONDS_MIN..=SECONDS_MAX) {
        prop_assert_eq!(parse_http(&format_http(seconds)), Some(seconds));
        prop_assert_eq!(Civil::from_unix(seconds).to_unix(), Some(seconds));
    }

    #[test]
    fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        let _ = parse_http(&bytes);
    }
}
