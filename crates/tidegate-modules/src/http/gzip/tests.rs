//! `gzip`, `brotli`, `zstd`: which responses are compressed, how streams are flushed, the fields of the head.

use proptest::prelude::*;

use std::collections::VecDeque;
use std::io::Read as _;
use std::task::{Context, Poll, Waker};

use tidegate_core::body::{Body, BodyError, BodyStream, Chunk};

use super::accept::weight;
use super::codec::{Coding, EncoderShape};
use super::filter::compressed_for_tests;
use crate::testing::{Bench, TestResponse};

const GZIP: &str = "Accept-Encoding: gzip";
const GZIP_SHAPE: EncoderShape = EncoderShape { coding: Coding::Gzip, level: 2, window_bits: 15 };

fn decompressed(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    flate2::read::MultiGzDecoder::new(bytes).read_to_end(&mut out).unwrap();
    out
}

fn is_compressed(reply: &TestResponse) -> bool {
    reply.field("Content-Encoding") == "gzip"
}

#[test]
fn codings_that_clients_take() {
    let check = |value: &str, expected| {
        assert_eq!(weight(value.as_bytes(), b"gzip") > 0, expected, "{value}")
    };
    for value in [
        "gzip",
        "GZIP",
        "deflate, gzip",
        "gzip;q=1",
        "gzip;q=1.000",
        "gzip; q=0.001",
        "br;q=1,gzip ;Q=0.5",
        "gzipx, gzip",
        "gzip;level=3",
    ] {
        check(value, true);
    }
    for value in [
        "",
        "*",
        "x-gzip",
        "gzipx",
        "gzip;q=0",
        "gzip;q=0.000",
        "gzip ; q=0",
        "gzip;q=",
        "gzip;q=2",
        "gzip;q=0.0001",
        "gzip;q=1.001",
        "gzip;q=1.0000",
        "identity",
        ",;,=",
    ] {
        check(value, false);
    }
}

#[test]
fn files_come_compressed_with_the_head_of_another_representation() {
    let text = "Lorem ipsum dolor sit amet. ".repeat(10_000);
    let bench = Bench::with_files(
        "gzip on; gzip_vary on; server { root {dir}; default_type text/html; }",
        &[("a.html", &text), ("small.html", "short")],
    );
    let reply = bench.get_with("/a.html", &[GZIP]);
    assert_eq!(decompressed(&reply.body), text.as_bytes());
    assert!(reply.body.len() < text.len() / 20);
    assert_eq!(reply.field("Vary"), "Accept-Encoding");
    assert_eq!(reply.field("Accept-Ranges"), "-");
    assert!(reply.field("ETag").starts_with("W/\""), "{}", reply.field("ETag"));
    assert_eq!(reply.x.response.content_length, None);
    let whole = bench.get("/a.html");
    assert!(!is_compressed(&whole) && whole.field("Vary") == "Accept-Encoding");
    assert_eq!((whole.body, whole.headers.len()), (text.into_bytes(), 5));
    let small = bench.get_with("/small.html", &[GZIP]);
    assert!(!is_compressed(&small) && small.field("Vary") == "-");
    // Ranges of a response that is compressed on the fly are not served.
    let part = bench.get_with("/a.html", &[GZIP, "Range: bytes=0-3"]);
    assert_eq!(part.status, 200);
}

#[test]
fn only_responses_that_the_directives_name() {
    let bench = Bench::new(
        "gzip on; gzip_min_length 0; gzip_http_version 1.0; gzip_disable msie6 '^bad (bot|agent)';
         default_type text/html;
         server {
            location /html { return 200 text; }
            location /plain { default_type text/plain; return 200 text; }
            location /types { gzip_types text/css text/plain; default_type text/plain; return 200 text; }
            location /any { gzip_types *; default_type a/b; return 200 text; }
            location /off { gzip off; return 200 text; }
            location /teapot { return 418 text; }
            location /missing { return 404; }
            location /encoded { add_header Content-Encoding br; return 200 text; }
            location /long { gzip_min_length 5; return 200 text; }
         }",
    );
    let check = |path: &str, fields: &[&str], expected| {
        let mut fields = fields.to_vec();
        fields.push(GZIP);
        assert_eq!(is_compressed(&bench.get_with(path, &fields)), expected, "{path} {fields:?}");
    };
    for path in ["/html", "/types", "/any", "/missing"] {
        check(path, &[], true);
    }
    for path in ["/plain", "/off", "/teapot", "/encoded", "/long"] {
        check(path, &[], false);
    }
    check("/html", &["User-Agent: Mozilla/4.0 (compatible; MSIE 6.0; Windows)"], false);
    check("/html", &["User-Agent: Mozilla/4.0 (compatible; MSIE 5.5)"], false);
    check("/html", &["User-Agent: Mozilla/4.0 (compatible; MSIE 6.0; Windows; SV1)"], true);
    check("/html", &["User-Agent: Mozilla/4.0 (compatible; MSIE 7.0)"], true);
    check("/html", &["User-Agent: Bad Bot"], false);
    check("/html", &["User-Agent: a bad bot"], true);
}

