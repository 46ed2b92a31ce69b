//! `proxy_pass`: targets, requests as origins see them, responses as clients see them, configuration errors.

use crate::common::target::{HTTP, Scheme, Url, UrlError, split};
use crate::testing::Bench;

const PLAIN: Scheme = HTTP[1];

#[test]
fn urls_are_taken_apart() {
    let check = |text: &str, authority: &str, uri: Option<&str>| {
        let uri = uri.map(|uri| uri.as_bytes().to_vec());
        let expected = Url { authority: authority.to_owned(), uri, scheme: PLAIN };
        assert_eq!(split(text.as_bytes(), HTTP), Ok(expected), "{text}");
    };
    check("http://a", "a", None);
    check("http://a/", "a", Some("/"));
    check("HTTP://a:8080/b?c", "a:8080", Some("/b?c"));
    check("http://a?c", "a", Some("?c"));
    check("http://[::1]:80/x", "[::1]:80", Some("/x"));
    check("http://unix:/run/s", "unix:/run/s", None);
    check("http://unix:/run/s:/x", "unix:/run/s", Some("/x"));
    assert!(split(b"https://a", HTTP).is_ok_and(|url| url.scheme.tls && url.authority == "a"));
    assert_eq!(split(b"ftp://a", HTTP), Err(UrlError::Prefix));
}

#[test]
fn mistakes_are_found_while_loading() {
    let check = |config: &str, message: &str| {
        let errors = Bench::errors(config).join("\n");
        assert!(errors.contains(message), "{config}: {errors}");
    };
    let location =
        |name: &str, pass: &str| format!("server {{ location {name} {{ proxy_pass {pass}; }} }}");
    check(
        "server { location / { proxy_pass https://127.0.0.1; proxy_ssl_verify on; } }",
        "no proxy_ssl_trusted_certificate for proxy_ssl_verify",
    );
    check(
        "server { proxy_ssl_certificate a; location / { proxy_pass https://127.0.0.1; } }",
        "no \"proxy_ssl_certificate_key\" is defined for certificate \"a\"",
    );
    check(
        "server { proxy_ssl_ciphers NO; location / { proxy_pass https://127.0.0.1; } }",
        "SSL_CTX_set_cipher_list(\"NO\") failed (SSL: no cipher match)",
    );
    check(&location("/", "127.0.0.1"), "invalid URL prefix");
    check(&location("/", "http://127.0.0.1:0"), "invalid port in upstream");
    check(&location("~ /x", "http://127.0.0.1/y"), "cannot have URI part");
    check("upstream u { }", "no servers are inside upstream");
    check(
        "upstream u { server 127.0.0.1; } upstream u { server 127.0.0.2; }",
        "duplicate upstream \"u\"",
    );
    check("upstream u { server 127.0.0.1 weight=0; }", "invalid parameter \"weight=0\"");
}

/// Runs an origin that sends one response, and returns the request that it received.
fn origin_request(
    config: &str,
    target: &str,
    response: &'static str,
) -> (crate::testing::TestResponse, String) {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let origin = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut received = Vec::new();
        let mut buffer = [0; 1024];
        while !received.windows(4).any(|end| end == b"\r\n\r\n") {
            match stream.read(&mut buffer).expect("a request") {
                0 => break,
                count => received.extend_from_slice(&buffer[..count]),
            }
        }
        stream.write_all(response.as_bytes()).expect("sent");
        String::from_utf8_lossy(&received).into_owned()
    });
    let bench = Bench::new(&config.replace("PORT", &port.to_string()));
    let reply = bench.get(target);
    (reply, origin.join().expect("the origin"))
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nServer: x\r\nX-Own: y\r\n\r\nok";

#[test]
fn origins_see_the_right_target() {
    let check = |location: &str, target: &str, line: &str| {
        let (reply, seen) = origin_request(&format!("server {{ {location} }}"), target, OK);
        assert_eq!((reply.status, reply.text()), (200, "ok"), "{location}");
        assert!(seen.starts_with(&format!("GET {line} HTTP/1.1\r\n")), "{location}: {seen}");
    };
    check("location /a/ { proxy_pass http://127.0.0.1:PORT; }", "/a/%41?b", "/a/%41?b");
    check("location /a/ { proxy_pass http://127.0.0.1:PORT/; }", "/a/%41%20?b", "/A%20?b");
    check("location /a { proxy_pass http://127.0.0.1:PORT/c; }", "/a/b", "/c/b");
    check(
        "location / { proxy_pass http://127.0.0.1:PORT$uri; }",
        "/a%0d%0aX:%20y",
        "/a%0D%0AX:%20y",
    );
}

#[test]
fn decoded_line_ends_do_not_become_fields() {
    let config = "server { location / {
        proxy_set_header X-Uri $uri; proxy_pass http://127.0.0.1:PORT; } }";
    let (_, seen) = origin_request(config, "/a%0d%0aInjected:%20y", OK);
    assert!(!seen.contains("\nInjected"), "{seen}");
}

#[test]
fn hidden_fields_are_not_sent() {
    let config =
        "server { location / { proxy_hide_header X-Own; proxy_pass http://127.0.0.1:PORT; } }";
    let (reply, seen) = origin_request(config, "/", OK);
    assert!(reply.headers.first_named(b"Server").is_none());
    assert!(reply.headers.first_named(b"X-Own").is_none());
    assert!(!seen.contains("Connection:"), "kept connections by default: {seen}");
}
