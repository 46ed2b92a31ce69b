//! Decisions about heads, by table.

use tidegate_http::Headers;
use tidegate_http::caching::{IgnoredFields, NotStorable};

use super::super::policy::{Refusal, Validity, decide, range_is_beyond};

const NOW: u64 = 1_700_000_000_250;

fn validity(rows: &[(Option<u16>, u32)]) -> Validity {
    let mut validity = Validity::default();
    rows.iter().for_each(|(status, seconds)| validity.add(*status, *seconds));
    validity
}

fn check(
    status: u16,
    fields: &[(&str, &str)],
    validity: &Validity,
    expected: Result<u64, Refusal>,
) {
    let mut headers = Headers::new();
    for (name, value) in fields {
        headers.push(name.as_bytes(), value.as_bytes());
    }
    let decided = decide(status, &headers, validity, IgnoredFields::default(), NOW);
    let decided = decided.map(|stored| stored.times.valid_until - NOW);
    assert_eq!(decided, expected, "{status} {fields:?}");
}

#[test]
fn heads() {
    let none = Validity::default();
    let some = validity(&[(Some(200), 60), (Some(404), 0), (None, 5)]);
    let never = Err(Refusal::Rules(NotStorable::NoValidity));
    check(200, &[], &none, never);
    check(200, &[], &some, Ok(60_000));
    check(404, &[], &some, never);
    check(500, &[], &some, Ok(5_000));
    check(200, &[("Cache-Control", "max-age=7")], &some, Ok(7_000));
    check(200, &[("X-Accel-Expires", "9"), ("Cache-Control", "no-store")], &none, Ok(9_000));
    check(200, &[("Cache-Control", "private")], &some, Err(Refusal::Rules(NotStorable::Private)));
    check(304, &[("Cache-Control", "max-age=7")], &some, Err(Refusal::Status));
    check(206, &[("Cache-Control", "max-age=7")], &some, Err(Refusal::Status));
    check(206, &[], &validity(&[(Some(206), 3)]), Ok(3_000));
}

#[test]
fn stale_times_count_from_the_end_of_freshness() {
    let mut headers = Headers::new();
    headers.push(b"Cache-Control", b"max-age=1, stale-while-revalidate=2, stale-if-error=3");
    let stored = decide(200, &headers, &Validity::default(), IgnoredFields::default(), NOW);
    let times = stored.expect("storable").times;
    assert_eq!(times.created, NOW);
    assert_eq!(times.updating_until, times.valid_until + 2000);
    assert_eq!(times.error_until, times.valid_until + 3000);
}

#[test]
fn ranges_beyond_an_offset() {
    let table: [(&str, u64, bool); 8] = [
        ("bytes=1-", 2, false),
        ("bytes=3-", 2, true),
        ("bytes=0-0", 0, true),
        ("bytes=-1", 2, true),
        ("Bytes=1-1,3-", 2, false),
        ("bytes=99999999999999999999-", u64::MAX, true),
        ("lines=3-", 2, false),
        ("bytes=", 2, false),
    ];
    for (field, max, expected) in table {
        assert_eq!(range_is_beyond(field.as_bytes(), max), expected, "{field}");
    }
}