#[test]
fn proxies_get_what_they_must_not_keep() {
    let bench = Bench::with_files(
        "gzip on; gzip_min_length 0; default_type text/html;
         server {
            root {dir};
            location /off { try_files /a =404; }
            location /any { gzip_proxied any; try_files /a =404; }
            location /auth { gzip_proxied auth; try_files /a =404; }
            location /no_etag { gzip_proxied no_etag no_last_modified; try_files /a =404; }
            location /etag_off { gzip_proxied no_etag; etag off; try_files /a =404; }
            location /past { gzip_proxied expired; expires -1; try_files /a =404; }
            location /past_alone { gzip_proxied no-cache; expires -1; try_files /a =404; }
            location /future { gzip_proxied expired no_etag; etag off; expires 1h; try_files /a =404; }
            location /private { gzip_proxied private no-store; add_header Cache-Control 'a, Private=x'; try_files /a =404; }
            location /public { gzip_proxied private no-store; add_header Cache-Control public; try_files /a =404; }
         }",
        &[("a", "text")],
    );
    let check = |path: &str, fields: &[&str], expected| {
        let mut fields = fields.to_vec();
        fields.push(GZIP);
        assert_eq!(is_compressed(&bench.get_with(path, &fields)), expected, "{path} {fields:?}");
    };
    check("/off", &[], true);
    let via = "Via: 1.1 proxy";
    for path in ["/any", "/etag_off", "/past", "/private"] {
        check(path, &[via], true);
    }
    for path in ["/off", "/auth", "/no_etag", "/past_alone", "/future", "/public"] {
        check(path, &[via], false);
    }
    check("/auth", &[via, "Authorization: Basic x"], true);
}

#[test]
fn the_ratio_is_that_of_the_sizes() {
    let bench = Bench::with_files(
        "log_format ratio '$gzip_ratio'; access_log {dir}/log ratio; gzip on; default_type text/html;
         server { root {dir}; }",
        &[("a", &"a".repeat(30_000))],
    );
    let reply = bench.get_with("/a", &[GZIP]);
    let hundredths = (30_000 * 1000 / reply.body.len() + 5) / 10;
    bench.get("/a");
    assert_eq!(bench.read("log"), format!("{}.{:02}\n-\n", hundredths / 100, hundredths % 100));
}

#[test]
fn a_head_has_the_fields_and_no_length() {
    let bench = Bench::with_files(
        "gzip on; default_type text/html; server { root {dir}; }",
        &[("a", &"a".repeat(100))],
    );
    let reply = bench.send(&format!("HEAD /a HTTP/1.1\r\nHost: a\r\n{GZIP}\r\n\r\n"));
    assert!(is_compressed(&reply));
    assert_eq!((reply.x.response.content_length, reply.body.len()), (None, 0));
}

/// A source that is pending wherever the list says `None`.
struct Source(VecDeque<Option<Chunk>>);

impl BodyStream for Source {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        match self.0.pop_front() {
            None => Poll::Ready(None),
            Some(None) => Poll::Pending,
            Some(Some(chunk)) => Poll::Ready(Some(Ok(chunk))),
        }
    }
}

