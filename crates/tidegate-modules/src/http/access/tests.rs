//! Rules against addresses.
use tidegate_core::client::Address;

use crate::testing::Bench;

fn check(rules: &str, table: &[(&str, u16)]) {
    let config = format!("server {{ location / {{ {rules} }} }}");
    let mut bench = Bench::new(&config);
    for (peer, status) in table {
        bench.peer = match peer.strip_prefix("unix:") {
            Some(path) => Address::Unix(path.to_owned()),
            None => Address::Inet(peer.parse().unwrap()),
        };
        assert_eq!(bench.get("/x").status, *status, "{rules} {peer}");
    }
}

#[test]
fn the_first_rule_that_fits_decides() {
    check("deny all;", &[("192.0.2.1:1", 403), ("[::1]:1", 403), ("unix:x", 403)]);
    check("allow all;", &[("192.0.2.1:1", 404), ("unix:x", 404)]);
    check("deny unix:;", &[("192.0.2.1:1", 404), ("[::1]:1", 404), ("unix:x", 403)]);
    check(
        "deny 192.0.2.1; allow 192.0.2.0/24; allow 10.1.0.0/16; deny all;",
        &[
            ("192.0.2.1:1", 403),
            ("192.0.2.2:1", 404),
            ("10.1.255.1:1", 404),
            ("10.2.0.1:1", 403),
            ("[::ffff:192.0.2.2]:1", 404),
        ],
    );
    check(
        "allow 2001:db8::/32; allow ::1; deny all;",
        &[("[2001:db8:1::1]:1", 404), ("[::1]:1", 404), ("[2001:db9::1]:1", 403)],
    );
    check("deny 0.0.0.0/0;", &[("8.8.8.8:1", 403), ("[::1]:1", 404)]);
}

#[test]
fn errors_and_warnings() {
    for text in ["foo", "1.2.3.4/33", "::1/129", "1.2.3.4/x", "1.2.3"] {
        let errors = Bench::errors(&format!("allow {text};"));
        assert_eq!(errors, [format!("invalid parameter \"{text}\"")]);
    }
    let bench = Bench::new("server { location / { deny 1.2.3.4/24; } }");
    assert_eq!(bench.warnings, ["low address bits of 1.2.3.4/24 are meaningless"]);
}

#[test]
fn refusals_are_logged() {
    let bench = Bench::new("server { location / { deny all; } }");
    bench.get("/x");
    let log = bench.read("logs/error.log");
    assert!(log.contains("access forbidden by rule, client: 192.0.2.7"), "{log}");
}
