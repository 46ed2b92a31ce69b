//! Fetches over real sockets, from an origin that plays a script.

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tidegate_codec::request::Method as HttpMethod;
use tidegate_core::body::{BodyStream, Chunk};
use tidegate_core::error_log::ErrorLog;
use tidegate_rt::net::{Addr, ConnectOptions, ListenOptions, Listener, Stream};

use super::*;
use crate::OriginBody;
use crate::peers::{BalancingMethod, Choice, Group, Keepalive, ServerOptions};
use crate::pool::{self, handover};
use crate::report::Report;
use crate::request::ConnectionReuse;
use crate::retry::NextUpstream;

/// The origin's responses to the requests of each connection, in order; an empty text closes.
type Script = Vec<Vec<String>>;

/// The observed result of a fetch: status, body, whether the body ended well, addresses tried.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    status: u16,
    body: String,
    whole: bool,
    attempts: usize,
}

fn seen(status: u16, body: &str, whole: bool, attempts: usize) -> Seen {
    Seen { status, body: body.to_owned(), whole, attempts }
}

/// Returns an origin's socket, and a group of nothing else.
fn listening(keepalive: Keepalive) -> (Listener, Arc<Group>) {
    let any = Addr::Inet(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let listener = Listener::bind(&any, &ListenOptions::default()).expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = (String::from("origin"), address, ServerOptions::default());
    (
        listener,
        Arc::new(Group::new(
            "g",
            BalancingMethod::RoundRobin,
            keepalive,
            vec![server],
            clock::now(),
        )),
    )
}

async fn origin(listener: Listener, script: Script) {
    for responses in script {
        let Ok(stream) = listener.accept().await else { return };
        serve(&stream, &responses).await;
    }
}

async fn serve(stream: &Stream, responses: &[String]) {
    for response in responses {
        let mut head = Vec::with_capacity(4096);
        while !head.ends_with(b"\r\n\r\n") {
            if stream.read_append(&mut head).await.unwrap_or(0) == 0 {
                return;
            }
        }
        if response.is_empty() || stream.write_all(response.as_bytes()).await.is_err() {
            return;
        }
    }
}

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
        pass_trailers: false,
    })
}

