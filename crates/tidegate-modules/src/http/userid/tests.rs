//! Cookies as they are set, read, kept and replaced.

use proptest::prelude::*;

use super::cookie::{BadCookie, Id, IdFormat};
use crate::testing::{Bench, TestResponse};

fn bench(server: &str) -> Bench {
    Bench::new(&format!(
        "map $args $uid_reset {{ default 0; reset 1; log log; }}
         log_format ids '$uid_got $uid_set'; access_log {{dir}}/ids.log ids; userid on;
         error_log {{dir}}/logs/error.log info;
         server {{ {server} location / {{ return 200 ok; }} }}"
    ))
}

/// Returns the identifier and what follows it.
fn cookie(reply: &TestResponse) -> (String, String) {
    let field = reply.field("Set-Cookie");
    let (name, value) = field.split_once('=').unwrap();
    assert_eq!(name, "uid");
    let (value, attributes) = value.split_once(';').unwrap();
    (value.to_owned(), attributes.trim().to_owned())
}

#[test]
fn a_client_gets_one_and_keeps_it() {
    let bench = bench("");
    let (value, attributes) = cookie(&bench.get("/"));
    assert_eq!((value.len(), attributes.as_str()), (24, "path=/"));
    assert!(value.ends_with("=="));
    // The server's address: 192.0.2.1.
    assert!(value.starts_with("wAACA"), "{value}");
    assert_ne!(cookie(&bench.get("/")).0, value);
    let again = bench.get_with("/", &[&format!("Cookie: a=b; uid={value}")]);
    assert_eq!(again.field("Set-Cookie"), "-");
    let log = bench.read("ids.log");
    let lines: Vec<&str> = log.lines().collect();
    assert!(lines[0].starts_with("- uid=010200C0") && lines[0].len() == 38, "{log}");
    let shown = lines[0].strip_prefix("- ").unwrap();
    assert_eq!(lines[2], format!("{shown} -"));
    for (reset, count) in [("/?reset", 0), ("/?log", 1)] {
        let reply = bench.get_with(reset, &[&format!("Cookie: uid={value}")]);
        assert_ne!(cookie(&reply).0, value);
        let message = format!("userid cookie \"{shown}\" was reset");
        assert_eq!(bench.read("logs/error.log").matches(&message).count(), count);
    }
}

#[test]
fn attributes_and_modes() {
    let bench = bench(
        "location /off { userid off; return 200 \"$uid_got|$uid_set\"; }
         location /log { userid log; return 200 \"$uid_got|$uid_set\"; }
         location /v1 { userid v1; userid_service 258; return 200 $uid_set; }
         location /all { userid_domain example.com; userid_path /p; userid_expires max;
            userid_flags httponly samesite=none secure; userid_p3p CP=x;
            location /all/none { userid_domain none; userid_expires off; userid_flags off; userid_p3p none; } }
         location /time { userid_expires 1h; }
         location /mark { userid_mark t; return 200 $uid_set; }",
    );
    assert_eq!(bench.get("/off").field("Set-Cookie"), "-");
    assert_eq!(bench.get("/log").field("Set-Cookie"), "-");
    let all = bench.get("/all");
    assert_eq!(
        cookie(&all).1,
        "expires=Thu, 31-Dec-37 23:55:55 GMT; domain=example.com; path=/p; secure; httponly; samesite=none"
    );
    assert_eq!(all.field("P3P"), "CP=x");
    let none = bench.get("/all/none");
    assert_eq!((cookie(&none).1.as_str(), none.field("P3P").as_str()), ("path=/p", "-"));
    let time = cookie(&bench.get("/time")).1;
    assert!(time.starts_with("expires=") && time.ends_with(" GMT; path=/"), "{time}");
    assert!(bench.text("/v1").starts_with("uid=00000102"));
    let (marked, _) = cookie(&bench.get("/mark"));
    assert!(marked.ends_with("t="), "{marked}");
    let fields = |value: &str| format!("Cookie: uid={value}");
    assert_eq!(bench.get_with("/mark", &[&fields(&marked)]).field("Set-Cookie"), "-");
    let other = marked.replace("t=", "==");
    let again = bench.get_with("/mark", &[&fields(&other)]);
    assert_eq!(cookie(&again).0, marked);
    assert!(again.text().starts_with("uid="));
    let got = bench.get_with("/log", &[&fields(&other)]);
    assert_eq!(got.text(), format!("{}|", again.text()));
    assert_eq!(bench.get_with("/off", &[&fields(&other)]).text(), "|");
    let short = bench.get_with("/log", &["Cookie: uid=short"]);
    assert_eq!(short.text(), "|");
}

#[test]
fn bad_cookies_are_logged() {
    let bench = bench("");
    bench.get_with("/", &["Cookie: uid=short"]);
    bench.get_with("/", &["Cookie: uid=!!!!!!!!!!!!!!!!!!!!!!!!"]);
    let log = bench.read("logs/error.log");
    assert!(log.contains("client sent too short userid cookie \"uid=short\", client: "), "{log}");
    assert!(log.contains("client sent invalid userid cookie \"uid=!!!"), "{log}");
}

#[test]
fn errors() {
    let rule = "\"userid_mark\" directive value must be \"off\" or a single letter, digit or \"=\"";
    for (config, expected) in [
        ("userid foo;", "invalid value \"foo\""),
        ("userid_mark ab;", rule),
        ("userid_mark -;", rule),
        ("userid_flags samesite=foo;", "invalid value \"samesite=foo\""),
        ("userid_service x;", "\"userid_service\" directive invalid number"),
        ("userid_expires x;", "\"userid_expires\" directive invalid value"),
        ("userid on; userid off;", "\"userid\" directive is duplicate"),
    ] {
        assert_eq!(Bench::errors(config)[0], expected, "{config}");
    }
}

#[test]
fn values_that_are_no_identifiers() {
    assert_eq!(Id::parse(b"fwAAAWsA5iR08g41AwMjA"), Err(BadCookie::TooShort));
    assert_eq!(Id::parse(b"fwAAAWsA5iR08g41AwMj-g=="), Err(BadCookie::Invalid));
    let id = Id::parse(b"fwAAAWsA5iR08g41AwMjAgt=and more").unwrap();
    assert_eq!((id.shown().as_str(), id.mark), ("=0100007F24E6006B350EF27402230303", b't'));
}

proptest! {
    #[test]
    fn what_is_written_is_read(service: u32, seconds: u32, two: bool, mark in "[a-z]?") {
        let version = if two { IdFormat::Two } else { IdFormat::One };
        let (id, mark) = (Id::new(version, service, seconds), mark.bytes().next());
        let mut text = Vec::new();
        id.write(mark, &mut text);
        let read = Id::parse(&text).unwrap();
        prop_assert_eq!((read.shown(), read.mark), (id.shown(), mark.unwrap_or(b'=')));
    }

    /// Any value is either an identifier that is written as it was read, or none.
    #[test]
    fn any_cookie_is_read(value in "[A-Za-z0-9+/=~-]{20,26}") {
        if let Ok(id) = Id::parse(value.as_bytes()) {
            let mut text = Vec::new();
            id.write(None, &mut text);
            prop_assert_eq!(Id::parse(&text).unwrap().shown(), id.shown());
        }
    }
}
