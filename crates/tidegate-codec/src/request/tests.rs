//! Tables for request heads; each is also fed byte by byte.
use super::*;
use proptest::prelude::*;

fn parse(input: &[u8], options: &ParseOptions) -> (Result<Parse, RequestError>, RequestHead) {
    let mut head = RequestHead::new();
    let outcome = parse_request(input, options, &mut head);
    let mut slow = RequestHead::new();
    let mut slow_outcome = Ok(Parse::Partial);
    for end in 0..=input.len() {
        slow_outcome = parse_request(&input[..end], options, &mut slow);
        if slow_outcome != Ok(Parse::Partial) {
            break;
        }
    }
    assert_eq!(outcome.is_err(), slow_outcome.is_err(), "{}", String::from_utf8_lossy(input));
    if outcome.is_ok() {
        assert_eq!(outcome, slow_outcome);
        slow.progress = head.progress;
        assert_eq!(format!("{head:?}"), format!("{slow:?}"));
    }
    (outcome, head)
}

/// Parses and reads the meta data; returns the status of the first failure, or else 200.
fn status_with(input: &str, options: &ParseOptions) -> u16 {
    let (outcome, head) = parse(input.as_bytes(), options);
    match outcome {
        Err(error) => error.status(),
        Ok(Parse::Partial) => 0,
        Ok(Parse::Complete(len)) => {
            assert_eq!(len, input.len(), "{input}");
            RequestMeta::of(&head).map_or_else(|error| error.status(), |_| 200)
        }
    }
}

fn check(lines: &[(&str, u16)]) {
    for (input, expected) in lines {
        assert_eq!(status_with(input, &ParseOptions::default()), *expected, "{input:?}");
    }
}

#[test]
fn a_common_head_is_taken_apart() {
    let input = b"\r\nGET /a?b HTTP/1.1\r\nHost: Example.COM.:81\r\nX-A:  \t b c \t\r\n\r\nNEXT";
    let (outcome, head) = parse(input, &ParseOptions::default());
    assert_eq!(outcome, Ok(Parse::Complete(input.len() - 4)));
    assert_eq!(
        (head.method, head.version, head.form),
        (Method::Get, Version::H11, TargetForm::Origin)
    );
    assert_eq!(head.line(), b"GET /a?b HTTP/1.1");
    assert_eq!(head.target(), b"/a?b");
    assert_eq!(head.method_bytes(), b"GET");
    assert_eq!(head.headers.first_named(b"x-a"), Some(&b"b c"[..]));
    let meta = RequestMeta::of(&head).unwrap();
    assert_eq!(meta.host.unwrap().as_bytes(), b"example.com");
    assert_eq!(meta.port, Some(81));
    assert!(meta.keep_alive && !meta.chunked && meta.content_length.is_none());
}

