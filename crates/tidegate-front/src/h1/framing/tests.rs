//! How bodies end, and the head's text.

use bytes::Bytes;
use tidegate_core::body::Body;
use tidegate_core::exchange::FieldOwner;

use super::{Framing, decide, write_head, write_number};
use crate::testing::Bench;

/// A request line's beginning and end, a status, the length that the response announces, and the length of a body in
/// memory.
type Case = (&'static str, &'static str, u16, Option<u64>, Option<usize>);

/// How the body ends, and the length in the head.
type Ending = (Framing, Option<u64>);

#[test]
fn a_body_ends_by_its_length_by_chunks_or_with_the_connection() {
    let (none, close, chunked) = (Framing::None, Framing::Close, Framing::Chunked);
    let table: &[(Case, Ending, bool)] = &[
        (("GET", "HTTP/1.1", 200, None, Some(3)), (Framing::Length(3), Some(3)), true),
        (("GET", "HTTP/1.1", 200, Some(5), None), (Framing::Length(5), Some(5)), true),
        (("GET", "HTTP/1.1", 200, None, None), (chunked, None), true),
        (("GET", "HTTP/1.0", 200, None, Some(3)), (Framing::Length(3), Some(3)), true),
        (("GET", "HTTP/1.0", 200, None, None), (close, None), false),
        (("HEAD", "HTTP/1.1", 200, None, Some(3)), (none, Some(3)), true),
        (("HEAD", "HTTP/1.1", 200, None, None), (none, None), true),
        (("GET", "HTTP/1.1", 204, Some(5), None), (none, None), true),
        (("GET", "HTTP/1.1", 304, Some(5), None), (none, Some(5)), true),
        (("GET", "HTTP/1.1", 304, None, None), (none, None), true),
    ];
    let bench = Bench::new("server { }");
    for (case, expected, stays) in table {
        let (method, version, status, announced, bytes) = *case;
        let mut x = bench.received(&format!("{method} / {version}\r\nHost: a\r\n\r\n"));
        x.disposition.keep_connection();
        x.disposition.set_status(status);
        x.response.content_length = announced;
        let body = match bytes {
            Some(bytes) => Body::from(Bytes::from(vec![b'x'; bytes])),
            None => tidegate_core::generated::generate(|_| async { Ok(()) }),
        };
        assert_eq!(decide(&mut x, &body), *expected, "{case:?}");
        assert_eq!(x.disposition.keeps_connection(), *stays, "{case:?}");
    }
}

#[test]
fn without_chunks_a_body_of_unknown_length_ends_the_connection() {
    let bench = Bench::new("server { chunked_transfer_encoding off; }");
    let mut x = bench.received("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    x.disposition.keep_connection();
    x.disposition.set_status(200);
    let body = tidegate_core::generated::generate(|_| async { Ok(()) });
    assert_eq!(decide(&mut x, &body), (Framing::Close, None));
    assert!(!x.disposition.keeps_connection());
}

#[test]
fn trailers_are_sent_behind_chunks_where_there_are_chunks() {
    let bench = Bench::new("server { }");
    for (version, expected) in [("HTTP/1.1", Framing::Chunked), ("HTTP/1.0", Framing::Length(2))] {
        let mut x = bench.received(&format!("GET / {version}\r\nHost: a\r\n\r\n"));
        x.disposition.set_status(200);
        x.delivery.expects_trailers = true;
        let body = Body::from(Bytes::from_static(b"ab"));
        assert_eq!(decide(&mut x, &body).0, expected, "{version}");
    }
}

#[test]
fn the_head_has_its_fields_in_order() {
    let bench = Bench::new("server { keepalive_timeout 75s 60s; }");
    for (status, framing, length, keeps, expected) in [
        (
            200,
            Framing::Length(2),
            Some(2),
            true,
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\
             Connection: keep-alive\r\nKeep-Alive: timeout=60\r\nX-A: b\r\n\r\n",
        ),
        (
            404,
            Framing::Chunked,
            None,
            false,
            "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\n\
             Transfer-Encoding: chunked\r\nConnection: close\r\nX-A: b\r\n\r\n",
        ),
        (
            101,
            Framing::None,
            None,
            true,
            "HTTP/1.1 101 Switching Protocols\r\nContent-Type: text/plain\r\n\
             Connection: upgrade\r\nX-A: b\r\n\r\n",
        ),
    ] {
        let mut x = bench.received("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        if keeps {
            x.disposition.keep_connection();
        } else {
            x.disposition.close_connection();
        }
        x.disposition.set_status(status);
        (x.delivery.server, x.delivery.date) = (FieldOwner::Origin, FieldOwner::Origin);
        x.response.headers.push(b"X-A", b"b");
        x.response.headers.push(b"Content-Type", b"text/plain");
        // A handler's `Connection` and `Transfer-Encoding` are dropped: the driver writes these fields.
        x.response.headers.push(b"Connection", b"x");
        x.response.headers.push(b"Transfer-Encoding", b"x");
        let mut out = Vec::new();
        write_head(&mut x, framing, length, &mut out);
        assert_eq!(String::from_utf8_lossy(&out), expected, "{status}");
    }
}

#[test]
fn numbers_are_written_in_decimal() {
    for number in [0, 7, 10, 99, 100, 1_234_567_890, u64::MAX] {
        let mut out = Vec::new();
        write_number(number, &mut out);
        assert_eq!(String::from_utf8_lossy(&out), number.to_string());
    }
}
