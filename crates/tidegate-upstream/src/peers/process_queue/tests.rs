//! Requests that wait for processes, as tasks: each wait ends, and no turn is lost.

use std::future::poll_fn;
use std::task::Poll;

use tidegate_rt::net::Stream;
use tidegate_rt::timer::Deadline;
use tidegate_rt::{Task, spawn_local, yield_now};

use super::*;

type Waited = (QueuePlace, Option<Box<PackedConnection>>);

fn fit() -> Fit {
    Fit { peer: 1, tag: 0, wire: 0, brief: true, local: None, tls: None }
}

fn parcel() -> Box<PackedConnection> {
    let (stream, _) = Stream::pair().expect("two sockets");
    let now = clock::now();
    Box::new(PackedConnection {
        stream,
        deadline: Deadline::new(),
        opened: now,
        requests: 1,
        idle_announced: None,
        since: now,
        until: now,
    })
}

/// A queue whose application is full: one request was overtaken and called, and the probe is out.
struct Full {
    queue: Arc<ProcessQueue>,
    /// The first waits at the application, the probe has no connection yet.
    places: Vec<QueuePlace>,
    /// The moment at which further requests end, in front of which the probe cannot have its response, however busy the machine.
    now: Instant,
}

impl Full {
    /// On a busy machine no client loses patience.
    async fn new() -> Full {
        Full::of(Duration::from_secs(3600)).await
    }

    async fn of(patience: Duration) -> Full {
        let queue = Arc::new(ProcessQueue::new(patience));
        let start = clock::exact_now();
        let mut first = queue.enter(start);
        first.send(true, start);
        // Another arrives and ends while the first one waits: it takes no time.
        let mut second = queue.enter(start);
        let later = start + Duration::from_millis(1);
        second.send(false, later);
        assert!(matches!(second.release(&fit(), later), Next::Close));
        second.settle();
        assert!(queue.is_full());
        let (probe, none) = queue.wait(fit(), false).await;
        assert!(none.is_none());
        Full { queue, places: vec![first, probe], now: later }
    }

    /// Starts a wait, and returns when it is in the line.
    async fn begin(&self, careful: bool) -> Task<Waited> {
        let queue = self.queue.clone();
        let before = self.len();
        let task = spawn_local(async move { queue.wait(fit(), careful).await });
        while self.len() == before {
            yield_now().await;
        }
        task
    }

    fn len(&self) -> usize {
        self.queue.waiting.load(Ordering::Relaxed)
    }

    /// Ends a request that takes no time; returns who gets its connection.
    fn end(&self) -> Option<Waiter> {
        let place = self.queue.enter(self.now);
        let next = place.release(&fit(), self.now);
        place.settle();
        match next {
            Next::Hand(waiter) => Some(waiter),
            Next::Keep | Next::Close => None,
        }
    }
}

fn run<T>(test: impl Future<Output = T>) -> T {
    tidegate_rt::block_on(test).expect("a loop")
}

#[test]
fn a_connection_goes_to_the_oldest_that_waits() {
    run(async {
        let full = Full::new().await;
        let (older, newer) = (full.begin(false).await, full.begin(false).await);
        full.end().expect("one waits").hand(parcel()).expect("it is there");
        let (mut place, connection) = older.await.expect("its turn");
        assert!(connection.is_some());
        place.send(false, clock::exact_now());
        // Dropped, it passes the process on; the next one opens a connection of its own.
        drop(place);
        assert!(newer.await.expect("its turn").1.is_none());
    });
}

#[test]
fn a_careful_request_opens_a_connection_in_its_turn() {
    run(async {
        let full = Full::new().await;
        let careful = full.begin(true).await;
        assert!(full.end().is_none(), "its connection is closed");
        assert!(careful.await.expect("its turn").1.is_none());
    });
}

#[test]
fn who_leaves_the_line_is_not_called() {
    run(async {
        let full = Full::new().await;
        let (leaves, stays) = (full.begin(false).await, full.begin(false).await);
        let before = full.len();
        leaves.abort();
        while full.len() == before {
            yield_now().await;
        }
        full.end().expect("one waits").hand(parcel()).expect("it is there");
        assert!(stays.await.expect("its turn").1.is_some());
    });
}

#[test]
fn a_turn_that_comes_too_late_goes_to_the_next() {
    run(async {
        let full = Full::new().await;
        let (leaves, stays) = (full.begin(false).await, full.begin(false).await);
        full.end().expect("one waits").hand(parcel()).expect("it is there");
        // It has its turn, and ends before it takes notice.
        leaves.abort();
        assert!(stays.await.expect("its turn").1.is_none());
    });
}

