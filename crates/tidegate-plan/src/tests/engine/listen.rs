//! The server for an address and a host: the names of each address, wildcards among addresses, the default.

use std::net::IpAddr;

use proptest::prelude::*;
use tidegate_core::exchange::Captures;
use tidegate_core::listen::{ListenerPlan, LocalServers};
use tidegate_core::regex::Regex;

use crate::tests::Bench;

/// Returns the number of the server for a host, counted from 0.
fn find(listener: &ListenerPlan, host: &str) -> u32 {
    listener.servers.find(host.as_bytes(), &mut Captures::default()).0.0
}

/// Checks the server of each host, with servers of these names on one address.
fn check(servers: &[&str], hosts: &[(&str, u32)]) {
    let text: String =
        servers.iter().map(|inside| format!("server {{ listen 1.1.1.1:80; {inside} }}")).collect();
    let bench = Bench::new(&text);
    for (host, expected) in hosts {
        assert_eq!(find(&bench.plan.listeners[0], host), *expected, "{host} in {servers:?}");
    }
}

#[test]
fn names_are_looked_up_in_nginxs_order() {
    check(
        &[
            "server_name default;",
            "server_name a.b.c;",
            "server_name *.b.c;",
            "server_name .d.e;",
            "server_name a.*;",
            "server_name ~^r\\d+\\.b\\.c$ ~^R(?<x>.)$;",
            "server_name ~^r;",
            "server_name UPPER.Case \"\";",
            "server_name $hostname;",
        ],
        &[
            ("a.b.c", 1),
            ("x.b.c", 2),
            ("y.x.b.c", 2),
            ("b.c", 0),
            ("d.e", 3),
            ("x.d.e", 3),
            ("a.x", 4),
            ("a.x.y", 4),
            // Wildcards precede regular expressions, which are tried in their order.
            ("r1.b.c", 2),
            ("ra", 5),
            ("rab", 6),
            ("upper.case", 7),
            ("", 7),
            ("bench", 8),
            ("other", 0),
        ],
    );
    // `default_server`, else the first server of an address.
    check(&["server_name a;", "server_name b;"], &[("c", 0), ("", 0)]);
    let bench = Bench::new(
        "server { listen 1.1.1.1:80; server_name a; } server { listen 1.1.1.1:80 default_server; }",
    );
    assert_eq!(
        [("a", 0), ("c", 1), ("", 1)].map(|(host, _)| find(&bench.plan.listeners[0], host)),
        [0, 1, 1]
    );
}

/// As in nginx, a name that another server has is ignored as a whole, with a warning.
#[test]
fn a_name_of_another_server_is_ignored() {
    for (names, warnings, hosts) in [
        (["a.b", "a.b"], &["a.b"][..], &[("a.b", 1), ("x.a.b", 0)][..]),
        (["a.b", ".a.b"], &[".a.b"], &[("a.b", 1), ("x.a.b", 0)]),
        (["*.a.b", ".a.b"], &[".a.b"], &[("a.b", 0), ("x.a.b", 1)]),
        ([".a.b", "a.b *.a.b"], &["a.b", "*.a.b"], &[("a.b", 1), ("x.a.b", 1)]),
        (["a.*", "a.*"], &["a.*"], &[("a.b", 1)]),
        (["a.b", "A.B"], &["A.B"], &[("a.b", 1)]),
        // A server may repeat its own name, in part or whole.
        (["a.b a.b .a.b", "c"], &[], &[("a.b", 1), ("x.a.b", 1)]),
        (["*.a.b .a.b *.a.b", "c"], &[], &[("a.b", 1), ("x.a.b", 1)]),
        // One part is the server's own, the other is not.
        (["a.b", "*.a.b .a.b"], &[".a.b"], &[("a.b", 1), ("x.a.b", 2)]),
        (["*.a.b", "a.b .a.b"], &[".a.b"], &[("a.b", 2), ("x.a.b", 1)]),
    ] {
        let server = |names: &str| format!("server {{ listen 1.1.1.1:80; server_name {names}; }}");
        let bench = Bench::new(&format!("{}{}{}", server("d"), server(names[0]), server(names[1])));
        let expected: Vec<String> = warnings
            .iter()
            .map(|name| format!("conflicting server name \"{name}\" on 1.1.1.1:80, ignored"))
            .collect();
        assert_eq!(bench.warnings, expected, "{names:?}");
        for (host, server) in hosts {
            assert_eq!(find(&bench.plan.listeners[0], host), *server, "{host} in {names:?}");
        }
    }
}

