//! Which responses may be stored, as tables of response fields.
use super::*;
use proptest::prelude::*;

const NOW: i64 = 1_000_000_000;
const PAST: &str = "Expires: Thu, 01 Jan 1970 00:00:01 GMT";
const FUTURE: &str = "Expires: Thu, 31 Dec 2037 23:55:55 GMT";
const FUTURE_SECONDS: i64 = 2_145_916_555;

pub(super) fn headers(lines: &str) -> Headers {
    let mut headers = Headers::new();
    for line in lines.split('|').filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(": ").unwrap();
        headers.push(name.as_bytes(), value.as_bytes());
    }
    headers
}

fn check(lines: &str, valid: Option<u32>, expected: Result<i64, NotStorable>) {
    let found = storable(&headers(lines), IgnoredFields::default(), valid, NOW);
    assert_eq!(found.map(|storable| storable.valid_until), expected, "{lines}");
}

#[test]
fn fields_decide_in_their_order() {
    use NotStorable::*;
    let cc = |value: &str| format!("Cache-Control: {value}");
    for (lines, expected) in [
        (String::new(), Err(NoValidity)),
        (FUTURE.into(), Ok(FUTURE_SECONDS)),
        (PAST.into(), Err(Expires)),
        ("Expires: 0".into(), Err(Expires)),
        (cc("max-age=60"), Ok(NOW + 60)),
        (cc("max-age=9223372036854775808"), Ok(NOW + (1 << 31))),
        (cc("max-age=0"), Err(MaxAge)),
        (cc("max-age=x"), Err(MaxAge)),
        (cc("max-age=60, max-age=0"), Ok(NOW + 60)),
        (cc("s-maxage=0, max-age=60"), Err(MaxAge)),
        (cc("Max-Age=60, S-MaxAge=5"), Ok(NOW + 5)),
        (cc("public"), Err(NoValidity)),
        (cc("x=\"no-store, a\", max-age=\"60\""), Ok(NOW + 60)),
        (cc("private=\"a, no-store, max-age=60"), Err(NoStore)),
        (cc("max-age=60, x=\"a, no-cache"), Err(NoCache)),
        (cc("max-age=60, x=\"a, private=\\\", b"), Err(Private)),
        (cc("max-age=60, x=\"no-store"), Err(NoStore)),
        (cc("max-age=60, x=\"a, max-age=0"), Err(MaxAge)),
        (cc("x=\"a, max-age=60"), Err(NoValidity)),
        (cc("x=\"a\", max-age=60, y=\"b"), Ok(NOW + 60)),
        (cc("max-age=60") + "|" + PAST, Ok(NOW + 60)),
        (PAST.to_owned() + "|" + &cc("max-age=60"), Ok(NOW + 60)),
        (cc("no-cache") + "|" + FUTURE, Err(NoCache)),
        (FUTURE.to_owned() + "|" + &cc("no-store"), Err(NoStore)),
        (cc("no-cache, max-age=60"), Err(NoCache)),
        (cc("private=\"a\"") + "|" + &cc("max-age=60"), Err(Private)),
        ("X-Accel-Expires: 60".into(), Ok(NOW + 60)),
        ("X-Accel-Expires: @60".into(), Ok(60)),
        ("X-Accel-Expires: 60|X-Accel-Expires: 0".into(), Ok(NOW + 60)),
        (format!("X-Accel-Expires: 60|{PAST}|Cache-Control: no-cache"), Ok(NOW + 60)),
        (format!("{FUTURE}|Cache-Control: max-age=60|X-Accel-Expires: 0"), Err(AccelExpires)),
        ("X-Accel-Expires: off|Cache-Control: max-age=9".into(), Ok(NOW + 9)),
        ("X-Accel-Expires: x|Cache-Control: max-age=9".into(), Ok(NOW + 9)),
        (format!("Set-Cookie: foo|{PAST}|Cache-Control: max-age=60"), Err(SetCookie)),
        ("Vary: *|Cache-Control: max-age=60".into(), Err(VaryAny)),
    ] {
        check(&lines, None, expected);
    }
}