#[test]
fn request_lines() {
    check(&[
        ("GET / HTTP/1.0\r\n\r\n", 200),
        ("GET / HTTP/1.0\n\n", 200),
        ("GET /\r\n", 200),
        ("GET /\n", 200),
        ("POST /\r\n", 400),
        ("M-SEARCH / HTTP/1.0\r\n\r\n", 200),
        (&format!("{} / HTTP/1.0\r\n\r\n", "M".repeat(1000)), 200),
        ("get / HTTP/1.0\r\n\r\n", 400),
        ("G\0T / HTTP/1.0\r\n\r\n", 400),
        ("\u{16}\u{3}\u{1}", 400),
        ("GET  / HTTP/1.0\r\n\r\n", 400),
        ("GET / HTTP/1.0 \r\n\r\n", 400),
        ("GET / / HTTP/1.0\r\n\r\n", 400),
        ("GET /\u{2} HTTP/1.0\r\n\r\n", 400),
        ("GET /\ta HTTP/1.0\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\r\n\r\n", 400),
        ("GET / http/1.0\r\n\r\n", 400),
        ("GET / HTTP/0.9\r\n\r\n", 400),
        ("GET / HTTP/1\r\n\r\n", 400),
        ("GET / HTTP/1.10\r\n\r\n", 400),
        ("GET / HTTP/1.2\r\nHost: a\r\n\r\n", 200),
        ("GET / HTTP/2.0\r\n\r\n", 505),
        ("GET / HTTP/10.0\r\n\r\n", 505),
        ("GET / HTTP/2\r\n\r\n", 505),
        ("GET / HTTP/12\r\n\r\n", 505),
        ("GET / HTTP/01.1\r\n\r\n", 400),
        ("PRI * HTTP/2.0\r\n\r\n", 400),
        ("GET index.html HTTP/1.0\r\n\r\n", 400),
        ("GET * HTTP/1.0\r\n\r\n", 400),
        ("OPTIONS * HTTP/1.0\r\n\r\n", 200),
        ("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", 405),
        ("CONNECT localhost:8080 HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
        ("CONNECT / HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("CONNECT localhost HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("GET / HTTP/1.0", 0),
        ("", 0),
        ("\r\n\r\n", 0),
        ("GET", 0),
    ]);
    assert_eq!(status_with(&"\r\n".repeat(40), &ParseOptions::default()), 400);
}

#[test]
fn absolute_targets_name_the_host() {
    for (target, host, path) in [
        ("http://localhost", "localhost", "/"),
        ("http://LOCALHOST:8080/a?b", "localhost", "/a?b"),
        ("HTTPS://localhost?args#frag", "localhost", "?args#frag"),
        ("http://[::1]:80/", "[::1]", "/"),
    ] {
        let input = format!("GET {target} HTTP/1.1\r\nHost: other\r\n\r\n");
        let (_, head) = parse(input.as_bytes(), &ParseOptions::default());
        let meta = RequestMeta::of(&head).unwrap();
        assert_eq!(meta.host.unwrap().as_bytes(), host.as_bytes(), "{target}");
        assert_eq!(head.path_and_args(), path.as_bytes());
    }
}

#[test]
fn hosts() {
    let good = [
        ("l", "l"),
        ("L", "l"),
        ("abcd-ef.g02.xyz:", "abcd-ef.g02.xyz"),
        ("a:000080", "a"),
        ("[::ffff:A]:65535", "[::ffff:a]"),
        ("www.abcd-ef.g02.xyz.", "www.abcd-ef.g02.xyz"),
        ("abcd-ef.g02.xyz.:88", "abcd-ef.g02.xyz"),
        ("123.49.0.78:987", "123.49.0.78"),
        ("[abcd::ef98:0:7654:321]:80", "[abcd::ef98:0:7654:321]"),
        ("[::ffff:12.30.67.89]", "[::ffff:12.30.67.89]"),
        ("[v0123456789aBcDeF.!$&'()*+,;=-._~:]", "[v0123456789abcdef.!$&'()*+,;=-._~:]"),
    ];
    for (host, expected) in good {
        for input in [
            format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"),
            format!("GET http://{host}/ HTTP/1.1\r\nHost: a\r\n\r\n"),
        ] {
            let (_, head) = parse(input.as_bytes(), &ParseOptions::default());
            let meta = RequestMeta::of(&head).unwrap();
            assert_eq!(meta.host.unwrap().as_bytes(), expected.as_bytes(), "{host}");
        }
    }
}

#[test]
fn invalid_hosts_are_refused() {
    for host in NO_HOSTS {
        check(&[(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), 400)]);
        // In a target the slash starts the path.
        if !host.starts_with("example.com/") {
            check(&[(&format!("GET http://{host} HTTP/1.1\r\nHost: a\r\n\r\n"), 400)]);
        }
    }
}

const NO_HOSTS: &[&str] = &[
    "",
    ".",
    "..examp-LE.com",
    "example.com.:1.2",
    "com.exa-m.45..:",
    "123.49.0.78:98777",
    "123.40.56.78:9000:80",
    "example.com/\\:552",
    "\\e/xample.com",
    "[abcd::e\\f98:0/:7654:321]",
    "[abcd::ef98:0:7654:321].",
    "[abcd::ef98:0:7654:321].:98",
    "[ab..cd::ef98:0:7654:321]",
    "extra[abcd::ef98:0:7654:321]:98",
    "[abcd::ef98:0:7654:321",
    "[]",
    "[a]",
    "[::1",
    "[::1%25eth0]",
    "[v1.]",
    "[v.a]",
    "a:65536",
    "a:+80",
    "a:-1",
    "a:8a",
    "a:80:80",
    "::1",
    "a\"b",
    "a<b",
    "a|b",
    "a^b",
    "a`b",
    "a{b}",
    "a\\b",
    "a%zz",
    "a%4",
    "\u{e4}",
    "user@host",
    "localhost\u{2}",
    "a b",
];

/// RFC 3986 allows more in a name than nginx accepts in a target.
#[test]
fn hosts_of_fields_alone() {
    for host in ["a_b", "a~b", "a!b$&'()*+,;=b", "a%41b", "*", "-a"] {
        check(&[
            (&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), 200),
            (
                &format!("GET http://{host}/ HTTP/1.1\r\nHost: a\r\n\r\n"),
                if host == "-a" { 200 } else { 400 },
            ),
        ]);
    }
}

