//! Lines of slow logs, the field `Server-Timing`, variables, and mistakes. The causes themselves are end-to-end cases.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::Value;
use tidegate_core::timeline::Timeline;
use tidegate_rt::clock;

use super::line;
use crate::testing::{Bench, TestResponse};

/// Sends a request that began 2 s ago, all of which a handshake took.
fn slow(bench: &Bench, target: &str) -> TestResponse {
    let mut x = bench.received(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert!(bench.plan.timelines);
    x.timeline = Some(Timeline::begun(clock::exact_now(), Some(Duration::from_secs(2))));
    bench.run(x)
}

fn bench(directives: &str, location: &str) -> Bench {
    Bench::new(&format!("access_log off; {directives} server {{ location / {{ {location} }} }}"))
}

#[test]
fn a_line_of_text_says_what_took_the_time() {
    let bench = bench("slow_log slow.log;", "return 204;");
    slow(&bench, "/a%22b?c=\\");
    let log = bench.read("slow.log");
    let (before, rest) = log.split_once(" slow 2.").unwrap();
    assert_eq!(before.len(), "2026/11/28 11:00:00".len());
    let (time, rest) = rest.split_once(' ').unwrap();
    assert!(time.ends_with('s'), "{log}");
    let (said, waits) = rest.split_once(" bytes=0 waits=").unwrap();
    let expected = "verdict=tls(2.000s) client=192.0.2.7 status=204 \
                    request=\"GET /a%22b?c=\\x5C HTTP/1.1\" host=a loc=/";
    assert_eq!(said, expected);
    assert!(waits.starts_with("tls:2.000"), "{log}");
}

#[test]
fn a_line_of_json_is_an_object() {
    let bench = bench("slow_log slow.log format=json;", "return 204;");
    slow(&bench, "/a\"\u{e9}\\");
    slow(&bench, "/b");
    let lines: Vec<Value> =
        bench.read("slow.log").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[1]["request"], "GET /b HTTP/1.1");
    assert_eq!((&lines[1]["verdict"], &lines[1]["location"]), (&"tls".into(), &"/".into()));
    assert_eq!(lines[1]["timeline"]["waits"]["tls"]["time"], 2.0);
    assert!(lines[1].get("peer").is_none() && lines[1].get("cache").is_none());
}

#[test]
fn only_slow_requests_are_logged_and_of_these_a_sample() {
    let bench = bench("slow_log slow.log threshold=1s sample=1/3;", "return 204;");
    (0..7).for_each(|_| drop(slow(&bench, "/slow")));
    let mut quick = bench.received("GET /quick HTTP/1.1\r\nHost: a\r\n\r\n");
    quick.timeline = Some(Timeline::begun(clock::exact_now(), None));
    bench.run(quick);
    let log = bench.read("slow.log");
    assert_eq!((log.lines().count(), log.contains("/quick")), (3, false), "{log}");
}

#[test]
fn a_location_has_the_log_of_its_block_or_none() {
    let bench = Bench::new(
        "access_log off; slow_log outer.log;
        server { location / { return 204; } location /off { slow_log off; return 204; }
            location /own { slow_log own.log; return 204; } }",
    );
    ["/", "/off", "/own"].iter().for_each(|target| drop(slow(&bench, target)));
    let (outer, own) = (bench.read("outer.log"), bench.read("own.log"));
    assert!(outer.contains(" loc=/ ") && outer.lines().count() == 1, "{outer}");
    assert!(own.contains(" loc=/own ") && own.lines().count() == 1, "{own}");
}

#[test]
fn a_field_shows_the_time_until_the_response() {
    let response = slow(&bench("server_timing on;", "return 204;"), "/");
    let field = response.field("server-timing");
    assert!(field.starts_with("total;dur=2"), "{field}");
    assert!(field.ends_with(", verdict;desc=\"tls\";dur=2000.000"), "{field}");
    let response = slow(&bench("server_timing debug;", "return 404;"), "/");
    let field = response.field("server-timing");
    assert!(field.contains(", head;dur=2") && field.contains(", tls;dur=2000.000"), "{field}");
}

#[test]
fn variables_show_the_state_so_far() {
    let bench = bench("", "return 200 \"$request_verdict $request_timeline\";");
    let text = slow(&bench, "/").text().to_owned();
    let (verdict, timeline) = text.split_once(' ').unwrap();
    let timeline: Value = serde_json::from_str(timeline).unwrap();
    assert_eq!((verdict, &timeline["verdict"]), ("tls", &"tls".into()));
    assert!(timeline["head"].as_f64() >= Some(2.0) && timeline.get("response").is_none());
    // Without a timeline there is no value.
    assert_eq!(bench.text("/"), " ");
}

#[test]
fn plans_without_these_record_nothing() {
    for directives in ["", "slow_log off;", "server_timing off;"] {
        assert!(!bench(directives, "return 204;").plan.timelines, "{directives}");
    }
}

#[test]
fn mistakes_are_refused() {
    for (directive, message) in [
        ("slow_log", "invalid number of arguments in \"slow_log\" directive"),
        ("slow_log \"\"", "\"slow_log\" needs the name of a file"),
        ("slow_log off threshold=1s", "invalid parameter \"threshold=1s\""),
        ("slow_log $host.log", "the name of a \"slow_log\" has no variables"),
        ("slow_log syslog:server=127.0.0.1", "a \"slow_log\" is a file; syslog is not supported"),
        ("slow_log a threshold=x", "invalid threshold \"x\""),
        ("slow_log a sample=1/0", "invalid sample \"1/0\""),
        ("slow_log a sample=5", "invalid sample \"5\""),
        ("slow_log a format=text", "invalid format \"text\""),
        ("slow_log a format=json format=json", "duplicate parameter \"format\""),
        ("slow_log a buffer=1k", "invalid parameter \"buffer=1k\""),
        ("slow_log a; slow_log b", "\"slow_log\" directive is duplicate"),
        ("server_timing all", "invalid value \"all\""),
    ] {
        let errors = Bench::errors(&format!("server {{ {directive}; }}"));
        assert!(errors[0].contains(message), "{directive}: {errors:?}");
    }
}

proptest! {
    /// Whatever a client sends, a line stays one line, and its parts are found again.
    #[test]
    fn values_do_not_leave_their_place(value in proptest::collection::vec(any::<u8>(), 0..60)) {
        let mut json = b"{\"a\":1".to_vec();
        line::member(&mut json, "b", &value);
        json.push(b'}');
        let object: Value = serde_json::from_slice(&json).unwrap();
        prop_assert_eq!(object["b"].as_str(), Some(&*String::from_utf8_lossy(&value)));
        let mut text = Vec::new();
        line::word(&mut text, "b=", &value);
        let quoted = text.get(2) == Some(&b'"');
        let inner = if quoted { &text[3..text.len() - 1] } else { &text[2..] };
        prop_assert!(inner.iter().all(|byte| (b' '..0x7f).contains(byte) && *byte != b'"'));
        prop_assert!(quoted || !inner.is_empty() && !inner.contains(&b' '));
    }

    /// Lists of origins are taken apart as they were put together.
    #[test]
    fn origins_are_counted(groups in proptest::collection::vec(1..4_usize, 0..4)) {
        let list = groups.iter().map(|count| vec!["unix:/a b"; *count].join(", "));
        let list = list.collect::<Vec<_>>().join(" : ");
        let origins = line::origins_of(list.as_bytes());
        prop_assert_eq!(origins.len(), groups.iter().sum::<usize>());
        prop_assert!(origins.iter().all(|origin| *origin == b"unix:/a b"));
    }
}
