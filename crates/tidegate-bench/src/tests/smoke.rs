//! The load generator against the origin simulator, both in this process.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType};

use crate::load::{Bound, Load, Loss, LossPolicy, Mode, Outcome, Plan, TestRequest};
use crate::options::Suite;
use crate::origin::Origin;
use crate::probe;
use crate::suites::{Context, cases, measure};

use super::with_nginx_in_both_places;

/// 200 requests of a plan; the time bound only guards against a hang.
fn run(plan: Plan) -> Outcome {
    let bound = Bound { duration: Duration::from_secs(60), requests_max: 200 };
    Load::new(plan).expect("epoll").run(bound).expect("epoll")
}

fn plan(origin: &Origin, target: &str, mode: Mode, body_bytes: u64) -> Plan {
    let asks = vec![TestRequest::checked(target, body_bytes)];
    let address = origin.address();
    Plan { address, asks, connections: 7, mode, loss_policy: LossPolicy::Count }
}

#[test]
fn two_hundred_requests_either_way() {
    let origin = Origin::start().expect("a loopback port");
    for (target, mode, bytes) in [
        ("/bytes?n=1024", Mode::KeepAlive, 1024),
        ("/bytes?n=0", Mode::KeepAlive, 0),
        ("/bytes?n=3000000", Mode::KeepAlive, 3_000_000),
        ("/bytes?n=1025", Mode::Close, 1025),
    ] {
        let outcome = run(plan(&origin, target, mode, bytes));
        assert_eq!(outcome.first_error, None, "{target}");
        assert_eq!((outcome.requests, outcome.errors), (200, 0), "{target}");
        assert_eq!(outcome.bytes, 200 * bytes);
        assert_eq!(origin.requests(target), 200);
        assert!(outcome.latency.quantile(0.5) <= outcome.latency.quantile(0.99));
        assert!(outcome.latency.quantile(0.99) <= outcome.latency.maximum());
        assert!(outcome.requests_per_second() > 0.0);
    }
}

#[test]
fn wrong_responses_are_errors() {
    let origin = Origin::start().expect("a loopback port");
    let outcome = run(plan(&origin, "/bytes?n=5", Mode::KeepAlive, 6));
    assert_eq!((outcome.requests, outcome.errors), (0, 200));
    assert_eq!(outcome.first_error.as_deref(), Some("status 200, 5 body bytes"));
    let outcome = run(plan(&origin, "/nothing", Mode::KeepAlive, 0));
    assert_eq!((outcome.requests, outcome.errors), (0, 200));
    assert_eq!(outcome.first_error.as_deref(), Some("status 404, 0 body bytes"));
}

#[test]
fn server_that_hangs_up_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
    let address = listener.local_addr().expect("an address");
    let server = std::thread::spawn(move || {
        for _ in 0..3 {
            let (mut stream, _) = listener.accept().expect("a client");
            let _ = stream.read(&mut [0; 1024]);
        }
    });
    let plan = Plan {
        address,
        asks: vec![TestRequest::counted("/", 0)],
        connections: 1,
        mode: Mode::KeepAlive,
        loss_policy: LossPolicy::Count,
    };
    let bound = Bound { duration: Duration::from_secs(60), requests_max: 3 };
    let outcome = Load::new(plan).expect("epoll").run(bound).expect("epoll");
    assert_eq!((outcome.requests, outcome.errors), (0, 3));
    server.join().expect("the server's thread");
}

#[test]
fn slow_object_is_sent_completely_and_traced() {
    let origin = Origin::start().expect("a loopback port");
    let target = "/slow?ms=50&bytes=1000&chunks=10";
    let plan = Plan { connections: 3, ..plan(&origin, target, Mode::KeepAlive, 1000) };
    let bound = Bound { duration: Duration::from_secs(60), requests_max: 6 };
    let outcome = Load::new(plan).expect("epoll").run(bound).expect("epoll");
    assert_eq!((outcome.requests, outcome.errors), (6, 0), "{:?}", outcome.first_error);
    let traces = origin.take_traces();
    assert_eq!(traces.len(), 6);
    for trace in traces {
        assert_eq!(trace.target, target.as_bytes());
        assert_eq!(trace.sent.last().map(|(_, bytes)| *bytes), Some(1000));
        assert!(trace.sent.is_sorted());
        assert!(trace.sent[0].0 >= trace.begun);
    }
    assert!(origin.take_traces().is_empty());
}

#[test]
fn asks_take_turns() {
    let origin = Origin::start().expect("a loopback port");
    let targets = ["/bytes?n=10&other=1", "/bytes?n=2000&other=1"];
    let asks = vec![TestRequest::checked(targets[0], 10), TestRequest::checked(targets[1], 2000)];
    let outcome = run(Plan { asks, ..plan(&origin, "/", Mode::KeepAlive, 0) });
    assert_eq!((outcome.requests, outcome.errors), (200, 0), "{:?}", outcome.first_error);
    let asked = targets.map(|target| origin.requests(target));
    assert_eq!(asked[0] + asked[1], 200);
    assert!(asked[0].abs_diff(asked[1]) <= 7, "{asked:?}");
}

#[test]
fn foreign_bytes_are_damage() {
    let origin = Origin::start().expect("a loopback port");
    let mut ask = TestRequest::checked("/bytes?n=5000", 5000);
    let mut body = ask.body.as_deref().expect("checked").to_vec();
    body[4321] ^= 1;
    ask.body = Some(body.into());
    let outcome = run(Plan { asks: vec![ask.clone()], ..plan(&origin, "/", Mode::KeepAlive, 0) });
    assert_eq!((outcome.requests, outcome.errors, outcome.damaged), (0, 200, 200));
    let response = probe::ask(origin.address(), &ask.target, PATIENCE).expect("a response");
    assert!(!response.suits(&ask));
    assert!(response.suits(&TestRequest::checked("/bytes?n=5000", 5000)));
}

