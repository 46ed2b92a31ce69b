//! `Range` fields and the bytes that they select of 1000.
use super::*;
use proptest::prelude::*;

fn check(field: &str, ranges_max: usize, expected: &str) {
    let shown = match decide(field.as_bytes(), 1000, ranges_max) {
        RangeDecision::Whole => "200".to_owned(),
        RangeDecision::Unsatisfiable => "416".to_owned(),
        RangeDecision::Single(range) => format!("{}-{}", range.start, range.end),
        RangeDecision::Multiple(ranges) => {
            let parts = ranges.iter().map(|range| format!("{}-{}", range.start, range.end));
            parts.collect::<Vec<_>>().join(",")
        }
    };
    assert_eq!(shown, expected, "{field}");
}

#[test]
fn content_ranges_are_read() {
    let check = |field: &str, expected: Option<(u64, u64, Option<u64>)>| {
        let parsed = ContentRange::parse(field.as_bytes());
        let parts = parsed.map(|value| (value.range.start, value.range.end, value.size));
        assert_eq!(parts, expected, "{field}");
    };
    check("bytes 0-8/1000", Some((0, 9, Some(1000))));
    check(" BYTES 5-5/6 ", Some((5, 6, Some(6))));
    check("bytes 4-7/*", Some((4, 8, None)));
    for broken in [
        "",
        "bytes",
        "bytes ",
        "bytes */8",
        "bytes 4-7",
        "bytes 4-7/",
        "bytes 4-7/x",
        "bytes 7-4/8",
        "bytes 4-8/8",
        "bytes -4/8",
        "bytes 4-/8",
        "bytes=4-7/8",
        "lines 4-7/8",
        "bytes 4-7/8/9",
        "bytes 4 - 7/8",
        "bytes 0-99999999999999999999999/99999999999999999999999",
    ] {
        check(broken, None);
    }
}

#[test]
fn many_small_parts_are_not_worth_it() {
    let parts = |count: u64, size: u64| {
        let part = |at: u64| format!("{}-{}", at * size, at * size + size - 1);
        format!("bytes={}", (0..count).map(part).collect::<Vec<_>>().join(","))
    };
    for (count, size, is_whole) in [(19, 1, false), (20, 1, true), (17, 40, false), (18, 40, true)]
    {
        let decision = decide(parts(count, size).as_bytes(), 1000, usize::MAX);
        assert_eq!(decision == RangeDecision::Whole, is_whole, "{count} parts of {size}");
    }
}

#[test]
fn fields_select_ranges() {
    for (field, expected) in [
        ("bytes=0-8", "0-9"),
        ("Bytes=0-8", "0-9"),
        ("bytes=-10", "990-1000"),
        ("bytes=-2000", "0-1000"),
        ("bytes=-0", "416"),
        ("bytes=990-", "990-1000"),
        ("bytes=990-1990", "990-1000"),
        ("bytes=0-99999999999999999999999", "0-1000"),
        ("bytes=99999999999999999999999-", "416"),
        ("bytes=0-9, -10, 10-19", "0-10,990-1000,10-20"),
        ("bytes=0-9, -10, 100000-, 10-19", "0-10,990-1000,10-20"),
        ("bytes= 0 - 9 ", "0-10"),
        ("bytes=100000-", "416"),
        ("bytes=alpha", "416"),
        ("bytes=10-alpha", "416"),
        ("bytes=10", "416"),
        ("bytes=10-11 12-", "416"),
        ("bytes=", "200"),
        ("bytes=,0-1", "416"),
        ("bytes=0-0,-0", "0-1"),
        ("bytes=5-4,0-1", "0-2"),
        ("bytes=0-500,400-999", "200"),
        ("bytes=5-4", "416"),
        ("bytes=0-10001, 0-0", "200"),
        ("items=0-1", "200"),
        ("", "200"),
    ] {
        check(field, usize::MAX, expected);
    }
}

#[test]
fn ranges_are_limited_in_number() {
    check("bytes=0-9", 0, "200");
    check("bytes=0-9, -10", 2, "0-10,990-1000");
    check("bytes=0-9, -10, 10000-", 2, "0-10,990-1000");
    check("bytes=0-9, -10, 10-19", 2, "200");
    check("bytes=0-9, -10, 10-19", 3, "0-10,990-1000,10-20");
    check("bytes=0-9", 1, "0-10");
    assert_eq!(decide(b"bytes=0-", 0, 9), RangeDecision::Unsatisfiable);
    assert_eq!(decide(b"bytes=-1", 0, 9), RangeDecision::Unsatisfiable);
}

#[test]
fn if_range_compares_exactly() {
    let date = b"Mon, 28 Sep 1970 06:00:00 GMT";
    for (field, etag, modified, expected) in [
        (&b"\"a\""[..], Some(&b"\"a\""[..]), None, true),
        (b"\"b\"", Some(b"\"a\""), None, false),
        (b"W/\"a\"", Some(b"W/\"a\""), None, false),
        (b"\"a\"", Some(b"W/\"a\""), None, false),
        (b"\"a\"", None, Some(0), false),
        (date, None, Some(23_349_600), true),
        (date, None, Some(23_349_601), false),
        (date, None, None, false),
        (b"wrong", Some(b"\"a\""), Some(0), false),
    ] {
        assert_eq!(if_range_holds(field, etag, modified), expected, "{field:?}");
    }
}

#[test]
fn parts_are_written() {
    let mut out = Vec::new();
    let range = ByteRange { start: 0, end: 10 };
    write_part_head(b"00000000000000000001", Some(b"text/html"), range, 1000, &mut out);
    write_parts_end(b"00000000000000000001", &mut out);
    let expected = "\r\n--00000000000000000001\r\nContent-Type: text/html\r\n\
         Content-Range: bytes 0-9/1000\r\n\r\n\r\n--00000000000000000001--\r\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
    let whole = multipart_len(b"00000000000000000001", Some(b"text/html"), &[range], 1000);
    assert_eq!(whole, Some(expected.len() as u64 + 10));
    let mut out = Vec::new();
    write_unsatisfied_range(u64::MAX, &mut out);
    assert_eq!(out, b"bytes */18446744073709551615");
}

proptest! {
    #[test]
    fn ranges_lie_within(field in "bytes=[0-9, -]{0,30}", size in any::<u64>(), max in 0usize..5) {
        let ranges = match decide(field.as_bytes(), size, max) {
            RangeDecision::Single(range) => vec![range],
            RangeDecision::Multiple(ranges) => ranges,
            _ => vec![],
        };
        prop_assert!(ranges.len() <= max);
        for range in ranges {
            prop_assert!(range.start < range.end && range.end <= size);
        }
    }

    #[test]
    fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        crate::fuzzing::fuzz_range(&bytes);
    }
}
