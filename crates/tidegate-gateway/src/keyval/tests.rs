//! Zones of pairs: the table against a model, JSON, files, variables.

mod model;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tidegate_rt::clock;

use super::Zone;
use super::index::Matching;
use super::pairs::{self, PairsError, Wanted, fuzz_keyval_pairs};
use super::store::{Moment, Store, Unwritten};
use super::table::{Record, Table, TableError};
use crate::testing::Bench;

const ROOM: usize = 1 << 20;

fn record(key: &str, value: &str) -> Record {
    Record { key: key.into(), value: value.into(), expires: None }
}

fn table(matching: Matching, keys: &[&str], now: Instant) -> Table {
    let mut table = Table::new(matching);
    for key in keys {
        table.add(record(key, key), ROOM, now).unwrap();
    }
    table
}

#[test]
fn the_smallest_network_is_found() {
    let now = clock::now();
    let keys =
        ["10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "2001:db8::/32", "2001:db8::1", "192.0.2.0/24"];
    let table = table(Matching::Network, &keys, now);
    for (key, found) in [
        ("10.1.2.3", Some("10.1.2.3")),
        ("10.1.2.4", Some("10.1.0.0/16")),
        ("10.2.2.3", Some("10.0.0.0/8")),
        ("::ffff:10.2.2.3", Some("10.0.0.0/8")),
        ("10.1.2.0/24", Some("10.1.0.0/16")),
        ("10.1.0.0/16", Some("10.1.0.0/16")),
        ("10.0.0.0/7", None),
        ("11.0.0.1", None),
        ("2001:db8::1", Some("2001:db8::1")),
        ("2001:db8::2", Some("2001:db8::/32")),
        ("2001:db9::1", None),
        ("", None),
        ("unix:", None),
        ("10.1.2.3/33", None),
    ] {
        assert_eq!(table.find(key.as_bytes(), now), found, "{key}");
    }
    assert_eq!(table.find(b"10.1.2.\xff", now), None);
    let mut table = table;
    let taken = table.add(record("10.9.9.9/8", ""), ROOM, now);
    assert_eq!(taken, Err(TableError::Exists("10.9.9.9/8".to_owned())), "the same network");
    let invalid = table.add(record("here", ""), ROOM, now);
    assert_eq!(invalid, Err(TableError::InvalidKey("here".to_owned())));
    table.remove("10.1.0.0/16", now).unwrap();
    assert_eq!(table.find(b"10.1.2.4", now), Some("10.0.0.0/8"));
}

#[test]
fn the_longest_prefix_is_found() {
    let now = clock::now();
    let table = table(Matching::Prefix, &["/a", "/a/b/", "/a/b/c", "/a/x", "é", "éa"], now);
    for (key, found) in [
        (&b"/a/b/c/d"[..], Some("/a/b/c")),
        (b"/a/b/d", Some("/a/b/")),
        (b"/a/b", Some("/a")),
        (b"/a", Some("/a")),
        (b"/", None),
        (b"", None),
        (b"/b", None),
        (b"/a/b/\xff", Some("/a/b/")),
        ("é\u{e8}".as_bytes(), Some("é")),
        (b"\xc3", None),
    ] {
        assert_eq!(table.find(key, now), found, "{}", String::from_utf8_lossy(key));
    }
}

#[test]
fn a_prefix_that_has_expired_hides_no_shorter_one() {
    let now = clock::now();
    let mut table = table(Matching::Prefix, &["/a"], now);
    let soon = Record { expires: Some(now + Duration::from_secs(1)), ..record("/a/b", "b") };
    table.add(soon, ROOM, now).unwrap();
    assert_eq!(table.find(b"/a/b/c", now), Some("b"));
    assert_eq!(table.find(b"/a/b/c", now + Duration::from_secs(1)), Some("/a"));
}

#[test]
fn a_full_zone_keeps_what_it_has() {
    let now = clock::now();
    let mut table = Table::new(Matching::Text);
    table.add(record("a", "1"), 400, now).unwrap();
    table.add(record("b", "2"), 400, now).unwrap();
    assert_eq!(table.add(record("c", "3"), 400, now), Err(TableError::NoRoom));
    let long: Box<str> = "x".repeat(200).into();
    assert_eq!(table.change("a", Some(long), None, 400, now), Err(TableError::NoRoom));
    assert_eq!((table.find(b"a", now), table.find(b"c", now)), (Some("1"), None));
    // A zone that a reload has made smaller.
    assert_eq!(table.change("a", Some("".into()), None, 10, now), Ok(()));
    let (version, many) = (table.version(), (0..9).map(|number| record(&number.to_string(), "")));
    let many = Table::of(Matching::Text, many.collect(), 400, now);
    assert_eq!(many.err(), Some(TableError::NoRoom));
    let removed = table.replace(Table::new(Matching::Text));
    assert!(table.is_empty(now) && table.version() > version && !removed.is_empty(now));
}

#[test]
fn expired_pairs_make_room() {
    let now = clock::now();
    let room = 200 * 170;
    let mut table = Table::new(Matching::Text);
    for number in 0..200 {
        let ends = Some(now + Duration::from_secs(1));
        let soon = Record { expires: ends, ..record(&number.to_string(), "") };
        table.add(soon, room, now).unwrap();
    }
    let long = "x".repeat(room - 500);
    assert_eq!(table.add(record("a", &long), room, now), Err(TableError::NoRoom));
    let later = now + Duration::from_secs(1);
    table.add(record("a", ""), room, later).unwrap();
    let long: Box<str> = long.into();
    assert_eq!(table.change("a", Some(long), None, room, later), Ok(()), "a value as well");
    assert_eq!(table.used().entries, 1);
}

#[test]
fn pairs_have_one_form() {
    for text in [
        r#"{"a":"1","b":{"value":"2","expire":30000},"c":null,"d":7,"e":{"expire":1}}"#,
        "{}",
        r#"{"a":-3,"\u0000é":"\u0001"}"#,
    ] {
        assert!(pairs::parse(text.as_bytes(), "expire").is_ok(), "{text}");
        fuzz_keyval_pairs(text.as_bytes());
    }
    let deep = format!("{{\"a\":{}", "[".repeat(100_000));
    let nested = "[".repeat(100_000);
    for (text, is_syntax) in [
        ("", true),
        ("{", true),
        ("{}x", true),
        ("{\"a\":NaN}", true),
        ("{\"a\":1e999}", true),
        ("{\"a\":\"\\ud800\"}", true),
        (&deep, true),
        ("[]", false),
        ("null", false),
        ("7", false),
        (&nested, false),
        ("{\"\":\"1\"}", false),
        ("{\"a\":\"1\",\"a\":\"2\"}", false),
        ("{\"a\":true}", false),
        ("{\"a\":1.5}", false),
        ("{\"a\":123456789012345678901234567890}", false),
        ("{\"a\":[]}", false),
        ("{\"a\":{}}", false),
        ("{\"a\":{\"value\":null}}", false),
        ("{\"a\":{\"value\":\"1\",\"expire\":0}}", false),
        ("{\"a\":{\"value\":\"1\",\"expire\":-1}}", false),
        ("{\"a\":{\"value\":\"1\",\"expire\":\"1\"}}", false),
        ("{\"a\":{\"value\":\"1\",\"expires\":1}}", false),
    ] {
        let error = pairs::parse(text.as_bytes(), "expire").unwrap_err();
        let shown = &text[..text.len().min(40)];
        assert_eq!(matches!(error, PairsError::Syntax(_)), is_syntax, "{shown}: {error}");
    }
    assert!(matches!(pairs::parse(b"{\"a\":\"\xff\"}", ""), Err(PairsError::Syntax(_))));
    let last = pairs::parse(b"{\"a\":18446744073709551615}", "").unwrap().remove(0).wanted;
    let digits = Some("18446744073709551615".to_owned());
    assert_eq!(last, Wanted::Value { value: digits, time: None });
}

#[test]
fn a_file_has_the_pairs_and_their_times() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pairs");
    let now = Moment::read();
    let hour = Duration::from_secs(3600);
    let open = |timeout| Store::read(Matching::Text, &path, (ROOM, timeout), now);
    let store = open(Some(hour)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        store.unwritten(&path),
        Unwritten::Nothing,
        "there is no file, and nothing to write"
    );
    store.change().add(record("stays\n", "é\"\0"), ROOM, now.monotonic).unwrap();
    let ends = Record { expires: Some(now.monotonic + hour), ..record("ends", "1") };
    store.change().add(ends, ROOM, now.monotonic).unwrap();
    let over = Record { expires: Some(now.monotonic), ..record("over", "1") };
    store.change().add(over, ROOM, now.monotonic).unwrap();
    assert_eq!(store.unwritten(&path), Unwritten::Changes);
    store.write_now(&path).unwrap();
    assert_eq!(store.unwritten(&path), Unwritten::Nothing);
    let text = std::fs::read(&path).unwrap();
    let text: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(text["stays\n"], json!("é\"\0"));
    assert!(text["ends"]["expires"].as_u64().unwrap() > now.unix_millis);
    assert_eq!(text.get("over"), None);
    let again = open(Some(hour)).unwrap_or_else(|error| panic!("{error}"));
    let later = now.monotonic + 2 * hour;
    assert_eq!(again.table().find(b"ends", now.monotonic), Some("1"));
    assert_eq!(again.table().find(b"stays\n", now.monotonic), Some("é\"\0"));
    assert_eq!(again.table().find(b"ends", later), None);
    let forever = open(None).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(forever.table().find(b"ends", later), Some("1"), "the zone has no timeout");
    let missing = directory.path().join("none").join("pairs");
    assert!(store.write_now(&missing).is_err());
    assert_eq!(store.unwritten(&missing), Unwritten::Failed);
}

