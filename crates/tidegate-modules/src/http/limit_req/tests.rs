//! Buckets, rates and the limits of requests.

use std::time::Duration;

mod model;

use super::buckets::{Buckets, NoRoom};
use super::logic::{Bucket, REQUEST, delay, parse_rate};
use crate::testing::Bench;

#[test]
fn rates_are_read() {
    let table = [
        ("1r/s", Some(1000)),
        ("1000r/s", Some(1_000_000)),
        ("30r/m", Some(500)),
        ("1r/m", Some(16)),
        ("5", Some(5000)),
        ("1r/h", None),
        ("0r/s", None),
        ("1.5r/s", None),
        ("r/s", None),
        ("", None),
    ];
    for (text, expected) in table {
        assert_eq!(parse_rate(text), expected, "{text}");
    }
}

/// Sends requests at these milliseconds and checks the excess of each.
fn check(rate: &str, table: &[(u64, u64)]) {
    let (rate, start) = (parse_rate(rate).unwrap(), tidegate_rt::clock::now());
    let mut bucket: Option<Bucket> = None;
    for (millis, excess) in table {
        let now = start + Duration::from_millis(*millis);
        let found = bucket.map_or(0, |bucket| bucket.excess(rate, now));
        assert_eq!(found, *excess, "{rate} {millis}");
        match &mut bucket {
            Some(bucket) => bucket.fill(REQUEST, rate, now),
            None => bucket = Some(Bucket::with_level(REQUEST, now)),
        }
    }
}

#[test]
fn buckets_fill_and_leak() {
    check("2r/s", &[(0, 0), (0, 1000), (250, 1500), (1000, 1000), (9000, 0), (9000, 1000)]);
    check("1000r/s", &[(0, 0), (1, 0), (1, 1000), (100, 0)]);
    check("1r/m", &[(0, 0), (60_000, 40), (60_000, 1040)]);
    // An earlier time is another thread's reading of the clock: time never goes back.
    check("1r/s", &[(500, 0), (0, 1000), (500, 2000), (1500, 2000)]);
}

#[test]
fn parts_of_a_millisecond_leak_as_well() {
    let (rate, start) = (parse_rate("1000r/s").unwrap(), tidegate_rt::clock::now());
    // Fewer requests than the rate, at a clock whose ticks are no whole milliseconds.
    let mut bucket = Bucket::with_level(REQUEST, start);
    for number in 1..10_000u32 {
        let now = start + Duration::from_nanos(1_100_000) * number;
        assert_eq!(bucket.excess(rate, now), 0, "{number}");
        bucket.fill(REQUEST, rate, now);
    }
    let rate = parse_rate("1010r/s").unwrap();
    let mut bucket = Bucket::with_level(REQUEST, start);
    let mut most = 0;
    for number in 1..10_000u32 {
        let now = start + Duration::from_nanos(3_999_990) * (number / 4);
        most = most.max(bucket.excess(rate, now));
        bucket.fill(REQUEST, rate, now);
    }
    assert!(most <= 4 * REQUEST, "{most}");
}

#[test]
fn what_is_too_early_waits() {
    for (excess, free, rate, millis) in [
        (1000, 0, 2000, 500),
        (1000, 1000, 500, 0),
        (2000, 1000, 500, 2000),
        (2000, u64::MAX, 500, 0),
        (0, 0, 1000, 0),
    ] {
        assert_eq!(delay(excess, free, rate), Duration::from_millis(millis), "{excess} {free}");
    }
}

#[test]
fn the_zone_is_bounded_and_the_least_recent_go() {
    let (mut buckets, now, bytes) = (Buckets::default(), tidegate_rt::clock::now(), 10 * 128);
    for key in 0..1000u32 {
        assert_eq!(buckets.fill(&key.to_be_bytes(), 1, now, bytes), Ok(()));
        // The first key is used all the time, so it is kept.
        assert_eq!(buckets.fill(&0u32.to_be_bytes(), 1, now, bytes), Ok(()));
    }
    assert_eq!(buckets.len(), 10);
    let excess = |key: u32| buckets.excess(&key.to_be_bytes(), 1, now);
    assert_eq!((excess(0), excess(999), excess(1)), (1_001_000, 1000, 0));
    assert_eq!(buckets.fill(&[0; 2000], 1, now, bytes), Err(NoRoom));
    assert_eq!(buckets.len(), 10);
}

#[test]
fn stale_buckets_go() {
    let (mut buckets, now) = (Buckets::default(), tidegate_rt::clock::now());
    for key in 0..100u8 {
        assert_eq!(buckets.fill(&[key], 1000, now, 1 << 20), Ok(()));
    }
    let later = now + Duration::from_secs(61);
    for key in 100..200u8 {
        assert_eq!(buckets.fill(&[key], 1000, later, 1 << 20), Ok(()));
    }
    assert_eq!(buckets.len(), 100);
}

const ZONES: &str = "limit_req_zone $arg_a zone=slow:1m rate=1r/m;
    limit_req_zone $arg_b zone=fast:1m rate=100000r/s;
    log_format s '$limit_req_status'; access_log {dir}/s.log s; limit_req_status 429;";

fn bench(server: &str) -> Bench {
    Bench::new(&format!("{ZONES} server {{ {server} }}"))
}