#[test]
fn what_came_is_out_when_the_source_waits_or_flushes() {
    let bytes = |text: &'static str| Some(Chunk::Bytes(text.into()));
    let source = Source(
        [bytes("first "), None, bytes("second "), Some(Chunk::Flush), None, bytes("end")].into(),
    );
    let mut body = compressed_for_tests(Body::Stream(Box::new(source)), GZIP_SHAPE);
    let mut context = Context::from_waker(Waker::noop());
    let mut seen = String::new();
    let mut inflate = flate2::Decompress::new_gzip(15);
    for _ in 0..20 {
        match body.poll_chunk(&mut context) {
            Poll::Pending => seen.push('|'),
            Poll::Ready(None) => {
                seen.push('.');
                break;
            }
            Poll::Ready(Some(Ok(Chunk::Flush))) => seen.push('!'),
            Poll::Ready(Some(Ok(Chunk::Bytes(bytes)))) => {
                let mut text = Vec::with_capacity(1000);
                inflate.decompress_vec(&bytes, &mut text, flate2::FlushDecompress::Sync).unwrap();
                seen.push_str(std::str::from_utf8(&text).unwrap());
            }
            other => panic!("{other:?}"),
        }
    }
    // A pending source was passed over where output had to be sent first.
    assert_eq!(seen, "first second !|end.");
}