/// Commands wait for a file with their change, however many share it.
#[test]
fn what_is_saved_is_in_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pairs");
    let bounds = (ROOM, None);
    let store = Store::read(Matching::Text, &path, bounds, Moment::read())
        .unwrap_or_else(|error| panic!("{error}"));
    let store = Arc::new(store);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (store, path) = (&store, &path);
            scope.spawn(move || {
                for number in 0..20 {
                    let key = format!("{thread}-{number}");
                    store.change().add(record(&key, "1"), ROOM, clock::now()).unwrap();
                    tidegate_rt::block_on(store.save(path)).unwrap().unwrap();
                    let text = std::fs::read_to_string(path).unwrap();
                    assert!(text.contains(&format!("\"{key}\":\"1\"")), "{key}");
                }
            });
        }
    });
    assert_eq!(store.unwritten(&path), Unwritten::Nothing);
    let again = Store::read(Matching::Text, &path, bounds, Moment::read())
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(again.table().used().entries, 160);
    // The next process has the file: this one leaves it alone once it ends.
    again.change().add(record("next", "1"), ROOM, clock::now()).unwrap();
    again.write_now(&path).unwrap();
    store.change().add(record("late", "1"), ROOM, clock::now()).unwrap();
    store.end();
    assert!(store.write_now(&path).is_err());
    assert!(tidegate_rt::block_on(store.save(&path)).unwrap().is_err(), "it waits for no file");
    assert!(std::fs::read_to_string(&path).unwrap().contains("next"));
}

