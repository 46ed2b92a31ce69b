//! RFC 9111 as tables: which response may be stored, for how long, and for which requests it may be used.
use super::super::tests::headers;
use super::invalidation::{TargetUri, is_unsafe, related, succeeded};
use super::reuse::{RequestTerms, Reuse, StoredTimes, judge};
use super::*;
use crate::request::Method;
use proptest::prelude::*;

/// Sat, 01 Jan 2000 12:00:00 GMT
const NOW: i64 = 946_728_000;
const DATE: &str = "Date: Sat, 01 Jan 2000 12:00:00 GMT";
const HOUR_AGO: &str = "Sat, 01 Jan 2000 11:00:00 GMT";
const IN_AN_HOUR: &str = "Sat, 01 Jan 2000 13:00:00 GMT";

fn judged(
    status: u16,
    request: &str,
    response: &str,
    valid: Option<u32>,
) -> Result<Storable, NotStorable> {
    let fields = headers(&format!("{DATE}|{response}"));
    let received =
        ReceivedResponse { status, headers: &fields, requested_at: NOW, received_at: NOW };
    let operator = OperatorSettings { ignored: IgnoredFields::default(), valid_for_status: valid };
    storable(RequestFields::of(&headers(request)), received, operator)
}

/// Checks the seconds for which a response is fresh.
fn check(response: &str, expected: Result<i64, NotStorable>) {
    check_status(200, response, expected);
}

fn check_status(status: u16, response: &str, expected: Result<i64, NotStorable>) {
    let found = judged(status, "", response, None).map(|stored| stored.valid_until - NOW);
    assert_eq!(found, expected, "{status} {response}");
}

#[test]
fn explicit_times_have_their_order() {
    use NotStorable::*;
    check("Cache-Control: max-age=60", Ok(60));
    check("Cache-Control: max-age=60, s-maxage=5", Ok(5));
    check("Cache-Control: max-age=60, max-age=5", Ok(60));
    check("Cache-Control: max-age=\"60\"", Ok(60));
    check("Cache-Control: max-age=0", Err(Useless));
    check("Cache-Control: max-age='60'", Err(Useless));
    check("Cache-Control: max-age=99999999999", Ok(1 << 31));
    check(&format!("Cache-Control: max-age=0|Expires: {IN_AN_HOUR}"), Err(Useless));
    check(&format!("Cache-Control: max-age=9|Expires: {HOUR_AGO}"), Ok(9));
    check(&format!("Expires: {IN_AN_HOUR}"), Ok(3600));
    check(&format!("Expires: {HOUR_AGO}"), Err(Useless));
    check("Expires: 0", Err(Useless));
    check("Expires: Saturday, 01-Jan-00 13:00:00 GMT", Ok(3600));
    check("Expires: Sat Jan  1 13:00:00 2000", Ok(3600));
    check("Expires: Sat, 01-Jan-2000 13:00:00 GMT", Err(Useless));
    check("Expires: Sat, 01 Jan 2000 13:00:00", Err(Useless));
    check("Expires: Sat, 01 Jan 2000 13:00:00 UTC", Err(Useless));
    check("Expires: Sat,  01 Jan 2000 13:00:00 GMT", Err(Useless));
    check("Cache-Control: x=\"a\\\", max-age=60\", max-age=5", Ok(5));
    check("X-Accel-Expires: 7|Cache-Control: no-cache=\"a\", max-age=60", Err(Useless));
    check("X-Accel-Expires: 7|Cache-Control: max-age=60", Ok(7));
    check("X-Accel-Expires: 0|Cache-Control: max-age=60", Err(AccelExpires));
    check("Vary: *|Cache-Control: max-age=60", Err(VaryAny));
    check("Set-Cookie: a=b|Cache-Control: max-age=60", Ok(60));
    check("", Err(Useless));
}