fn statuses(bench: &Bench, targets: &[(&str, u16)]) {
    for (target, status) in targets {
        assert_eq!(bench.get(target).status, *status, "{target}");
    }
}

#[test]
fn requests_that_come_too_early_are_refused() {
    let bench = bench("limit_req zone=slow burst=1 nodelay; location /free { }");
    statuses(&bench, &[("/?a=1", 404), ("/?a=1", 404), ("/?a=1", 429), ("/free?a=1", 429)]);
    statuses(&bench, &[("/?a=2", 404), ("/x", 404), ("/x", 404)]);
    assert_eq!(bench.read("s.log"), "PASSED\nPASSED\nREJECTED\nREJECTED\nPASSED\n-\n-\n");
    let log = bench.read("logs/error.log");
    assert!(log.contains("[error]") && log.contains("limiting requests, excess: "), "{log}");
    assert!(log.contains(" by zone \"slow\", client: "), "{log}");
}

#[test]
fn a_refused_request_counts_nowhere() {
    let bench = Bench::new(
        "limit_req_zone $arg_a zone=one:1m rate=1r/m; limit_req_zone $arg_b zone=two:1m rate=1r/m;
         server { location /both { limit_req zone=one burst=1 nodelay; limit_req zone=two; }
                  location /one { limit_req zone=one burst=1 nodelay; } }",
    );
    statuses(&bench, &[("/both?a=1&b=1", 404), ("/both?a=1&b=1", 503), ("/both?a=1&b=1", 503)]);
    statuses(&bench, &[("/one?a=1", 404), ("/one?a=1", 503)]);
}

#[test]
fn dry_runs_let_all_through() {
    let bench = bench(
        "limit_req_dry_run on; location /delay { limit_req zone=slow burst=1; }
         location /refuse { limit_req zone=slow; }",
    );
    statuses(&bench, &[("/delay?a=1", 404), ("/delay?a=1", 404), ("/refuse?a=1", 404)]);
    assert_eq!(bench.read("s.log"), "PASSED\nDELAYED_DRY_RUN\nREJECTED_DRY_RUN\n");
    assert!(bench.read("logs/error.log").contains("limiting requests, dry run, excess: "));
}

#[test]
fn a_request_is_limited_once() {
    let bench = bench(
        "limit_req zone=slow; error_page 404 = /page; location /page { return 200 page; }
         location /start { rewrite ^ /gone last; } location /gone { }",
    );
    statuses(&bench, &[("/start?a=1", 200)]);
    assert_eq!(bench.read("s.log"), "PASSED\n");
}

#[test]
fn errors() {
    for (text, expected) in [
        ("limit_req_zone $uri zone=a:1k rate=1r/s;", "zone \"zone=a:1k\" is too small"),
        ("limit_req_zone $uri zone=a rate=1r/s;", "invalid zone size \"zone=a\""),
        ("limit_req_zone $uri zone=a:1m rate=1r/h;", "invalid rate \"rate=1r/h\""),
        ("limit_req_zone $uri rate=1r/s foo;", "invalid parameter \"foo\""),
        ("limit_req_zone $uri zone=a:1m rate=1r/s sync;", "\"sync\" without \"zone_sync_store\""),
        (
            "zone_sync_store redis://h name=one; limit_req_zone $uri zone=a:1m rate=1r/s sync=two;",
            "zone_sync_store \"two\" is missing",
        ),
        (
            "zone_sync_store redis://h name=a; zone_sync_store redis://h name=b;
             limit_req_zone $uri zone=a:1m rate=1r/s sync;",
            "\"sync\" names none of several stores",
        ),
        (
            "zone_sync_store redis://h; limit_req_zone $uri zone=a:1m rate=1r/s sync=wait:;",
            "invalid parameter \"sync=wait:\"",
        ),
        (
            "zone_sync_store redis://h; limit_req_zone $uri zone=a:1m rate=1r/s sync=wait:two;",
            "zone_sync_store \"two\" is missing",
        ),
        ("zone_sync_store redis://h name=wait;", "invalid parameter \"name=wait\""),
        ("zone_sync_store redis://h name=wait:a;", "invalid parameter \"name=wait:a\""),
        (
            "limit_req_zone $uri zone=a:1m rate=1r/s sync sync_failure=all;",
            "invalid parameter \"sync_failure=all\"",
        ),
        (
            "limit_req_zone $uri zone=a:1m rate=1r/s sync_failure=local;",
            "\"sync_failure\" without \"sync\"",
        ),
        ("server { limit_req zone=q; }", "zero size shared memory zone \"q\""),
        ("limit_req burst=1;", "\"limit_req\" must have \"zone\" parameter"),
        ("limit_req zone=q burst=0;", "invalid burst value \"burst=0\""),
        ("limit_req zone=q delay=x;", "invalid delay value \"delay=x\""),
        ("limit_req zone=a; limit_req zone=a;", "\"limit_req\" directive is duplicate"),
        (
            "limit_req_zone $uri zone=a:1m rate=1r/s; limit_req_zone $args zone=a:1m rate=1r/s;",
            "limit_req_zone \"a\" is already bound to key \"$uri\"",
        ),
        (
            "limit_conn_zone $uri zone=a:1m; server { limit_req zone=a; }",
            "the shared memory zone \"a\" is already declared for a different use",
        ),
    ] {
        let errors = Bench::errors(text);
        assert_eq!(errors[0], expected, "{text}");
    }
}
