//! Databases that are made here, and the variables of them.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use tidegate_core::plan::Service;

use super::database::{Database, DatabasePath, fuzz_geoip2};
use super::reload::{self, CurrentDatabase, DatabaseReloader};
use crate::testing::Bench;

/// A value of a database: its control byte, and its content.
enum Value {
    Text(&'static str),
    Double(f64),
    Bytes(&'static [u8]),
    /// An unsigned number: type 5, 6, 9 or 10, and its bytes without leading zeros.
    Unsigned(u8, &'static [u8]),
    Signed(i32),
    Flag(bool),
    Float(f32),
    Map(Vec<(&'static str, Value)>),
    List(Vec<Value>),
}

fn control(kind: u8, size: usize, out: &mut Vec<u8>) {
    let size = u8::try_from(size).unwrap();
    assert!(size < 29, "longer values are not needed here");
    match kind {
        ..=7 => out.push(kind << 5 | size),
        _ => out.extend_from_slice(&[size, kind - 7]),
    }
}

fn write(value: &Value, out: &mut Vec<u8>) {
    let mut plain = |kind: u8, bytes: &[u8]| {
        control(kind, bytes.len(), out);
        out.extend_from_slice(bytes);
    };
    match value {
        Value::Text(text) => plain(2, text.as_bytes()),
        Value::Double(number) => plain(3, &number.to_be_bytes()),
        Value::Bytes(bytes) => plain(4, bytes),
        Value::Unsigned(kind, bytes) => plain(*kind, bytes),
        Value::Signed(number) => plain(8, &number.to_be_bytes()),
        Value::Float(number) => plain(15, &number.to_be_bytes()),
        Value::Flag(flag) => control(14, usize::from(*flag), out),
        Value::Map(entries) => {
            control(7, entries.len(), out);
            for (name, value) in entries {
                write(&Value::Text(name), out);
                write(value, out);
            }
        }
        Value::List(values) => {
            control(11, values.len(), out);
            values.iter().for_each(|value| write(value, out));
        }
    }
}

/// Makes a database of IPv4 addresses, where those of the first half (0.0.0.0/1) have this record.
fn database(record: &Value) -> Vec<u8> {
    const NODES: u8 = 1;
    let mut out = vec![0, 0, NODES + 16, 0, 0, NODES];
    out.extend_from_slice(&[0; 16]);
    write(record, &mut out);
    out.extend_from_slice(b"\xab\xcd\xefMaxMind.com");
    let metadata = Value::Map(vec![
        ("binary_format_major_version", Value::Unsigned(5, &[2])),
        ("binary_format_minor_version", Value::Unsigned(5, &[])),
        ("build_epoch", Value::Unsigned(9, &[0x59, 0x68, 0x2f, 0])),
        ("database_type", Value::Text("Test")),
        ("description", Value::Map(vec![("en", Value::Text("x"))])),
        ("ip_version", Value::Unsigned(5, &[4])),
        ("languages", Value::List(vec![Value::Text("en")])),
        ("node_count", Value::Unsigned(6, &[NODES])),
        ("record_size", Value::Unsigned(5, &[24])),
    ]);
    write(&metadata, &mut out);
    out
}

fn record() -> Value {
    Value::Map(vec![
        ("text", Value::Text("a b")),
        ("empty", Value::Text("")),
        ("double", Value::Double(-2.25)),
        ("float", Value::Float(1.5)),
        ("bytes", Value::Bytes(b"\x01\xff")),
        ("u16", Value::Unsigned(5, &[1, 0])),
        ("u32", Value::Unsigned(6, &[])),
        ("u64", Value::Unsigned(9, &[1, 0, 0, 0, 0, 0])),
        ("u128", Value::Unsigned(10, &[0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5])),
        ("i32", Value::Signed(-7)),
        ("yes", Value::Flag(true)),
        ("no", Value::Flag(false)),
        ("map", Value::Map(vec![("7", Value::Text("key"))])),
        ("list", Value::List(vec![Value::Text("first"), Value::Text("last")])),
    ])
}

#[test]
fn values_are_text() {
    let database = Database::parse(database(&record())).unwrap();
    let find = |address: &str, path: &str| {
        let keys = path.split_whitespace().map(str::to_owned);
        let address: IpAddr = address.parse().unwrap();
        let value = database.value(address, &DatabasePath::new(keys))?;
        Some(value.escape_ascii().to_string())
    };
    for (path, expected) in [
        ("text", Some("a b")),
        ("empty", Some("")),
        ("double", Some("-2.25000")),
        ("float", Some("1.50000")),
        ("bytes", Some("\\x01\\xff")),
        ("u16", Some("256")),
        ("u32", Some("0")),
        ("u64", Some("1099511627776")),
        ("u128", Some("0x00000010000000000000000000000005")),
        ("i32", Some("-7")),
        ("yes", Some("1")),
        ("no", Some("0")),
        ("map 7", Some("key")),
        ("list 0", Some("first")),
        ("list -1", Some("last")),
        ("list 2", None),
        ("list first", None),
        ("list", None),
        ("map", None),
        ("text 0", None),
        ("nothing", None),
        ("", None),
    ] {
        assert_eq!(find("1.2.3.4", path).as_deref(), expected, "{path}");
    }
    assert_eq!(find("::ffff:1.2.3.4", "text").as_deref(), Some("a b"));
    assert_eq!(find("192.0.2.1", "text"), None);
    assert_eq!(find("2001:db8::1", "text"), None);
    assert_eq!(database.build_epoch(), 1_500_000_000);
}

fn bench(dir: &Path, lines: &str) -> Bench {
    std::fs::write(dir.join("x.mmdb"), database(&record())).unwrap();
    Bench::new(&format!(
        "geoip2 {}/x.mmdb {{ {lines} }} geoip2_proxy 192.0.2.0/24;
         server {{ return 200 \"$a|$b|$c\"; }}",
        dir.display()
    ))
}

#[test]
fn variables() {
    let dir = tempfile::tempdir().unwrap();
    let bench = bench(
        dir.path(),
        "$a source=$arg_ip text; $b default=none source=$arg_ip u16; $c metadata build_epoch;",
    );
    for (target, expected) in [
        ("/?ip=1.2.3.4", "a b|256|1500000000"),
        ("/?ip=192.0.2.1", "|none|1500000000"),
        ("/?ip=x", "|none|1500000000"),
        ("/", "|none|1500000000"),
    ] {
        assert_eq!(bench.text(target), expected, "{target}");
    }
}

#[test]
fn the_address_is_the_clients_or_that_of_a_proxy() {
    let dir = tempfile::tempdir().unwrap();
    let mut bench = bench(dir.path(), "$a i32; $b default=none i32; $c metadata last_change;");
    let text = |bench: &Bench, fields: &[&str]| {
        let reply = bench.get_with("/", fields);
        reply.text().rsplit_once('|').unwrap().0.to_owned()
    };
    bench.peer = tidegate_core::client::Address::Inet("1.2.3.4:1".parse().unwrap());
    assert_eq!(text(&bench, &["X-Forwarded-For: 200.0.0.1"]), "-7|-7");
    bench.peer = tidegate_core::client::Address::Inet("192.0.2.1:1".parse().unwrap());
    assert_eq!(text(&bench, &["X-Forwarded-For: 1.2.3.4"]), "-7|-7");
    assert_eq!(text(&bench, &["X-Forwarded-For: 200.0.0.1"]), "|none");
    assert_eq!(text(&bench, &[]), "|none");
}

#[test]
fn a_changed_file_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.mmdb");
    let text = |text| database(&Value::Map(vec![("text", Value::Text(text))]));
    let bytes = text("first");
    std::fs::write(&path, &bytes).unwrap();
    let current = CurrentDatabase::new(path.clone(), Database::parse(bytes).unwrap());
    let current = Arc::new(current);
    let mut reloader = DatabaseReloader::default();
    let seen = reload::stamp(&path).ok();
    reloader.add(current.clone(), std::time::Duration::ZERO, seen);
    let value = || {
        let path = DatabasePath::new(["text".to_owned()].into_iter());
        current.database().value("1.2.3.4".parse().unwrap(), &path)
    };
    reloader.step();
    assert_eq!(value().as_deref(), Some(&b"first"[..]));
    std::fs::write(&path, text("the second")).unwrap();
    reloader.step();
    assert_eq!(value().as_deref(), Some(&b"the second"[..]));
    std::fs::write(&path, "no database").unwrap();
    reloader.step();
    std::fs::remove_file(&path).unwrap();
    reloader.step();
    assert_eq!(value().as_deref(), Some(&b"the second"[..]));
}

#[test]
fn errors() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("x.mmdb"), database(&record())).unwrap();
    std::fs::write(dir.path().join("text"), "text").unwrap();
    for (config, expected) in [
        ("geoip2 {dir}/x.mmdb { foo 1; }", "invalid setting \"foo\""),
        ("geoip2 {dir}/x.mmdb { $v source=a b; }", "invalid source variable name \"a\""),
        ("geoip2 {dir}/x.mmdb { $v source=$none b; }", "unknown \"none\" variable"),
        ("geoip2 {dir}/x.mmdb { $v default= b; }", "invalid setting \"default=\" for \"$v\""),
        ("geoip2 {dir}/x.mmdb { $v metadata x; }", "unknown metadata \"x\""),
        ("geoip2 {dir}/x.mmdb { $host a; }", "the duplicate \"host\" variable"),
        ("geoip2 {dir}/x.mmdb { auto_reload; }", "invalid number of arguments for auto_reload"),
        ("geoip2 {dir}/x.mmdb { auto_reload x; }", "invalid value \"x\" for auto_reload"),
        ("geoip2 {dir}/x.mmdb { auto_reload 0; }", "invalid value \"0\" for auto_reload"),
        ("geoip2 {dir}/x.mmdb { } geoip2 {dir}/x.mmdb { }", "Duplicate GeoIP2 mmdb - {dir}/x.mmdb"),
        ("geoip2_proxy x;", "invalid network \"x\""),
    ] {
        let place = dir.path().display().to_string();
        let errors = Bench::errors(&config.replace("{dir}", &place));
        assert_eq!(errors, [expected.replace("{dir}", &place)], "{config}");
    }
    for file in ["none", "text"] {
        let path = dir.path().join(file);
        let errors = Bench::errors(&format!("geoip2 {} {{ }}", path.display()));
        let begin = format!("MMDB_open(\"{}\") failed - ", path.display());
        assert!(matches!(&errors[..], [one] if one.starts_with(&begin)), "{errors:?}");
    }
}

proptest! {
    #[test]
    fn any_damage_is_survived(place in 0_usize..600, byte: u8, length in 0_usize..600) {
        let mut bytes = database(&record());
        if let Some(one) = bytes.get_mut(place) {
            *one = byte;
        }
        fuzz_geoip2(&bytes);
        bytes.truncate(length);
        fuzz_geoip2(&bytes);
    }
}
