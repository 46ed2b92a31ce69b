//! /proc, responses, the origin's requests, the command line and the generated configuration.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;

use crate::config::fairness::{Places, Port};
use crate::config::{Lookup, Scenario, Setup, generate};
use crate::options::{Command, Suite, parse};
use crate::origin::{ResponseKind, parse_request, parse_target, parts_due, response_head};
use crate::pattern;
use crate::procfs::{
    CpuTime, Stat, descendants, parse_busy, parse_processor, parse_pss, parse_stat,
};
use crate::response::{
    Framing, Head, Progress, ResponseError, ResponseReader, decimal, parse_head,
};
use crate::server::serves;
use crate::server::watchdog::long_turns;

#[test]
fn stat_lines() {
    #[track_caller]
    fn check(text: &str, expected: Option<(i32, u64, u64)>) {
        let expected = expected.map(|(parent, user_ticks, system_ticks)| Stat {
            parent,
            ended: text.contains(") Z"),
            user_ticks,
            system_ticks,
        });
        assert_eq!(parse_stat(text), expected);
    }
    check("7 (nginx) S 3 7 7 0 -1 4194624 100 0 0 0 21 34 0 0 20 0 1 0 9", Some((3, 21, 34)));
    check("7 (nginx) Z 3 7 7 0 -1 4194624 100 0 0 0 21 34 0 0", Some((3, 21, 34)));
    check("7 (a) b (c) R 3 7 7 0 -1 4 100 0 0 0 21 34 5 6", Some((3, 21, 34)));
    check("7 (nginx) S 3 7 7 0 -1 4194624 100 0 0 0 21", None);
    check("7 nginx S 3", None);
    check("", None);
}

#[test]
fn memory_lines() {
    let text = "5581a000-7ffd [rollup]\nRss:   2000 kB\nPss:       1234 kB\nPss_Anon: 9 kB\n";
    assert_eq!(parse_pss(text), Some(1234 * 1024));
    assert_eq!(parse_pss("Rss: 1 kB\n"), None);
    assert_eq!(parse_pss("Pss: many kB\n"), None);
}

#[test]
fn processors_are_counted() {
    let text = "processor : 0\nmodel name\t: Fast One\n\nprocessor : 1\nmodel name\t: Fast One\n";
    assert_eq!(parse_processor(text), "Fast One × 2");
    assert_eq!(parse_processor(""), "unknown processor");
}

#[test]
fn busy_processors() {
    let text = "cpu  9 9 9 9 9 9 9\ncpu0 1 2 30 400 5 6 7 8 0 0\ncpu10 8 0 8 0 0 0 0 0\ncpu2 1\n";
    assert_eq!(parse_busy(text, Some(0)), Some((3, 51)));
    assert_eq!(parse_busy(text, Some(10)), Some((8, 8)));
    assert_eq!(parse_busy(text, Some(1)), None);
    assert_eq!(parse_busy(text, Some(2)), None);
    assert_eq!(parse_busy("cpu  1 2 3 4 5 6 7 8\ncpu0 0 0 0 0 0 0 0 0", None), Some((3, 24)));
}

#[test]
fn families_are_found_in_any_order() {
    let parents = [(13, 12), (12, 10), (10, 1), (20, 1), (11, 10)];
    assert_eq!(descendants(10, &parents), [10, 12, 11, 13]);
    assert_eq!(descendants(99, &parents), [99]);
    // A cycle cannot be, and must not hang.
    assert_eq!(descendants(1, &[(2, 1), (1, 2)]), [1, 2]);
}

#[test]
fn time_never_runs_back() {
    let time = CpuTime { user: 5.0, system: 7.0 };
    assert_eq!(time.since(CpuTime { user: 1.0, system: 2.0 }).total(), 9.0);
    assert_eq!(CpuTime::default().since(time).total(), 0.0);
}

