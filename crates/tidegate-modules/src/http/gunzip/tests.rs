//! `gunzip`: which responses are decompressed, streams in several chunks and members, damaged ones.

use std::collections::VecDeque;
use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use tidegate_core::body::Chunk;
use tidegate_core::exchange::RangeSupport;
use tidegate_core::{Body, body::BodyError};

use super::filter::decompressed;
use crate::testing::Bench;

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Decompresses a body of these chunks; returns its bytes with the largest output chunk, or the error.
fn run(pieces: &[&[u8]], room: usize) -> (Vec<u8>, usize, Option<BodyError>) {
    let chunks: VecDeque<Chunk> =
        pieces.iter().map(|piece| Chunk::Bytes(Bytes::copy_from_slice(piece))).collect();
    let mut body = decompressed(Body::Chunks(chunks), room);
    tidegate_rt::block_on(async move {
        let (mut out, mut largest) = (Vec::new(), 0);
        while let Some(chunk) = body.next().await {
            match chunk {
                Ok(Chunk::Bytes(bytes)) => {
                    assert!(!bytes.is_empty());
                    largest = largest.max(bytes.len());
                    out.extend_from_slice(&bytes);
                }
                Ok(_) => {}
                Err(error) => return (out, largest, Some(error)),
            }
        }
        (out, largest, None)
    })
    .unwrap()
}

proptest! {
    #[test]
    fn any_bytes_in_any_pieces(
        bytes in proptest::collection::vec(any::<u8>(), 0..5000),
        repeat in 1_usize..40,
        cut in 1_usize..600,
        room in 1_usize..5000,
    ) {
        let text = bytes.repeat(repeat);
        let stream = [packed(&text), packed(b"second member")].concat();
        let pieces: Vec<&[u8]> = stream.chunks(cut).collect();
        let (out, largest, error) = run(&pieces, room);
        prop_assert!(error.is_none());
        prop_assert!(largest <= room);
        prop_assert_eq!(out, [&text[..], b"second member"].concat());
    }

    #[test]
    fn arbitrary_bytes_end(bytes in proptest::collection::vec(any::<u8>(), 0..300), at in 0_usize..300) {
        let mut stream = packed(&bytes);
        run(&[&bytes], 100);
        let place = at % stream.len();
        stream[place] ^= 0x55;
        run(&[&stream], 100);
    }
}

#[test]
fn what_is_damaged_breaks_off() {
    let stream = packed(b"some text that is long enough to be cut");
    let check = |pieces: &[&[u8]], out: &[u8], broken| {
        let (made, _, error) = run(pieces, 1 << 20);
        assert_eq!((&made[..], error.is_some()), (out, broken));
    };
    check(&[], b"", false);
    check(&[&packed(b"")], b"", false);
    assert!(run(&[&stream[..stream.len() - 1]], 1 << 20).2.is_some());
    assert!(run(&[&stream, b"garbage"], 1 << 20).2.is_some());
    let mut wrong_sum = stream.clone();
    let place = stream.len() - 6;
    wrong_sum[place] ^= 1;
    assert!(run(&[&wrong_sum], 1 << 20).2.is_some());
}

#[test]
fn decompressed_for_clients_that_do_not_accept_it() {
    let bench = Bench::new(
        "root {dir}; gzip_vary on; server {
            location / { gzip_static always; gunzip on; }
            location /off/ { gzip_static always; }
            location /small/ { gzip_static always; gunzip on; gunzip_buffers 1 16; }
            location /odd/ { add_header Content-Encoding br; gunzip on; return 200 text; }
        }",
    );
    let text = "Lorem ipsum dolor sit amet. ".repeat(1000);
    for directory in ["", "off/", "small/"] {
        std::fs::create_dir_all(bench.dir.path().join(directory)).unwrap();
        let path = bench.dir.path().join(directory).join("a.gz");
        std::fs::write(path, packed(text.as_bytes())).unwrap();
    }
    for target in ["/a", "/small/a"] {
        let reply = bench.get(target);
        assert!(reply.text() == text && !reply.broken, "{target}");
        for (name, value) in [("Content-Encoding", "-"), ("Vary", "Accept-Encoding")] {
            assert_eq!(reply.field(name), value, "{target} {name}");
        }
        assert!(reply.field("ETag").starts_with("W/\""));
        assert_eq!(
            (reply.x.response.content_length, reply.x.response.ranges),
            (None, RangeSupport::None)
        );
    }
    let taken = bench.get_with("/a", &["Accept-Encoding: gzip"]);
    assert_eq!(taken.field("Vary"), "Accept-Encoding");
    assert_eq!(taken.body, packed(text.as_bytes()));
    let part = bench.get_with("/a", &["Range: bytes=0-3"]);
    assert_eq!((part.status, part.text().len()), (200, text.len()));
    assert_eq!(bench.get("/off/a").field("Content-Encoding"), "gzip");
    assert_eq!(bench.get("/odd/").field("Content-Encoding"), "br");
    let head = bench.send("HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((head.status, head.field("Content-Encoding")), (200, "-".to_owned()));
}