fn request(group: &Arc<Group>, method: &str) -> OriginRequest {
    let head = format!("{method} /path HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes();
    let start = method.len() + 1;
    OriginRequest {
        group: group.clone(),
        choice: Choice::default(),
        method: HttpMethod::of(method.as_bytes()),
        target: start..start + 5,
        head: head.into(),
        payload: RequestPayload::None,
        local: None,
        paced: false,
        interim: None,
        reuse: ConnectionReuse::AsGroup,
        upgrade: false,
        location_tag: 0,
        tls: None,
        wire: Wire::Http,
    }
}

async fn one(group: &Arc<Group>, method: &str) -> Seen {
    sent(request(group, method)).await
}

async fn sent(request: OriginRequest) -> Seen {
    let report = Report::shared();
    let log = LogContext::detached(ErrorLog::default());
    let result = fetch(request, settings(), report.clone(), log).await;
    let (status, body, whole) = match result {
        Err(error) => (error.status, String::new(), false),
        Ok(response) => {
            let (body, whole) = read(response.body).await;
            (response.head.status, body, whole)
        }
    };
    let attempts = report.borrow().attempts().len();
    Seen { status, body, whole, attempts }
}

async fn read(body: OriginBody) -> (String, bool) {
    let mut stream = match body {
        OriginBody::Whole(bytes) => return (String::from_utf8_lossy(&bytes).into_owned(), true),
        OriginBody::Stream(stream) => stream,
        OriginBody::Upgraded(_) => return (String::new(), false),
    };
    let mut text = Vec::new();
    loop {
        match poll_fn(|context| stream.poll_chunk(context)).await {
            None => return (String::from_utf8_lossy(&text).into_owned(), true),
            Some(Ok(Chunk::Bytes(bytes))) => text.extend_from_slice(&bytes),
            Some(Ok(_)) => {}
            Some(Err(_)) => return (String::from_utf8_lossy(&text).into_owned(), false),
        }
    }
}

/// Sends the methods one after the other through one group to an origin with a script.
fn check(name: &str, script: &[&[&str]], methods: &[&str], expected: &[Seen]) {
    let texts = |responses: &&[&str]| responses.iter().map(|text| (*text).to_owned()).collect();
    let script: Script = script.iter().map(texts).collect();
    let all = tidegate_rt::block_on(async {
        let (listener, group) = listening(Keepalive { local: false, ..Keepalive::DEFAULT });
        tidegate_rt::spawn_local(origin(listener, script));
        let mut all = Vec::new();
        for method in methods {
            all.push(one(&group, method).await);
        }
        all
    });
    assert_eq!(all.expect("a loop"), expected, "{name}");
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn bodies_end_as_their_framing_says() {
    check("length", &[&[OK]], &["GET"], &[seen(200, "ok", true, 1)]);
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    check("chunked", &[&[chunked]], &["GET"], &[seen(200, "ok", true, 1)]);
    let closed = "HTTP/1.1 200 OK\r\n\r\nall of it";
    check("until close", &[&[closed]], &["GET"], &[seen(200, "all of it", true, 1)]);
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";
    check("HEAD has none", &[&[head]], &["HEAD"], &[seen(200, "", true, 1)]);
}

#[test]
fn broken_responses_are_visible() {
    let short = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok";
    check("short", &[&[short]], &["GET"], &[seen(200, "ok", false, 1)]);
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n";
    check("no last chunk", &[&[chunked]], &["GET"], &[seen(200, "ok", false, 1)]);
    check("garbage", &[&["nonsense\r\n\r\n"]], &["GET"], &[seen(502, "", false, 1)]);
    check("closed before the head", &[&[""]], &["GET"], &[seen(502, "", false, 1)]);
    let both = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nok";
    check("two framings", &[&[both]], &["GET"], &[seen(502, "", false, 1)]);
}

#[test]
fn connections_are_used_again() {
    let twice = [seen(200, "ok", true, 1), seen(200, "ok", true, 1)];
    check("one connection", &[&[OK, OK]], &["GET", "GET"], &twice);
    let extra = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokEXTRA";
    check("not after excess", &[&[extra], &[OK]], &["GET", "GET"], &twice);
    let close = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
    check("not when configured", &[&[close], &[OK]], &["GET", "GET"], &twice);
    let interim = "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    check("behind an interim head", &[&[interim, OK]], &["GET", "GET"], &twice);
}

#[test]
fn an_idle_connection_closed_under_a_request_costs_nothing() {
    // The origin reads the second request and closes without a byte; a new connection gets the response.
    let repeated = [seen(200, "ok", true, 1), seen(200, "ok", true, 2)];
    check("GET", &[&[OK, ""], &[OK]], &["GET", "GET"], &repeated);
    let given_up = [seen(200, "ok", true, 1), seen(502, "", false, 1)];
    check("POST", &[&[OK, ""], &[OK]], &["GET", "POST"], &given_up);
}

/// A FastCGI record with less than 128 bytes.
fn record(kind: u8, content: &str) -> String {
    let mut text = String::from_utf8(vec![1, kind, 0, 1, 0, content.len() as u8, 0, 0]);
    text.as_mut().expect("ASCII").push_str(content);
    text.expect("ASCII")
}

#[test]
fn a_body_begins_within_the_record_that_ends_its_head() {
    let (out, error, end) = (6, 7, record(3, "\0\0\0\0\0\0\0\0"));
    let check = |name: &str, records: &[String], expected: Seen| {
        let script = vec![vec![records.concat() + &end]];
        let seen = tidegate_rt::block_on(async {
            let (listener, group) = listening(Keepalive::OFF);
            tidegate_rt::spawn_local(origin(listener, script));
            let wire = Wire::FastCgi(wire::FastCgiRules::default());
            sent(OriginRequest { wire, ..request(&group, "GET") }).await
        });
        assert_eq!(seen.expect("a loop"), expected, "{name}");
    };
    let whole = || seen(200, "body", true, 1);
    check("one record", &[record(out, "A: b\r\n\r\nbody")], whole());
    check("behind an error", &[record(error, "oh"), record(out, "A: b\r\n\r\nbody")], whole());
    let cut =
        [record(out, "A: b\r"), record(out, "\n\r\nbo"), record(error, "no"), record(out, "dy")];
    check("a head in two records", &cut, whole());
    check("no body", &[record(out, "A: b\r\n\r\n")], seen(200, "", true, 1));
}

#[test]
fn a_body_is_over_with_its_last_piece() {
    let (text, over) = tidegate_rt::block_on(async {
        let (listener, group) = listening(Keepalive::DEFAULT);
        let (go_on, ready) = tidegate_rt::sync::oneshot::channel::<()>();
        let origin = tidegate_rt::spawn_local(async move {
            let stream = listener.accept().await.expect("a connection");
            let part = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nbe".to_owned();
            serve(&stream, &[part]).await;
            ready.await.expect("a signal");
            stream.write_all(b"gin").await.expect("sent");
        });
        let log = LogContext::detached(ErrorLog::default());
        let response = fetch(request(&group, "GET"), settings(), Report::shared(), log).await;
        let OriginBody::Stream(mut stream) = response.expect("a head").body else {
            return (Vec::new(), Vec::new());
        };
        go_on.send(()).expect("the origin waits");
        let (mut text, mut over) = (Vec::new(), Vec::new());
        while let Some(Ok(Chunk::Bytes(bytes))) =
            poll_fn(|context| stream.poll_chunk(context)).await
        {
            text.extend_from_slice(&bytes);
            over.push((text.len(), stream.is_over()));
        }
        origin.await.expect("the origin");
        (text, over)
    })
    .expect("a loop");
    assert_eq!(text, b"begin");
    assert_eq!(over.last(), Some(&(5, true)));
    assert!(over.iter().all(|(length, over)| *over == (*length == 5)), "{over:?}");
}

#[test]
fn a_dropped_body_gives_its_connection_up() {
    let result = tidegate_rt::block_on(async {
        let (listener, group) = listening(Keepalive::DEFAULT);
        let listener = Rc::new(listener);
        let accepting = listener.clone();
        let origin = tidegate_rt::spawn_local(async move {
            let stream = accepting.accept().await.expect("a connection");
            let part = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegin".to_owned();
            serve(&stream, &[part]).await;
            let mut rest = Vec::with_capacity(16);
            stream.read_append(&mut rest).await.unwrap_or(0)
        });
        let log = LogContext::detached(ErrorLog::default());
        let response = fetch(request(&group, "GET"), settings(), Report::shared(), log).await;
        drop(response.expect("a head"));
        origin.await.expect("the origin sees the end")
    });
    assert_eq!(result.expect("a loop"), 0);
}

#[test]
fn unrepeatable_requests_get_a_new_connection_where_they_are_kept_briefly() {
    let all = tidegate_rt::block_on(async {
        let (listener, group) = listening(Keepalive::DEFAULT);
        // It responds once on its first connection.
        let responses = [OK.to_owned()];
        let origin = tidegate_rt::spawn_local(async move {
            let first = listener.accept().await.expect("a connection");
            serve(&first, &responses).await;
            let second = listener.accept().await.expect("another connection");
            serve(&second, &responses).await;
        });
        let mut all = Vec::new();
        for method in ["GET", "POST"] {
            let reuse = ConnectionReuse::Briefly;
            all.push(sent(OriginRequest { reuse, ..request(&group, method) }).await);
        }
        origin.await.expect("the origin");
        all
    });
    assert_eq!(all.expect("a loop"), [seen(200, "ok", true, 1), seen(200, "ok", true, 1)]);
}

#[test]
fn a_request_that_waits_for_a_process_is_not_overtaken_repeatedly() {
    let connections = tidegate_rt::block_on(async {
        let (listener, group) = listening(Keepalive::DEFAULT);
        let accepted = Rc::new(Cell::new(0));
        let counter = accepted.clone();
        let origin = tidegate_rt::spawn_local(async move {
            let mut silent = Vec::new();
            loop {
                let stream = listener.accept().await.expect("a connection");
                counter.set(counter.get() + 1);
                // The second one waits for a process.
                if counter.get() == 2 {
                    silent.push(stream);
                    continue;
                }
                tidegate_rt::spawn_local(async move {
                    serve(&stream, &vec![OK.to_owned(); OVERTAKING_MAX]).await;
                });
            }
        });
        let brief = |group, method| OriginRequest {
            reuse: ConnectionReuse::Briefly,
            ..request(group, method)
        };
        let ok = seen(200, "ok", true, 1);
        assert_eq!(sent(brief(&group, "GET")).await, ok);
        // One that cannot be sent again opens a connection.
        let waits = brief(&group, "POST");
        let waiting = tidegate_rt::spawn_local(async move { sent(waits).await });
        while accepted.get() < 2 {
            tidegate_rt::yield_now().await;
        }
        for _ in 0..OVERTAKING_MAX {
            assert_eq!(sent(brief(&group, "GET")).await, ok);
            if accepted.get() > 2 {
                break;
            }
        }
        waiting.abort();
        origin.abort();
        accepted.get()
    });
    assert!(connections.expect("a loop") > 2, "one connection served all");
}

/// Fewer requests than a connection that is kept for a moment serves.
const OVERTAKING_MAX: usize = 30;

#[test]
fn a_request_takes_the_idle_connection_of_another_thread() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    // It responds on one connection only: a request on another would get no response.
    let origin = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a connection");
        let stream = Stream::from_fd(stream.into()).expect("a socket");
        let responses = [OK.to_owned(), OK.to_owned()];
        tidegate_rt::block_on(serve(&stream, &responses)).expect("a loop");
    });
    let server = (String::from("origin"), Addr::Inet(address), ServerOptions::default());
    let group = Group::new(
        "g",
        BalancingMethod::RoundRobin,
        Keepalive::DEFAULT,
        vec![server],
        clock::now(),
    );
    let group = Arc::new(group);
    let (sender, results) = std::sync::mpsc::channel();
    let mut threads = Vec::new();
    for name in ["first", "second"] {
        let (group, sender) = (group.clone(), sender.clone());
        let (end, ended) = tidegate_rt::sync::oneshot::channel::<()>();
        let worker = tidegate_rt::Worker::run(name, None, move |_| async move {
            let request = request(&group, "GET");
            let peer = group.view(clock::now()).remove(0).peer;
            let fit = request.fit(&peer);
            // The second one begins when the first one has had its connection to spare for a while.
            while name == "second" && handover::owner(&group, &fit, clock::now()).is_none() {
                tidegate_rt::yield_now().await;
            }
            let _ = sender.send(sent(request).await);
            let _ = ended.await;
        });
        worker.expect("a thread");
        threads.push(end);
        let result = results.recv_timeout(Duration::from_secs(60)).expect("a result");
        assert_eq!(result, seen(200, "ok", true, 1), "{name}");
    }
    origin.join().expect("the origin");
    assert_eq!(pool::idle_of(&group), 1);
}

