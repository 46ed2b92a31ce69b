//! The table of variables, its helpers, and the value of each variable.

use tidegate_core::Exchange;
use tidegate_core::client::Address;

use super::*;
use crate::tests::Bench;

#[test]
fn no_row_is_lost_or_duplicate() {
    let mut names: Vec<&str> = VARIABLES.iter().map(|variable| variable.name).collect();
    names.sort_unstable();
    let before = names.len();
    names.dedup();
    assert_eq!((names.len(), names.contains(&"")), (before, false));
}

#[test]
fn fields_are_found_by_suffix_and_joined() {
    let mut headers = tidegate_codec::Headers::new();
    for (name, value) in
        [("X-Foo", "1"), ("Cookie", "a"), ("x-foo", "2"), ("Cookie", "b"), ("X_Bar", "3")]
    {
        headers.push(name.as_bytes(), value.as_bytes());
    }
    for (suffix, expected) in [
        ("x_foo", Some("1, 2")),
        ("cookie", Some("a; b")),
        ("x_bar", Some("3")),
        ("x", None),
        ("", None),
    ] {
        let mut out = Vec::new();
        let found = put_fields(&headers, suffix.as_bytes(), &mut out);
        assert_eq!(found.then_some(&out[..]), expected.map(str::as_bytes), "{suffix}");
    }
}

#[test]
fn seconds_have_three_decimals() {
    let mut out = Vec::new();
    put_seconds(1_234_005, &mut out);
    assert_eq!(out, b"1234.005");
}

/// Returns the value of a variable for an exchange; `-` where it has none.
fn value(x: &mut Exchange, name: &str) -> String {
    let mut out = Vec::new();
    let found = x.variable_named(name.as_bytes(), &mut out);
    if found { String::from_utf8_lossy(&out).into_owned() } else { "-".to_owned() }
}

#[test]
fn variables_of_a_request() {
    let bench = Bench::new("server { server_name first; root /srv; }");
    let head = "POST /a%20b?X=1&y=&X=2 HTTP/1.1\r\nHost: H:81\r\nContent-Type: a/b\r\nContent-Length: 4\r\n\
        Cookie: c=1; d=2\r\nAuthorization: Basic dTpw\r\nReferer: r\r\nVia: v\r\nVia: w\r\n\r\nbody";
    let mut x = bench.received(head);
    for (name, expected) in [
        ("request", "POST /a%20b?X=1&y=&X=2 HTTP/1.1"),
        ("request_method", "POST"),
        ("request_uri", "/a%20b?X=1&y=&X=2"),
        ("uri", "/a b"),
        ("document_uri", "/a b"),
        ("args", "X=1&y=&X=2"),
        ("query_string", "X=1&y=&X=2"),
        ("is_args", "?"),
        ("arg_x", "1"),
        ("arg_y", ""),
        ("arg_z", "-"),
        ("arg_", "-"),
        ("host", "h"),
        ("http_host", "H:81"),
        ("request_port", "81"),
        ("is_request_port", ":"),
        ("http_via", "v, w"),
        ("http_referer", "r"),
        ("cookie_d", "2"),
        ("cookie_e", "-"),
        ("content_type", "a/b"),
        ("content_length", "4"),
        ("remote_user", "u"),
        ("request_body", "body"),
        ("document_root", "/srv"),
        ("request_filename", "/srv/a b"),
        ("server_protocol", "HTTP/1.1"),
        ("limit_rate", "0"),
    ] {
        assert_eq!(value(&mut x, name), expected, "{name}");
    }
    let mut x = bench.received("GET / HTTP/1.0\r\n\r\n");
    for (name, expected) in [
        ("args", "-"),
        ("is_args", ""),
        ("host", "first"),
        ("http_host", "-"),
        ("request_port", ""),
        ("is_request_port", ""),
        ("content_length", "-"),
        ("remote_user", "-"),
        ("request_body", "-"),
        ("request_body_file", "-"),
    ] {
        assert_eq!(value(&mut x, name), expected, "{name}");
    }
}

#[test]
fn variables_of_a_connection() {
    let mut bench = Bench::new("server { server_name first second; }");
    let inet = |text: &str| Address::Inet(text.parse().unwrap());
    for (peer, address, port, bytes) in [
        (inet("192.0.2.7:4711"), "192.0.2.7", "4711", &[192, 0, 2, 7][..]),
        (
            inet("[2001:db8::1]:5"),
            "2001:db8::1",
            "5",
            &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        ),
        // An address that a proxy reported without a port.
        (inet("192.0.2.7:0"), "192.0.2.7", "", &[192, 0, 2, 7]),
        (Address::Unix("/s".to_owned()), "unix:", "", b"unix:"),
    ] {
        bench.peer = peer;
        let mut x = bench.received("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!([value(&mut x, "remote_addr"), value(&mut x, "remote_port")], [address, port]);
        let mut out = Vec::new();
        assert!(x.variable_named(b"binary_remote_addr", &mut out) && out == bytes);
    }
    let mut x = bench.exchange();
    x.ordinal = 3;
    for (name, expected) in [
        ("server_addr", "192.0.2.1"),
        ("server_port", "8080"),
        ("server_name", "first"),
        ("connection", "1"),
        ("connection_requests", "3"),
        ("hostname", "bench"),
        ("scheme", "http"),
        ("https", ""),
        ("http2", "-"),
        ("proxy_protocol_addr", "-"),
        ("proxy_protocol_tlv_alpn", "-"),
        ("tcpinfo_rtt", "-"),
        ("nginx_version", tidegate_core::error_page::NGINX_VERSION),
        ("pid", &std::process::id().to_string()),
    ] {
        assert_eq!(value(&mut x, name), expected, "{name}");
    }
}

#[test]
fn variables_of_a_response() {
    let bench = Bench::new(
        "server { keepalive_timeout 5 7; limit_rate 1k;
           location / { do rewrite field X-A 1; do rewrite field Link a; do rewrite field link b; do own respond abc; }
           location /rate { do rewrite rate 2k; do rewrite rate x; do own respond abc; }
           location /404 { do own status 404; } location /close { do own status 400; } location /444 { do own close; } }",
    );
    for (target, name, expected) in [
        ("/", "status", "200"),
        ("/404", "status", "404"),
        ("/444", "status", "000"),
        ("/", "body_bytes_sent", "3"),
        ("/", "request_completion", "OK"),
        ("/444", "request_completion", ""),
        ("/", "sent_http_x_a", "1"),
        ("/", "sent_http_link", "a, b"),
        ("/", "sent_http_content_type", "text/plain"),
        ("/", "sent_http_location", "-"),
        ("/", "sent_http_connection", "keep-alive"),
        ("/close", "sent_http_connection", "close"),
        ("/", "sent_http_keep_alive", "timeout=7"),
        ("/close", "sent_http_keep_alive", "-"),
        ("/", "sent_http_last_modified", "-"),
        ("/", "limit_rate", "1024"),
        // A value that is no size changes nothing.
        ("/rate", "limit_rate", "2048"),
        ("/", "pipe", "."),
    ] {
        assert_eq!(value(&mut bench.get(target).x, name), expected, "{target} {name}");
    }
}
