//! The order of requests, against a model of an application: processes that accept connections in order, each of which
//! serves one until it is closed. Time is that of the model, so that results do not depend on the machine.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use tidegate_rt::clock;

use super::*;

/// A load, and the application it meets.
#[derive(Clone, Copy, Debug)]
struct Load {
    clients: usize,
    processes: usize,
    /// Clients of another server, which opens a connection for each request.
    foreign: usize,
    /// One request in so many takes fifty times as long; 0: none.
    slow_of: u64,
    /// Processes that are added in the middle.
    added: usize,
    requests: usize,
}

/// What became of it.
#[derive(Debug, Default)]
struct Served {
    opened: usize,
    /// Of this server's clients.
    counts: Vec<usize>,
    foreign: usize,
    waits: Vec<Duration>,
    /// Connections opened and time used in the second half.
    late: (usize, Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ask(usize),
    Done(usize),
    Idle(usize, u32),
    /// The end of a pause of the watch over those that wait here.
    Patience,
}

#[derive(Clone, Copy, Debug)]
struct Connection {
    client: usize,
    number: u64,
    sent: Duration,
    uses: u32,
}

/// The model: a server in front of the processes.
struct Model {
    load: Load,
    /// Connections are kept, in the order of the line; else each is closed, as nginx does.
    keeps: bool,
    now: Duration,
    start: Instant,
    events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    made: u64,
    random: u64,
    line: Line<u64>,
    numbers: u64,
    connections: Vec<Connection>,
    idle: Vec<usize>,
    accepting: VecDeque<usize>,
    free: usize,
    /// Clients of the requests that wait here.
    here: HashMap<u64, usize>,
    is_watched: bool,
    asked: Vec<Duration>,
    served: Served,
}

const SERVICE: Duration = Duration::from_millis(4);
const USES_MAX: u32 = 32;
const IDLE: Duration = Duration::from_millis(10);

impl Load {
    const fn of(clients: usize, processes: usize) -> Load {
        Load { clients, processes, foreign: 0, slow_of: 0, added: 0, requests: 10_000 }
    }

    fn run(self, keeps: bool) -> Served {
        let mut model = Model {
            load: self,
            keeps,
            now: Duration::ZERO,
            start: clock::now(),
            events: BinaryHeap::new(),
            made: 0,
            random: 1,
            line: Line::new(PATIENCE),
            numbers: 0,
            connections: Vec::new(),
            idle: Vec::new(),
            accepting: VecDeque::new(),
            free: self.processes,
            here: HashMap::new(),
            is_watched: false,
            asked: vec![Duration::ZERO; self.clients + self.foreign],
            served: Served { counts: vec![0; self.clients], ..Served::default() },
        };
        model.run();
        model.served
    }
}

impl Served {
    fn total(&self) -> usize {
        self.counts.iter().sum()
    }

    fn slowest_share(&self) -> f64 {
        let least = self.counts.iter().min().copied().unwrap_or(0);
        (least * self.counts.len()) as f64 / self.total() as f64
    }

    fn p99(&self) -> f64 {
        let mut waits = self.waits.clone();
        waits.sort_unstable();
        waits[waits.len() * 99 / 100].as_secs_f64()
    }

    fn opened_share(&self) -> f64 {
        self.opened as f64 / self.total() as f64
    }
}

impl Model {
    fn run(&mut self) {
        for client in 0..self.load.clients + self.load.foreign {
            self.at(Duration::from_micros(client as u64), Event::Ask(client));
        }
        let mut half = None;
        while self.served.total() + self.served.foreign < self.load.requests {
            let Some(Reverse((now, _, event))) = self.events.pop() else {
                panic!("all wait: {self}")
            };
            self.now = now;
            match event {
                Event::Ask(client) => self.ask(client),
                Event::Done(connection) => self.done(connection),
                Event::Idle(connection, uses) => self.expire(connection, uses),
                Event::Patience => self.watch(),
            }
            if half.is_none() && self.served.total() >= self.load.requests / 2 {
                half = Some((self.served.opened, now));
                self.free += self.load.added;
                self.accept();
            }
        }
        let (opened, at) = half.unwrap_or_default();
        self.served.late = (self.served.opened - opened, self.now - at);
    }

    fn at(&mut self, time: Duration, event: Event) {
        self.made += 1;
        self.events.push(Reverse((time, self.made, event)));
    }

    fn instant(&self) -> Instant {
        self.start + self.now
    }

    fn ask(&mut self, client: usize) {
        self.asked[client] = self.now;
        self.numbers += 1;
        let number = self.numbers;
        if client >= self.load.clients || !self.keeps {
            return self.open(client, number, Opening::Free);
        }
        if self.line.is_full() {
            match self.line.arrive(number, number) {
                Arrival::Opens(opening) => self.open(client, number, opening),
                Arrival::Waits => {
                    self.here.insert(number, client);
                    if !std::mem::replace(&mut self.is_watched, true) {
                        self.at(self.now + PATIENCE, Event::Patience);
                    }
                }
            }
        } else if let Some(connection) = self.idle.pop() {
            self.serve(connection, client, number);
        } else {
            self.open(client, number, Opening::Free);
        }
    }