#[test]
fn response_heads() {
    #[track_caller]
    fn check(text: &str, expected: Result<Option<(u16, Option<u64>, bool)>, ResponseError>) {
        let expected = expected.map(|head| {
            head.map(|(status, length, close)| {
                let framing = length.map_or(Framing::UntilEnd, Framing::Length);
                (Head { status, framing, close, hit: text.contains(": HIT") }, text.len())
            })
        });
        assert_eq!(parse_head(text.as_bytes()), expected, "{text:?}");
    }
    check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", Ok(Some((200, Some(5), false))));
    check(
        "HTTP/1.1 404 Not Found\r\nServer: x\r\nCONTENT-length:  0 \r\nconnection: Close\r\n\r\n",
        Ok(Some((404, Some(0), true))),
    );
    check("HTTP/1.0 200 OK\r\n\r\n", Ok(Some((200, None, true))));
    check("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n", Ok(Some((200, None, false))));
    check("HTTP/1.1 304 Not Modified\r\n\r\n", Ok(Some((304, Some(0), false))));
    check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", Ok(None));
    check("HTTP/1.1 2x0 OK\r\n\r\n", Err(ResponseError::HeadMalformed));
    check("HTTP/2 200\r\n\r\n", Err(ResponseError::HeadMalformed));
    check("\r\n\r\n", Err(ResponseError::HeadMalformed));
    check("HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", Err(ResponseError::HeadMalformed));
    check("HTTP/1.1 200 OK\r\nX-Cache: HIT\r\n\r\n", Ok(Some((200, None, false))));
    check("HTTP/1.1 200 OK\r\nX-Cache: MISS\r\n\r\n", Ok(Some((200, None, false))));
    check(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        Err(ResponseError::TransferEncoding),
    );
    let both = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n";
    check(both, Err(ResponseError::HeadMalformed));
}

#[test]
fn responses_out_of_step_are_errors() {
    let mut reader = ResponseReader::default();
    let surplus = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab";
    assert_eq!(reader.feed(surplus), Err(ResponseError::BytesAfterEnd));
    let mut reader = ResponseReader::default();
    assert_eq!(
        reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na"),
        Ok(Progress::Partial)
    );
    assert_eq!(reader.end(), Err(ResponseError::ClosedEarly));
    assert_eq!(ResponseReader::default().end(), Err(ResponseError::ClosedEarly));
    let endless = vec![b'a'; 70_000];
    assert_eq!(ResponseReader::default().feed(&endless), Err(ResponseError::HeadTooLong));
}

#[test]
fn body_up_to_the_end_of_the_connection() {
    let mut reader = ResponseReader::default();
    assert_eq!(reader.feed(b"HTTP/1.1 200 OK\r\n\r\nabc"), Ok(Progress::Partial));
    let complete = Progress::Complete { status: 200, body_bytes: 3, close: true, hit: false };
    assert_eq!(reader.end(), Ok(complete));
}

#[test]
fn chunked_bodies() {
    /// A complete body gives its decoded bytes.
    #[track_caller]
    fn check(body: &str, expected: Result<Option<&str>, ResponseError>) {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n";
        let mut decoded = Vec::new();
        let progress = ResponseReader::default().feed_into(
            format!("{head}{body}").as_bytes(),
            &mut |at, part| {
                assert_eq!(at, decoded.len() as u64);
                decoded.extend_from_slice(part);
            },
        );
        let complete = expected.map(|decoded| match decoded {
            Some(text) => {
                let body_bytes = text.len() as u64;
                Progress::Complete { status: 200, body_bytes, close: false, hit: false }
            }
            None => Progress::Partial,
        });
        assert_eq!(progress, complete, "{body:?}");
        if let Ok(Some(text)) = expected {
            assert_eq!(decoded, text.as_bytes());
        }
    }
    check("0\r\n\r\n", Ok(Some("")));
    check("3\r\nabc\r\n0\r\n\r\n", Ok(Some("abc")));
    check("3;name=value\r\nabc\r\n00A \r\n0123456789\r\n0\r\n\r\n", Ok(Some("abc0123456789")));
    check("1\r\na\r\n0\r\nX-Trailer: 1\r\nY: 2\r\n\r\n", Ok(Some("a")));
    check("3\r\nabc\r\n0\r\n", Ok(None));
    check("3\r\nab", Ok(None));
    check("3\r\nabcd\r\n0\r\n\r\n", Err(ResponseError::ChunkMalformed));
    check("3\nabc", Err(ResponseError::ChunkMalformed));
    check("\r\n", Err(ResponseError::ChunkMalformed));
    check("-1\r\n", Err(ResponseError::ChunkMalformed));
    check("1000000000000000\r\n", Err(ResponseError::ChunkMalformed));
    check("0\r\n\r\nx", Err(ResponseError::BytesAfterEnd));
    check(&format!("1;{}", "e".repeat(70_000)), Err(ResponseError::HeadTooLong));
}

