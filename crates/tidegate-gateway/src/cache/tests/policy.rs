//! Decisions about heads, by table.

use tidegate_codec::Headers;
use tidegate_codec::caching::{IgnoredFields, NotStorable};

use tidegate_codec::caching::rfc9111::reuse::RequestTerms;

use crate::cache::decide::policy::{
    OriginExchange, Refusal, Validity, decide, decide_rfc9111, is_always_stale, is_joinable,
    range_is_beyond, stored_state,
};

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
    let never = Err(Refusal::CacheRules(NotStorable::NoValidity));
    check(200, &[], &none, never);
    check(200, &[], &some, Ok(60_000));
    check(404, &[], &some, never);
    check(500, &[], &some, Ok(5_000));
    check(200, &[("Cache-Control", "max-age=7")], &some, Ok(7_000));
    check(200, &[("X-Accel-Expires", "9"), ("Cache-Control", "no-store")], &none, Ok(9_000));
    check(
        200,
        &[("Cache-Control", "private")],
        &some,
        Err(Refusal::CacheRules(NotStorable::Private)),
    );
    check(304, &[("Cache-Control", "max-age=7")], &some, Err(Refusal::Status));
    check(206, &[("Cache-Control", "max-age=7")], &some, Err(Refusal::Status));
    check(206, &[], &validity(&[(Some(206), 3)]), Ok(3_000));
    let parts = some.clone().with_parts(true);
    check(206, &[("Cache-Control", "max-age=7")], &parts, Ok(7_000));
    check(206, &[], &parts, Ok(5_000));
    check(206, &[], &none.with_parts(true), never);
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

#[test]
fn rfc9111_counts_in_milliseconds_from_when_a_response_was_made() {
    let decided = |lines: &[(&str, &str)]| {
        let mut headers = Headers::new();
        lines.iter().for_each(|(name, value)| headers.push(name.as_bytes(), value.as_bytes()));
        let request = Headers::new();
        let exchanged = OriginExchange {
            request: &request,
            requested_at: NOW - 3000,
            status: 200,
            headers: &headers,
        };
        decide_rfc9111(exchanged, &Validity::default(), IgnoredFields::default(), NOW)
    };
    let control = "max-age=60, stale-while-revalidate=5, stale-if-error=6";
    let stored = decided(&[("Age", "10"), ("Cache-Control", control)]).unwrap();
    let times = stored.times;
    assert_eq!(times.created, NOW - 13_000);
    assert_eq!(times.valid_until, NOW + 47_000);
    assert_eq!((times.updating_until, times.error_until), (NOW + 52_000, NOW + 53_000));
    assert!(!stored.must_revalidate && !is_always_stale(times));
    let stored = decided(&[("ETag", "\"a\""), ("Cache-Control", "no-cache")]).unwrap();
    assert!(stored.must_revalidate && is_always_stale(stored.times));
    assert!(!stored_state(stored.times, true, Some(&RequestTerms::default()), NOW).fresh);
    let refused = decided(&[("Cache-Control", "no-store")]);
    assert_eq!(refused, Err(Refusal::CacheRules(NotStorable::NoStore)));
}

#[test]
fn requests_that_may_share_a_fill() {
    let none = RequestTerms::default();
    let no_cache = RequestTerms { no_cache: true, ..none };
    let young = RequestTerms { max_age: Some(5), ..none };
    let times = |lifetime| tidegate_cache::Times {
        created: NOW,
        valid_until: NOW + lifetime,
        updating_until: 0,
        error_until: 0,
    };
    assert!(is_joinable(Some(times(0)), NOW, None, NOW));
    // However long the origin took to respond.
    assert!(!is_joinable(Some(times(0)), NOW - 5, Some(&none), NOW));
    for (times, terms, later, expected) in [
        (None, none, 0, true),
        (None, no_cache, 0, false),
        (Some(times(0)), none, 0, false),
        (Some(times(1000)), none, 5000, true),
        (Some(times(9000)), young, 5000, true),
        (Some(times(9000)), young, 5001, false),
        (Some(times(9000)), no_cache, 0, false),
    ] {
        let found = is_joinable(times, NOW - 5, Some(&terms), NOW + later);
        assert_eq!(found, expected, "{times:?} {terms:?}");
    }
}