#[test]
fn targets() {
    let table = [
        ("http://a", 200),
        ("http://a?x", 200),
        ("http://a:80?x", 200),
        ("http://a/#x", 200),
        ("http://a#x", 400),
        ("http://a:80#x", 400),
        ("http://a#/x", 400),
        ("http://[::1]#x", 400),
        ("http://[::1]?x", 200),
        ("http://?x", 400),
        ("http:///x", 400),
        ("http://", 400),
        ("http:/x", 400),
        ("http:", 400),
        ("http://u:p@a/x", 400),
        ("http://a@b", 400),
        ("1http://a/", 400),
        ("h1+-.p://a/", 200),
        ("//a/b", 200),
        ("?x", 400),
        ("#x", 400),
        ("a", 400),
        ("*", 400),
    ];
    for (target, expected) in table {
        check(&[(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"), expected)]);
    }
}

#[test]
fn errors_have_the_texts_of_nginx() {
    for (fields, expected) in [
        ("X y: z", r#"client sent invalid header line: "X\x20...""#),
        (": z", r#"client sent invalid header line: "\x3a...""#),
        ("X: a\0b", r#"client sent invalid header line: "X: a\x00...""#),
        ("X: a\rb", r#"client sent invalid header line: "X: a\x0d...""#),
        (
            "If-Match: a\r\nif-match: b",
            r#"client sent duplicate header line: "if-match: b", previous value: "If-Match: a""#,
        ),
        ("host: b", r#"client sent duplicate host header: "host: b", previous value: "Host: a""#),
    ] {
        let input = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n");
        let (outcome, head) = parse(input.as_bytes(), &ParseOptions::default());
        let error = match outcome {
            Err(error) => error,
            Ok(_) => RequestMeta::of(&head).unwrap_err(),
        };
        assert_eq!(error.message(head.headers.text()), expected);
    }
}

/// A value may contain all control characters except zero and line ends (RFC 9110 section 5.5).
#[test]
fn control_characters_in_values() {
    for byte in (0u8..32).chain([127]) {
        let byte = char::from(byte);
        let expected = if matches!(byte, '\0' | '\r' | '\n') { 400 } else { 200 };
        check(&[(&format!("GET / HTTP/1.1\r\nHost: a\r\nX: a{byte}b\r\n\r\n"), expected)]);
    }
}

#[test]
fn the_options_of_the_named_server_apply_from_there_on() {
    let rules = |host: &[u8]| {
        let on = host == b"on";
        on.then(|| ParseOptions { underscores_in_headers: true, ..ParseOptions::default() })
    };
    for (head_text, expected) in [
        ("GET / HTTP/1.1\r\na_b: 1\r\nHost: on\r\na_c: 1\r\n\r\n", [false, true]),
        ("GET / HTTP/1.1\r\na_b: 1\r\nHost: off\r\na_c: 1\r\n\r\n", [false, false]),
        ("GET http://on/ HTTP/1.1\r\na_b: 1\r\nHost: off\r\na_c: 1\r\n\r\n", [true, true]),
        ("GET http://off/ HTTP/1.1\r\na_b: 1\r\nHost: on\r\na_c: 1\r\n\r\n", [false, false]),
    ] {
        let (mut head, mut options) = (RequestHead::new(), ParseOptions::default());
        for end in 0..=head_text.len() {
            let text = &head_text.as_bytes()[..end];
            let outcome = parse_request_for(text, &mut options, &mut head, Some(&rules)).unwrap();
            assert_eq!(outcome != Parse::Partial, end == head_text.len());
        }
        let found = [&b"a_b"[..], b"a_c"].map(|name| head.headers.first_named(name).is_some());
        assert_eq!(found, expected, "{head_text}");
    }
}

#[test]
fn the_named_server_keeps_buffers_in_use() {
    let few = ParseOptions {
        header_buffer_bytes: 128,
        large_buffers: 1,
        large_buffer_bytes: 256,
        ..ParseOptions::default()
    };
    let rules = |host: &[u8]| (host == b"few").then_some(few);
    let field = |len: usize| format!("X: {}\r\n", "a".repeat(len - 5));
    let many = field(200).repeat(5);
    for (fields, expected) in [
        (format!("{many}Host: few\r\n"), 200),
        // To the end of the last buffer, which is the fifth.
        (format!("{many}Host: few\r\n{}", field(123)), 200),
        (format!("{many}Host: few\r\n{}", field(124)), 494),
        (format!("Host: few\r\n{}", field(200)), 200),
        (format!("Host: few\r\n{many}"), 494),
        (format!("{many}Host: another\r\n{many}"), 494),
    ] {
        let mut options = ParseOptions { large_buffers: 5, ..few };
        let text = format!("GET / HTTP/1.1\r\n{fields}\r\n");
        let mut head = RequestHead::new();
        let parsed = parse_request_for(text.as_bytes(), &mut options, &mut head, Some(&rules));
        assert_eq!(parsed.map_or_else(|error| error.status(), |_| 200), expected, "{text}");
    }
}

#[test]
fn fields_that_decide() {
    let get = |fields: &str| format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n");
    for (fields, expected) in [
        ("Content-Length: 0", 200),
        ("Content-Length: 9223372036854775807", 200),
        ("Content-Length: 9223372036854775808", 400),
        ("Content-Length: \t1", 400),
        ("Content-Length: 1\t", 400),
        ("Transfer-Encoding: \tchunked", 501),
        ("Transfer-Encoding: chunked \t", 501),
        ("Content-Length: 1 2", 400),
        ("Content-Length: +1", 400),
        ("Content-Length: -1", 400),
        ("Content-Length: 0x1", 400),
        ("Content-Length:", 400),
        ("Content-Length: 1,1", 400),
        ("Content-Length: 0\r\nContent-Length: 0", 400),
        ("Transfer-Encoding: Chunked", 200),
        ("Transfer-Encoding: identity", 501),
        ("Transfer-Encoding: chunked, identity", 501),
        ("Transfer-Encoding: gzip, chunked", 501),
        ("Transfer-Encoding:", 501),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", 400),
        ("Transfer-Encoding: chunked\r\nContent-Length: 5", 400),
        ("Content-Length: 5\r\nTransfer-Encoding: x", 400),
        ("Host: b", 400),
        ("Expect: a\r\nExpect: b", 400),
        ("If-Match: a\r\nIf-Match: b", 400),
        ("Authorization: a\r\nAuthorization: a", 400),
        ("Cookie: a\r\nCookie: b", 200),
    ] {
        check(&[(&get(fields), expected)]);
    }
    check(&[
        ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.0\r\n\r\n", 200),
    ]);
}

#[test]
fn connections_stay_or_close() {
    for (version, fields, keep_alive, upgrade) in [
        ("1.1", "", true, false),
        ("1.0", "", false, false),
        ("1.0", "Connection: Keep-Alive\r\n", true, false),
        ("1.0", "Connection: keep-alive, close\r\n", false, false),
        ("1.1", "Connection: foo , CLOSE\r\n", false, false),
        ("1.1", "Connection: a\r\nConnection: close\r\n", false, false),
        ("1.1", "Connection: closed\r\n", true, false),
        ("1.1", "Connection: upgrade\r\nUpgrade: websocket\r\n", true, true),
        ("1.1", "Connection: upgrade\r\n", true, false),
    ] {
        let input = format!("GET / HTTP/{version}\r\nHost: a\r\n{fields}\r\n");
        let (_, head) = parse(input.as_bytes(), &ParseOptions::default());
        let meta = RequestMeta::of(&head).unwrap();
        assert_eq!((meta.keep_alive, meta.upgrade), (keep_alive, upgrade), "{input}");
    }
}

#[test]
fn broken_field_lines() {
    let get = |line: &str| format!("GET / HTTP/1.0\r\n{line}\r\n\r\n");
    for line in [
        ":foo: x",
        " foo: x",
        "foo\u{2}: x",
        "foo : x",
        "a: b\r\n c",
        "a: b\r\n\tc",
        "a",
        "a: \0",
        "a: b\rc",
        "a: b\r\r",
        "\0",
    ] {
        check(&[(&get(line), 400)]);
    }
    let (outcome, head) = parse(get("a\"\u{1} b: \u{e9}").as_bytes(), &ParseOptions::default());
    let message = outcome.unwrap_err().message(head.headers.text());
    assert_eq!(message, "client sent invalid header line: \"a\\x22\\x01...\"");
    let (outcome, head) = parse(get("a: b\r\n c: d").as_bytes(), &ParseOptions::default());
    let error = outcome.unwrap_err();
    let message = error.message(head.headers.text());
    assert_eq!(message, "client sent invalid header line: \"\\x20...\"");
    assert!(error.in_fields());
    assert_eq!(head.line(), b"GET / HTTP/1.0");
}

#[test]
fn odd_names_are_left_out_or_kept() {
    let count = |name: &str, ignore: bool, underscores: bool| {
        let options = ParseOptions {
            ignore_invalid_headers: ignore,
            underscores_in_headers: underscores,
            ..ParseOptions::default()
        };
        let input = format!("GET / HTTP/1.0\r\n{name}: x\r\n\r\n");
        let (_, head) = parse(input.as_bytes(), &options);
        assert_eq!(head.ignored_lines.len() + head.headers.len(), 1);
        head.headers.len()
    };
    for (name, plain, kept, underscored) in
        [("x_foo", 0, 1, 1), ("_foo", 0, 1, 1), ("x.foo", 0, 1, 0), ("</kie>", 0, 1, 0)]
    {
        assert_eq!(count(name, true, false), plain, "{name}");
        assert_eq!(count(name, false, false), kept, "{name}");
        assert_eq!(count(name, true, true), underscored, "{name}");
    }
}

#[test]
fn heads_are_limited() {
    let options = ParseOptions {
        headers_max: 5,
        header_buffer_bytes: 128,
        large_buffers: 2,
        large_buffer_bytes: 256,
        ..ParseOptions::default()
    };
    let line = |len: usize| format!("GET /{} HTTP/1.0\r\n\r\n", "a".repeat(len - 16));
    let field = |len: usize| format!("X: {}\r\n", "a".repeat(len - 5));
    for (input, expected) in [
        (line(256), 200),
        (line(257), 414),
        (line(257)[..257].to_owned(), 414),
        (format!("GET / HTTP/1.0\r\n{}\r\n", field(256)), 200),
        (format!("GET / HTTP/1.0\r\n{}\r\n", field(257)), 494),
        (format!("GET / HTTP/1.0\r\n{}\r\n", field(250).repeat(2)), 200),
        (format!("GET / HTTP/1.0\r\n{}\r\n", field(250).repeat(3)), 494),
        (format!("GET / HTTP/1.0\r\n{}\r\n", field(9).repeat(5)), 200),
        (format!("GET / HTTP/1.0\r\n{}\r\n", field(9).repeat(6)), 494),
    ] {
        assert_eq!(status_with(&input, &options), expected, "{input}");
    }
    assert_eq!(wire_status(494), 400);
    assert_eq!(wire_status(414), 414);
}

#[test]
fn a_cleared_head_takes_the_next_request_without_allocating() {
    let mut head = RequestHead::new();
    let options = ParseOptions::default();
    let input = b"GET /a HTTP/1.1\r\nHost: a\r\nCookie: b\r\n\r\n";
    parse_request(input, &options, &mut head).unwrap();
    let capacity = head.headers.capacity();
    for _ in 0..3 {
        head.clear();
        assert_eq!(parse_request(input, &options, &mut head), Ok(Parse::Complete(input.len())));
        assert_eq!(head.headers.capacity(), capacity);
    }
}

proptest! {
    #[test]
    fn heads_do_not_depend_on_how_they_arrive(
        input in "(GET|POST|G) (/[a%?]{0,5}|http://[a:.]{0,5}|\\*) HTTP/1\\.[01]\r?\n\
                  ([A-Za-z_:. -]{0,6}: ?[a-z0-9\r, ]{0,8}\r?\n){0,4}\r?\n?",
    ) {
        let _ = parse(input.as_bytes(), &ParseOptions::default());
        crate::fuzzing::fuzz_request(input.as_bytes());
    }

    #[test]
    fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        crate::fuzzing::fuzz_request(&bytes);
        crate::fuzzing::fuzz_request(&[b"GET / HTTP/1.1\r\nHost: ", &bytes[..], b"\r\n\r\n"].concat());
    }
}

#[test]
fn a_composed_head_reads_like_a_received_one() {
    for (method, target, form, expected) in [
        ("GET", "/a?b", TargetForm::Origin, None),
        ("OPTIONS", "*", TargetForm::Asterisk, None),
        ("CONNECT", "a.test:443", TargetForm::Authority, None),
        ("CONNECT", "a.test", TargetForm::Authority, Some(RequestFault::InvalidRequestLine)),
        ("GET", "*", TargetForm::Origin, Some(RequestFault::InvalidRequestLine)),
        ("GET", "", TargetForm::Origin, Some(RequestFault::InvalidRequestLine)),
    ] {
        let mut headers = Headers::new();
        let line = headers.push_text(format!("{method} {target} HTTP/2.0").as_bytes());
        headers.push(b"host", b"a.test");
        headers.push(b"expect", b"100-continue");
        let method_end = line.start as usize + method.len();
        let target_end = method_end + 1 + target.len();
        let mut head = RequestHead::new();
        let outcome = head.compose(ComposedHead {
            headers: &mut headers,
            ignored_lines: &mut Vec::new(),
            line,
            method: Span::new(line.start as usize, method_end),
            target: Span::new(method_end + 1, target_end),
            version: Version::H2,
        });
        assert_eq!(outcome.map_err(|error| error.fault).err(), expected);
        assert_eq!((head.form, head.has_line()), (form, true));
        assert_eq!((head.target(), head.method_bytes()), (target.as_bytes(), method.as_bytes()));
        assert_eq!(head.line().len(), line.len as usize);
        assert_eq!(
            head.host_text(),
            Some(&b"a.test"[..]).filter(|_| method != "CONNECT").or(Some(target.as_bytes()))
        );
        assert!(headers.is_empty());
        if expected.is_none() {
            let meta = RequestMeta::of(&head).expect("it is right");
            assert!(meta.keep_alive && meta.expect_continue && !meta.chunked);
        }
    }
}
