//! Heads of origins, framing, and the server's own status lines.
use super::*;
use proptest::prelude::*;

fn parse(input: &[u8]) -> (Result<Parse, ResponseError>, ResponseHead) {
    let mut head = ResponseHead::new();
    let outcome = parse_response(input, 4096, &mut head);
    let mut slow = ResponseHead::new();
    let mut slow_outcome = Ok(Parse::Partial);
    for end in 0..=input.len() {
        slow_outcome = parse_response(&input[..end], 4096, &mut slow);
        if slow_outcome != Ok(Parse::Partial) {
            break;
        }
    }
    assert_eq!(outcome.is_err(), slow_outcome.is_err(), "{}", String::from_utf8_lossy(input));
    if outcome.is_ok() {
        assert_eq!(outcome, slow_outcome);
        assert_eq!(head.status, slow.status);
    }
    (outcome, head)
}

#[test]
fn heads_are_taken_apart() {
    for (input, status, reason) in [
        ("HTTP/1.1 200 OK\r\nA: b\r\n\r\n", 200, "OK"),
        ("HTTP/1.0 404 Not  Found\nA: b\n\n", 404, "Not  Found"),
        ("HTTP/1.1 200\r\n\r\n", 200, ""),
        ("HTTP/1.1 299 \r\n\r\n", 299, ""),
        ("HTTP/1.1 100 Continue\r\n\r\n", 100, "Continue"),
        ("HTTP/1.1 200 OK\r\nx_y.z: 1\r\n\r\n", 200, "OK"),
    ] {
        let (outcome, head) = parse(input.as_bytes());
        assert_eq!(outcome, Ok(Parse::Complete(input.len())), "{input}");
        assert_eq!((head.status, head.reason()), (status, reason.as_bytes()));
        assert_eq!(head.is_interim(), status == 100);
    }
}

#[test]
fn broken_heads_are_refused() {
    for input in [
        "<html>\r\n\r\n",
        "<html>",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/1.1 200OK\r\n\r\n",
        "HTTP/1.1 200 O\0K\r\n\r\n",
        "HTTP/1.1 200 O\x1bK\r\n\r\n",
        "HTTP/1.1 200 O\rK\r\n\r\n",
        "HTTP/1.1 200 OK\x7f\r\n\r\n",
        "HTTP/1.1 103 E\r\nA: b\x01\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: \x0bb\r\n\r\n",
        "HTTP/1.1 200 OK\r\nLocation: /b\x08c\r\n\r\n",
        "HTTP/1.1 200 OK\r\nSet-Cookie: a=b\x7f\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
    ] {
        assert!(parse(input.as_bytes()).0.is_err(), "{input:?}");
    }
    let (outcome, head) = parse(b"HTTP/1.1 200 OK\r\nA B: c\r\n\r\n");
    let message = outcome.unwrap_err().message(head.headers.text());
    assert_eq!(message, "upstream sent invalid header: \"A B: c\"");
    let large = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "b".repeat(5000));
    assert_eq!(parse(large.as_bytes()).0, Err(ResponseError::TooBig));
}

#[test]
fn framing_follows_method_status_and_fields() {
    use ResponseFraming::*;
    let check = |method, line: &str, expected: Option<ResponseFraming>| {
        let input = format!("HTTP/1.1 {}\r\n\r\n", line.replace('|', "\r\n"));
        let (_, head) = parse(input.as_bytes());
        assert_eq!(head.framing(method).ok(), expected, "{line}");
    };
    for (line, expected) in [
        ("200 OK", Some(UntilClose)),
        ("200 OK|Content-Length: 5", Some(Length(5))),
        ("200 OK|Transfer-Encoding: Chunked", Some(Chunked)),
        ("204 N|Content-Length: 5", Some(None)),
        ("304 N|Content-Length: 5", Some(None)),
        ("103 E", Some(None)),
        ("200 OK|Content-Length: x", Option::None),
        ("200 OK|Content-Length: 5\t", Option::None),
        ("200 OK|Transfer-Encoding: \tchunked", Option::None),
        ("200 OK|Content-Length: 5|Content-Length: 5", Option::None),
        ("200 OK|Content-Length: 5|Transfer-Encoding: chunked", Option::None),
        ("200 OK|Transfer-Encoding: gzip", Option::None),
        ("200 OK|Transfer-Encoding: chunked|Transfer-Encoding: chunked", Option::None),
    ] {
        check(Method::Get, line, expected);
    }
    check(Method::Head, "200 OK|Content-Length: 5", Some(None));
    check(Method::Connect, "200 OK", Some(None));
    check(Method::Connect, "403 No|Content-Length: 5", Some(Length(5)));
}

#[test]
fn cgi_heads_have_a_status_field() {
    for (input, expected) in [
        ("Status: 404 Not Found\r\nA: b\r\n\r\n", Some((404, "Not Found"))),
        ("Status: 404\n\n", Some((404, ""))),
        ("A: b\r\n\r\n", Some((200, ""))),
        ("Location: /\r\n\r\n", Some((302, ""))),
        ("Status: 200\r\nLocation: /\r\n\r\n", Some((200, ""))),
        ("HTTP/1.1 201 Created\r\nA: b\r\n\r\n", Some((201, "Created"))),
        ("HTTP_X: y\r\n\r\n", Some((200, ""))),
        ("\r\n", Some((200, ""))),
        ("Status: x\r\n\r\n", None),
        ("Status: 42\r\n\r\n", None),
        ("oops\r\n\r\n", None),
        ("HTTP/2\r\n\r\n", None),
    ] {
        for cut in 0..input.len() {
            let mut head = ResponseHead::new();
            let first = parse_cgi_response(&input.as_bytes()[..cut], 4096, &mut head);
            let outcome = match first {
                Ok(Parse::Partial) => parse_cgi_response(input.as_bytes(), 4096, &mut head),
                other => other,
            };
            match expected {
                None => assert!(outcome.is_err(), "{input:?} cut at {cut}"),
                Some((status, reason)) => {
                    assert_eq!(outcome, Ok(Parse::Complete(input.len())), "{input:?}");
                    assert_eq!((head.status, head.reason()), (status, reason.as_bytes()));
                }
            }
        }
    }
}

#[test]
fn connections_stay_or_close() {
    for (input, expected) in [
        ("HTTP/1.1 200 OK\r\n\r\n", true),
        ("HTTP/1.0 200 OK\r\n\r\n", false),
        ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\nConnection: Close\r\n\r\n", false),
        ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n", false),
    ] {
        assert_eq!(parse(input.as_bytes()).1.keep_alive(), expected, "{input}");
    }
}

#[test]
fn status_lines_are_written() {
    for (status, expected) in [
        (200, "HTTP/1.1 200 OK\r\n"),
        (302, "HTTP/1.1 302 Moved Temporarily\r\n"),
        (418, "HTTP/1.1 418 \r\n"),
        (503, "HTTP/1.1 503 Service Temporarily Unavailable\r\n"),
    ] {
        let mut out = Vec::new();
        write_status_line(status, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

proptest! {
    #[test]
    fn heads_do_not_depend_on_how_they_arrive(
        input in "HTTP/1\\.[01] [0-9]{2,4} ?[a-z]{0,3}\r?\n([A-Za-z_: ]{0,6}: ?[a-z\r]{0,5}\r?\n){0,3}\r?\n?",
    ) {
        let _ = parse(input.as_bytes());
        crate::fuzzing::fuzz_response(input.as_bytes());
    }

    #[test]
    fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        crate::fuzzing::fuzz_response(&bytes);
    }
}
