//! The load generator against the origin simulator, both in this process.

use std::io::Read;
use std::net::TcpListener;
use std::time::Duration;

use crate::load::{Bound, Load, Mode, Outcome, Plan};
use crate::origin::Origin;

/// 200 requests of a plan; the time bound only guards against a hang.
fn run(plan: Plan) -> Outcome {
    let bound = Bound { duration: Duration::from_secs(60), requests_max: 200 };
    Load::new(plan).expect("epoll").run(bound).expect("epoll")
}

fn plan(origin: &Origin, target: &str, mode: Mode, body_bytes: u64) -> Plan {
    let (address, target) = (origin.address(), target.to_owned());
    Plan { address, target, connections: 7, mode, status: 200, body_bytes }
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
fn wrong_answers_are_errors() {
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
    let target = "/".to_owned();
    let plan =
        Plan { address, target, connections: 1, mode: Mode::KeepAlive, status: 200, body_bytes: 0 };
    let bound = Bound { duration: Duration::from_secs(60), requests_max: 3 };
    let outcome = Load::new(plan).expect("epoll").run(bound).expect("epoll");
    assert_eq!((outcome.requests, outcome.errors), (0, 3));
    server.join().expect("the server's thread");
}

#[test]
fn slow_object_is_sent_whole_and_traced() {
    let origin = Origin::start().expect("a loopback port");
    let target = "/slow?ms=50&bytes=1000&chunks=10";
    let plan = Plan { connections: 3, ..plan(&origin, target, Mode::KeepAlive, 1000) };
    let bound = Bound { duration: Duration::from_secs(60), requests_max: 6 };
    let outcome = Load::new(plan).expect("epoll").run(bound).expect("epoll");
    assert_eq!((outcome.requests, outcome.errors), (6, 0), "{:?}", outcome.first_error);
    let traces = origin.sent(target);
    assert_eq!(traces.len(), 6);
    for trace in traces {
        assert_eq!(trace.last().map(|(_, bytes)| *bytes), Some(1000));
        assert!(trace.is_sorted());
    }
}