#[test]
fn patterns_distinguish_objects_and_offsets() {
    let body = pattern::body(b"/a", 4099);
    assert_eq!(body.len(), 4099);
    assert_eq!(body[..100], pattern::body(b"/a", 100));
    let differing = |other: &[u8]| body.iter().zip(other).filter(|(a, b)| a != b).count();
    assert!(differing(&pattern::body(b"/b", 4099)) > 4000);
    assert!(differing(&body[1..]) > 4000);
    assert!(differing(&body[1024..]) > 3000);
    assert!(pattern::body(b"/a", 0).is_empty());
}

#[test]
fn children_that_serve() {
    for (title, expected) in [
        ("nginx: worker process", true),
        ("nginx: worker process is shutting down", true),
        ("nginx: cache manager process", false),
        ("nginx: cache loader process", false),
    ] {
        assert_eq!(serves(title), expected, "{title}");
    }
}

proptest! {
    #[test]
    fn chunked_responses_in_pieces(
        cuts in prop::collection::vec(1usize..20, 0..30),
        chunks in prop::collection::vec(1usize..50, 0..10),
    ) {
        let mut bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        let body = pattern::body(b"/", chunks.iter().sum::<usize>() as u64);
        let mut rest = &body[..];
        for size in chunks {
            bytes.extend_from_slice(format!("{size:x}\r\n").as_bytes());
            bytes.extend_from_slice(&rest[..size]);
            bytes.extend_from_slice(b"\r\n");
            rest = &rest[size..];
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
        let (mut reader, mut decoded) = (ResponseReader::default(), Vec::new());
        let (mut rest, mut cuts, mut last) = (&bytes[..], cuts.into_iter(), Ok(Progress::Partial));
        while !rest.is_empty() {
            prop_assert_eq!(last, Ok(Progress::Partial));
            let cut = cuts.next().unwrap_or(rest.len()).min(rest.len());
            last = reader.feed_into(&rest[..cut], &mut |_, part| decoded.extend_from_slice(part));
            rest = &rest[cut..];
        }
        let body_bytes = body.len() as u64;
        let complete = Progress::Complete { status: 200, body_bytes, close: false, hit: false };
        prop_assert_eq!(last, Ok(complete));
        prop_assert_eq!(decoded, body);
        prop_assert!(reader.is_untouched());
    }

    #[test]
    fn responses_in_pieces(cuts in prop::collection::vec(1usize..20, 0..30), body in 0usize..200) {
        let mut bytes =
            format!("HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: {body}\r\n\r\n").into_bytes();
        bytes.resize(bytes.len() + body, b'b');
        let mut reader = ResponseReader::default();
        let mut rest = &bytes[..];
        let mut cuts = cuts.into_iter();
        loop {
            let cut = cuts.next().unwrap_or(rest.len()).min(rest.len());
            let progress = reader.feed(&rest[..cut]);
            rest = &rest[cut..];
            if rest.is_empty() {
                let body_bytes = body as u64;
                let complete =
                    Progress::Complete { status: 200, body_bytes, close: false, hit: false };
                prop_assert_eq!(progress, Ok(complete));
                break;
            }
            prop_assert_eq!(progress, Ok(Progress::Partial));
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = ResponseReader::default().feed(&bytes);
        let chunked = [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", &bytes[..]].concat();
        let _ = ResponseReader::default().feed(&chunked);
        let _ = parse_request(&bytes);
        let _ = parse_target(&bytes);
        let text = String::from_utf8_lossy(&bytes);
        let _ = (parse_stat(&text), parse_pss(&text), parse_processor(&text));
    }
}

#[test]
fn decimals() {
    #[track_caller]
    fn check(text: &str, expected: Option<u64>) {
        assert_eq!(decimal(text.as_bytes()), expected, "{text:?}");
    }
    check("0", Some(0));
    check("18446744073709551615", Some(u64::MAX));
    check("18446744073709551616", None);
    check("", None);
    check("+1", None);
    check("1 ", None);
}

#[test]
fn origin_targets() {
    #[track_caller]
    fn check(target: &str, expected: ResponseKind) {
        assert_eq!(parse_target(target.as_bytes()), expected, "{target}");
    }
    check("/bytes?n=10", ResponseKind::Fixed { bytes: 10, max_age: None });
    check("/bytes?max-age=60&n=10", ResponseKind::Fixed { bytes: 10, max_age: Some(60) });
    check("/bytes", ResponseKind::NotFound);
    check("/bytes?n=999999999999", ResponseKind::NotFound);
    check("/other?n=1", ResponseKind::NotFound);
    let duration = Duration::from_secs(3);
    check(
        "/slow?ms=3000&bytes=100&chunks=4&run=7",
        ResponseKind::Slow { bytes: 100, chunks: 4, duration, eager: false, max_age: None },
    );
    check(
        "/slow?ms=3000&bytes=100&chunks=4&eager=1",
        ResponseKind::Slow { bytes: 100, chunks: 4, duration, eager: true, max_age: None },
    );
    check("/slow?ms=3000&bytes=100&chunks=0", ResponseKind::NotFound);
}

#[test]
fn origin_heads_carry_length_and_freshness() {
    let head = response_head(&ResponseKind::Fixed { bytes: 10, max_age: Some(60) });
    let text = String::from_utf8(head).expect("heads are ASCII");
    assert!(text.contains("Content-Length: 10\r\n"), "{text}");
    assert!(text.ends_with("Cache-Control: max-age=60\r\n\r\n"), "{text}");
    let head = response_head(&ResponseKind::NotFound);
    assert!(head.starts_with(b"HTTP/1.1 404 "));
}

#[test]
fn origin_requests() {
    #[track_caller]
    fn check(request: &str, expected: Option<(&str, bool)>) {
        let expected = expected.map(|(target, close)| (target.as_bytes().to_vec(), close));
        assert_eq!(parse_request(request.as_bytes()), expected, "{request:?}");
    }
    check("GET /a HTTP/1.1\r\nHost: o\r\n\r\n", Some(("/a", false)));
    check("GET /a HTTP/1.1\r\nHost: o\r\nConnection: close\r\n\r\n", Some(("/a", true)));
    check("GET /a HTTP/1.0\r\nHost: o\r\n\r\n", Some(("/a", true)));
    check("POST /a HTTP/1.1\r\n\r\n", None);
    check("GET /a HTTP/2.0\r\n\r\n", None);
    check("GET /a\r\n\r\n", None);
}

#[test]
fn slow_parts_are_spread_evenly() {
    #[track_caller]
    fn check(elapsed: u64, expected: u64) {
        let elapsed = Duration::from_millis(elapsed);
        assert_eq!(parts_due(elapsed, Duration::from_millis(3000), 100), expected);
    }
    check(0, 0);
    check(29, 0);
    check(30, 1);
    check(1500, 50);
    check(3000, 100);
    check(9000, 100);
    assert_eq!(parts_due(Duration::ZERO, Duration::ZERO, 5), 5);
}

#[test]
fn command_lines() {
    fn options(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(OsString::from))
    }
    let line = "quick --rounds 2 --seconds 0.5 --only fixed --only streaming --json=out.json";
    let Ok(Command::Run(got)) = options(line) else { panic!("the line is in order") };
    assert_eq!(got.rounds, 2);
    assert_eq!(got.run_time, Duration::from_millis(500));
    assert_eq!(got.only, ["fixed", "streaming"]);
    assert_eq!(got.json.as_deref(), Some(Path::new("out.json")));
    assert_eq!((got.suite, got.strict), (Suite::Quick, false));
    let Ok(Command::Run(got)) = options("--strict") else { panic!("the line is in order") };
    assert_eq!((got.suite, got.strict, got.rounds), (Suite::Quick, true, 5));
    assert_eq!(got.run_time, Duration::from_secs(3));
    let Ok(Command::Run(got)) = options("steady") else { panic!("the line is in order") };
    assert_eq!((got.suite, got.rounds, got.run_time), (Suite::Steady, 1, Duration::from_secs(60)));
    let Ok(Command::Run(got)) = options("--seconds 600 steady --rounds 3") else {
        panic!("the line is in order")
    };
    assert_eq!((got.rounds, got.run_time), (3, Duration::from_secs(600)));
    assert!(matches!(options("--list"), Ok(Command::List)));
    assert!(matches!(options("--help"), Ok(Command::Help)));
    for wrong in [
        "--rounds 0",
        "--seconds NaN",
        "--seconds 1e9",
        "--what",
        "slow",
        "--rounds",
        "quick steady",
        "--seconds 61",
        "steady --seconds 0.5",
        "steady --seconds 601",
    ] {
        assert!(options(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn long_turns_are_found_in_logs() {
    let line = "2026/01/01 00:00:00 [warn] 1#2: the loop of worker-0 was held for 108 ms (90 ms of processor time, 3 runs of tasks, \
                the longest 107 ms): GET /\n";
    let other = "2026/01/01 00:00:00 [warn] 1#2: a client request body is buffered\n";
    assert_eq!(long_turns(&[line, other, line].concat()), [108, 108]);
    assert_eq!(long_turns(other), []);
}

#[test]
fn configurations() {
    #[track_caller]
    fn check(scenario: Scenario, with: &[&str], without: &[&str]) {
        let text = generate(&Setup {
            scenario,
            directory: Path::new("/prefix"),
            listen: ([127, 0, 0, 1], 8080).into(),
            origin: ([127, 0, 0, 1], 9090).into(),
            worker_connections: 1000,
            privileged: false,
            tempfile_directive: true,
            watchdog: matches!(scenario, Scenario::Handlers),
            generation: 7,
        });
        assert_eq!(text.matches('{').count(), text.matches('}').count(), "{text}");
        for needle in ["listen 127.0.0.1:8080;", "worker_processes 1;", "access_log off;"] {
            assert!(text.contains(needle), "no {needle} in {text}");
        }
        with.iter().for_each(|needle| assert!(text.contains(needle), "no {needle} in {text}"));
        without.iter().for_each(|needle| assert!(!text.contains(needle), "{needle} in {text}"));
    }
    let tuning = ["sendfile on;", "tcp_nopush on;", "open_file_cache max=1000;"];
    let keepalive =
        ["keepalive 64;", "proxy_http_version 1.1;", "proxy_set_header Connection \"\";"];
    check(Scenario::Fixed, &["return 200 \"Hello, world\";"], &["proxy_pass", "user root;"]);
    check(Scenario::Files, &tuning, &["location", "upstream"]);
    check(Scenario::ProxyTuned, &keepalive, &["proxy_cache "]);
    check(Scenario::ProxyDefault, &["server 127.0.0.1:9090;", "proxy_pass"], &keepalive);
    check(Scenario::ProxyDefault, &[], &tuning);
    check(Scenario::Cache, &["proxy_cache bench;", "keys_zone=bench:10m"], &["proxy_cache_lock"]);
    check(Scenario::CacheDefault, &["proxy_cache bench;", "keys_zone=bench:10m"], &tuning);
    let reload = ["location = /generation { return 200 \"7\"; }", "location /bytes {"];
    check(Scenario::Reload, &reload, &["proxy_cache ", "location / "]);
    let crash = ["proxy_cache bench;", "add_header X-Cache $upstream_cache_status always;"];
    check(Scenario::Crash, &crash, &["proxy_cache_lock", "/generation"]);
    let lookup = ["disable_symlinks", "open_file_cache"];
    check(Scenario::Depth(Lookup::Plain), &["sendfile on;", "log_not_found off;"], &lookup);
    check(Scenario::Depth(Lookup::NoSymlinks), &["disable_symlinks on;"], &lookup[1..]);
    let cached = ["open_file_cache max=1000;", "open_file_cache_errors on;"];
    check(Scenario::Depth(Lookup::OpenFileCache), &cached, &lookup[..1]);
    check(Scenario::Files, &[], &["loop_watchdog"]);
    check(Scenario::Handlers, &["loop_watchdog 50ms;", "/prefix/error.log warn;"], &[]);
    let handlers = ["thread_pool slow threads=100;", "handler document;", "return 200 \"$k$k"];
    check(Scenario::Handlers, &handlers, &["fastcgi_pass"]);
    check(Scenario::Component, &["wasm document.wasm;", "location = /return"], &["handler"]);
    let php = ["fastcgi_pass unix:", "location = /return"];
    check(Scenario::Php, &php, &["handler", "thread_pool", "keepalive"]);
    let kept = ["server unix:/prefix/php.sock;", "keepalive 64;", "fastcgi_keep_conn on;"];
    check(Scenario::PhpKept, &kept, &["fastcgi_pass unix:"]);
    check(Scenario::Streaming, &["proxy_cache_lock on;", "proxy_cache_tempfile on;"], &[]);
    let places = |loads_stream| Places {
        tls: Port(1),
        stream: Port(2),
        datagrams: Port(3),
        sessions: Port(4),
        partner: Port(5),
        echo: Port(6),
        loads_stream,
    };
    let busy =
        ["listen 127.0.0.1:1 ssl;", "server { listen 127.0.0.1:3 udp; proxy_pass 127.0.0.1:6; }"];
    check(Scenario::Fairness(places(false)), &busy, &["load_module"]);
    check(Scenario::Fairness(places(true)), &["load_module modules/"], &["loop_watchdog"]);
}