#[test]
fn invalid_names_are_refused() {
    for (name, expected) in [
        ("*", "server name \"*\" is invalid"),
        (".", "server name \".\" is invalid"),
        ("*.", "server name \"*.\" is invalid"),
        ("*a.b", "server name \"*a.b\" is invalid"),
        ("a.*.b", "invalid server name or wildcard \"a.*.b\""),
        ("a*", "invalid server name or wildcard \"a*\""),
        ("*.a.*", "invalid server name or wildcard \"*.a.*\""),
        ("~", "empty regex in server name \"~\""),
        ("~(", "pcre2_compile() failed: missing closing parenthesis in \"(\""),
    ] {
        assert_eq!(
            Bench::errors(&format!("server {{ server_name {name}; }}")),
            [expected],
            "{name}"
        );
    }
    let bench = Bench::new("server { server_name http://a/; }");
    assert_eq!(bench.warnings, ["server name \"http://a/\" has suspicious symbols"]);
}

#[test]
fn the_first_name_is_shown() {
    for (names, expected) in [
        ("", ""),
        ("server_name b a;", "b"),
        ("server_name B.C;", "b.c"),
        ("server_name .b.c;", "b.c"),
        ("server_name *.b.c;", "*.b.c"),
        ("server_name ~^A$;", "~^A$"),
        ("server_name $hostname;", "bench"),
        ("server_name a; server_name b;", "a"),
    ] {
        let bench = Bench::new(&format!(
            "server {{ {names} location / {{ do own respond $server_name; }} }}"
        ));
        assert_eq!(bench.get("/").text(), expected, "{names}");
    }
}

/// A regular-expression name stores its groups; a single server needs no lookup.
#[test]
fn groups_of_a_name_and_single_servers() {
    let bench = Bench::new(
        "server { server_name ~^(?<who>.+)\\.a$; location / { do own respond \"$who\"; } }",
    );
    let names = &bench.plan.listeners[0].servers;
    let mut captures = Captures::default();
    let (_, regex) = names.find(b"x.y.a", &mut captures);
    assert_eq!(
        (captures.group(1), regex.map(Regex::text)),
        (Some(&b"x.y"[..]), Some("^(?<who>.+)\\.a$"))
    );
    assert!(names.find_named(b"x.b", &mut captures).is_none() && !names.is_single());
    for (servers, single) in [
        ("server { server_name a *.b; }", true),
        ("server { }", true),
        ("server { server_name ~a; }", false),
        ("server { server_name a; } server { server_name b; }", false),
        ("server { server_name a; } server { listen 81; server_name a; }", true),
    ] {
        assert_eq!(Bench::new(servers).plan.listeners[0].servers.is_single(), single, "{servers}");
    }
}

/// Returns sockets with their servers and those of local addresses: `address: server[, local=server…]`, in order.
fn sockets(config: &str) -> Vec<String> {
    let bench = Bench::new(config);
    let show = |listener: &ListenerPlan| {
        let mut text = format!("{}: {}", listener.address.text(), find(listener, "x"));
        for local in &listener.by_local {
            let server = local.servers.default.0;
            text.push_str(&format!(", {}={server}", local.address));
        }
        text
    };
    bench.plan.listeners.iter().map(show).collect()
}