#[test]
fn a_turn_between_two_threads_is_given_once() {
    run(async {
        let full = Full::new().await;
        let (leaves, stays) = (full.begin(false).await, full.begin(false).await);
        let waiter = full.end().expect("one waits");
        // It leaves while the turn is on its way: the sender passes it on.
        leaves.abort();
        assert!(leaves.await.is_err());
        assert!(!stays.is_finished());
        let parcel = waiter.hand(parcel()).expect_err("it has left");
        full.end().expect("the next one").hand(parcel).expect("it is there");
        assert!(stays.await.expect("its turn").1.is_some());
    });
}

#[test]
fn a_connection_that_is_lost_costs_no_second_turn() {
    run(async {
        let full = Full::new().await;
        let (older, newer) = (full.begin(false).await, full.begin(false).await);
        full.end().expect("one waits").hand(parcel()).expect("it is there");
        let (mut place, _) = older.await.expect("its turn");
        let now = clock::exact_now();
        place.send(false, now);
        // The process has closed it. The request keeps its turn, on a connection of its own.
        let mut place = place.send_again();
        place.send(true, now);
        for _ in 0..3 {
            yield_now().await;
        }
        assert!(!newer.is_finished());
        place.responded();
        drop(place);
        assert!(newer.await.expect("its turn").1.is_none());
    });
}

#[test]
fn who_leaves_without_a_process_gives_no_turn() {
    run(async {
        let mut full = Full::new().await;
        let waits = full.begin(false).await;
        let mut probe = full.places.pop().expect("a probe");
        probe.send(true, clock::exact_now());
        drop(probe);
        for _ in 0..3 {
            yield_now().await;
        }
        assert!(!waits.is_finished(), "no process is free");
        // The first one had been called.
        full.places.clear();
        assert!(waits.await.expect("its turn").1.is_none());
    });
}

#[test]
fn a_wait_ends_without_any_connection_that_comes_free() {
    run(async {
        let full = Full::of(PATIENCE).await;
        let queue = full.queue.clone();
        // Their places are kept: the application stays full.
        let mut places = Vec::new();
        for _ in 0..2 {
            for wait in [full.begin(false).await, full.begin(false).await] {
                let (place, connection) = wait.await.expect("its turn");
                assert!(connection.is_none());
                places.push(place);
            }
            // The next ones are watched again.
            while patience::find(&queue).is_some() {
                yield_now().await;
            }
        }
    });
}

#[test]
fn no_client_waits_when_a_probe_shows_a_free_process() {
    run(async {
        let mut full = Full::new().await;
        let waiting = full.begin(false).await;
        let mut probe = full.places.pop().expect("a probe");
        probe.send(true, clock::exact_now());
        probe.responded();
        assert!(!full.queue.is_full());
        assert!(waiting.await.expect("its turn").1.is_none());
        full.places.clear();
        assert_eq!(full.len(), 0);
    });
}

#[test]
fn a_connection_is_handed_to_another_thread() {
    let (sender, queues) = std::sync::mpsc::channel::<(Arc<ProcessQueue>, Instant)>();
    let waiter = std::thread::spawn(move || {
        run(async move {
            let full = Full::new().await;
            let mut wait = Box::pin(full.queue.wait(fit(), false));
            // Polled once, it is in the line.
            let is_waiting =
                poll_fn(|context| Poll::Ready(wait.as_mut().poll(context).is_pending())).await;
            assert!(is_waiting);
            sender.send((full.queue.clone(), full.now)).expect("the other thread");
            wait.await.1.is_some()
        })
    });
    let (queue, now) = queues.recv().expect("a queue");
    run(async move {
        let place = queue.enter(now);
        let Next::Hand(waiter) = place.release(&fit(), now) else { panic!("one waits") };
        waiter.hand(parcel()).expect("it is there");
        place.settle();
    });
    assert!(waiter.join().expect("no panic"));
}

#[test]
fn an_address_has_one_line() {
    let address = |port| Addr::Inet((std::net::Ipv4Addr::LOCALHOST, port).into());
    let queue = ProcessQueue::of(&address(1));
    assert!(Arc::ptr_eq(&queue, &ProcessQueue::of(&address(1))));
    assert!(!Arc::ptr_eq(&queue, &ProcessQueue::of(&address(2))));
}
