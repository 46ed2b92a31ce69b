//! Tables of texts and their values in nginx 1.22.

use std::time::Duration;

use super::{parse_milliseconds, parse_number, parse_offset, parse_seconds, parse_size};

/// Text; as number, as size, as offset.
type SizeRow = (&'static str, Option<u64>, Option<u64>, Option<u64>);

#[test]
fn numbers_and_sizes() {
    let table: &[SizeRow] = &[
        ("", None, None, None),
        ("0", Some(0), Some(0), Some(0)),
        ("01", Some(1), Some(1), Some(1)),
        ("-1", None, None, None),
        ("1.5", None, None, None),
        (" 1", None, None, None),
        (
            "9223372036854775807",
            Some(i64::MAX as u64),
            Some(i64::MAX as u64),
            Some(i64::MAX as u64),
        ),
        ("9223372036854775808", None, None, None),
        ("99999999999999999999", None, None, None),
        ("1k", None, Some(1024), Some(1024)),
        ("1K", None, Some(1024), Some(1024)),
        ("2m", None, Some(2 << 20), Some(2 << 20)),
        ("2M", None, Some(2 << 20), Some(2 << 20)),
        ("3g", None, None, Some(3 << 30)),
        ("3G", None, None, Some(3 << 30)),
        ("k", None, None, None),
        ("1kk", None, None, None),
        (
            "9007199254740991k",
            None,
            Some(9_007_199_254_740_991 << 10),
            Some(9_007_199_254_740_991 << 10),
        ),
        ("9007199254740992k", None, None, None),
    ];
    for (text, number, size, offset) in table {
        let bytes = text.as_bytes();
        assert_eq!(parse_number(bytes), *number, "{text:?}");
        assert_eq!(parse_size(bytes), *size, "{text:?}");
        assert_eq!(parse_offset(bytes), *offset, "{text:?}");
    }
}

#[test]
fn milliseconds() {
    let table: &[(&str, Option<u64>)] = &[
        ("10", Some(10_000)),
        ("10ms", Some(10)),
        ("10s", Some(10_000)),
        ("1s500ms", Some(1500)),
        ("1h30m", Some(5_400_000)),
        ("1h30", Some(3_630_000)),
        ("1d12h", Some(129_600_000)),
        ("1w1d", Some(691_200_000)),
        ("1d 12h", Some(129_600_000)),
        ("1d  12h", Some(129_600_000)),
        ("1d ", Some(86_400_000)),
        ("1 1", Some(2000)),
        ("1 ", Some(1000)),
        ("1d 1 1", Some(86_402_000)),
        ("1ms2", Some(2001)),
        ("s1", Some(1000)),
        ("1hms", Some(3_600_000)),
        ("9223372036854775", Some(9_223_372_036_854_775_000)),
        ("0", Some(0)),
        ("", None),
        (" ", None),
        (" 1d", None),
        ("1 d", None),
        ("1 1 ", None),
        ("1s1 ", None),
        ("m", None),
        ("s", None),
        ("ss1", None),
        ("m1h", None),
        ("1m1h", None),
        ("1m1m", None),
        ("1w2w", None),
        ("1mm", None),
        ("1ms1ms", None),
        ("1ms1s", None),
        ("1M", None),
        ("1y", None),
        ("1S", None),
        ("-1", None),
        ("1.5", None),
        ("1\t1", None),
        ("9223372036854776", None),
        ("999999999999999999999", None),
    ];
    for (text, expected) in table {
        let expected = expected.map(Duration::from_millis);
        assert_eq!(parse_milliseconds(text.as_bytes()), expected, "{text:?}");
    }
}

#[test]
fn seconds() {
    let table: &[(&str, Option<u64>)] = &[
        ("10", Some(10)),
        ("1s2", Some(3)),
        ("1m 1", Some(61)),
        ("1m1 ", Some(61)),
        ("h1m", Some(60)),
        ("1hm", Some(3600)),
        ("1M1d", Some(31 * 86_400)),
        ("1y 6M", Some((365 + 180) * 86_400)),
        ("1y6M1w1d1h1m1s", Some((365 + 180 + 8) * 86_400 + 3661)),
        ("9223372036854775807", Some(i64::MAX as u64)),
        ("292471208677y", Some(292_471_208_677 * 365 * 86_400)),
        ("292471208678y", None),
        ("10ms", None),
        ("1M1y", None),
        ("1Y", None),
        (" 1d", None),
    ];
    for (text, expected) in table {
        let expected = expected.map(Duration::from_secs);
        assert_eq!(parse_seconds(text.as_bytes()), expected, "{text:?}");
    }
}
