//! The HTTP/1 driver over real sockets: a plan with one small module responds, raw bytes go in and come out.

#[path = "support/plan.rs"]
mod plan;

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::client::{Address, CancelCode, Client};
use tidegate_core::exchange::PieceSending;
use tidegate_core::{Body, Chunk, Step};
use tidegate_front::{Front, Shared};
use tidegate_plan::main_core::MainCore;
use tidegate_plan::module::{Arity, Contexts, Diagnostic, Directive, Entry, ErasedModule, Kind};
use tidegate_plan::{LocationBuilder, ReloadState};
use tidegate_plan::{Module, http_core::HttpCore};
use tidegate_rt::net::Listener;
use tidegate_rt::sync::oneshot;
use tidegate_rt::{Task, Worker, spawn_local};

/// `say TEXT;` responds 200 with the text; `echo;` with the request's body; `boom;` panics; `pieces N;` streams N
/// pieces of unknown total length; `drops N;` the same with an event-loop iteration before each, and for `/gathered`
/// they may wait for each other; `watch;` checks whether the client has closed and responds with the number of parked
/// connections; `quit;` gives the request up and responds nevertheless; `hold;` holds requests; `held;` responds with
/// the number of held requests, and releases them for `/go`.
struct Say;

#[derive(Default)]
struct Conf {
    text: Option<String>,
    echo: Option<()>,
    boom: Option<()>,
    pieces: Option<u64>,
    drops: Option<u64>,
    watch: Option<()>,
    quit: Option<()>,
    hold: Option<()>,
    held: Option<()>,
}

const fn row(
    name: &'static str,
    args: Arity,
    set: fn(&mut Conf, &tidegate_conf::Args<'_>) -> Result<(), Diagnostic>,
) -> Directive<Conf> {
    let contexts = Contexts::LOCATION;
    Directive {
        name,
        contexts,
        args,
        kind: Kind::Simple,
        default: "",
        doc: "test",
        has_effect: true,
        set,
    }
}

impl Module for Say {
    type Conf = Conf;
    const NAME: &'static str = "say";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[&[
        row("say", Arity::ONE, |conf, args| {
            conf.text = Some(args.text(0)?.to_owned());
            Ok(())
        }),
        row("echo", Arity::NONE, |conf, _| {
            conf.echo = Some(());
            Ok(())
        }),
        row("boom", Arity::NONE, |conf, _| {
            conf.boom = Some(());
            Ok(())
        }),
        row("watch", Arity::NONE, |conf, _| {
            conf.watch = Some(());
            Ok(())
        }),
        row("quit", Arity::NONE, |conf, _| {
            conf.quit = Some(());
            Ok(())
        }),
        row("hold", Arity::NONE, |conf, _| {
            conf.hold = Some(());
            Ok(())
        }),
        row("held", Arity::NONE, |conf, _| {
            conf.held = Some(());
            Ok(())
        }),
        row("pieces", Arity::ONE, |conf, args| {
            conf.pieces = Some(args.number(0, 0..=100)?);
            Ok(())
        }),
        row("drops", Arity::ONE, |conf, args| {
            conf.drops = Some(args.number(0, 0..=100)?);
            Ok(())
        }),
    ]];

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        if let Some(text) = conf.text.clone() {
            let bytes = Bytes::from(text);
            location.content(Box::new(move |_| Step::Respond(Body::from(bytes.clone()))));
        }
        if conf.echo.is_some() {
            location.content(Box::new(|x| {
                Step::Wait(Box::pin(async move {
                    let options = x.settings().body_store.clone();
                    match x.request.body.store(&options).await {
                        Ok(stored) => Step::Respond(Body::Chunks(stored.chunks().collect())),
                        Err(error) => Step::Status(error.status()),
                    }
                }))
            }));
        }
        if conf.watch.is_some() {
            location.content(Box::new(|x| {
                let client = x.client.clone();
                let waits = x.request.path != b"/now";
                Step::Wait(Box::pin(async move {
                    let look = std::future::poll_fn(|context| {
                        std::task::Poll::Ready(client.poll_closed(context).is_ready())
                    });
                    assert!(!look.await, "the client is there");
                    if waits {
                        tidegate_rt::yield_now().await;
                    }
                    let parked = FRONT
                        .with(|front| front.borrow().as_ref().map_or(0, |front| front.parked()));
                    Step::Respond(Body::from(Bytes::from(format!("parked: {parked}"))))
                }))
            }));
        }
        if conf.quit.is_some() {
            location.content(Box::new(|x| {
                x.client.cancel(CancelCode::Close);
                Step::Respond(Body::from(Bytes::from_static(b"too late")))
            }));
        }
        if conf.hold.is_some() {
            location.content(Box::new(|x| Step::Wait(Box::pin(hold(x.client.clone())))));
        }
        if conf.held.is_some() {
            location.content(Box::new(|x| {
                let held = HELD.with_borrow(Vec::len);
                if x.request.path == b"/go" {
                    HELD.take().into_iter().for_each(|held| held.send(()).unwrap_or_default());
                }
                Step::Respond(Body::from(Bytes::from(format!("held: {held}"))))
            }));
        }
        if conf.boom.is_some() {
            location.content(Box::new(|_| panic!("boom")));
        }
        if let Some(count) = conf.pieces {
            location
                .content(Box::new(move |_| Step::Respond(Body::Stream(Box::new(Pieces(count))))));
        }
        if let Some(count) = conf.drops {
            location.content(Box::new(move |x| {
                if x.request.path == b"/gathered" {
                    x.delivery.pieces = PieceSending::Gathered;
                }
                Step::Respond(Body::Stream(Box::new(Drops { left: count, others: None })))
            }));
        }
        Ok(())
    }
}

