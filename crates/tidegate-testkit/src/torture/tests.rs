//! Tests that the clients detect wrong responses.

use std::io::{Read, Write};
use std::net::TcpListener;

use super::client::{Outcome, request_object};
use super::judge::{ResponseCheck, TestRequest};
use super::object::{self, Random};

/// Returns a client's result for a server with this response.
fn visited(number: u64, response: Vec<u8>) -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let front = listener.local_addr().expect("address");
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("accept");
        let mut request = [0; 4096];
        let _ = stream.read(&mut request);
        let _ = stream.write_all(&response);
    });
    // With this seed the client requests the whole object.
    let outcome = request_object(front, number, &mut Random::new(3), false);
    server.join().expect("server");
    outcome
}

fn response(fields: &str, body: &[u8]) -> Vec<u8> {
    [format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n").as_bytes(), body].concat()
}

#[test]
fn wrong_bytes_and_wrong_ends_are_mistakes() {
    let number = (0..).find(|number| object::length(*number) == 0).map_or(0, |empty| empty + 1);
    let number = (number..).find(|number| (10..20_000).contains(&object::length(*number)));
    let number = number.expect("a small object");
    let length = object::length(number) as usize;
    let right = object::bytes(number, 0, length);
    let with_length = format!("Content-Length: {length}");

    let good = visited(number, response(&with_length, &right));
    assert!(good.is_whole && good.mistake.is_none() && good.bytes == length as u64, "{good:?}");

    let mut wrong = right.clone();
    wrong[length / 2] ^= 1;
    let bad = visited(number, response(&with_length, &wrong));
    assert!(!bad.is_whole);
    assert_eq!(bad.mistake, Some(format!("wrong byte at {} of {length}", length / 2)));

    let cut = visited(number, response(&with_length, &right[..length / 2]));
    assert!(!cut.is_whole && cut.mistake.is_none() && cut.has_head, "{cut:?}");

    let shorter = format!("Content-Length: {}", length - 1);
    assert!(visited(number, response(&shorter, &right[..length - 1])).mistake.is_some());

    let chunk =
        [format!("{:x}\r\n", length / 2).as_bytes(), &right[..length / 2], b"\r\n"].concat();
    let open = visited(number, response("Transfer-Encoding: chunked", &chunk));
    assert!(!open.is_whole && open.mistake.is_none(), "{open:?}");
    let ended = [&chunk[..], b"0\r\n\r\n"].concat();
    assert!(visited(number, response("Transfer-Encoding: chunked", &ended)).mistake.is_some());

    assert!(visited(number, b"HTTP/1.1 502 Bad\r\n\r\n".to_vec()).mistake.is_some());
}

#[test]
fn bytes_follow_from_their_place() {
    let whole = object::bytes(7, 0, 100);
    for offset in 0..100 {
        assert_eq!(object::bytes(7, offset, 100 - offset as usize), whole[offset as usize..]);
    }
    assert_ne!(object::bytes(8, 0, 100), whole);
}

#[test]
fn what_a_client_may_believe_is_judged() {
    let object = b"the object";
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(object).expect("packed");
    let packed = packed.finish().expect("packed");
    let (whole, wrong) = (&b"the object"[..], &b"the 0bject"[..]);
    let length = "200 OK\r\nContent-Length: 10";
    let gzip = format!("200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}", packed.len());
    let chunked = "200 OK\r\nTransfer-Encoding: chunked";
    let cases = [
        (length, whole, "right"),
        (length, wrong, "wrong"),
        (length, &whole[..9], "refused"),
        (length, b"", "refused"),
        ("200 OK\r\nContent-Length: 9", &whole[..9], "wrong"),
        (&gzip, &packed, "right"),
        (&gzip, &packed[1..], "refused"),
        (chunked, b"3\r\nthe\r\n7\r\n object\r\n0\r\n\r\n", "right"),
        (chunked, b"3\r\nthe\r\n7\r\n object\r\n", "refused"),
        (chunked, b"3\r\nthe\r\n0\r\n\r\n", "wrong"),
        ("502 Bad Gateway\r\nContent-Length: 3", b"bad", "refused"),
        ("404 Not Found\r\nContent-Length: 10", whole, "wrong"),
    ];
    for (head, body, expected) in cases {
        let response = [format!("HTTP/1.1 {head}\r\n\r\n").as_bytes(), body].concat();
        let found = match TestRequest::whole(1).judge(&response, object) {
            ResponseCheck::Correct => "right",
            ResponseCheck::Refused => "refused",
            ResponseCheck::Wrong(_) => "wrong",
        };
        assert_eq!(found, expected, "{head} {:?}", String::from_utf8_lossy(body));
    }
    assert_eq!(
        TestRequest::whole(1).judge(b"HTTP/1.1 200 OK\r\nContent-Le", object),
        ResponseCheck::Refused
    );
}
