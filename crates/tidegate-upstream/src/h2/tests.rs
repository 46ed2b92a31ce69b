//! Requests over shared connections, to origins that obey and that do not.

mod origin;

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate_codec::request::Method;
use tidegate_core::body::{BodyStream, Chunk};
use tidegate_core::error_log::ErrorLog;
use tidegate_core::request_body::StoredBody;
use tidegate_h2::Config;
use tidegate_rt::{block_on, spawn_local};

use crate::head::{FieldWriter, HeadList, ListFields, OriginHead};
use crate::peers::{BalancingMethod, Choice, Group, Keepalive, ServerOptions};
use crate::report::Report;
use crate::{
    BodyReader, ConnectionReuse, FetchSettings, LogContext, NextUpstream, OriginBody,
    OriginRequest, OriginResponse, RequestPayload, Wire, fetch,
};
use origin::{BIG, Origin, start};

fn settings() -> Arc<FetchSettings> {
    let long = Duration::from_secs(20);
    Arc::new(FetchSettings {
        connect_timeout: long,
        send_timeout: long,
        read_timeout: long,
        head_timeout: None,
        head_bytes_max: 4096,
        read_bytes: 32 * 1024,
        next_upstream: NextUpstream::DEFAULT,
        next_upstream_tries: 0,
        next_upstream_timeout: Duration::ZERO,
        socket_keepalive: false,
        receive_buffer: None,
        send_buffer: None,
        pass_trailers: true,
    })
}

fn request(group: &Arc<Group>, method: &str, path: &str) -> OriginRequest {
    let line = format!("{method} {path}").into_bytes();
    let target = method.len() + 1..line.len();
    let mut list = HeadList::new(&line, target.clone());
    let mut fields = ListFields::new(&mut list);
    fields.begin(b"Host").0.extend_from_slice(b"a");
    fields.end(b"Host");
    OriginRequest {
        group: group.clone(),
        choice: Choice::default(),
        method: Method::of(method.as_bytes()),
        target,
        head: OriginHead::List(Box::new(list)),
        payload: RequestPayload::None,
        local: None,
        paced: false,
        interim: None,
        reuse: ConnectionReuse::AsGroup,
        upgrade: false,
        location_tag: 0,
        tls: None,
        wire: Wire::Http2 { grpc: false },
    }
}

async fn sent(request: OriginRequest) -> Result<OriginResponse, u16> {
    let log = LogContext::detached(ErrorLog::default());
    let fetched = fetch(request, settings(), Report::shared(), log).await;
    fetched.map_err(|error| error.status)
}

/// Returns the status, the body, and whether it ended well.
async fn seen(request: OriginRequest) -> (u16, String, bool) {
    match sent(request).await {
        Err(status) => (status, String::new(), false),
        Ok(response) => {
            let (body, whole) = read(response.body).await;
            (response.head.status, String::from_utf8_lossy(&body).into_owned(), whole)
        }
    }
}

async fn read(body: OriginBody) -> (Vec<u8>, bool) {
    match body {
        OriginBody::Whole(bytes) => (bytes.to_vec(), true),
        OriginBody::Stream(mut reader) => rest(&mut reader).await,
        OriginBody::Upgraded(_) => (Vec::new(), false),
    }
}

async fn rest(reader: &mut BodyReader) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        match poll_fn(|context| reader.poll_chunk(context)).await {
            None => return (body, true),
            Some(Ok(Chunk::Bytes(bytes))) => body.extend_from_slice(&bytes),
            Some(Ok(_)) => {}
            Some(Err(_)) => return (body, false),
        }
    }
}

fn with(payload: Vec<u8>, request: OriginRequest) -> OriginRequest {
    let body = StoredBody {
        length: payload.len() as u64,
        memory: vec![Bytes::from(payload)],
        ..StoredBody::default()
    };
    OriginRequest { payload: RequestPayload::Stored(Arc::new(body)), ..request }
}

const KEPT: Keepalive = Keepalive { local: false, ..Keepalive::DEFAULT };

/// Runs a test in an event loop, with an origin.
fn run<F: Future<Output = ()>>(
    config: Config,
    keepalive: Keepalive,
    test: impl FnOnce(Rc<Origin>, Arc<Group>) -> F,
) {
    let ran = block_on(async {
        let (origin, group) = start(config, keepalive);
        test(origin, group).await;
    });
    ran.expect("a loop");
}

fn ok(body: &str) -> (u16, String, bool) {
    (200, body.to_owned(), true)
}

#[test]
fn requests_follow_each_other_on_one_connection() {
    run(Config::default(), KEPT, |origin, group| async move {
        for _ in 0..3 {
            assert_eq!(seen(request(&group, "GET", "/ok")).await, ok("ok"));
        }
        assert_eq!(seen(request(&group, "GET", "/empty")).await, (204, String::new(), true));
        assert_eq!(origin.seen.borrow().connections, 1);
    });
}

