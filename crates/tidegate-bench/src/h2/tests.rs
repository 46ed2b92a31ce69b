//! The client, the load and the core's loop against the origin, in this process.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use super::client::{Ask, Buffers, Client, ECHO, Response, wide};
use super::core_loop;
use super::load::{Load, Plan};
use super::origin::Origin;
use crate::load::{Bound, Outcome};

const PATIENCE: Duration = Duration::from_secs(60);

/// 300 requests of a plan; the time only guards against a hang.
fn run(origin: &Origin, asks: Vec<Ask>) -> Outcome {
    let address = origin.address();
    let plan = Plan { address, tls: None, asks, connections: 3, streams: 7 };
    let bound = Bound { duration: PATIENCE, requests_max: 300 };
    Load::new(plan).expect("epoll").run(bound).expect("epoll")
}

#[test]
fn three_hundred_requests_over_three_connections() {
    let origin = Origin::start().expect("a loopback port");
    for (asks, bytes) in [
        (vec![Ask::get("/bytes?n=12", 12)], 12),
        (vec![Ask::get("/bytes?n=0", 0)], 0),
        (vec![Ask::get("/bytes?n=300000", 300_000)], 300_000),
        (vec![Ask::echo(100)], 105),
        (vec![Ask::get("/slow?ms=2&bytes=9&chunks=1", 9)], 9),
        (vec![Ask::get("/bytes?n=0&other=1", 0), Ask::get("/bytes?n=2", 2)], 1),
    ] {
        origin.forget();
        let target = asks[0].target.clone();
        // Each connection alternates by itself: of an odd number of requests, one kind has one more.
        let uneven = if asks.len() > 1 { 3 * bytes } else { 0 };
        let outcome = run(&origin, asks);
        assert_eq!(outcome.first_error, None, "{target}");
        assert_eq!((outcome.requests, outcome.errors, outcome.opened), (300, 0, 3), "{target}");
        assert!(outcome.bytes.abs_diff(300 * bytes) <= uneven, "{target}: {}", outcome.bytes);
        let seen = origin.seen();
        assert_eq!(seen.requests, 300, "{target}");
        // Other responses are complete before the streams are counted.
        let least = if target.starts_with("/slow") { 7 } else { 0 };
        assert!((least..=3 * 7).contains(&seen.streams_max), "{target}: {seen:?}");
        assert!(outcome.latency.quantile(0.5) <= outcome.latency.maximum());
    }
}

#[test]
fn wrong_responses_are_errors() {
    let origin = Origin::start().expect("a loopback port");
    for (ask, error) in [
        (Ask::get("/bytes?n=5", 6), "status 200, 5 body bytes"),
        (Ask::get("/nothing", 0), "status 404, 0 body bytes"),
        (Ask { target: "/bytes?n=5".to_owned(), ..Ask::echo(0) }, "call failed, 5 body bytes"),
    ] {
        let outcome = run(&origin, vec![ask]);
        assert_eq!((outcome.requests, outcome.errors), (0, 300), "{error}");
        assert_eq!(outcome.first_error.as_deref(), Some(error));
    }
}

#[test]
fn a_server_of_another_protocol_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
    let address = listener.local_addr().expect("an address");
    let server = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a client");
        socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("a client that reads");
        socket.read_to_end(&mut Vec::new())
    });
    let config = wide(1);
    let mut client = Client::connect(address, None, &config, PATIENCE).expect("a connection");
    let ask = Ask::get("/bytes?n=5", 5);
    let fetched = client.fetch(&ask, &mut Buffers::default(), PATIENCE);
    assert!(fetched.is_err_and(|error| error.kind() != std::io::ErrorKind::TimedOut));
    drop(client);
    let _ = server.join().expect("the server's thread");
}

#[test]
fn a_client_fetches_one_response_after_the_other() {
    let origin = Origin::start().expect("a loopback port");
    let config = wide(1);
    let connected = Client::connect(origin.address(), None, &config, PATIENCE);
    let (mut client, mut buffers) = (connected.expect("a connection"), Buffers::default());
    for ask in [Ask::get("/bytes?n=70000", 70_000), Ask::echo(0), Ask::get("/bytes?n=1", 1)] {
        let response = client.fetch(&ask, &mut buffers, PATIENCE).expect("a response");
        assert!(response.suits(&ask), "{ask:?}: {response:?}");
    }
    assert_eq!(origin.seen().connections_max, 1);
}

#[test]
fn a_call_needs_its_status() {
    let ask = Ask::echo(3);
    assert_eq!((ask.target.as_str(), ask.body_bytes), (ECHO, 8));
    let response = Response { status: 200, body_bytes: 8, is_done_by_grpc: true };
    assert!(response.suits(&ask));
    assert!(!Response { is_done_by_grpc: false, ..response }.suits(&ask));
    assert!(!Response { body_bytes: 7, ..response }.suits(&ask));
}

#[test]
fn a_common_request_allocates_nothing_in_the_core() {
    let recorded = core_loop::record(40).expect("both ends agree");
    let mut before = 0;
    let served = recorded.replay(|| before = tidegate_os::counted::allocations());
    let after = tidegate_os::counted::allocations();
    assert_eq!(served, Ok(30 * core_loop::STREAMS as u64));
    assert_eq!(after - before, 0, "allocations for {served:?} requests");
}