#[test]
fn proxy_cache_valid_applies_last() {
    check("", Some(10), Ok(NOW + 10));
    check("", Some(0), Err(NotStorable::NoValidity));
    check("X-Accel-Expires: off", Some(10), Ok(NOW + 10));
    check("X-Accel-Expires: @0", Some(10), Ok(NOW + 10));
    check("X-Accel-Expires: -5", Some(10), Ok(NOW + 10));
    check("X-Accel-Expires: 0", Some(10), Err(NotStorable::AccelExpires));
    check(PAST, Some(10), Err(NotStorable::Expires));
}

#[test]
fn ignored_fields_have_no_effect() {
    let lines = format!("Set-Cookie: a|Vary: *|{PAST}|Cache-Control: no-store|X-Accel-Expires: 0");
    let ignored = IgnoredFields {
        x_accel_expires: true,
        expires: true,
        cache_control: true,
        set_cookie: true,
        vary: true,
    };
    let stored = storable(&headers(&lines), ignored, Some(5), NOW).unwrap();
    assert_eq!((stored.valid_until, stored.vary), (NOW + 5, vec![]));
    let none = storable(&headers(&lines), ignored, None, NOW);
    assert_eq!(none, Err(NotStorable::NoValidity));
}

#[test]
fn stale_times_survive_x_accel_expires() {
    let lines = "X-Accel-Expires: @1|Cache-Control: stale-while-revalidate=10, stale-if-error=20";
    let stored = storable(&headers(lines), IgnoredFields::default(), None, NOW).unwrap();
    for (now, expected) in [
        (0, Freshness::Fresh),
        (1, Freshness::StaleWhileRevalidate),
        (10, Freshness::StaleWhileRevalidate),
        (11, Freshness::StaleIfError),
        (21, Freshness::Expired),
    ] {
        assert_eq!(stored.freshness(now), expected, "{now}");
    }
}

#[test]
fn variants_are_named_and_compared() {
    let Vary::Names(names) = Vary::of(&headers("Vary: ,, Foo , ,|Vary: accept-encoding, foo"))
    else {
        panic!("no star there")
    };
    assert_eq!(names, [b"accept-encoding".to_vec(), b"foo".to_vec()]);
    let spaces = Vary::of(&headers("Vary: foo  Accept-Encoding\tfoo"));
    assert_eq!(spaces, Vary::Names(names.clone()));
    assert_eq!(Vary::of(&headers("Vary: foo *")), Vary::Any);
    let variant = |lines: &str| {
        let mut out = Vec::new();
        write_variant(&names, &headers(lines), &mut out);
        out
    };
    let first = variant("Foo: 1|Accept-Encoding: gzip,  br");
    assert_eq!(first, variant("accept-encoding: gzip|accept-encoding: br|foo:  1"));
    assert_ne!(first, variant("Accept-Encoding: br, gzip|Foo: 1"));
    assert_ne!(first, variant("Accept-Encoding: gzip, br"));
}

proptest! {
    #[test]
    fn freshness_only_falls(until in 0i64..100, swr in 0u32..50, sie in 0u32..50, now in 0i64..200) {
        let stored = Storable {
            valid_until: until, stale_while_revalidate: swr, stale_if_error: sie, vary: vec![],
        };
        let rank = |freshness| match freshness {
            Freshness::Fresh => 0,
            Freshness::StaleWhileRevalidate => 1,
            Freshness::StaleIfError => 2,
            Freshness::Expired => 3,
        };
        prop_assert!(rank(stored.freshness(now)) <= rank(stored.freshness(now + 1)));
    }

    #[test]
    fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        crate::fuzzing::fuzz_cache_control(&bytes);
    }
}