    fn open(&mut self, client: usize, number: u64, opening: Opening) {
        let is_own = client < self.load.clients;
        self.served.opened += usize::from(is_own);
        if is_own && self.keeps {
            self.line.sent(number, opening, self.instant());
        }
        self.connections.push(Connection { client, number, sent: self.now, uses: 0 });
        self.accepting.push_back(self.connections.len() - 1);
        self.accept();
    }

    /// A process accepts the oldest connection.
    fn accept(&mut self) {
        while self.free > 0
            && let Some(connection) = self.accepting.pop_front()
        {
            self.free -= 1;
            self.begin(connection);
        }
    }

    fn begin(&mut self, connection: usize) {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let random = self.random >> 33;
        // Between a half and one and a half of the mean.
        let mut time = SERVICE / 2 + SERVICE * u32::try_from(random % 1024).unwrap_or(0) / 1024;
        if self.load.slow_of > 0 && (random >> 10).is_multiple_of(self.load.slow_of) {
            time *= 50;
        }
        self.connections[connection].uses += 1;
        self.at(self.now + time, Event::Done(connection));
    }

    fn serve(&mut self, connection: usize, client: usize, number: u64) {
        let uses = self.connections[connection].uses;
        self.connections[connection] = Connection { client, number, sent: self.now, uses };
        self.begin(connection);
    }

    fn done(&mut self, connection: usize) {
        let Connection { client, number, sent, uses } = self.connections[connection];
        let is_own = client < self.load.clients;
        if is_own {
            self.served.counts[client] += 1;
            self.served.waits.push(self.now - self.asked[client]);
        } else {
            self.served.foreign += 1;
        }
        if is_own && self.keeps {
            if uses == 1 {
                let gone = self.line.responded(number);
                self.open_all(gone);
            }
            let took = (self.now - sent, uses == 1);
            self.release(connection, number, took, uses < USES_MAX);
        } else {
            self.close();
        }
        self.at(self.now, Event::Ask(client));
    }

    fn release(&mut self, connection: usize, number: u64, took: (Duration, bool), may_keep: bool) {
        let now = self.instant();
        let (release, gone) = self.line.release(number, took, now, |_| may_keep);
        self.open_all(gone);
        match release {
            Release::Keep if may_keep => {
                self.idle.push(connection);
                let uses = self.connections[connection].uses;
                self.at(self.now + IDLE, Event::Idle(connection, uses));
            }
            Release::Keep | Release::Close => self.close(),
            Release::Open(waiter) => {
                self.close();
                self.turn(waiter, Opening::Turn);
            }
            Release::Hand(waiter) => {
                let client = self.here.remove(&waiter).expect("it waits");
                self.serve(connection, client, waiter);
            }
        }
    }

    fn close(&mut self) {
        self.free += 1;
        self.accept();
    }

    fn turn(&mut self, waiter: u64, opening: Opening) {
        let client = self.here.remove(&waiter).expect("it waits");
        self.open(client, waiter, opening);
    }

    fn open_all(&mut self, waiters: Vec<u64>) {
        for waiter in waiters {
            self.turn(waiter, Opening::Free);
        }
    }

    fn expire(&mut self, connection: usize, uses: u32) {
        if self.connections[connection].uses == uses
            && let Some(at) = self.idle.iter().position(|idle| *idle == connection)
        {
            self.idle.remove(at);
            self.close();
        }
    }

    fn watch(&mut self) {
        self.is_watched = !self.here.is_empty();
        if self.is_watched {
            let gone = self.line.lose_patience(self.instant());
            self.open_all(gone);
            self.at(self.now + PATIENCE, Event::Patience);
        }
    }
}

impl std::fmt::Display for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {:?}", self.load, self.line)
    }
}

/// Runs a load on both servers; checks the share of new connections, and the 99th percentile of the waits beside that of
/// a server that keeps no connection.
#[track_caller]
fn check(load: Load, opened_max: f64, p99_ratio_max: f64) -> Served {
    let (own, other) = (load.run(true), load.run(false));
    let (opened, ratio) = (own.opened_share(), own.p99() / other.p99());
    assert!(opened <= opened_max, "{load:?}: opened {opened}");
    assert!(ratio <= p99_ratio_max, "{load:?}: p99 {ratio}");
    own
}

#[test]
fn requests_are_served_in_order_over_kept_connections() {
    for (clients, processes) in [(64, 4), (64, 8), (200, 16), (20, 16), (10, 8), (9, 8), (8, 8)] {
        let served = check(Load::of(clients, processes), 0.06, 1.05);
        let share = served.slowest_share();
        assert!(share >= 0.9, "{clients} clients, {processes} processes: {share}");
    }
}