/// Holds `count` requests at once; returns the connections and the most streams of one.
fn at_once(config: Config, count: usize) -> (usize, usize) {
    let mut result = (0, 0);
    run(config, KEPT, |origin, group| {
        let result = &mut result;
        async move {
            let all: Vec<_> =
                (0..count).map(|_| spawn_local(seen(request(&group, "GET", "/hold")))).collect();
            // All are there before any is responded to.
            while origin.seen.borrow().held < count {
                tidegate_rt::yield_now().await;
            }
            origin.is_released.set(true);
            origin.release.notify_waiters();
            for task in all {
                assert_eq!(task.await.expect("a result"), ok("held"));
            }
            let seen = origin.seen.borrow();
            *result = (seen.connections, seen.streams_max);
            assert_eq!(seen.requests, count, "none had to be repeated");
        }
    });
    result
}

#[test]
fn requests_share_as_few_connections_as_possible() {
    assert_eq!(at_once(Config::default(), 100), (1, 100));
    assert_eq!(at_once(Config::default(), 1000), (10, 100));
    let few = Config { streams_max: 7, ..Config::default() };
    assert_eq!(at_once(few, 21).1, 7);
}

#[test]
fn a_slow_reader_stalls_no_other_stream() {
    run(Config::default(), KEPT, |origin, group| async move {
        // Twenty that are not read, and one that is.
        let mut slow = Vec::new();
        for _ in 0..20 {
            slow.push(sent(request(&group, "GET", "/big")).await.expect("a head"));
        }
        let (_, body, whole) = seen(request(&group, "GET", "/big")).await;
        assert_eq!((body.len(), whole), (BIG, true));
        let (body, whole) = read(slow.remove(0).body).await;
        assert_eq!((body.len(), whole), (BIG, true));
        // The others are given up: their streams are reset, and the connection goes on.
        drop(slow);
        assert_eq!(seen(request(&group, "GET", "/ok")).await, ok("ok"));
        while origin.seen.borrow().resets < 19 {
            tidegate_rt::yield_now().await;
        }
        assert_eq!(origin.seen.borrow().connections, 1);
    });
}

#[test]
fn bodies_are_sent_as_windows_open() {
    for window in [1, 1000, 65_535] {
        let config = Config { stream_window: window, ..Config::default() };
        let length = if window == 1 { 300 } else { 500_000 };
        run(config, KEPT, |origin, group| async move {
            // The first body would be sent before the origin's settings are received.
            assert_eq!(seen(request(&group, "GET", "/ok")).await, ok("ok"));
            let post = with(vec![b'x'; length], request(&group, "POST", "/echo"));
            assert_eq!(seen(post).await, ok(&format!("{length} bytes")));
            // A response before the end of the request, with NO_ERROR behind it.
            let post = with(vec![b'x'; 5_000_000], request(&group, "POST", "/early"));
            assert_eq!(seen(post).await, ok("early"));
            assert_eq!(seen(request(&group, "GET", "/ok")).await, ok("ok"));
            assert_eq!(origin.seen.borrow().connections, 1);
        });
    }
}

#[test]
fn requests_that_were_not_processed_are_sent_again() {
    for (path, requests) in [("/refuse", 3), ("/goaway", 3)] {
        run(Config::default(), KEPT, |origin, group| async move {
            assert_eq!(seen(request(&group, "GET", "/ok")).await, ok("ok"));
            let post = with(b"x".to_vec(), request(&group, "POST", path));
            assert_eq!(seen(post).await, ok("ok"), "{path}");
            let seen = origin.seen.borrow();
            assert_eq!((seen.requests, seen.connections), (requests, 2), "{path}");
        });
    }
}

#[test]
fn a_lost_connection_costs_only_what_may_not_be_repeated() {
    run(Config::default(), KEPT, |origin, group| async move {
        assert_eq!(seen(request(&group, "GET", "/close")).await.0, 502, "it was a new connection");
        assert_eq!(seen(request(&group, "GET", "/ok")).await, ok("ok"));
        origin.forget();
        assert_eq!(seen(request(&group, "GET", "/close")).await, ok("ok"));
        origin.forget();
        assert_eq!(seen(request(&group, "POST", "/close")).await.0, 502);
        assert_eq!(seen(request(&group, "GET", "/ok")).await, ok("ok"));
    });
}

