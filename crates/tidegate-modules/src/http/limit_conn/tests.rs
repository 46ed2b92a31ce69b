//! Counts and the limits of connections.

use std::time::Duration;

use super::counts::Counts;
use crate::testing::Bench;

#[test]
fn counts_go_up_and_down() {
    let (mut counts, bytes) = (Counts::default(), 2 * 64);
    assert!(counts.enter(b"a", 2, bytes));
    assert!(counts.enter(b"a", 2, bytes));
    assert!(!counts.enter(b"a", 2, bytes));
    assert!(counts.enter(b"a", 3, bytes));
    assert!(counts.enter(b"b", 1, bytes));
    // The zone is full.
    assert!(!counts.enter(b"c", 1, bytes));
    counts.leave(b"b");
    assert!(counts.enter(b"c", 1, bytes));
    counts.leave(b"c");
    counts.leave(b"unknown");
    (0..3).for_each(|_| counts.leave(b"a"));
    assert_eq!(counts.len(), 0);
    assert!(counts.enter(b"a", 1, bytes));
}

#[test]
fn others_count_and_keys_come_again_while_they_have_a_count() {
    let (start, turn) = (tidegate_rt::clock::now(), Duration::from_secs(1));
    let mut counts = Counts::default();
    counts.share(true);
    assert!(counts.enter(b"a", 2, 1 << 20));
    let keys = counts.others().expect("shared").take(10, start, start + turn);
    assert_eq!(keys.len(), 1);
    counts.others().expect("shared").adopt(&keys[0], 1, 1);
    assert!(!counts.enter(b"a", 2, 1 << 20), "one here and one there");
    assert!(counts.enter(b"a", 3, 1 << 20));
    assert_eq!(counts.pending(), 1, "it is listed once");
    let take =
        |counts: &mut Counts, now| counts.others().expect("shared").take(10, now, now + turn).len();
    assert_eq!(take(&mut counts, start), 1);
    assert_eq!(take(&mut counts, start), 0);
    assert_eq!(take(&mut counts, start + turn), 1, "its lease is renewed");
    assert_eq!(take(&mut counts, start + turn), 0);
    (0..2).for_each(|_| counts.leave(b"a"));
    assert_eq!(take(&mut counts, start + turn), 1, "its end is sent");
    let others = counts.others().expect("shared");
    others.adopt(&keys[0], 0, 0);
    assert_eq!(others.len(), 0, "it is forgotten");
    assert_eq!(take(&mut counts, start + turn * 2), 0);
    assert_eq!(take(&mut counts, start + turn * 3), 0);
}

#[test]
fn refused_keys_do_not_fill_the_memory() {
    let mut counts = Counts::default();
    counts.share(true);
    for key in 0..1000u32 {
        assert!(!counts.enter(&key.to_be_bytes(), 0, 128 * 64));
    }
    assert_eq!(counts.others().expect("shared").len(), 128);
    // What was not sent stays.
    let (now, others) = (tidegate_rt::clock::now(), counts.others().expect("shared"));
    let keys = others.take(100, now, now);
    assert_eq!((keys.len(), others.pending()), (100, 28));
    others.put_back(&keys[0]);
    assert_eq!(others.pending(), 29);
}

const ZONES: &str = "limit_conn_zone $arg_a zone=a:1m; limit_conn_zone $arg_b zone=b:1m;
    log_format s '$limit_conn_status'; access_log {dir}/s.log s; limit_conn_status 429;";

#[test]
fn requests_hold_their_place_until_they_are_over() {
    let bench = Bench::new(&format!(
        "{ZONES} server {{ limit_conn a 1; limit_conn b 2; location /dry {{ limit_conn_dry_run on; }}
         error_page 404 /page; }}"
    ));
    // A reply keeps its exchange.
    let first = bench.get("/?a=1&b=1");
    assert_eq!(first.status, 404);
    assert_eq!(bench.get("/x?a=1&b=1").status, 429);
    assert_eq!(bench.get("/dry?a=1&b=1").status, 404);
    let second = bench.get("/x?a=2&b=1");
    // Refused by the second limit: the count of the first is released.
    assert_eq!((second.status, bench.get("/x?a=3&b=1").status), (404, 429));
    assert_eq!(bench.get("/x?a=3").status, 404);
    drop((first, second));
    assert_eq!(bench.get("/x?a=1&b=1").status, 404);
    assert_eq!(bench.get("/x").status, 404);
    let expected = "PASSED\nREJECTED\nREJECTED_DRY_RUN\nPASSED\nREJECTED\nPASSED\nPASSED\n-\n";
    assert_eq!(bench.read("s.log"), expected);
    let log = bench.read("logs/error.log");
    assert!(log.contains("limiting connections by zone \"a\", client: "), "{log}");
    assert!(log.contains("limiting connections, dry run, by zone \"a\""), "{log}");
}

#[test]
fn errors() {
    for (text, expected) in [
        ("limit_conn_zone $uri zone=a:1k;", "zone \"zone=a:1k\" is too small"),
        ("limit_conn_zone $uri foo;", "invalid parameter \"foo\""),
        ("server { limit_conn a 1; }", "zero size shared memory zone \"a\""),
        ("limit_conn a 0;", "invalid number of connections \"0\""),
        ("limit_conn a x;", "invalid number of connections \"x\""),
        ("limit_conn a 65536;", "connection limit must be less 65536"),
        ("limit_conn a 1; limit_conn a 2;", "\"limit_conn\" directive is duplicate"),
        (
            "limit_conn_zone $uri zone=a:1m; limit_conn_zone $args zone=a:1m;",
            "limit_conn_zone \"a\" is already bound to key \"$uri\"",
        ),
        (
            "limit_req_zone $uri zone=a:1m rate=1r/s; server { limit_conn a 1; }",
            "the shared memory zone \"a\" is already declared for a different use",
        ),
        ("limit_conn_status 99;", "value must be between 400 and 599"),
    ] {
        let errors = Bench::errors(text);
        assert_eq!(errors[0], expected, "{text}");
    }
}