thread_local! {
    /// The front of the worker's thread.
    static FRONT: RefCell<Option<Rc<Front>>> = const { RefCell::new(None) };
    /// Requests that are held.
    static HELD: RefCell<Vec<oneshot::Sender<()>>> = const { RefCell::new(Vec::new()) };
}

/// Waits for a release, and closes the connection if the client closes before.
async fn hold(client: Rc<dyn Client>) -> Step<'static> {
    let (held, mut released) = oneshot::channel();
    HELD.with_borrow_mut(|all| all.push(held));
    let is_gone = std::future::poll_fn(|context| {
        if Pin::new(&mut released).poll(context).is_ready() {
            return Poll::Ready(false);
        }
        client.poll_closed(context).map(|()| true)
    });
    match is_gone.await {
        true => {
            // The task that held the request is no longer waiting.
            drop(released);
            HELD.with_borrow_mut(|all| all.retain(|held| !held.is_closed()));
            Step::Close
        }
        false => Step::Respond(Body::from(Bytes::from_static(b"released"))),
    }
}

struct Pieces(u64);

impl tidegate_core::BodyStream for Pieces {
    fn poll_chunk(
        &mut self,
        _context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Chunk, tidegate_core::BodyError>>> {
        if self.0 == 0 {
            return std::task::Poll::Ready(None);
        }
        self.0 -= 1;
        std::task::Poll::Ready(Some(Ok(Chunk::Bytes(Bytes::from_static(b"piece")))))
    }
}

struct Drops {
    left: u64,
    /// Done when the other tasks have run.
    others: Option<Task<()>>,
}

impl tidegate_core::BodyStream for Drops {
    fn poll_chunk(
        &mut self,
        context: &mut std::task::Context<'_>,
    ) -> Poll<Option<Result<Chunk, tidegate_core::BodyError>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let others = self.others.get_or_insert_with(|| spawn_local(tidegate_rt::yield_now()));
        let _ = std::task::ready!(Pin::new(others).poll(context));
        self.others = None;
        self.left -= 1;
        Poll::Ready(Some(Ok(Chunk::Bytes(Bytes::from_static(b"drop")))))
    }
}

static MODULES: &[&dyn ErasedModule] =
    &[&Entry::<MainCore>::NEW, &Entry::<HttpCore>::NEW, &Entry::<Say>::NEW];

/// Starts a server with `config` inside a `server` block; `listen` is added.
fn serve(config: &str) -> (Worker, SocketAddr) {
    let probe = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = probe.local_addr().expect("its address");
    let text = format!(
        "error_log stderr emerg; events {{}} http {{ server {{ listen {address}; {config} }} }}"
    );
    let plan = plan::whole(plan::compile(text, MODULES, "/tmp/", &ReloadState::default()));
    let worker = Worker::run("test", None, move |_| async move {
        let front = tidegate_front::open(plan, Arc::new(Shared::default()));
        FRONT.with(|place| place.replace(Some(front.clone())));
        probe.set_nonblocking(true).expect("non-blocking");
        let listener = Rc::new(Listener::from_fd(probe.into()).expect("a watched listener"));
        tidegate_front::accept_connections(front, listener, Address::Inet(address)).await;
    });
    (worker.expect("a worker"), address)
}

