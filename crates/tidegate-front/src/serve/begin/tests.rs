//! The server that is meant, targets, and the statuses of refusals.

use std::rc::Rc;

use tidegate_codec::Span;
use tidegate_codec::request::{RequestError, RequestFault};
use tidegate_core::client::{Connection, TlsInfo};

use super::{Refusal, base_server, choose_server, decode_target};
use crate::testing::Bench;

/// Checks the path and the arguments of a target; `None` when it is malformed.
fn check(config: &str, method: &str, target: &str, expected: Option<(&str, &str)>) {
    let bench = Bench::new(&format!("server {{ {config} }}"));
    let mut x = bench.exchange();
    let head = format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n");
    let parsed = tidegate_codec::request::parse_request(
        head.as_bytes(),
        &Default::default(),
        &mut x.request.head,
    );
    assert!(parsed.is_ok(), "{target}: {parsed:?}");
    let decoded = decode_target(&mut x).is_ok();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match expected {
        Some((path, args)) => {
            assert!(decoded, "{target}");
            let found = (text(&x.request.path), text(&x.request.args));
            assert_eq!(found, (path.to_owned(), args.to_owned()), "{method} {target}");
        }
        None => assert!(!decoded && x.request.path.is_empty(), "{target}"),
    }
}

#[test]
fn a_target_is_decoded_into_path_and_arguments() {
    for (target, expected) in [
        ("/", Some(("/", ""))),
        ("/a/b?c=d", Some(("/a/b", "c=d"))),
        ("/a%20b?c%20d", Some(("/a b", "c%20d"))),
        ("/a/../b/./c", Some(("/b/c", ""))),
        ("/a//b", Some(("/a/b", ""))),
        ("/a?", Some(("/a", ""))),
        ("/a?b?c", Some(("/a", "b?c"))),
        ("/a%3Fb", Some(("/a?b", ""))),
        ("http://other/a?b", Some(("/a", "b"))),
        ("http://other", Some(("/", ""))),
        ("/..", None),
        ("/a/../../b", None),
        ("/%00", None),
        ("/%zz", None),
    ] {
        check("", "GET", target, expected);
    }
    check("merge_slashes off;", "GET", "/a//b", Some(("/a//b", "")));
    check("", "OPTIONS", "*", Some(("*", "")));
    check("", "CONNECT", "a.test:443", Some(("/", "")));
}

#[test]
fn each_refusal_has_its_status() {
    let head =
        RequestError { fault: RequestFault::InvalidMethod, line: Span::default(), previous: None };
    for (refusal, status) in
        [(Refusal::Head(head), 400), (Refusal::Target, 400), (Refusal::Connect, 405)]
    {
        assert_eq!(refusal.status(), status, "{refusal:?}");
    }
}

/// The servers of one port, distinguished by their `client_header_timeout`.
const SERVERS: &str = "
    server { listen 80 default_server; client_header_timeout 1s; server_name a.test; }
    server { listen 80; client_header_timeout 2s; server_name b.test *.b.test; }
    server { listen 80; client_header_timeout 3s; server_name ~^(?<name>.+)\\.c\\.test$; }";

#[test]
fn the_host_chooses_the_server_else_the_handshake_else_the_address() {
    let bench = Bench::new(SERVERS);
    let servers = &bench.plan.listeners[0].servers;
    for (tls_name, host, base, expected) in [
        (None, "a.test", 1, 1),
        (None, "b.test", 1, 2),
        (None, "x.b.test", 1, 2),
        (None, "x.c.test", 1, 3),
        (None, "d.test", 1, 1),
        (None, "", 1, 1),
        (Some("b.test"), "a.test", 2, 1),
        (Some("b.test"), "d.test", 2, 2),
        (Some("b.test"), "", 2, 2),
        (Some("B.test"), "d.test", 2, 2),
        (Some("x.c.test"), "", 3, 3),
        (Some("d.test"), "b.test", 1, 2),
        (Some("d.test"), "", 1, 1),
        (Some("no host"), "", 1, 1),
    ] {
        let mut x = bench.exchange();
        let tls = tls_name.map(|name| {
            Box::new(TlsInfo { server_name: Some(name.to_owned()), ..TlsInfo::default() })
        });
        let connection = Connection { tls, ..(*x.connection).clone() };
        let number = |id| bench.plan.server(id).settings.client_header_timeout.as_secs();
        assert_eq!(number(base_server(&connection, servers)), base, "{tls_name:?}");
        x.request.host = host.as_bytes().to_vec();
        x.connection = Rc::new(connection);
        choose_server(servers, &mut x);
        assert_eq!(number(x.routing.server), expected, "{tls_name:?}, {host}");
    }
}

#[test]
fn one_server_is_meant_whatever_the_host() {
    let bench = Bench::new("server { listen 80; server_name a.test; client_header_timeout 9s; }");
    let mut x = bench.exchange();
    let (servers, connection) = (&bench.plan.listeners[0].servers, x.connection.clone());
    assert!(servers.is_single());
    x.request.host = b"b.test".to_vec();
    x.routing.server = base_server(&connection, servers);
    choose_server(servers, &mut x);
    let settings = &bench.plan.server(x.routing.server).settings;
    assert_eq!(settings.client_header_timeout.as_secs(), 9);
}
