//! Tables of heads: what is taken, and what is malformed for which reason.

use tidegate_codec::{Headers, Known};

use super::{Fields, Head, HeadFault, HeadRules, Reader, RequestLine, Scratch, Section};
use crate::field::{DecodedField, FieldEncoder, Indexing};
use crate::priority::Priority;

fn read(section: Section, rules: &HeadRules, list: &[(&str, &str)]) -> (Head, Option<HeadFault>) {
    let (mut head, mut scratch) = (Head::default(), Scratch::default());
    let mut reader = Reader::new(&mut head, &mut scratch, rules, section);
    for (name, value) in list {
        let (name, value) = (name.as_bytes(), value.as_bytes());
        let known = Known::of(name);
        reader.field(DecodedField { known, name, value, never_indexed: false, is_static: false });
    }
    let fault = reader.finish().err();
    (head, fault)
}

/// Fields of `name: value|`.
fn listed(headers: &Headers) -> String {
    let mut text = Vec::new();
    headers.write_to(&mut text);
    String::from_utf8_lossy(&text).replace("\r\n", "|")
}

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":path", "/a?b"), (":authority", "x.test:8")];

fn get_with<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [&GET[..], more].concat()
}

#[test]
fn a_request_has_a_line_and_a_host() {
    let list = get_with(&[
        ("cookie", "a=1"),
        ("accept", "*/*"),
        ("cookie", "b=2"),
        ("content-length", "5"),
        ("priority", "u=1"),
    ]);
    let (head, fault) = read(Section::Request, &HeadRules::default(), &list);
    assert_eq!(fault, None);
    assert_eq!(head.text(head.line), b"GET /a?b HTTP/2.0");
    assert_eq!(head.text(head.method), b"GET");
    assert_eq!(head.text(head.target), b"/a?b");
    assert_eq!(head.text(head.scheme), b"https");
    assert_eq!(head.text(head.authority), b"x.test:8");
    assert_eq!(head.text(head.protocol), b"");
    assert_eq!((head.status, head.content_length), (0, Some(5)));
    assert_eq!(head.priority, Some(Priority { urgency: 1, incremental: false }));
    let fields = "accept: */*|content-length: 5|priority: u=1|cookie: a=1; b=2|host: x.test:8|";
    assert_eq!(listed(&head.headers), fields);
    let sent_host = get_with(&[("host", "X.TEST:8")]);
    let (head, fault) = read(Section::Request, &HeadRules::default(), &sent_host);
    assert_eq!((fault, listed(&head.headers).as_str()), (None, "host: X.TEST:8|"));
}

/// A list of fields, and what is wrong with it.
type Case<'a> = (&'a [(&'a str, &'a str)], Option<HeadFault>);