#[test]
fn files_that_are_no_pairs_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pairs");
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(70_000));
    let longer = format!("{{\"a\":\"{}\"}}", "x".repeat(700_000));
    for (text, matching, part) in [
        ("{\"a\":", Matching::Text, "json error: EOF"),
        ("[]", Matching::Text, "a JSON object is expected"),
        ("{\"a\":null}", Matching::Text, "no value for key \"a\""),
        ("{\"a\":\"1\"}", Matching::Network, "invalid key \"a\""),
        ("{\"::1\":\"1\",\"0::1\":\"2\"}", Matching::Network, "key \"0::1\" already exists"),
        (&long, Matching::Text, "the zone is full"),
        (&longer, Matching::Text, "the zone is full"),
    ] {
        std::fs::write(&path, text).unwrap();
        let read = Store::read(matching, &path, (65_536, None), Moment::read());
        let error = read.err().unwrap();
        assert!(error.contains(part) && error.contains("in state file"), "{error}");
    }
    let error = Store::read(Matching::Text, directory.path(), (ROOM, None), Moment::read());
    assert!(error.err().unwrap().starts_with("open() \""));
}

const CONFIG: &str = "
    keyval_zone zone=text:64k; keyval $arg_k $text zone=text; keyval $text $twice zone=text;
    keyval_zone zone=ip:64k type=ip timeout=1h; keyval $arg_k $ip zone=ip;
    server { location /api { api write=on; } location /see { api; } }";