#[test]
fn addresses_of_a_wildcard_need_no_socket_of_their_own() {
    let server = |listen: &str| -> String {
        let listens: String = listen.split(',').map(|one| format!("listen {one};")).collect();
        format!("server {{ {listens} }}")
    };
    for (servers, expected) in [
        (&["80"][..], &["0.0.0.0:80: 0"][..]),
        (&["1.1.1.1:80", "80"], &["0.0.0.0:80: 1, 1.1.1.1=0"]),
        (&["80", "1.1.1.2:80", "1.1.1.1:80"], &["0.0.0.0:80: 0, 1.1.1.1=2, 1.1.1.2=1"]),
        (&["80", "1.1.1.1:81"], &["0.0.0.0:80: 0", "1.1.1.1:81: 1"]),
        // An address with socket options has a socket.
        (&["80", "1.1.1.1:80 bind"], &["0.0.0.0:80: 0", "1.1.1.1:80: 1"]),
        (&["80", "1.1.1.1:80 backlog=5"], &["0.0.0.0:80: 0", "1.1.1.1:80: 1"]),
        // Address families are separate.
        (&["[::]:80", "1.1.1.1:80", "[::1]:80"], &["[::]:80: 0, ::1=2", "1.1.1.1:80: 1"]),
        (&["unix:/s", "80"], &["0.0.0.0:80: 1", "unix:/s: 0"]),
        // Several servers of one address, and several addresses of one server.
        (&["80", "80 default_server", "80"], &["0.0.0.0:80: 1"]),
        (&["80,81", "81"], &["0.0.0.0:80: 0", "0.0.0.0:81: 0"]),
        (&["8000-8002"], &["0.0.0.0:8000: 0", "0.0.0.0:8001: 0", "0.0.0.0:8002: 0"]),
    ] {
        let config: String = servers.iter().map(|listen| server(listen)).collect();
        assert_eq!(sockets(&config), expected, "{servers:?}");
    }
    assert_eq!(sockets("server { }"), ["0.0.0.0:80: 0"]);
    let bench = Bench::new(
        "server { listen 80; } server { listen 1.1.1.1:80 ssl; } server { listen 2.2.2.2:80 proxy_protocol; }",
    );
    let listener = &bench.plan.listeners[0];
    let local = |text: &str| listener.local(text.parse::<IpAddr>().unwrap());
    assert_eq!([local("1.1.1.1"), local("2.2.2.2"), local("3.3.3.3")], [Some(0), Some(1), None]);
    let flags = |local: &LocalServers| (local.tls, local.proxy_protocol);
    assert_eq!(
        (flags(&listener.by_local[0]), flags(&listener.by_local[1])),
        ((true, false), (false, true))
    );
    assert_eq!((listener.tls, listener.proxy_protocol), (false, false));
}

#[test]
fn conflicting_addresses_are_refused() {
    for (servers, expected) in [
        ("server { listen 80; listen 80; }", "a duplicate listen 0.0.0.0:80"),
        ("server { listen 80; listen *:80; }", "a duplicate listen 0.0.0.0:80"),
        (
            "server { listen 80 default_server; } server { listen 80 default_server; }",
            "a duplicate default server for 0.0.0.0:80",
        ),
        (
            "server { listen 80 backlog=1; } server { listen 80 backlog=2; }",
            "duplicate listen options for 0.0.0.0:80",
        ),
    ] {
        assert_eq!(Bench::errors(servers), [expected], "{servers}");
    }
    // Options may be equal or missing in one of them, and those of a later `listen` apply.
    for servers in [
        "server { listen 80 backlog=1; } server { listen 80 backlog=1; }",
        "server { listen 80; } server { listen 80 backlog=1; } server { listen 80; }",
    ] {
        let bench = Bench::new(servers);
        assert_eq!(bench.plan.listeners[0].socket.backlog, Some(1), "{servers}");
    }
    let bench = Bench::new(
        "server { listen 80; } server { listen 80 ssl; } server { listen 80; max_headers 5; server_name a; }",
    );
    let listener = &bench.plan.listeners[0];
    assert!(
        listener.tls
            && listener.servers.parse_rules_differ
            && listener.place().address == listener.address
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For any names, a host leads to a server that has its name or to the default one.
    #[test]
    fn a_host_leads_to_a_server_that_names_it(
        names in prop::collection::vec("(\\*\\.)?[ab](\\.[ab]){0,2}|[ab]\\.\\*|\\.[ab](\\.[ab])?", 1..8),
        host in "[ab](\\.[ab]){0,3}",
    ) {
        let servers: String = names
            .iter()
            .map(|name| format!("server {{ listen 1.1.1.1:80; server_name {name}; }}"))
            .collect();
        let bench = Bench::new(&format!("server {{ listen 1.1.1.1:80; }} {servers}"));
        let fits = |name: &String| {
            let below = |suffix: &str| host.strip_suffix(suffix).is_some_and(|rest| rest.ends_with('.'));
            match (name.strip_prefix("*."), name.strip_prefix('.'), name.strip_suffix(".*")) {
                (Some(suffix), ..) => below(suffix),
                (_, Some(suffix), _) => host == suffix || below(suffix),
                (.., Some(prefix)) => host.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.')),
                _ => host == *name,
            }
        };
        let found = find(&bench.plan.listeners[0], &host) as usize;
        if found == 0 {
            // An ignored name may have matched.
            prop_assert!(!names.iter().any(fits) || !bench.warnings.is_empty());
        } else {
            prop_assert!(fits(&names[found - 1]), "{} leads to {}", host, names[found - 1]);
        }
    }
}