/// The origin's queue of connections is full until some are accepted.
#[test]
fn a_slow_connect_is_distinguished_from_the_origin_behind_it() {
    use tidegate_core::timeline::{Timeline, around};
    let verdict = tidegate_rt::block_on(async {
        let any = Addr::Inet(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let options = ListenOptions { backlog: 1, ..ListenOptions::default() };
        let listener = Listener::bind(&any, &options).expect("a port");
        let address = listener.local_addr().expect("an address");
        let patience = Duration::from_millis(100);
        let connect = || async {
            crate::connection::dial(&address, &ConnectOptions::default(), patience).await
        };
        let mut queued = Vec::new();
        while let Ok(stream) = connect().await {
            queued.push(stream);
        }
        let timeline = Timeline::begun(clock::exact_now(), None);
        let target = address.clone();
        let dial = async move {
            let limit = Duration::from_secs(30);
            crate::connection::dial(&target, &ConnectOptions::default(), limit).await
        };
        let recorded = timeline.clone();
        let dial = tidegate_rt::spawn_local(async move { around(Some(&recorded), dial).await });
        // The place that is free now is taken at the client's next attempt, a second after the first one.
        let accepted = tidegate_rt::spawn_local(async move {
            let mut all = Vec::new();
            while let Ok(stream) = listener.accept().await {
                all.push(stream);
            }
        });
        assert!(dial.await.expect("no panic").is_ok());
        drop(accepted);
        timeline.view(clock::exact_now()).map(|view| view.verdict())
    });
    assert_eq!(verdict.expect("an event loop").expect("a view").name(), "connect");
}