#[test]
fn much_input_with_little_output_lets_others_run() {
    let zeros = bytes::Bytes::from(vec![0; 1 << 20]);
    let source = Source([Some(Chunk::Bytes(zeros.clone())), Some(Chunk::Bytes(zeros))].into());
    let mut body = compressed_for_tests(Body::Stream(Box::new(source)), GZIP_SHAPE);
    let work = async move {
        let (mut polls, mut out) = (0, Vec::new());
        std::future::poll_fn(|context| {
            polls += 1;
            loop {
                match body.poll_chunk(context) {
                    Poll::Ready(None) => return Poll::Ready(()),
                    Poll::Ready(Some(Ok(Chunk::Bytes(bytes)))) => out.extend_from_slice(&bytes),
                    Poll::Ready(other) => panic!("{other:?}"),
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await;
        (polls, out)
    };
    let (polls, out) = tidegate_rt::block_on(async { tidegate_rt::spawn_local(work).await })
        .expect("a loop")
        .expect("no panic");
    assert!(polls > 1, "{polls}");
    assert_eq!(decompressed(&out).len(), 2 << 20);
}

/// Returns the decompressed body of a coding.
fn decoded(coding: Coding, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match coding {
        Coding::Gzip => return decompressed(bytes),
        Coding::Brotli => {
            brotlic::DecompressorReader::new(bytes).read_to_end(&mut out).unwrap();
        }
        Coding::Zstd => {
            zstd::stream::read::Decoder::new(bytes).unwrap().read_to_end(&mut out).unwrap();
        }
    }
    out
}

#[test]
fn every_coding_gives_back_what_it_got() {
    let pages: Vec<u8> =
        (0..40_000u32).flat_map(|n| (n * n / 7).to_string().into_bytes()).collect();
    for (coding, levels, window_bits) in
        [(Coding::Gzip, 1..=9, 9), (Coding::Brotli, 0..=9, 10), (Coding::Zstd, 1..=9, 0)]
    {
        for level in levels {
            let shape = EncoderShape { coding, level, window_bits };
            let bytes = |range| Some(Chunk::Bytes(bytes::Bytes::copy_from_slice(&pages[range])));
            let pieces = [
                bytes(0..10),
                Some(Chunk::Flush),
                bytes(10..100_000),
                None,
                bytes(100_000..pages.len()),
            ];
            let mut body =
                compressed_for_tests(Body::Stream(Box::new(Source(pieces.into()))), shape);
            let mut context = Context::from_waker(Waker::noop());
            let (mut out, mut flushed_at) = (Vec::new(), None);
            loop {
                match body.poll_chunk(&mut context) {
                    Poll::Ready(None) => break,
                    Poll::Ready(Some(Ok(Chunk::Bytes(bytes)))) => out.extend_from_slice(&bytes),
                    Poll::Ready(Some(Ok(Chunk::Flush))) => flushed_at = Some(out.len()),
                    Poll::Pending => {}
                    other => panic!("{other:?}"),
                }
            }
            assert!(flushed_at.is_some_and(|at| at > 10), "{shape:?}");
            assert!(out.len() < pages.len(), "{shape:?} {}", out.len());
            assert!(decoded(coding, &out) == pages, "{shape:?}");
        }
    }
}

#[test]
fn the_client_chooses_among_the_codings() {
    let text = "Lorem ipsum dolor sit amet. ".repeat(1000);
    let bench = Bench::with_files(
        "gzip on; brotli on; zstd on; gzip_vary on; default_type text/html;
         log_format ratios '$gzip_ratio $brotli_ratio $zstd_ratio'; access_log {dir}/log ratios;
         server { root {dir}; location /gzip/ { brotli off; zstd off; alias {dir}/; }
         location /types/ { types { } default_type text/css; brotli_types text/css; alias {dir}/; }
         location /long/ { brotli_min_length 1m; zstd_min_length 1m; alias {dir}/; } }",
        &[("a", &text)],
    );
    let check = |path: &str, accept: &str, expected: &str| {
        let reply = bench.get_with(path, &[&format!("Accept-Encoding: {accept}")]);
        assert_eq!(reply.field("Content-Encoding"), expected, "{path} {accept}");
        assert_eq!(reply.field("Vary"), "Accept-Encoding");
        let coding = match expected {
            "br" => Coding::Brotli,
            "zstd" => Coding::Zstd,
            "gzip" => Coding::Gzip,
            _ => return assert_eq!(reply.text(), text),
        };
        assert_eq!(decoded(coding, &reply.body), text.as_bytes());
    };
    check("/a", "gzip, deflate, br, zstd", "br");
    check("/a", "gzip, zstd", "zstd");
    check("/a", "gzip;q=0.9, br;q=0.8, zstd;q=0.5", "gzip");
    check("/a", "gzip;q=0.1, br;q=0.2, zstd;q=0.201", "zstd");
    check("/a", "br;q=0, gzip", "gzip");
    check("/a", "identity", "-");
    check("/gzip/a", "gzip;q=0.1, br", "gzip");
    check("/gzip/a", "br", "-");
    check("/types/a", "gzip, zstd, br;q=0.1", "br");
    check("/long/a", "gzip;q=0.1, zstd, br", "gzip");
    let log = bench.read("log");
    let lines: Vec<_> = log.lines().collect();
    let is_ratio = |text: &str| text.parse::<f64>().is_ok_and(|ratio| ratio > 10.0);
    let at = |line: usize, word: usize| lines[line].split(' ').nth(word).unwrap();
    assert!(is_ratio(at(0, 1)) && at(0, 0) == "-" && at(0, 2) == "-", "{log}");
    assert!(is_ratio(at(1, 2)) && is_ratio(at(2, 0)), "{log}");
}

#[test]
fn errors_are_worded_as_in_nginx() {
    let window = "\"gzip_window\" directive must be 512, 1k, 2k, 4k, 8k, 16k, or 32k";
    let check = |config: &str, expected: &str| {
        let errors = Bench::errors(&format!("{config} server {{ }}"));
        assert_eq!(errors.first().map(String::as_str), Some(expected), "{config}");
    };
    check("gzip_window 3k;", window);
    check("gzip_window 64k;", window);
    check("gzip_window 256;", window);
    check("gzip_comp_level 0;", "value must be between 1 and 9");
    check("gzip_comp_level x;", "\"gzip_comp_level\" directive invalid number");
    check("gzip_buffers 0 4k;", "\"gzip_buffers\" directive invalid value");
    check("gzip_buffers 4 x;", "\"gzip_buffers\" directive invalid value");
    check("gzip_proxied foo;", "invalid value \"foo\"");
    check("gzip_http_version 1.2;", "invalid value \"1.2\"");
    check("gzip on; gzip on;", "\"gzip\" directive is duplicate");
    check("brotli_comp_level 12;", "value must be between 0 and 11");
    check("zstd_comp_level 0;", "value must be between 1 and 22");
    let window = "\"brotli_window\" directive must be a power of two from 1k to 16m";
    check("brotli_window 512;", window);
    check("brotli_window 32m;", window);
    check("zstd_buffers 0 4k;", "\"zstd_buffers\" directive invalid value");
    Bench::new(
        "gzip_window 512; gzip_hash 128k; gzip_buffers 4 8k; postpone_gzipping 1k; gzip_no_buffer on; \
         gzip_disable degradation; gzip_disable x; gzip_proxied off any; server { }",
    );
}

proptest! {
    /// A weight is read as RFC 9110 defines it, wherever it is in the field.
    #[test]
    fn weights_are_read(before in "[a-z;=, ]{0,9}", thousandths in 0u16..=1000, after in "[a-z,]{0,9}") {
        let text = format!("{before},br;q={}.{:03} ,{after}", thousandths / 1000, thousandths % 1000);
        prop_assume!(!before.contains("br"));
        prop_assert_eq!(weight(text.as_bytes(), b"br"), thousandths);
    }

    #[test]
    fn any_field_has_a_weight(value: Vec<u8>) {
        prop_assert!(weight(&value, b"gzip") <= 1000);
    }
}
