//! Requests, responses and writers without a server.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use crate::request::Parts;
use crate::response::{Payload, Taken};
use crate::writer::{Sink, run};
use crate::{Handler, Request, Response, server, with_variables};

fn problem(response: Response) -> Option<String> {
    Taken::try_from(response).err().map(|problem| problem.to_string())
}

#[test]
fn invalid_responses_are_refused() {
    let table = [
        (Response::new(199), "status 199"),
        (Response::new(101), "status 101"),
        (Response::new(600), "status 600"),
        (Response::text("a").status(0), "status 0"),
        (Response::new(200).header("", "x"), "header \": x\""),
        (Response::new(200).header("A b", "x"), "header \"A b: x\""),
        (Response::new(200).header("A", "x\r\nB: y"), "header \"A: x\\r\\nB: y\""),
        (Response::new(200).header("A", [0]), "header \"A: \\x00\""),
        (Response::new(200).header("Content-Length", "-1"), "header \"Content-Length: -1\""),
        (
            Response::new(200).header("connection", "close"),
            "header \"connection\", which is the server's own",
        ),
        (
            Response::new(200).header("Transfer-Encoding", "chunked").header("A b", "x"),
            "header \"Transfer-Encoding\", which is the server's own",
        ),
        (
            Response::text("abc").header("Content-Length", "4"),
            "Content-Length 4 for a body of 3 bytes",
        ),
        (Response::new(200).header("A", vec![b'a'; 300_000]), "header fields, which are too long"),
    ];
    for (response, expected) in table {
        assert_eq!(problem(response).as_deref(), Some(expected));
    }
}

#[test]
fn responses_have_status_fields_and_body() {
    let response = Response::html("<p>").status(404).header("X-A", "1").header("X-A", "a\tb\u{e9}");
    let taken = Taken::try_from(response.header("content-type", "text/x")).unwrap();
    let fields: Vec<_> = taken.headers.iter().map(|(_, name, value)| (name, value)).collect();
    let expected: [(&[u8], &[u8]); 3] =
        [(b"Content-Type", b"text/x"), (b"X-A", b"1"), (b"X-A", "a\tb\u{e9}".as_bytes())];
    assert_eq!((taken.status, taken.content_length), (404, None));
    assert_eq!(fields, expected);
    assert!(matches!(taken.payload, Payload::Bytes(bytes) if bytes == "<p>"));
    let long = Taken::try_from(Response::stream(|_| Ok(())).header("Content-Length", "7")).unwrap();
    assert_eq!(long.content_length, Some(7));
    assert!(Response::file(File::open("/").unwrap()).is_err());
}

proptest! {
    #[test]
    fn no_field_holds_a_line_end(name in any::<Vec<u8>>(), value in any::<Vec<u8>>()) {
        if let Ok(taken) = Taken::try_from(Response::new(200).header(&name, &value)) {
            let mut text = Vec::new();
            taken.headers.write_to(&mut text);
            let ends = text.iter().filter(|byte| matches!(byte, b'\r' | b'\n' | 0)).count();
            prop_assert_eq!(ends, 2 * taken.headers.len());
        }
    }

    #[test]
    fn a_body_is_read_as_it_came(
        pieces in proptest::collection::vec(any::<Vec<u8>>(), 0..6),
        step in 1_usize..50,
        spilled: bool,
    ) {
        let whole = pieces.concat();
        let mut parts = Parts::default();
        if spilled {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&whole).unwrap();
            parts.body_file = Some((Arc::new(file), whole.len() as u64));
        } else {
            parts.body_memory = pieces.into_iter().map(Bytes::from).collect();
        }
        let mut request = Request::from(parts);
        prop_assert_eq!(request.body().len(), whole.len() as u64);
        let mut got = Vec::new();
        let mut buffer = vec![0; step];
        loop {
            let count = request.body().read(&mut buffer).unwrap();
            if count == 0 {
                break;
            }
            got.extend_from_slice(&buffer[..count]);
        }
        prop_assert_eq!(got, whole);
        prop_assert!(request.body().is_empty());
    }

    #[test]
    fn all_that_is_written_arrives_in_order(
        writes in proptest::collection::vec((0_usize..40_000, 0..3_u8), 0..12),
    ) {
        let mut expected = Vec::new();
        for (number, (length, _)) in writes.iter().enumerate() {
            expected.resize(expected.len() + length, number as u8);
        }
        let response = Response::stream(move |out| {
            for (number, (length, way)) in writes.into_iter().enumerate() {
                let bytes = vec![number as u8; length];
                match way {
                    0 => out.write_all(&bytes)?,
                    1 => out.write_bytes(bytes.into())?,
                    _ => {
                        out.write_all(&bytes)?;
                        out.flush()?;
                    }
                }
            }
            Ok(())
        });
        prop_assert_eq!(response.into_bytes().unwrap(), expected);
    }
}

