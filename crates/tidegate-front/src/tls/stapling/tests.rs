//! Where an OCSP request is sent, and which responses are accepted.

use super::{FetchError, Responder, body};

#[test]
fn a_request_is_sent_to_the_responders_path() {
    for (url, host, port, line) in [
        ("http://ocsp.test", "ocsp.test", 80, "GET /QQ%3D%3D HTTP/1.0\r\nHost: ocsp.test"),
        ("http://ocsp.test/", "ocsp.test", 80, "GET /QQ%3D%3D HTTP/1.0\r\nHost: ocsp.test"),
        ("http://a:81/p", "a", 81, "GET /p/QQ%3D%3D HTTP/1.0\r\nHost: a:81"),
        ("http://a/p/", "a", 80, "GET /p/QQ%3D%3D HTTP/1.0\r\nHost: a"),
        ("http://[::1]:81/", "::1", 81, "GET /QQ%3D%3D HTTP/1.0\r\nHost: [::1]:81"),
        ("http://[::1]", "::1", 80, "GET /QQ%3D%3D HTTP/1.0\r\nHost: [::1]"),
    ] {
        let responder = Responder::new(url, b"A").unwrap();
        assert_eq!((&*responder.host, responder.port), (host, port), "{url}");
        assert_eq!(responder.head, format!("{line}\r\n\r\n"), "{url}");
    }
    for url in [
        "",
        "https://a/",
        "a",
        "http://",
        "http:///p",
        "http://a:x/",
        "http://a b/",
        "http://a/b c",
    ] {
        assert!(Responder::new(url, b"A").is_none(), "{url}");
    }
}

#[test]
fn a_response_has_status_200_and_a_body() {
    for (bytes, expected) in [
        ("HTTP/1.1 200 OK\r\nA: b\r\n\r\nxyz", Some("xyz")),
        ("HTTP/1.0 200 OK\n\nxyz", Some("xyz")),
        ("HTTP/1.0 200\r\n\r\n", Some("")),
        ("HTTP/1.1 404 Not Found\r\n\r\nxyz", None),
        ("HTTP/1.1 200 OK\r\nA: b\r\n", None),
        ("200 OK\r\n\r\nxyz", None),
        ("", None),
    ] {
        let found = body(bytes.as_bytes());
        assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{bytes}");
    }
}

#[test]
fn the_log_says_why_there_is_no_response() {
    let broken = || std::io::Error::other("broken");
    for (error, text) in [
        (FetchError::Host(None), "host not found"),
        (FetchError::Host(Some(broken())), "host not found (broken)"),
        (FetchError::Connect(broken()), "connect() failed (broken)"),
        (FetchError::Responder(broken()), "OCSP responder failed (broken)"),
        (FetchError::TooLong, "OCSP responder sent too much"),
        (FetchError::Invalid, "OCSP responder sent invalid response"),
        (FetchError::Late, "OCSP responder timed out"),
        (FetchError::Loop(broken()), "broken"),
    ] {
        assert_eq!(error.to_string(), text);
    }
}
