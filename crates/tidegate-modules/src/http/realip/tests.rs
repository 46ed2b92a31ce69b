//! Addresses that proxies report.

use tidegate_core::client::Address;

use super::logic::{Trusted, client, parse_address};
use crate::testing::Bench;
use tidegate_conf::network::Network;

#[test]
fn addresses_are_read_as_they_are_written() {
    let table = [
        ("192.0.2.1", Some("192.0.2.1:0")),
        ("192.0.2.1:99", Some("192.0.2.1:99")),
        ("2001:db8::1", Some("[2001:db8::1]:0")),
        ("[2001:db8::1]:77", Some("[2001:db8::1]:77")),
        ("[2001:db8::1]", Some("[2001:db8::1]:0")),
        ("[192.0.2.1]", Some("192.0.2.1:0")),
        ("[2001:db8::1", None),
        ("[2001:db8::1]:", None),
        ("[]", None),
        ("192.0.2.1:0", None),
        ("192.0.2.1:+9", None),
        ("192.0.2.1:x", None),
        ("192.0.2.1:", None),
        ("192.0.2.1:70000", None),
        ("unix:/x", None),
        ("unknown", None),
        ("", None),
    ];
    for (text, expected) in table {
        let found = parse_address(text.as_bytes());
        assert_eq!(found, expected.map(|text| text.parse().unwrap()), "{text}");
    }
}

fn check(recursive: bool, values: &[&str], expected: &str) {
    let trusted = ["10.0.0.0/8", "2001:db8::/32"]
        .map(|text| Trusted::Network(Network::parse(text).unwrap().0));
    let found = client(values.iter().map(|value| value.as_bytes()), &trusted, recursive);
    let found = found.map_or("-".to_owned(), |found| found.ip().to_string());
    assert_eq!(found, expected, "{recursive} {values:?}");
}

#[test]
fn the_last_address_counts() {
    check(false, &["192.0.2.1"], "192.0.2.1");
    check(false, &["10.0.0.1, 192.0.2.1"], "192.0.2.1");
    check(false, &["192.0.2.1, 10.0.0.1"], "10.0.0.1");
    check(false, &["192.0.2.1 192.0.2.2"], "192.0.2.2");
    check(false, &["192.0.2.1, "], "192.0.2.1");
    check(false, &["192.0.2.1", ""], "192.0.2.1");
    check(false, &["192.0.2.1, unknown"], "-");
    check(false, &[], "-");
}

#[test]
fn trusted_addresses_are_passed_over() {
    check(true, &["192.0.2.9, 192.0.2.1, 10.0.0.1"], "192.0.2.1");
    check(true, &["10.0.0.3", "192.0.2.1", "10.0.0.2, 2001:db8::1"], "192.0.2.1");
    check(true, &["10.0.0.3, 10.0.0.2"], "10.0.0.3");
    check(true, &["unknown, 10.0.0.1"], "10.0.0.1");
    check(true, &["192.0.2.1, unknown"], "-");
}

fn lookup(bench: &Bench, target: &str, field: &str) -> String {
    let fields: &[&str] = if field.is_empty() { &[] } else { &[field] };
    bench.get_with(target, fields).text().to_owned()
}

#[test]
fn requests_get_the_address() {
    let mut bench = Bench::new(
        "set_real_ip_from 192.0.2.7; log_format a '$remote_addr'; access_log {dir}/a.log a;
        server { set $early $remote_addr;
            location / { return 200 $early|$remote_addr|$remote_port|$realip_remote_addr; }
            location /port { try_files /none @shown; }
            location /field { real_ip_header X-Mine; try_files /none @shown; }
            location /none { set_real_ip_from unix:; try_files /none @shown; }
            location /deny { real_ip_header X-Mine; deny 198.51.100.1; }
            location @shown { return 200 $remote_addr|$remote_port|$realip_remote_port; } }",
    );
    let table = [
        ("/", "X-Real-IP: 198.51.100.1", "198.51.100.1|198.51.100.1||192.0.2.7"),
        ("/", "X-Real-IP: x", "192.0.2.7|192.0.2.7|4711|192.0.2.7"),
        ("/port", "X-Real-IP: 198.51.100.1:99", "198.51.100.1|99|4711"),
        ("/field", "X-Mine: 198.51.100.1", "198.51.100.1||4711"),
        ("/field", "X-Real-IP: 198.51.100.2", "198.51.100.2||4711"),
        ("/field", "", "192.0.2.7|4711|4711"),
    ];
    for (target, field, expected) in table {
        assert_eq!(lookup(&bench, target, field), expected, "{target} {field}");
    }
    assert_eq!(bench.get_with("/deny", &["X-Mine: 198.51.100.1"]).status, 403);
    let log = bench.read("logs/error.log");
    assert!(log.contains("access forbidden by rule, client: 198.51.100.1,"), "{log}");
    bench.peer = Address::Unix(String::new());
    assert_eq!(lookup(&bench, "/port", "X-Real-IP: 198.51.100.1"), "unix:||");
    assert_eq!(lookup(&bench, "/none", "X-Real-IP: 198.51.100.1"), "198.51.100.1||");
}

#[test]
fn errors_and_warnings() {
    for text in ["1.2.3.4/33", "\"\"", "1.2.3.4:80"] {
        let errors = Bench::errors(&format!("set_real_ip_from {text};"));
        let shown = text.trim_matches('"');
        assert_eq!(errors, [format!("host not found in set_real_ip_from \"{shown}\"")]);
    }
    let bench = Bench::new("server { set_real_ip_from 1.2.3.4/24; }");
    assert_eq!(bench.warnings, ["low address bits of 1.2.3.4/24 are meaningless"]);
    let bench = Bench::new("server { set_real_ip_from localhost; }");
    assert!(bench.warnings.is_empty());
}