#[test]
fn responses_end_as_their_frames_say() {
    run(Config::default(), KEPT, |origin, group| async move {
        let response = sent(request(&group, "GET", "/interim")).await.expect("a response");
        let OriginBody::Stream(mut reader) = response.body else {
            panic!("trailers need a stream")
        };
        assert_eq!(rest(&mut reader).await, (b"ok".to_vec(), true));
        let trailers = reader.trailers().expect("trailers");
        assert_eq!(trailers.first_named(b"x-sum"), Some(&b"1"[..]));
        // A body of another length than announced does not pass for a whole one.
        for path in ["/short", "/long"] {
            let (status, _, whole) = seen(request(&group, "GET", path)).await;
            assert!(status == 502 || !whole, "{path}");
        }
        assert_eq!(seen(request(&group, "GET", "/error")).await.0, 502);
        assert_eq!(seen(request(&group, "GET", "/ok")).await, ok("ok"));
        assert_eq!(origin.seen.borrow().connections, 1, "each was one stream's matter");
    });
}

#[test]
fn a_connection_ends_after_its_requests() {
    let keepalive = Keepalive { requests_max: 2, ..KEPT };
    run(Config::default(), keepalive, |origin, group| async move {
        for _ in 0..4 {
            assert_eq!(seen(request(&group, "GET", "/ok")).await, ok("ok"));
        }
        assert_eq!(origin.seen.borrow().connections, 2);
    });
    let never = Keepalive { idle_max: 0, ..KEPT };
    run(Config::default(), never, |origin, group| async move {
        for _ in 0..2 {
            assert_eq!(seen(request(&group, "GET", "/ok")).await, ok("ok"));
        }
        assert_eq!(origin.seen.borrow().connections, 2);
    });
}

#[test]
fn a_hostile_origin_loses_its_connection() {
    const PATHS: [&str; 12] = [
        "/pings",
        "/settings",
        "/empty-data",
        "/continuations",
        "/interims",
        "/push",
        "/idle",
        "/huge",
        "/huge-body",
        "/table",
        "/http1",
        "/close",
    ];
    for path in PATHS {
        run(Config::default(), KEPT, |origin, group| async move {
            let (status, _, whole) = seen(request(&group, "GET", path)).await;
            assert!(status == 502 || !whole, "{path}: {status}");
            // Others are served, over another connection.
            assert_eq!(seen(request(&group, "GET", "/ok")).await, ok("ok"), "{path}");
            assert_eq!(origin.seen.borrow().connections, 2, "{path}");
        });
    }
}

#[test]
fn a_frame_may_be_as_large_as_the_window() {
    run(Config::default(), KEPT, |origin, group| async move {
        let (status, body, whole) = seen(request(&group, "GET", "/whole-window")).await;
        assert_eq!((status, body.len(), whole), (200, 0x4_0000, true));
        assert_eq!(seen(request(&group, "GET", "/ok")).await, ok("ok"));
        assert_eq!(origin.seen.borrow().connections, 1);
    });
}

#[test]
fn an_origin_that_ignores_a_window_loses_the_stream() {
    run(Config::default(), KEPT, |origin, group| async move {
        // Nothing of the body is read.
        let response = sent(request(&group, "GET", "/window")).await.expect("a head");
        while origin.seen.borrow().resets == 0 {
            tidegate_rt::yield_now().await;
        }
        assert!(!read(response.body).await.1);
        assert_eq!(seen(request(&group, "GET", "/ok")).await, ok("ok"));
        assert_eq!(origin.seen.borrow().connections, 1);
    });
}

#[test]
fn requests_end_at_an_origin_that_sends_nothing() {
    let ends = block_on(async {
        // Connections are accepted by the kernel alone.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let name = address.to_string();
        let servers = vec![(name, address.into(), ServerOptions::default())];
        let method = BalancingMethod::RoundRobin;
        let now = tidegate_rt::clock::now();
        let group = Arc::new(Group::new("g", method, Keepalive::DEFAULT, servers, now));
        let settings =
            FetchSettings { read_timeout: Duration::from_millis(50), ..(*settings()).clone() };
        let settings = Arc::new(settings);
        let mut tasks = Vec::new();
        for _ in 0..4 {
            let (request, settings) = (request(&group, "GET", "/"), settings.clone());
            let log = LogContext::detached(ErrorLog::default());
            tasks.push(spawn_local(async move {
                let fetched = fetch(request, settings, Report::shared(), log);
                let ended = tidegate_rt::timer::timeout(Duration::from_secs(60), fetched).await;
                ended.map(|fetched| fetched.map(|_| ()).map_err(|error| error.status))
            }));
        }
        let mut ends = Vec::new();
        for task in tasks {
            ends.push(task.await.expect("no panic"));
        }
        ends
    });
    let late = Ok(Err(504));
    assert_eq!(ends.expect("a loop"), [late, late, late, late]);
}