#[test]
fn no_client_waits_where_processes_are_free() {
    check(Load::of(64, 100), 0.05, 1.01);
    // Slow requests are not taken for waiting ones for long.
    check(Load { slow_of: 20, ..Load::of(12, 16) }, 0.06, 1.05);
    check(Load { slow_of: 3, ..Load::of(20, 100) }, 0.06, 1.05);
}

#[test]
fn few_or_slow_processes_cost_connections_but_no_time() {
    check(Load::of(8, 1), 1.0, 1.1);
    check(Load { slow_of: 20, ..Load::of(64, 8) }, 0.7, 1.05);
}

#[test]
fn another_server_of_the_same_processes_gets_its_part() {
    for slow_of in [0, 20] {
        let load = Load { foreign: 64, slow_of, ..Load::of(64, 8) };
        let served = check(load, 1.1, 1.5);
        let ratio = served.foreign as f64 / served.total() as f64;
        assert!((0.8..1.4).contains(&ratio), "{ratio}");
    }
    let served = check(Load { foreign: 8, ..Load::of(64, 8) }, 0.5, 1.6);
    assert!(served.foreign * 8 >= served.total() * 4 / 5, "{} {}", served.foreign, served.total());
}

#[test]
fn added_processes_are_found() {
    let load = Load { added: 24, ..Load::of(64, 8) };
    let (own, other) = (load.run(true).late.1, load.run(false).late.1);
    assert!(own < other * 3 / 2, "{own:?} {other:?}");
}

#[test]
fn a_slow_request_is_behind_only_after_four_times_as_long() {
    let (start, ms) = (clock::now(), Duration::from_millis);
    // The first one has waited for 8 ms when the second one ends.
    for (took, is_full) in [(ms(1), true), (ms(2), false), (ms(3), false)] {
        let mut line = Line::<u64>::new(PATIENCE);
        line.sent(1, Opening::Free, start);
        let (release, gone) = line.release(2, (took, false), start + ms(8), |_| true);
        assert_eq!((release == Release::Close, line.is_full()), (is_full, is_full), "{took:?}");
        assert_eq!(gone, []);
    }
}

#[test]
fn requests_before_and_accepted_ones_are_not_overtaken() {
    let (start, ms) = (clock::now(), Duration::from_millis);
    let mut line = Line::<u64>::new(PATIENCE);
    line.sent(5, Opening::Free, start);
    assert_eq!(line.release(4, (ms(1), false), start + ms(8), |_| true).0, Release::Keep);
    // A response on a connection behind it shows that the first one is served.
    line.sent(6, Opening::Free, start);
    line.responded(6);
    assert_eq!(line.release(7, (ms(1), false), start + ms(8), |_| true).0, Release::Keep);
    assert!(!line.is_full());
}

#[test]
fn who_leaves_before_it_has_a_process_frees_none() {
    let start = clock::now();
    let mut line = Line::<u64>::new(PATIENCE);
    for number in 1..=3 {
        line.sent(number, Opening::Free, start);
    }
    assert!(!line.leave_there(3), "the last one waits for a process");
    line.responded(2);
    assert!(line.leave_there(1), "a response behind it shows that it is served");
    assert!(line.leave_there(2), "served");
    line.sent(4, Opening::Turn, start);
    assert!(line.leave_there(4), "a process was free for it");
    assert_eq!(line.len(), 0);
}

#[test]
fn an_application_that_all_have_left_is_not_full() {
    let mut line = full();
    assert_eq!(line.arrive(10, 10), Arrival::Waits);
    line.leave_there(1);
    line.leave_there(3);
    assert!(line.is_full());
    line.leave_here(10);
    assert!(!line.is_full());
}

#[test]
fn more_than_the_most_do_not_wait_here() {
    let mut line = full();
    for number in 10..10 + HERE_MAX as u64 {
        assert_eq!(line.arrive(number, number), Arrival::Waits);
    }
    assert_eq!(line.arrive(9, 9), Arrival::Opens(Opening::Free));
}

#[test]
fn impatience_lets_all_open_connections() {
    let mut line = full();
    let released = line.released_last.expect("a release");
    assert_eq!(line.arrive(10, 10), Arrival::Waits);
    assert_eq!(line.arrive(11, 11), Arrival::Waits);
    assert_eq!(line.lose_patience(released + PATIENCE / 2), []);
    assert_eq!(line.lose_patience(released + PATIENCE), [10, 11]);
}

/// Returns a line of a full application, whose probe is out.
fn full() -> Line<u64> {
    let start = clock::now();
    let mut line = Line::new(PATIENCE);
    line.sent(1, Opening::Free, start);
    let now = start + Duration::from_millis(8);
    assert_eq!(line.release(2, (Duration::from_millis(1), false), now, |_| true).0, Release::Close);
    assert_eq!(line.arrive(3, 3), Arrival::Opens(Opening::Probe));
    line.sent(3, Opening::Probe, now);
    line
}