#[test]
fn two_readers_of_one_file_do_not_disturb_each_other() {
    let mut file = tempfile::tempfile().unwrap();
    let whole: Vec<u8> = (0..10_000_u32).flat_map(u32::to_be_bytes).collect();
    file.write_all(&whole).unwrap();
    let shared = (Arc::new(file), whole.len() as u64);
    let made = || Request::from(Parts { body_file: Some(shared.clone()), ..Parts::default() });
    let (mut one, mut other) = (made(), made());
    let mut read = [Vec::new(), Vec::new()];
    let mut buffer = [0; 777];
    while read[1].len() < whole.len() {
        for (reader, into) in [&mut one, &mut other].into_iter().zip(&mut read) {
            let count = reader.body().read(&mut buffer).unwrap();
            into.extend_from_slice(&buffer[..count]);
        }
    }
    assert!(read.iter().all(|read| *read == whole));
}

#[test]
fn a_body_that_is_too_large_is_not_read() {
    let mut request = Request::for_test("POST", "/").with_body("12345");
    let error = request.body().read_all(4).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    assert_eq!(request.body().read_all(5).unwrap(), b"12345");
}

/// A client that closes the connection after this number of pieces.
struct Leaves(usize);

impl Sink for Leaves {
    fn send(&mut self, _piece: Bytes) -> io::Result<()> {
        self.0 = self.0.checked_sub(1).ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn writing_fails_when_the_client_has_closed() {
    let response = Response::stream(|out| {
        loop {
            out.write_all(&[0; 1000])?;
        }
    });
    let Payload::Stream(write) = Taken::try_from(response).unwrap().payload else { panic!() };
    assert_eq!(run(write, &mut Leaves(3)).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn requests_have_the_received_parts() {
    let request = Request::for_test("GET", "/a?x=1&y=2&x=3")
        .with_header("X-Name", "value")
        .with_variable("remote_user", "me");
    assert_eq!(
        (request.method(), request.path(), request.query()),
        (&b"GET"[..], &b"/a"[..], &b"x=1&y=2&x=3"[..])
    );
    assert_eq!(request.query_parameter("x"), Some(&b"1"[..]));
    assert_eq!(request.query_parameter("z"), None);
    assert_eq!(request.header("x-name"), Some(&b"value"[..]));
    assert_eq!(request.headers().count(), 1);
    assert_eq!(request.variable("remote_user"), Some(&b"me"[..]));
    assert_eq!(request.variable("host"), None);
    assert!(!request.is_abandoned());
}

#[test]
fn listeners_are_called_once_when_a_request_is_abandoned() {
    let parts = Parts::default();
    let abandonment = parts.abandoned.clone();
    let request = Request::from(parts);
    let (sender, calls) = std::sync::mpsc::channel();
    let listen = |who: u8| {
        let sender = sender.clone();
        request.on_abandoned(move || sender.send(who).unwrap());
    };
    listen(1);
    listen(2);
    assert!(calls.try_recv().is_err() && !request.is_abandoned());
    abandonment.signal();
    abandonment.signal();
    listen(3);
    assert!(request.is_abandoned());
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn handlers_are_found_by_their_names() {
    server::register(
        "echo",
        Arc::new(|request: Request| Ok(Response::text(request.path().to_vec()))),
    );
    let named = with_variables(&["host"], |_: Request| Err("no".into()));
    assert_eq!(named.variables(), ["host"]);
    server::register("fails", Arc::new(named));
    assert!(server::names().contains(&"echo".to_owned()));
    let echo = server::find("echo").unwrap();
    assert!(echo.variables().is_empty());
    let reply = echo.handle(Request::for_test("GET", "/x")).unwrap();
    assert_eq!(reply.into_bytes().unwrap(), "/x");
    let failed = server::find("fails").unwrap().handle(Request::for_test("GET", "/x"));
    assert_eq!(failed.unwrap_err().to_string(), "no");
    assert!(server::find("none").is_none());
}