#[test]
fn age_counts() {
    check("Age: 50|Cache-Control: max-age=60", Ok(10));
    check("Age: 60|Cache-Control: max-age=60", Err(NotStorable::Useless));
    check("Age: 7200, 0|Cache-Control: max-age=3600", Err(NotStorable::Useless));
    check("Age: 0, 7200|Cache-Control: max-age=3600", Ok(3600));
    check("Age: 7200|Age: 0|Cache-Control: max-age=3600", Err(NotStorable::Useless));
    check("Age: 2147483649|Cache-Control: max-age=3600", Err(NotStorable::Useless));
    for no_age in ["abc", "-7200", "7200.0", "7200;a=b", ""] {
        check(&format!("Age: {no_age}|Cache-Control: max-age=3600"), Ok(3600));
    }
    let fields = headers("Date: Sat, 01 Jan 2000 11:59:00 GMT|Cache-Control: max-age=3600");
    let age = |requested_at| {
        initial_age(ReceivedResponse {
            status: 200,
            headers: &fields,
            requested_at,
            received_at: NOW,
        })
    };
    assert_eq!((age(NOW), age(NOW - 90), age(NOW + 5)), (60, 90, 60));
}

#[test]
fn freshness_is_heuristic_without_a_time() {
    let modified = format!("Last-Modified: {HOUR_AGO}");
    check(&modified, Ok(360));
    check("Last-Modified: Fri, 01 Jan 1999 12:00:00 GMT", Ok(HEURISTIC_SECONDS_MAX));
    for status in [203, 204, 300, 301, 308, 404, 405, 410, 414, 501] {
        check_status(status, &modified, Ok(360));
    }
    for status in [201, 202, 302, 307, 403, 500, 502, 503, 504, 599] {
        check_status(status, &modified, Err(NotStorable::NoValidity));
        check_status(status, &format!("{modified}|Cache-Control: public"), Ok(360));
        check_status(status, "Cache-Control: max-age=5", Ok(5));
    }
    let operator = |response: &str, valid| {
        judged(403, "", response, Some(valid)).map(|stored| stored.valid_until - NOW)
    };
    assert_eq!(operator(&modified, 20), Ok(20));
    assert_eq!(operator("Cache-Control: max-age=7", 20), Ok(7));
    assert_eq!(operator(&modified, 0), Err(NotStorable::NoValidity));
}

#[test]
fn directives_forbid_and_permit() {
    use NotStorable::*;
    check("Cache-Control: max-age=9, no-store", Err(NoStore));
    check("Cache-Control: max-age=9, nO-StOrE", Err(NoStore));
    check("Cache-Control: max-age=9, no-store, must-understand", Ok(9));
    check_status(599, "Cache-Control: max-age=9, no-store, must-understand", Err(NotUnderstood));
    check("Cache-Control: max-age=9, private", Err(Private));
    check("Cache-Control: max-age=9, private=\"set-cookie\"", Err(Private));
    check("Cache-Control: max-age=9, no-cache", Err(Useless));
    check("ETag: \"a\"|Cache-Control: max-age=9, no-cache", Ok(0));
    check_status(404, "ETag: \"a\"|Cache-Control: max-age=9, no-cache", Err(Useless));
    let with = |request: &str, control: &str| {
        let response = format!("Cache-Control: {control}");
        judged(200, request, &response, None).map(|stored| stored.must_revalidate)
    };
    assert_eq!(with("Authorization: a", "max-age=9"), Err(Authorization));
    assert_eq!(with("Authorization: a", "max-age=9, public"), Ok(false));
    assert_eq!(with("Authorization: a", "max-age=9, must-revalidate"), Ok(true));
    assert_eq!(with("Authorization: a", "s-maxage=9"), Ok(true));
    assert_eq!(with("Cache-Control: no-store", "max-age=9"), Err(RequestNoStore));
    assert_eq!(with("", "max-age=9, proxy-revalidate"), Ok(true));
}

#[test]
fn permissions_to_serve_stale_are_kept_unless_they_are_forbidden() {
    let stale = |control: &str| {
        let response = format!("Cache-Control: max-age=9, {control}");
        let stored = judged(200, "", &response, None).unwrap();
        (stored.stale_while_revalidate, stored.stale_if_error)
    };
    assert_eq!(stale("stale-while-revalidate=5, stale-if-error=6"), (5, 6));
    assert_eq!(stale("s-maxage=9, stale-while-revalidate=5"), (5, 0));
    assert_eq!(stale("must-revalidate, stale-while-revalidate=5"), (0, 0));
    assert_eq!(stale("proxy-revalidate, stale-if-error=5"), (0, 0));
    check("Cache-Control: max-age=0, stale-while-revalidate=5", Ok(0));
}

