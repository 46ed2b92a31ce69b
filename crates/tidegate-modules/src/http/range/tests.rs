//! Ranges over bodies of every kind.
use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_core::Chunk;
use tidegate_core::body::{BodyError, BodyStream, FileRange};
use tidegate_core::exchange::RangeSupport;

use tidegate_core::body::cut;

use super::*;
use crate::testing::Bench;

const TEXT: &[u8] = b"0123456789abcdefghij";

/// A stream of chunks.
struct ChunkStream(std::vec::IntoIter<Chunk>);

impl BodyStream for ChunkStream {
    fn poll_chunk(
        &mut self,
        _context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Chunk, BodyError>>> {
        std::task::Poll::Ready(self.0.next().map(Ok))
    }
}

fn pieces() -> Vec<Chunk> {
    let piece = |range: std::ops::Range<usize>| Chunk::Bytes(Bytes::from_static(&TEXT[range]));
    vec![piece(0..3), Chunk::Flush, piece(3..9), piece(9..9), piece(9..20)]
}

fn file() -> FileRange {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"head").unwrap();
    file.write_all(TEXT).unwrap();
    FileRange::new(Arc::new(file), 4, TEXT.len() as u64)
}

fn bodies() -> Vec<(&'static str, Body)> {
    vec![
        ("bytes", Body::Bytes(Bytes::from_static(TEXT))),
        ("file", Body::File(file())),
        ("chunks", Body::Chunks(pieces().into())),
        ("stream", Body::Stream(Box::new(ChunkStream(pieces().into_iter())))),
    ]
}

async fn read(mut body: Body) -> Result<String, BodyError> {
    use std::os::unix::fs::FileExt;
    let mut out = Vec::new();
    while let Some(chunk) = body.next().await {
        match chunk? {
            Chunk::Bytes(bytes) => out.extend_from_slice(&bytes),
            Chunk::File(range) => {
                let mut bytes = vec![0; range.length as usize];
                range.file.read_exact_at(&mut bytes, range.offset).unwrap();
                out.extend_from_slice(&bytes);
            }
            Chunk::Flush => {}
        }
    }
    Ok(String::from_utf8(out).unwrap())
}

struct RangeReply {
    status: u16,
    content_range: String,
    body: String,
    length: Option<u64>,
    accept: bool,
}

fn run(config: &str, fields: &[(Known, &str)], body: Body) -> RangeReply {
    let bench = Bench::new(&format!("server {{ {config} }}"));
    let mut x = bench.exchange();
    for (known, value) in fields {
        x.request.head.headers.push_known(*known, value.as_bytes());
    }
    x.disposition.set_status(200);
    x.response.ranges = RangeSupport::Many;
    x.response.content_length = Some(TEXT.len() as u64);
    x.response.last_modified = Some(784_111_777);
    x.response.headers.push_known(Known::Etag, b"\"tag\"");
    x.response.headers.push_known(Known::ContentType, b"text/plain");
    let body = filter(&mut x, body);
    let field = |known| x.response.headers.first(known).map(|v| String::from_utf8_lossy(v).into());
    RangeReply {
        status: x.disposition.status(),
        content_range: field(Known::ContentRange).unwrap_or_default(),
        length: x.response.content_length,
        accept: x.response.headers.contains(Known::AcceptRanges),
        body: tidegate_rt::block_on(read(body)).unwrap().unwrap(),
    }
}

#[test]
fn one_part_of_every_kind_of_body() {
    for (range, status, content_range, text) in [
        ("bytes=0-0", 206, "bytes 0-0/20", "0"),
        ("bytes=2-4", 206, "bytes 2-4/20", "234"),
        ("bytes=3-8", 206, "bytes 3-8/20", "345678"),
        ("bytes=9-", 206, "bytes 9-19/20", "9abcdefghij"),
        ("bytes=-3", 206, "bytes 17-19/20", "hij"),
        ("bytes=19-100", 206, "bytes 19-19/20", "j"),
        ("bytes=0-19", 206, "bytes 0-19/20", "0123456789abcdefghij"),
        ("bytes=20-", 416, "bytes */20", ""),
        ("bytes=x", 416, "bytes */20", ""),
        ("lines=1", 200, "", "0123456789abcdefghij"),
    ] {
        for (kind, body) in bodies() {
            let outcome = run("", &[(Known::Range, range)], body);
            let found = (outcome.status, outcome.content_range.as_str(), outcome.body.as_str());
            assert_eq!(found, (status, content_range, text), "{kind} {range}");
            assert_eq!(outcome.accept, status == 200, "{kind} {range}");
            if status == 206 {
                assert_eq!(outcome.length, Some(text.len() as u64), "{kind} {range}");
            }
        }
    }
}

#[test]
fn several_parts() {
    for (kind, body) in bodies() {
        let outcome = run("", &[(Known::Range, "bytes=1-2, 5-9,-2")], body);
        let body = &outcome.body;
        let boundary = &body[4..24];
        let part = |range: &str, text: &str| {
            format!(
                "\r\n--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes {range}/20\r\n\r\n{text}"
            )
        };
        let expected = part("1-2", "12") + &part("5-9", "56789") + &part("18-19", "ij");
        assert_eq!(*body, expected + &format!("\r\n--{boundary}--\r\n"), "{kind}");
        assert_eq!((outcome.status, outcome.length), (206, Some(body.len() as u64)), "{kind}");
    }
}

#[test]
fn a_stream_is_not_turned_back() {
    for (kind, body) in bodies() {
        let outcome = run("", &[(Known::Range, "bytes=5-6,1-2")], body);
        assert_eq!(outcome.status, if kind == "stream" { 200 } else { 206 }, "{kind}");
    }
}

#[test]
fn conditions_and_limits() {
    for (config, fields, status) in [
        ("", vec![(Known::Range, "bytes=1-2"), (Known::IfRange, "\"tag\"")], 206),
        ("", vec![(Known::Range, "bytes=1-2"), (Known::IfRange, "\"other\"")], 200),
        (
            "",
            vec![(Known::Range, "bytes=1-2"), (Known::IfRange, "Sun, 06 Nov 1994 08:49:37 GMT")],
            206,
        ),
        ("max_ranges 0;", vec![(Known::Range, "bytes=1-2")], 200),
        ("max_ranges 1;", vec![(Known::Range, "bytes=1-2")], 206),
        ("max_ranges 1;", vec![(Known::Range, "bytes=1-2,4-5")], 200),
    ] {
        let body = Body::Bytes(Bytes::from_static(TEXT));
        assert_eq!(run(config, &fields, body).status, status, "{config} {fields:?}");
    }
}

#[test]
fn a_stream_that_ends_early_is_broken() {
    let stream = ChunkStream(pieces()[..3].to_vec().into_iter());
    let body = cut::single(Body::Stream(Box::new(stream)), ByteRange { start: 5, end: 15 });
    let result = tidegate_rt::block_on(read(body)).unwrap();
    assert!(matches!(result, Err(BodyError::Incomplete)));
}
