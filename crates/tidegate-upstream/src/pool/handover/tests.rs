//! Two threads and one origin.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc;

use tidegate_rt::net::Addr;
use tidegate_rt::timer::Deadline;
use tidegate_rt::{Worker, clock};

use super::*;
use crate::Io;
use crate::connection::dial;
use crate::peers::{BalancingMethod, Keepalive, ServerOptions};
use crate::pool;

fn group_of(address: SocketAddr) -> Arc<Group> {
    let server = ("origin".to_owned(), Addr::Inet(address), ServerOptions::default());
    let keepalive = Keepalive { local: false, ..Keepalive::DEFAULT };
    Arc::new(Group::new("g", BalancingMethod::RoundRobin, keepalive, vec![server], clock::now()))
}

const FIT: Fit = Fit { peer: 1, tag: 0, wire: 0, brief: false, local: None, tls: None };

async fn connected(address: SocketAddr) -> Box<OriginConnection> {
    let options = crate::connection::connect_options(None, false);
    let limit = Duration::from_secs(20);
    let stream = dial(&Addr::Inet(address), &options, limit).await.expect("a connection");
    Box::new(OriginConnection {
        io: Io::Plain(stream),
        deadline: Deadline::new(),
        opened: clock::now(),
        requests: 3,
        idle_announced: Some(Duration::from_secs(7)),
        place: None,
    })
}

/// Runs a task on a loop of its own, and returns the value that it sends; the loop continues until `end` is dropped.
fn on_thread<T: Send + 'static, F: Future<Output = T>>(
    name: &str,
    task: impl FnOnce() -> F + Send + 'static,
) -> (T, oneshot::Sender<()>) {
    let (sender, result) = mpsc::channel();
    let (end, ended) = oneshot::channel::<()>();
    let worker = Worker::run(name, None, |_| async move {
        let _ = sender.send(task().await);
        let _ = ended.await;
    });
    worker.expect("a thread");
    (result.recv_timeout(Duration::from_secs(20)).expect("a result"), end)
}

/// Waits until another thread reports a connection to spare.
async fn spared(group: &Group, fit: &Fit) -> Arc<PoolSummary> {
    loop {
        match owner(group, fit, clock::now()) {
            Some(owner) => return owner,
            None => tidegate_rt::yield_now().await,
        }
    }
}

#[test]
fn a_thread_without_connections_gets_that_of_another() {
    let origin = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = origin.local_addr().expect("an address");
    let group = group_of(address);
    let owned = group.clone();
    let ((), first) = on_thread("first", move || async move {
        let (connection, before) = (connected(address).await, clock::now());
        pool::give(&owned, FIT, connection, clock::now());
        // Not before it is known that it is not needed there.
        let reported = |after| owner(&owned, &FIT, before + after).is_some();
        assert!(!reported(Duration::ZERO) && reported(Duration::from_secs(60)));
    });
    let (mut accepted, _) = origin.accept().expect("the connection");
    assert_eq!(idle_of(&group), 1);
    // The origin's side of the very same connection.
    let responder = std::thread::spawn(move || {
        let mut heard = [0; 7];
        accepted.read_exact(&mut heard[..3]).expect("what was asked");
        accepted.write_all(b"one").expect("a response");
        accepted.read_exact(&mut heard[3..]).expect("what was asked");
        accepted.write_all(b"two").expect("a response");
        heard
    });
    let taking = group.clone();
    let (received, second) = on_thread("second", move || async move {
        // No thread has one that fits another server or another protocol.
        let owner = spared(&taking, &FIT).await;
        for other in [Fit { peer: 2, ..FIT }, Fit { tag: 9, ..FIT }, Fit { wire: 9, ..FIT }] {
            assert!(ask(owner.clone(), taking.id, other).await.is_none());
        }
        let connection = ask(owner.clone(), taking.id, FIT).await.expect("the connection");
        assert!(ask(owner, taking.id, FIT).await.is_none());
        assert!(connection.is_quiet() && connection.is_quiet_now());
        assert_eq!(
            (connection.requests, connection.idle_announced),
            (3, Some(Duration::from_secs(7)))
        );
        let stream = connection.io.plain().expect("no TLS");
        stream.write_all(b"ask").await.expect("written");
        let mut response = Vec::with_capacity(16);
        // It is watched by this loop now.
        while response.len() < 6 {
            let read = std::future::poll_fn(|context| {
                connection.io.poll_read_append(context, &mut response)
            });
            assert!(read.await.expect("bytes") > 0);
            if response == b"one" {
                stream.write_all(b"more").await.expect("written");
            }
        }
        pool::give(&taking, FIT, connection, clock::now());
        String::from_utf8(response)
    });
    assert_eq!(received, Ok("onetwo".to_owned()));
    assert_eq!(&responder.join().expect("the origin"), b"askmore");
    assert_eq!(idle_of(&group), 1);
    drop((first, second));
}