/// A server that responds to each first request of a connection and drops the second.
fn forgetful_server(connections: usize) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
    let address = listener.local_addr().expect("an address");
    let server = std::thread::spawn(move || {
        for _ in 0..connections {
            let (mut stream, _) = listener.accept().expect("a client");
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            let _ = stream.read(&mut [0; 1024]);
        }
    });
    (address, server)
}

#[test]
fn requests_without_response_are_counted_or_sent_again() {
    for (loss_policy, requests, errors, reconnects) in
        [(LossPolicy::Count, 2, 1, 0), (LossPolicy::Retry, 3, 0, 2)]
    {
        let (address, server) = forgetful_server(requests as usize);
        let asks = vec![TestRequest::counted("/", 2)];
        let plan = Plan { address, asks, connections: 1, mode: Mode::KeepAlive, loss_policy };
        let bound = Bound { duration: Duration::from_secs(60), requests_max: 3 };
        let mut load = Load::new(plan).expect("epoll");
        let began = Instant::now();
        let outcome = load.run(bound).expect("epoll");
        assert_eq!((outcome.requests, outcome.errors), (requests, errors), "{loss_policy:?}");
        assert_eq!(outcome.reconnects, reconnects);
        // Connections open at the time may break; those opened later may not.
        assert_eq!(outcome.unexplained(began, Instant::now()), 0);
        assert_eq!(outcome.unexplained(began, began), errors);
        drop(load);
        server.join().expect("the server's thread");
    }
}

#[test]
fn refused_connections_are_retried_until_stopped() {
    // Bound, but not listening: connections are refused, and no other process gets the port.
    let (address, _held) = refusing_address();
    let asks = vec![TestRequest::counted("/", 0)];
    let loss_policy = LossPolicy::Retry;
    let plan = Plan { address, asks, connections: 2, mode: Mode::KeepAlive, loss_policy };
    let bound = Bound { duration: Duration::from_secs(60), requests_max: 6 };
    let outcome = Load::new(plan.clone()).expect("epoll").run(bound).expect("epoll");
    assert_eq!((outcome.requests, outcome.errors, outcome.reconnects), (0, 6, 0));
    assert!(outcome.losses.iter().all(|(_, loss)| *loss == Loss::Refused));
    let stopped = AtomicBool::new(true);
    let outcome = Load::new(plan).expect("epoll").run_until(bound, &stopped).expect("epoll");
    assert_eq!((outcome.requests, outcome.errors), (0, 0));
}

fn refusing_address() -> (SocketAddr, OwnedFd) {
    let held =
        rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    let any_port = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
    rustix::net::bind(&held, &any_port).expect("a free port");
    let name = rustix::net::getsockname(&held).expect("a name");
    (SocketAddr::try_from(name).expect("an IPv4 address"), held)
}

/// The basis of both suites, with genuine nginx in Tidegate's place.
#[test]
fn steady_suite_with_nginx() {
    let line = ["steady", "--seconds", "1", "--connections", "4"];
    let Some((context, _)) = with_nginx_in_both_places(&line) else { return };
    let context = Context { nginx: None, ..context };
    let reports = measure(&context, &cases(Suite::Steady), |_| ());
    let figure = |case: &str, name: &str| {
        let mut rows = reports.iter().flat_map(|report| &report.rows);
        let row = rows.find(|row| row.case == case && row.measure.name == name);
        let figures = &row.expect("the case has the measure").tidegate;
        *figures.first().unwrap_or_else(|| panic!("{case} failed: {reports:#?}"))
    };
    assert!(figure("reload", "reloads") >= 1.0);
    assert_eq!(figure("reload", "failed requests"), 0.0);
    // nginx's worker is another one after a reload, and the suite has to see that.
    assert!(figure("reload", "worker changes") >= 1.0);
    assert_ne!(figure("reload", "worker pid before"), figure("reload", "worker pid after"));
    assert!(figure("reload", "memory at the end") > 0.0);
    assert_ne!(figure("crash", "worker pid before"), figure("crash", "worker pid after"));
    assert!(figure("crash", "failed requests") <= 4.0);
    for name in [
        "of them unexplained",
        "damaged bodies",
        "responses not a HIT",
        "origin requests",
        "master changes",
    ] {
        assert_eq!(figure("crash", name), 0.0, "{name}");
    }
}

/// The busy clients of each sort, with genuine nginx in both places.
#[test]
fn fairness_suite_with_nginx() {
    let line = ["fairness", "--seconds", "0.1", "--rounds", "1"];
    let Some((context, _)) = with_nginx_in_both_places(&line) else { return };
    // Without those that keep nginx from the quiet client, take all its connections, or move hundreds of megabytes.
    let kinds = ["alone", "chunks", "tunnel", "parts", "tls"];
    let mut chosen = cases(Suite::Fairness);
    chosen.retain(|case| kinds.contains(&case.name()));
    for report in measure(&context, &chosen, |_| ()) {
        for row in &report.rows {
            let figures = (row.tidegate.len(), row.nginx.len());
            assert_eq!(figures, (1, 1), "{}: {}: {report:#?}", row.case, row.measure.name);
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(60);