fn ask(bench: &Bench, method: &str, target: &str, body: &str) -> (u16, String) {
    let length = body.len();
    let request =
        format!("{method} {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}");
    let reply = bench.send(&request);
    (reply.status, reply.text().to_owned())
}

fn zone(bench: &Bench, name: &str) -> Arc<Zone> {
    let zones = bench.plan.extensions.of::<super::Zones>().unwrap();
    zones.0[name].clone()
}

#[test]
fn commands_change_pairs() {
    let bench = Bench::new(CONFIG);
    let all = "/api/9/http/keyvals";
    let (text, ip) = (&*format!("{all}/text"), &*format!("{all}/ip"));
    for (method, target, body, status, part) in [
        ("GET", text, "", 200, "{}"),
        ("POST", text, r#"{"a":"1","b":{"value":"2"},"c":3}"#, 201, ""),
        ("GET", text, "", 200, "{\n\"a\":\"1\",\n\"b\":\"2\",\n\"c\":\"3\"\n}"),
        ("GET", &*format!("{text}?key=b"), "", 200, r#"{"b":"2"}"#),
        ("GET", &*format!("{text}?x=&key=%61"), "", 200, r#"{"a":"1"}"#),
        ("GET", &*format!("{text}?key=d"), "", 404, "KeyvalKeyNotFound"),
        ("POST", text, r#"{"a":"2"}"#, 409, "KeyvalKeyExists"),
        ("POST", text, r#"{"e":"2","f":"3"}"#, 400, "only one key can be added"),
        ("POST", text, "{}", 400, "key required"),
        ("POST", text, r#"{"e":null}"#, 400, "no value for key"),
        ("POST", text, r#"{"e":{"value":"1","expire":9}}"#, 400, "keyval timeout is not enabled"),
        ("POST", text, "", 415, "JsonError"),
        ("POST", text, "[]", 400, "KeyvalFormatError"),
        ("PATCH", text, r#"{"a":"9"}"#, 204, ""),
        ("PATCH", text, r#"{"b":null}"#, 204, ""),
        ("PATCH", text, r#"{"b":null}"#, 404, "KeyvalKeyNotFound"),
        ("PATCH", text, r#"{"b":"1"}"#, 404, "KeyvalKeyNotFound"),
        ("PATCH", text, r#"{"a":"1","c":"1"}"#, 400, "only one key can be updated"),
        ("GET", text, "", 200, "{\n\"a\":\"9\",\n\"c\":\"3\"\n}"),
        ("POST", ip, r#"{"here":"1"}"#, 400, "KeyvalFormatError"),
        ("POST", ip, r#"{"10.0.0.0/8":{"value":"x","expire":60000}}"#, 201, ""),
        ("PATCH", ip, r#"{"10.0.0.0/8":{"expire":1000}}"#, 204, ""),
        ("GET", &*format!("{ip}?key=10.0.0.1"), "", 404, "KeyvalKeyNotFound"),
        ("GET", &format!("{all}?fields="), "", 200, r#"["ip","text"]"#),
        ("GET", all, "", 200, "{\"ip\":{\n\"10.0.0.0/8\":\"x\"\n},\"text\":{\n\"a\""),
        ("DELETE", text, "", 204, ""),
        ("GET", text, "", 200, "{}"),
        ("GET", "/api/9/http/keyvals/none", "", 404, "KeyvalNotFound"),
        ("GET", "/api/9/stream/keyvals/text", "", 404, "KeyvalNotFound"),
        ("GET", "/api/9/http/keyvals/text/a", "", 404, "PathNotFound"),
        ("POST", all, "{}", 405, "MethodNotSupported"),
        ("PUT", text, "{}", 405, "MethodNotSupported"),
        ("DELETE", "/see/9/http/keyvals/none", "", 405, "MethodDisabled"),
        ("GET", "/api/9/slabs/text", "", 200, "pages"),
    ] {
        let (found, reply) = ask(&bench, method, target, body);
        assert!(
            found == status && reply.contains(part),
            "{method} {target} {body}: {found} {reply}"
        );
        assert!(status != 204 || reply.is_empty());
    }
}

#[test]
fn a_full_zone_refuses_by_507() {
    let bench = Bench::new(CONFIG);
    let text = "/api/9/http/keyvals/text";
    let value = "x".repeat(40_000);
    assert_eq!(ask(&bench, "POST", text, &format!("{{\"a\":\"{value}\"}}")).0, 201);
    let (status, reply) = ask(&bench, "POST", text, &format!("{{\"b\":\"{value}\"}}"));
    assert!(status == 507 && reply.contains("KeyvalOutOfMemory"), "{status} {reply}");
    assert_eq!(ask(&bench, "POST", text, "{\"b\":\"1\"}").0, 201);
}

#[test]
fn a_large_zone_is_shown_in_pieces() {
    let bench = Bench::new("keyval_zone zone=z:10m; server { location /api { api write=on; } }");
    let now = clock::now();
    let zone = zone(&bench, "z");
    for number in 0..5000 {
        let added = record(&number.to_string(), "value");
        zone.store.change().add(added, zone.bytes_max, now).unwrap();
    }
    for target in ["/api/9/http/keyvals/z", "/api/9/http/keyvals"] {
        let (status, text) = ask(&bench, "GET", target, "");
        let shown: serde_json::Value = serde_json::from_str(&text).unwrap();
        let pairs = if target.ends_with('z') { &shown } else { &shown["z"] };
        assert_eq!((status, pairs.as_object().unwrap().len()), (200, 5000));
        assert_eq!(pairs["4999"], json!("value"));
    }
}

#[test]
fn mistakes_are_refused() {
    for (config, part) in [
        ("keyval_zone zone=a:1m sync timeout=1h;", "\"sync\" without \"zone_sync_store\""),
        ("keyval_zone timeout=1h;", "must have \"zone\" parameter"),
        ("keyval_zone zone=a;", "invalid zone size \"a\""),
        ("keyval_zone zone=:1m;", "invalid zone name"),
        ("keyval_zone zone=a:31k;", "is too small"),
        ("keyval_zone zone=a:1m type=text;", "invalid type \"text\""),
        ("keyval_zone zone=a:1m timeout=0;", "invalid timeout"),
        ("keyval_zone zone=a:1m state=;", "invalid parameter \"state=\""),
        ("keyval_zone zone=a:1m zone=b:1m;", "a parameter is there twice"),
        ("keyval_zone zone=a:1m x;", "invalid parameter \"x\""),
        ("keyval_zone zone=a:1m; keyval_zone zone=a:1m;", "duplicate zone \"a\""),
        ("keyval $arg_k $v zone=a;", "zero size shared memory zone \"a\""),
        ("keyval_zone zone=a:1m; keyval k v zone=a;", "invalid variable name \"v\""),
        ("keyval_zone zone=a:1m; keyval k $v a;", "invalid parameter \"a\""),
        ("keyval_zone zone=a:1m; keyval k $host zone=a;", "the duplicate \"host\" variable"),
        ("keyval_zone zone=a:1m state=s; keyval_zone zone=b:1m state=s;", "the same path name"),
    ] {
        let errors = Bench::errors(config);
        assert!(errors[0].contains(part), "{config}: {errors:?}");
    }
    let both = "http { keyval_zone zone=a:1m state=s; } stream { keyval_zone zone=b:1m state=s; }";
    assert!(Bench::errors_of_file(both)[0].contains("the same path name"));
}