#[test]
fn a_targeted_field_replaces_the_others() {
    use NotStorable::*;
    let check = |targeted: &str, other: &str, expected| {
        check(&format!("CDN-Cache-Control: {targeted}|{other}"), expected);
    };
    let no_store = "Cache-Control: no-store";
    check("max-age=60", no_store, Ok(60));
    check("foobar, max-age=60;a=\"b\";c", no_store, Ok(60));
    check("max-age=5, max-age=60", no_store, Ok(60));
    check("max-age=99999999999", no_store, Ok(1 << 31));
    check("a=(1 \"b\";c ?0), b=:YQ==:, c=-1.5, d=t/k, max-age=60", no_store, Ok(60));
    check("max-age=60|CDN-Cache-Control: private", no_store, Err(Private));
    check("no-store=?0, max-age=60", no_store, Ok(60));
    check("private", "Cache-Control: max-age=60", Err(Private));
    check("max-age=0", &format!("Expires: {IN_AN_HOUR}"), Err(Useless));
    check("max-age=\"60\"", "Cache-Control: max-age=60", Err(Useless));
    check("max-age=-60", "Cache-Control: max-age=60", Err(Useless));
    // Malformed fields have no effect.
    for broken in
        ["", "max-age=60, &&&", "MaX-aGe=60", "max-age =60", "max-age= 60", "a,", "a=\"b", "a=(1"]
    {
        check(broken, no_store, Err(NoStore));
    }
}

const TIMES: StoredTimes = StoredTimes {
    generated_at: 100_000,
    valid_until: 160_000,
    updating_until: 170_000,
    error_until: 180_000,
    must_revalidate: false,
};

/// Checks whether it is fresh, accepted though stale, usable while updating, usable on errors.
fn check_reuse(request: &str, now: u64, expected: &str) {
    check_times(&TIMES, request, now, expected);
}

fn check_times(times: &StoredTimes, request: &str, now: u64, expected: &str) {
    let Reuse { fresh, max_stale_allows, while_updating, on_error, .. } =
        judge(times, &RequestTerms::of(&headers(request)), now);
    let flags = [(fresh, 'f'), (max_stale_allows, 'w'), (while_updating, 'u'), (on_error, 'e')];
    let found: String = flags.iter().filter(|(is, _)| *is).map(|(_, letter)| *letter).collect();
    assert_eq!(found, expected, "{request} at {now}");
}

#[test]
fn requests_limit_the_use_of_stored_responses() {
    let cc = |directives: &str| format!("Cache-Control: {directives}");
    check_reuse("", 159_999, "fue");
    check_reuse("", 160_000, "ue");
    check_reuse("", 170_000, "e");
    check_reuse("", 180_000, "");
    check_reuse(&cc("no-cache"), 110_000, "");
    check_reuse("Pragma: no-cache", 110_000, "");
    check_reuse("Pragma: no-cache|Cache-Control: x", 110_000, "fue");
    check_reuse("Pragma: x", 110_000, "fue");
    check_reuse(&cc("max-age=10"), 110_000, "fue");
    check_reuse(&cc("max-age=10"), 110_001, "e");
    check_reuse(&cc("max-age=0"), 100_001, "e");
    check_reuse(&cc("max-age=x"), 110_000, "fue");
    check_reuse(&cc("min-fresh=50"), 109_999, "fe");
    check_reuse(&cc("min-fresh=50"), 110_000, "e");
    check_reuse(&cc("max-stale"), 900_000, "w");
    check_reuse(&cc("max-stale=30"), 189_999, "w");
    check_reuse(&cc("max-stale=30"), 190_000, "");
    check_reuse(&cc("max-stale, max-age=10"), 190_000, "");
    check_reuse(&cc("stale-if-error=60"), 219_999, "e");
    let strict = StoredTimes { must_revalidate: true, error_until: 160_000, ..TIMES };
    check_times(&strict, &cc("max-stale, stale-if-error=60"), 161_000, "u");
    let terms = RequestTerms::of(&headers(&cc("only-if-cached, no-store")));
    assert!(terms.only_if_cached && terms.no_store);
}

