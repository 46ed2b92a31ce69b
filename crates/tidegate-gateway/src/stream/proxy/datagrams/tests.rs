//! Datagrams between a client and a server that are both in this process.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::Ipv4Addr;

use tidegate_rt::net::{Addr, ListenOptions};
use tidegate_rt::timer::sleep;

use super::*;

/// A client that has sent datagrams, and cannot be reached.
#[derive(Default)]
struct LostClient(RefCell<VecDeque<Vec<u8>>>);

impl Datagrams for LostClient {
    fn poll_receive(&self, _: &mut Context<'_>) -> Poll<Vec<u8>> {
        self.0.borrow_mut().pop_front().map_or(Poll::Pending, Poll::Ready)
    }

    fn send(&self, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::InvalidInput.into())
    }

    fn release(&self) {}
}

fn server() -> (Datagram, Addr) {
    let any = Addr::Inet((Ipv4Addr::LOCALHOST, 0).into());
    let server = Datagram::bind(&any, &ListenOptions::default()).expect("a port");
    let address = server.local_addr().expect("its address");
    (server, address)
}

fn passing<'s>(
    address: &Addr,
    report: &'s SharedReport,
    client: LostClient,
    up: Option<Rate>,
) -> Passing<'s> {
    let origin = Datagram::connect(address, &ConnectOptions::default()).expect("a socket");
    Passing {
        expected: Expected { requests: 0, responses: Some(1), timeout: Duration::from_millis(1) },
        client: Rc::new(client),
        origin: Rc::new(origin),
        report,
        requests: 0,
        responses: 0,
        traffic: Rc::default(),
        up,
        down: None,
        is_held: false,
    }
}

#[test]
fn a_client_that_cannot_be_reached_is_no_failure_of_the_server() {
    let end = tidegate_rt::block_on(async {
        let (server, address) = server();
        let report = SharedReport::default();
        let mut passing = passing(&address, &report, LostClient::default(), None);
        passing.expected.timeout = Duration::from_secs(3600);
        passing.upward(b"question").expect("a queue");
        let mut buffer = [0; 100];
        let (_, from) = server.receive_from(&mut buffer).await.expect("the question");
        server.send(b"response", from.as_ref()).await.expect("a queue");
        let idle = Deadline::new();
        idle.set_after(passing.expected.timeout);
        poll_fn(|context| passing.poll(context, &mut buffer, &idle)).await
    });
    assert!(matches!(end.expect("a loop"), End::ClientFailed(_)));
}

#[test]
fn datagrams_that_the_rate_holds_back_are_no_silence() {
    let is_open = tidegate_rt::block_on(async {
        let (_server, address) = server();
        let report = SharedReport::default();
        let client = LostClient(RefCell::new([b"next".to_vec()].into()));
        // A byte a second, of which a hundred are taken at once.
        let rate = Rate::new(1, GrantInterval::Seconds, clock::exact_now());
        let mut passing = passing(&address, &report, client, rate);
        passing.upward(&[0; 100]).expect("a queue");
        let idle = Deadline::new();
        idle.set_after(passing.expected.timeout);
        sleep(passing.expected.timeout * 5).await;
        let mut buffer = [0; 100];
        poll_fn(|context| Poll::Ready(passing.poll(context, &mut buffer, &idle).is_pending())).await
    });
    assert!(is_open.expect("a loop"));
}