/// Sends `request` and returns everything received until the server closes.
fn talk(address: SocketAddr, request: &[u8]) -> String {
    let mut client = TcpStream::connect(address).expect("a connection");
    client.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit");
    client.write_all(request).expect("written");
    let mut response = Vec::new();
    client.read_to_end(&mut response).expect("closed by the server");
    let text = String::from_utf8_lossy(&response).into_owned();
    let lines = text.split("\r\n").filter(|line| !line.starts_with("Date: "));
    lines.filter(|line| !line.starts_with("Server: ")).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_request_that_was_given_up_ends_the_connection() {
    let (_worker, address) = serve("location / { say before; } location /quit { quit; }");
    let requests =
        ["/", "/quit", "/"].map(|path| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    let response = talk(address, requests.concat().as_bytes());
    assert_eq!(response, "HTTP/1.1 200 OK\nContent-Length: 6\nConnection: keep-alive\n\nbefore");
}

#[test]
fn serves_one_request() {
    let (_worker, address) = serve("location / { say hello; }");
    let response = talk(address, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(response, "HTTP/1.1 200 OK\nContent-Length: 5\nConnection: close\n\nhello");
}

#[test]
fn serves_pipelined_requests_in_order() {
    let (_worker, address) = serve("location /a { say A; } location /b { say B; }");
    let response = talk(
        address,
        b"GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(
        response,
        "HTTP/1.1 200 OK\nContent-Length: 1\nConnection: keep-alive\n\nA\
         HTTP/1.1 200 OK\nContent-Length: 1\nConnection: close\n\nB"
    );
}

#[test]
fn streams_in_chunks_and_closes_for_old_clients() {
    let (_worker, address) = serve("location / { pieces 2; }");
    let response = talk(address, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(response.ends_with("\n\n5\npiece\n5\npiece\n0\n\n"), "{response}");
    assert!(response.contains("Transfer-Encoding: chunked"), "{response}");
    let response = talk(address, b"GET / HTTP/1.0\r\n\r\n");
    assert_eq!(response, "HTTP/1.1 200 OK\nConnection: close\n\npiecepiece");
}

/// Counts the reads of a client until a response of twenty drops is complete: each drop that leaves by itself wakes it.
fn reads_of_drops(address: SocketAddr, path: &str) -> usize {
    let mut client = TcpStream::connect(address).expect("a connection");
    client.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit");
    client.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).expect("written");
    let (mut reads, mut response, mut buffer) = (0, Vec::new(), [0; 4096]);
    loop {
        let count = client.read(&mut buffer).expect("a response");
        if count == 0 {
            break;
        }
        reads += 1;
        response.extend_from_slice(&buffer[..count]);
    }
    assert!(response.ends_with("drop".repeat(20).as_bytes()));
    reads
}

#[test]
fn small_pieces_that_follow_soon_leave_together() {
    let (_worker, address) = serve("location / { drops 20; }");
    // A busy machine may let a client sleep, or let more than a millisecond pass.
    let gathered = (0..20).map(|_| reads_of_drops(address, "/gathered")).min();
    let alone = (0..20).map(|_| reads_of_drops(address, "/alone")).max();
    assert!(gathered < Some(3), "{gathered:?} reads");
    assert!(alone > gathered, "{alone:?} reads when nothing waits");
}

#[test]
fn reads_bodies_by_length_and_in_chunks() {
    let (_worker, address) = serve("client_body_buffer_size 1k; location / { echo; }");
    let tail = "Connection: close\r\n\r\n";
    let by_length = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n{tail}12345");
    assert!(talk(address, by_length.as_bytes()).ends_with("\n\n12345"));
    let chunked = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n{tail}3\r\nabc\r\n0\r\n\r\n"
    );
    assert!(talk(address, chunked.as_bytes()).ends_with("\n\nabc"));
    let bad = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n{tail}zz\r\nabc\r\n0\r\n\r\n"
    );
    assert!(talk(address, bad.as_bytes()).starts_with("HTTP/1.1 400 "));
}

#[test]
fn refuses_what_is_no_http() {
    let (_worker, address) = serve("client_max_body_size 1k; location / { echo; }");
    for (request, start) in [
        ("GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        ("G\0T / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 400 "),
        ("GET / HTTP/3.0\r\nHost: a\r\n\r\n", "HTTP/1.1 505 "),
        ("GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 400 "),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999\r\n\r\n", "HTTP/1.1 413 "),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 400 ",
        ),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", "HTTP/1.1 501 "),
    ] {
        let mut client = TcpStream::connect(address).expect("a connection");
        client.write_all(request.as_bytes()).expect("written");
        let _ = client.shutdown(std::net::Shutdown::Write);
        let mut response = String::new();
        client.read_to_string(&mut response).expect("closed by the server");
        assert!(response.starts_with(start), "{request:?}: {response}");
        assert!(response.contains("Connection: close"), "{request:?}: {response}");
    }
}

#[test]
fn a_panic_ends_one_connection() {
    let (_worker, address) = serve("location / { say ok; } location /boom { boom; }");
    let broken = talk(address, b"GET /boom HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(broken, "");
    let response = talk(address, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(response.ends_with("ok"), "{response}");
}

#[test]
fn head_has_no_body_and_a_length() {
    let (_worker, address) = serve("location / { say hello; }");
    let response = talk(address, b"HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(response, "HTTP/1.1 200 OK\nContent-Length: 5\nConnection: close\n\n");
}

/// Goal: a parked connection is served on the spot, also by a handler that watched for the client's close. Method: two
/// such requests on one connection, which stays parked behind its first one.
#[test]
fn a_parked_connection_is_served_without_a_task() {
    let (_worker, address) = serve("location / { watch; }");
    let mut client = connect(address);
    // The first one may be there before the connection is parked.
    ask(&mut client, "/now", "parked: ");
    client.read_exact(&mut [0]).expect("a number");
    for _ in 0..2 {
        ask(&mut client, "/now", "parked: 1");
    }
}

/// Goal: a request and the end of the client's sending that arrive together are both noticed. Method: both before
/// anything is read; the response, then the end.
#[test]
fn a_client_that_ends_with_its_request_gets_a_response_and_a_close() {
    let (_worker, address) = serve("location / { say ok; }");
    let mut client = TcpStream::connect(address).expect("a connection");
    client.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit");
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("written");
    client.shutdown(std::net::Shutdown::Write).expect("an end");
    let mut response = String::new();
    client.read_to_string(&mut response).expect("a response and its end");
    assert!(response.ends_with("ok"), "{response}");
}

/// Goal: a connection whose request had to wait is parked again at once; one whose requests follow each other keeps a
/// task until it has been idle. Method: a handler that waits responds with the number of parked connections; another
/// client sends the same request.
#[test]
fn a_checked_out_connection_is_parked_again() {
    let (_worker, address) = serve("location / { watch; }");
    let probe = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let mut client = connect(address);
    ask(&mut client, "/", "parked: 0");
    assert!(talk(address, probe).ends_with("parked: 1"));
    ask(&mut client, "/", "parked: 0");
    let deadline = tidegate_rt::clock::now() + Duration::from_secs(10);
    while !talk(address, probe).ends_with("parked: 1") {
        assert!(tidegate_rt::clock::now() < deadline, "not parked in time");
    }
    ask(&mut client, "/", "parked: 0");
}

/// Goal: what a client does while its connection is checked out is noticed. Method: a client that closes while its
/// request is held, then one that sends a second request behind it.
#[test]
fn events_of_a_checked_out_connection_reach_its_task() {
    let (_worker, address) = serve("location / { held; } location /hold { hold; }");
    let close = "HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let until_held = |count: usize| {
        let deadline = tidegate_rt::clock::now() + Duration::from_secs(10);
        let wanted = format!("held: {count}");
        while !talk(address, format!("GET / {close}").as_bytes()).ends_with(&wanted) {
            assert!(tidegate_rt::clock::now() < deadline, "not {wanted} in time");
        }
    };
    let request = b"GET /hold HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut leaver = connect(address);
    leaver.write_all(request).expect("written");
    until_held(1);
    drop(leaver);
    until_held(0);
    let mut client = connect(address);
    client.write_all(request).expect("written");
    until_held(1);
    client.write_all(request).expect("written");
    for _ in 0..2 {
        until_held(1);
        talk(address, format!("GET /go {close}").as_bytes());
        read_to(&mut client, "released");
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(address).expect("a connection");
    client.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit");
    client
}

/// Sends a request on a kept connection, and expects a response that ends with `expected`.
fn ask(client: &mut TcpStream, path: &str, expected: &str) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    client.write_all(request.as_bytes()).expect("written");
    read_to(client, expected);
}

fn read_to(client: &mut TcpStream, end: &str) {
    let mut response = Vec::new();
    let mut byte = [0; 1];
    while !response.ends_with(end.as_bytes()) {
        let read = client.read(&mut byte);
        assert_eq!(read.ok(), Some(1), "after {}", String::from_utf8_lossy(&response));
        response.push(byte[0]);
    }
}
