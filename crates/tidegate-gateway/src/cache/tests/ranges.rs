//! Parsing of requested ranges, and the keys of their parts.

use proptest::prelude::*;
use tidegate_cache::Key;
use tidegate_codec::range::ByteRange;

use crate::cache::ranges::plan::{BLOCK_BYTES, RequestedRange, block_of, key, probe_key};

#[test]
fn single_ranges_from_a_start_are_read() {
    let check = |field: &str, expected: Option<(u64, Option<u64>)>| {
        let wanted =
            RequestedRange::parse(field.as_bytes()).map(|wanted| (wanted.start, wanted.end));
        assert_eq!(wanted, expected, "{field}");
    };
    check("bytes=5-9", Some((5, Some(10))));
    check("Bytes=5-", Some((5, None)));
    check("bytes= 5 - 5 ", Some((5, Some(6))));
    check("bytes=0-18446744073709551614", Some((0, Some(u64::MAX))));
    for other in [
        "",
        "bytes",
        "bytes=",
        "bytes=-5",
        "bytes=5",
        "bytes=9-5",
        "bytes=1-2,4-5",
        "lines=1-2",
        "bytes=+1-2",
        "bytes=1-+2",
        "bytes=a-b",
        "bytes=0-18446744073709551615",
        "bytes=99999999999999999999-",
    ] {
        check(other, None);
    }
}

#[test]
fn parts_have_keys_of_their_own() {
    let (one, other) = (Key::new(&b"one"[..]), Key::new(&b"other"[..]));
    let keys = [
        key(&one, 1, 0),
        key(&one, 1, BLOCK_BYTES),
        key(&one, 2, 0),
        key(&other, 1, 0),
        probe_key(&one),
        one.clone(),
    ];
    for (index, first) in keys.iter().enumerate() {
        assert!(keys[index + 1..].iter().all(|second| second.text() != first.text()));
    }
}

proptest! {
    #[test]
    fn a_widened_range_holds_the_range(start in 0..u64::MAX / 2, length in 1..u64::MAX / 4) {
        let wanted = RequestedRange { start, end: Some(start + length) };
        let wide = wanted.widened();
        let end = wide.end.expect("far from the end of numbers");
        prop_assert!(wide.start <= start && start + length <= end);
        prop_assert_eq!((wide.start % BLOCK_BYTES, end % BLOCK_BYTES), (0, 0));
        prop_assert!(start - wide.start < BLOCK_BYTES && end - (start + length) < BLOCK_BYTES);
    }

    #[test]
    fn parts_lie_beside_each_other(size in 1..u64::MAX, at in any::<u64>()) {
        let at = at % size;
        let ByteRange { start, end } = block_of(at, size);
        prop_assert!(start <= at && at < end && end <= size && end - start <= BLOCK_BYTES);
        prop_assert!(end == size || block_of(end, size).start == end);
    }

    #[test]
    fn any_field_is_read_or_refused(field in prop::collection::vec(any::<u8>(), 0..40)) {
        let _ = RequestedRange::parse(&field).map(RequestedRange::widened);
        let _ = RequestedRange::parse(&[b"bytes=", &*field].concat()).map(RequestedRange::widened);
    }
}