#[test]
fn unsafe_methods_invalidate_their_own_origin_only() {
    for method in [Method::Get, Method::Head, Method::Options, Method::Trace, Method::Propfind] {
        assert!(!is_unsafe(method));
    }
    for method in [Method::Post, Method::Put, Method::Delete, Method::Patch, Method::Other] {
        assert!(is_unsafe(method));
    }
    assert_eq!(
        [199, 200, 303, 399, 400, 500].map(succeeded),
        [false, true, true, true, false, false]
    );
    let place = TargetUri { scheme: b"http", authority: b"a.test:80", target: b"/x/y?z=1" };
    let check = |location: &str, expected: Option<&str>| {
        let found = related(place, &headers(&format!("Location: {location}")));
        let expected: Vec<Vec<u8>> = expected.map(|text| text.into()).into_iter().collect();
        assert_eq!(found, expected, "{location}");
    };
    check("/n?q#f", Some("/n?q"));
    check("n", Some("/x/n"));
    check("../n/./m/..", Some("/n/"));
    check("../../../n", Some("/n"));
    check("?q", Some("/x/y?q"));
    check("", None);
    check("/x/y?z=1", None);
    check("http://A.test/n", Some("/n"));
    check("HTTP://a.test:80", Some("/"));
    check("//a.test/n", Some("/n"));
    check("//a.test?q", Some("/?q"));
    check("//b.test/n", None);
    check("http://a.test:81/n", None);
    check("https://a.test/n", None);
    check("mailto:x", None);
    let both = headers("Location: /1|Content-Location: /2");
    assert_eq!(related(place, &both), [b"/1".to_vec(), b"/2".to_vec()]);
}

proptest! {
    /// A client's directives can only narrow freshness, and `must-revalidate` only staleness.
    #[test]
    fn demands_never_make_a_response_fresher(
        lifetime in 0u64..100_000, swr in 0u64..50_000, now in 100_000u64..300_000,
        max_age in proptest::option::of(0u32..200), min_fresh in 0u32..200, strict: bool,
    ) {
        let valid_until = 100_000 + lifetime;
        let times = StoredTimes {
            generated_at: 100_000, valid_until, updating_until: valid_until + swr,
            error_until: valid_until + swr, must_revalidate: strict,
        };
        let plain = judge(&times, &RequestTerms::default(), now);
        let asked = RequestTerms { max_age, min_fresh, ..RequestTerms::default() };
        let demanding = judge(&times, &asked, now);
        prop_assert!(plain.fresh || !demanding.fresh);
        prop_assert!(plain.while_updating || !demanding.while_updating);
        let welcoming = judge(&times, &RequestTerms { max_stale: u32::MAX, ..asked }, now);
        prop_assert_eq!(welcoming.fresh, demanding.fresh);
        prop_assert!(!(strict && welcoming.max_stale_allows));
    }

    /// Every stored response is of use, and a greater age never makes it fresh for longer.
    #[test]
    fn age_only_shortens(lifetime in 0u32..10_000, age in 0u32..10_000, more in 0u32..10_000) {
        let until = |age: u32| {
            let response = format!("ETag: \"a\"|Age: {age}|Cache-Control: max-age={lifetime}");
            judged(200, "", &response, None).unwrap().valid_until
        };
        prop_assert_eq!(until(age), NOW + i64::from(lifetime) - i64::from(age));
        prop_assert!(until(age + more) <= until(age));
    }

    #[test]
    fn any_reference_is_taken(reference in proptest::collection::vec(any::<u8>(), 0..40)) {
        let mut response = Headers::new();
        response.push_known(Known::Location, &reference);
        let place = TargetUri { scheme: b"http", authority: b"a", target: b"/x" };
        for target in related(place, &response) {
            prop_assert!(target.starts_with(b"/"));
        }
    }
}