fn check_requests(config: &HeadRules, table: &[Case<'_>]) {
    for (list, expected) in table {
        assert_eq!(read(Section::Request, config, list).1, *expected, "{list:?}");
    }
}

#[test]
fn pseudo_fields_of_requests() {
    use HeadFault::*;
    const M: (&str, &str) = (":method", "GET");
    const S: (&str, &str) = (":scheme", "http");
    const P: (&str, &str) = (":path", "/");
    const A: (&str, &str) = (":authority", "a");
    const CONNECT: (&str, &str) = (":method", "CONNECT");
    check_requests(
        &HeadRules::default(),
        &[
            (&[M, S, P, A], None),
            (&[M, S, P, ("host", "a")], None),
            (&[M, S, (":path", "*"), A], Some(PseudoValue)),
            (&[(":method", "OPTIONS"), S, (":path", "*"), A], None),
            (&[CONNECT, (":authority", "a:1")], None),
            (&[S, P, A], Some(PseudoMissing)),
            (&[M, P, A], Some(PseudoMissing)),
            (&[M, S, A], Some(PseudoMissing)),
            (&[M, S, P], Some(PseudoMissing)),
            (&[M, S, P, ("host", "")], Some(PseudoMissing)),
            (&[], Some(PseudoMissing)),
            (&[CONNECT], Some(PseudoMissing)),
            (&[CONNECT, S, P, A], Some(PseudoUnknown)),
            (&[CONNECT, S, P, A, (":protocol", "websocket")], Some(PseudoUnknown)),
            (&[M, S, P, A, (":status", "200")], Some(PseudoUnknown)),
            (&[M, S, P, A, (":", "x")], Some(PseudoUnknown)),
            (&[M, M, S, P, A], Some(PseudoRepeated)),
            (&[M, S, P, A, A], Some(PseudoRepeated)),
            (&[M, S, ("a", "b"), P, A], Some(PseudoLate)),
            (&[(":method", "GE T"), S, P, A], Some(PseudoValue)),
            (&[(":method", "G(T"), S, P, A], Some(PseudoValue)),
            (&[M, (":scheme", "1http"), P, A], Some(PseudoValue)),
            (&[M, S, (":path", ""), A], Some(PseudoValue)),
            (&[M, S, (":path", "a"), A], Some(PseudoValue)),
            (&[M, S, (":path", "/ HTTP/1.1"), A], Some(PseudoValue)),
            (&[M, S, (":path", "/\r\nx:y"), A], Some(PseudoValue)),
            (&[M, S, (":path", "/\0"), A], Some(PseudoValue)),
            (&[M, S, P, (":authority", "a\nb")], Some(PseudoValue)),
            (&[M, S, P, (":authority", "")], Some(PseudoValue)),
            (&[M, S, P, (":authority", "u@a")], Some(Host)),
            (&[M, S, P, A, ("host", "b")], Some(Host)),
        ],
    );
    let extended = HeadRules { extended_connect: true, ..HeadRules::default() };
    check_requests(
        &extended,
        &[
            (&[CONNECT, S, P, A, (":protocol", "websocket")], None),
            (&[CONNECT, A, (":protocol", "websocket")], Some(PseudoMissing)),
            (&[M, S, P, A, (":protocol", "websocket")], Some(PseudoUnknown)),
            (&[CONNECT, (":authority", "a:1")], None),
        ],
    );
}

#[test]
fn fields_are_checked_before_anything_sees_them() {
    use HeadFault::*;
    for (field, expected) in [
        (("x-a", "b"), None),
        (("x-a", ""), None),
        (("x-a", "a\tb\x01\u{fc}"), None),
        (("", "b"), Some(Name)),
        (("X-a", "b"), Some(Name)),
        (("Content-length", "0"), Some(Name)),
        (("x a", "b"), Some(Name)),
        (("x:a", "b"), Some(Name)),
        (("x\0a", "b"), Some(Name)),
        (("x\r\na", "b"), Some(Name)),
        (("x\u{fc}", "b"), Some(Name)),
        (("x-a", "a\rb"), Some(Value)),
        (("x-a", "a\nb"), Some(Value)),
        (("x-a", "a\0b"), Some(Value)),
        (("x-a", "0123456789abcdef0123456789abcdef\n"), Some(Value)),
        (("x-a", "0123456789abcdef01234567\0"), Some(Value)),
        (("x-a", " b"), Some(Value)),
        (("x-a", "b\t"), Some(Value)),
        (("connection", "close"), Some(ConnectionField)),
        (("proxy-connection", "keep-alive"), Some(ConnectionField)),
        (("keep-alive", "1"), Some(ConnectionField)),
        (("transfer-encoding", "chunked"), Some(ConnectionField)),
        (("upgrade", "h2c"), Some(ConnectionField)),
        (("te", "gzip"), Some(ConnectionField)),
        (("te", "trailers"), None),
        (("content-length", "-1"), Some(ContentLength)),
        (("content-length", "1 1"), Some(ContentLength)),
        (("content-length", "99999999999999999999"), Some(ContentLength)),
    ] {
        let (head, fault) = read(Section::Request, &HeadRules::default(), &get_with(&[field]));
        assert_eq!(fault, expected, "{field:?}");
        // What is wrong is not among the fields, and the rest is there for logs.
        let fields = listed(&head.headers);
        assert!(fields.ends_with("host: x.test:8|"), "{fields}");
        let taken = usize::from(fault.is_none());
        assert_eq!(head.headers.len(), 1 + taken, "{fields}");
    }
    let two = get_with(&[("content-length", "1"), ("content-length", "2")]);
    assert_eq!(read(Section::Request, &HeadRules::default(), &two).1, Some(ContentLength));
}

#[test]
fn odd_names_are_left_out_and_listed() {
    let list = get_with(&[("x_a", "1"), ("x.b", "2"), ("c", "3")]);
    for (ignore_odd_names, underscores, ignored, fields) in [
        (true, false, &["x_a: 1", "x.b: 2"][..], "c: 3|host: x.test:8|"),
        (true, true, &["x.b: 2"], "x_a: 1|c: 3|host: x.test:8|"),
        (false, false, &[], "x_a: 1|x.b: 2|c: 3|host: x.test:8|"),
    ] {
        let config = HeadRules { ignore_odd_names, underscores, ..HeadRules::default() };
        let (head, fault) = read(Section::Request, &config, &list);
        assert_eq!((fault, listed(&head.headers).as_str()), (None, fields));
        let lines: Vec<_> = head.ignored.iter().map(|place| head.text(*place)).collect();
        assert_eq!(lines, ignored.iter().map(|line| line.as_bytes()).collect::<Vec<_>>());
    }
}

#[test]
fn lists_have_limits_and_what_is_beyond_costs_nothing() {
    let long = "v".repeat(1000);
    let list = get_with(&vec![("a", long.as_str()); 100]);
    let config = HeadRules { list_bytes_max: 4096, ..HeadRules::default() };
    let (head, fault) = read(Section::Request, &config, &list);
    assert_eq!(fault, Some(HeadFault::TooLarge));
    assert_eq!(HeadFault::TooLarge.status(), 431);
    assert!(head.headers.text().len() < 4096 + 100);
    let field = HeadRules { field_bytes_max: 999, ..HeadRules::default() };
    assert_eq!(read(Section::Request, &field, &list).1, Some(HeadFault::TooLarge));
    // Pseudo-header fields do not count.
    let many = get_with(&[("a", ""); 20]);
    for (fields_max, expected) in [(20, None), (19, Some(HeadFault::TooMany))] {
        let config = HeadRules { fields_max, ..HeadRules::default() };
        assert_eq!(read(Section::Request, &config, &many).1, expected);
    }
}

#[test]
fn responses_and_trailers() {
    use HeadFault::*;
    const OK: (&str, &str) = (":status", "200");
    for (list, expected, status) in [
        (&[OK, ("a", "b")][..], None, 200),
        (&[(":status", "103")], None, 103),
        (&[(":status", "999")], None, 999),
        (&[("a", "b")], Some(PseudoMissing), 0),
        (&[(":status", "20")], Some(PseudoValue), 0),
        (&[(":status", "099")], Some(PseudoValue), 0),
        (&[(":status", "2000")], Some(PseudoValue), 0),
        (&[(":status", "101")], Some(PseudoValue), 0),
        (&[OK, (":path", "/")], Some(PseudoUnknown), 200),
        (&[OK, OK], Some(PseudoRepeated), 200),
        (&[OK, ("a", "b\x01")], Some(Value), 200),
        (&[OK, ("connection", "close")], Some(ConnectionField), 200),
    ] {
        let (head, fault) = read(Section::Response, &HeadRules::default(), list);
        assert_eq!((fault, head.status), (expected, status), "{list:?}");
    }
    for (list, expected) in [
        (&[("a", "b")][..], None),
        (&[], None),
        (&[(":status", "200")], Some(PseudoUnknown)),
        (&[("te", "x")], Some(ConnectionField)),
    ] {
        assert_eq!(read(Section::Trailers, &HeadRules::default(), list).1, expected, "{list:?}");
    }
}

/// Writes fields as `name: value|`.
struct Plain;

impl FieldEncoder for Plain {
    fn field(&mut self, _: Known, name: &[u8], value: &[u8], _: Indexing, out: &mut Vec<u8>) {
        out.extend_from_slice(&name.to_ascii_lowercase());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.push(b'|');
    }
}

/// Returns what of a list of fields is sent, and the number of those that were left out.
fn sent(list: impl FnOnce(&mut Fields<'_, Plain>)) -> (String, u32) {
    let (mut encoder, mut block) = (Plain, Vec::new());
    let mut fields = Fields::new(&mut encoder, &mut block);
    list(&mut fields);
    let invalid = fields.invalid();
    (String::from_utf8_lossy(&block).into_owned(), invalid)
}

#[test]
fn only_what_the_protocol_allows_is_sent() {
    let (text, invalid) = sent(|fields| {
        fields.status(204);
        let mut headers = Headers::new();
        for (name, value) in [
            ("X-Case", "Kept"),
            ("Connection", "close"),
            ("Keep-Alive", "5"),
            ("Transfer-Encoding", "chunked"),
            ("Upgrade", "x"),
            ("TE", "gzip"),
            ("te", "trailers"),
            ("a b", "c"),
            ("", "c"),
            (":status", "500"),
            ("x-line", "a\r\nset-cookie: b"),
            ("x-zero", "a\0"),
            ("x-space", " \ta "),
        ] {
            headers.push(name.as_bytes(), value.as_bytes());
        }
        headers.push_opaque(b"Connection", b"x");
        fields.push_all(&headers);
        fields.push_known(Known::ContentType, b"text/plain");
        fields.push_known(Known::Other, b"x");
    });
    assert_eq!(text, ":status: 204|x-case: Kept|te: trailers|x-space: a|content-type: text/plain|");
    assert_eq!(invalid, 5);
}

#[test]
fn request_lines_are_checked_and_sent() {
    let line = |method: &'static str, authority: &'static str, path: &'static str| RequestLine {
        method: method.as_bytes(),
        scheme: b"http",
        authority: authority.as_bytes(),
        path: path.as_bytes(),
        protocol: None,
    };
    for (line, valid) in [
        (line("GET", "a", "/"), true),
        (line("GET", "", "/"), true),
        (line("GET", "a", ""), false),
        (line("GET", "a", "/ x"), false),
        (line("GET", "a\r\n", "/"), false),
        (line("", "a", "/"), false),
        (line("CONNECT", "a:1", ""), true),
        (line("CONNECT", "", "/"), false),
        (RequestLine { protocol: Some(b"websocket"), ..line("CONNECT", "a", "/") }, true),
        (RequestLine { protocol: Some(b"websocket"), ..line("GET", "a", "/") }, false),
        (RequestLine { scheme: b"ht tp", ..line("GET", "a", "/") }, false),
    ] {
        assert_eq!(line.is_valid(), valid, "{line:?}");
    }
    let host = |fields: &mut Fields<'_, Plain>| fields.push(b"Host", b"b");
    for (line, expected) in [
        (line("GET", "a", "/"), ":method: GET|:authority: a|:scheme: http|:path: /|"),
        (line("GET", "", "/"), ":method: GET|:scheme: http|:path: /|host: b|"),
        (line("CONNECT", "a:1", ""), ":method: CONNECT|:authority: a:1|"),
    ] {
        let (text, _) = sent(|fields| {
            fields.request(&line);
            host(fields);
        });
        assert_eq!(text, expected);
    }
}
