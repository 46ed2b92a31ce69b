//! Refused addresses and permissions of `admin_socket`. What it serves is a case: the modules are not here.

use crate::tests::Bench;

fn check(directive: &str, expected: &[&str]) {
    let config = format!("events {{ }} {directive}");
    assert_eq!(Bench::errors_of_file(&config), expected, "{directive}");
}

#[test]
fn wrong_addresses_and_modes_are_refused() {
    for (directive, expected) in [
        ("admin_socket 127.0.0.1:80;", "\"admin_socket\" directive invalid value"),
        ("admin_socket unix:;", "\"admin_socket\" directive invalid value"),
        ("admin_socket unix:/s mode=0800;", "invalid parameter \"mode=0800\""),
        ("admin_socket unix:/s mode=01777;", "invalid parameter \"mode=01777\""),
        ("admin_socket unix:/s owner=a;", "invalid parameter \"owner=a\""),
        ("admin_socket off mode=0600;", "\"admin_socket\" directive invalid value"),
        (
            "admin_socket unix:/s; http { server { listen unix:/s; } }",
            "\"admin_socket\" and a \"listen\" have the same socket \"/s\"",
        ),
    ] {
        check(directive, &[expected]);
    }
    let _accepted = Bench::of_file("events { } admin_socket off;");
}
