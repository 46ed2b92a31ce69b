//! Closed-loop HTTP/1.1 load, plain or by TLS: N connections, each with one request in flight. A paced run is an open loop:
//! requests are due at even times, and wait for a free connection when all are busy.
//!
//! One thread around one epoll instance, so that the generator costs little more than its system
//! calls. Every response is checked (status, body length and, where known, every byte). A run ends
//! by time, by count or on a signal, whichever is first, and then waits for the outstanding
//! responses.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};

use crate::pattern;
use crate::response::{Progress, ResponseError, ResponseReader};
use crate::wire::{Received, Tls, Wire};

mod outcome;

pub(crate) use outcome::{Loss, Outcome};

/// The requests of a run, and their correct responses.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub address: SocketAddr,
    /// Each connection requests them in rotation, from an individual start. Not empty.
    pub asks: Vec<TestRequest>,
    pub connections: usize,
    pub mode: Mode,
    pub loss_policy: LossPolicy,
}

/// A request and its correct response.
#[derive(Clone, Debug)]
pub(crate) struct TestRequest {
    /// Request target, such as `/index.html`.
    pub target: String,
    pub status: u16,
    pub body_bytes: u64,
    /// The body, where every byte is to be checked.
    pub body: Option<Arc<[u8]>>,
}

impl TestRequest {
    /// Expects status 200 and this number of body bytes of any value.
    pub(crate) fn counted(target: impl Into<String>, body_bytes: u64) -> TestRequest {
        TestRequest { target: target.into(), status: 200, body_bytes, body: None }
    }

    /// Expects status 200 and the target's pattern as body.
    pub(crate) fn checked(target: impl Into<String>, body_bytes: u64) -> TestRequest {
        let target = target.into();
        let body = pattern::body(target.as_bytes(), body_bytes).into();
        TestRequest { target, status: 200, body_bytes, body: Some(body) }
    }
}

/// How a request is treated whose connection ends before the first byte of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LossPolicy {
    /// As an error.
    Count,
    /// It is sent again over a new connection, as clients do (RFC 9112 section 9.3.1), at most
    /// [`RETRIES_MAX`] times. Its latency counts from the first time.
    Retry,
}

/// What happens to a connection after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It is used again until the server closes it.
    KeepAlive,
    /// Each request asks for `Connection: close`; connecting counts into the latency.
    Close,
}

/// The end of a run: the first of these bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub duration: Duration,
    pub requests_max: u64,
}

/// The connections of a plan; may run several times (a warm-up, then the measurement).
pub(crate) struct Load {
    plan: Plan,
    tls: Option<Tls>,
    /// One for each request of the plan.
    requests: Vec<Vec<u8>>,
    epoll: OwnedFd,
    connections: Vec<Connection>,
    buffer: Vec<u8>,
    /// What was decrypted of it.
    plain: Vec<u8>,
}

struct Connection {
    /// `None` before the first request, and after a loss.
    stream: Option<Wire>,
    reader: ResponseReader,
    /// Index of the request in progress or, between requests, of the last one.
    ask: usize,
    opened_at: Instant,
    sent_at: Instant,
    waiting: bool,
    /// A byte of the response in progress was not the expected one.
    damaged: bool,
    retries: u32,
}

/// Progress of one run.
struct Run<'a> {
    outcome: Outcome,
    bound: Bound,
    stop: &'a AtomicBool,
    started: Instant,
    issued: u64,
    waiting: usize,
    /// Connections that could not be opened or written to; they are tried again after a pause.
    parked: Vec<usize>,
    parked_until: Instant,
    /// Requests in a second, of a paced run.
    rate: Option<f64>,
    /// Connections of a paced run without a request.
    free: VecDeque<usize>,
}

impl Run<'_> {
    /// When the next request of a paced run is due.
    fn due(&self) -> Option<Instant> {
        let rate = self.rate?;
        Some(self.started + Duration::from_secs_f64(self.issued as f64 / rate))
    }

    /// How long to wait for events at most.
    fn patience(&self, now: Instant) -> Timespec {
        let longest = if self.parked.is_empty() { WAIT_MAX } else { WAIT_PARKED };
        let due = self.due().filter(|_| !self.free.is_empty() && self.may_issue(now));
        let wait = due.map_or(longest, |due| due.saturating_duration_since(now));
        let nanoseconds = i64::try_from(wait.as_nanos()).unwrap_or(i64::MAX);
        Timespec { tv_sec: 0, tv_nsec: nanoseconds.min(longest.as_nanos() as i64) }
    }

    fn may_issue(&self, now: Instant) -> bool {
        self.issued < self.bound.requests_max
            && now - self.started < self.bound.duration
            && !self.stop.load(Ordering::Relaxed)
    }

    fn park(&mut self, index: usize) {
        if self.parked.is_empty() {
            self.parked_until = Instant::now() + PARKING;
        }
        self.parked.push(index);
    }
}

impl Load {
    /// Prepares the plan. Connections are opened when first used.
    ///
    /// # Errors
    /// When the kernel gives no epoll instance.
    pub(crate) fn new(plan: Plan) -> io::Result<Load> {
        Load::over(plan, None)
    }

    /// The same by TLS, where settings are given.
    ///
    /// # Errors
    /// As [`Load::new`].
    pub(crate) fn over(plan: Plan, tls: Option<Tls>) -> io::Result<Load> {
        let connection_field = match plan.mode {
            Mode::KeepAlive => "",
            Mode::Close => "Connection: close\r\n",
        };
        let request = |ask: &TestRequest| {
            let TestRequest { target, .. } = ask;
            let address = plan.address;
            format!("GET {target} HTTP/1.1\r\nHost: {address}\r\n{connection_field}\r\n").into()
        };
        let now = Instant::now();
        let connection = |index: usize| Connection {
            stream: None,
            reader: ResponseReader::default(),
            ask: index * plan.asks.len() / plan.connections,
            opened_at: now,
            sent_at: now,
            waiting: false,
            damaged: false,
            retries: 0,
        };
        Ok(Load {
            requests: plan.asks.iter().map(request).collect(),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            connections: (0..plan.connections).map(connection).collect(),
            buffer: vec![0; READ_BYTES],
            plain: Vec::new(),
            plan,
            tls,
        })
    }

    /// Sends and checks until the bound is reached and all responses have arrived (at most
    /// [`DRAIN`] later).
    ///
    /// # Errors
    /// When epoll itself fails; errors of servers are counted in the outcome.
    pub(crate) fn run(&mut self, bound: Bound) -> io::Result<Outcome> {
        self.run_until(bound, &AtomicBool::new(false))
    }

    /// Like [`Load::run`], but starts no request either once `stop` is true.
    ///
    /// # Errors
    /// As [`Load::run`].
    pub(crate) fn run_until(&mut self, bound: Bound, stop: &AtomicBool) -> io::Result<Outcome> {
        self.drive(bound, stop, None)
    }

    /// An open loop of N requests per second. Latencies begin when a request was due, so that
    /// waiting times at a slow server count.
    ///
    /// # Errors
    /// As [`Load::run`].
    pub(crate) fn run_paced(&mut self, bound: Bound, rate: f64) -> io::Result<Outcome> {
        self.drive(bound, &AtomicBool::new(false), Some(rate.max(1.0)))
    }

    fn drive(&mut self, bound: Bound, stop: &AtomicBool, rate: Option<f64>) -> io::Result<Outcome> {
        let started = Instant::now();
        let mut run = Run {
            outcome: Outcome::default(),
            bound,
            stop,
            started,
            issued: 0,
            waiting: 0,
            parked: Vec::new(),
            parked_until: started,
            rate,
            free: VecDeque::new(),
        };
        for index in 0..self.connections.len() {
            self.begin(index, &mut run);
        }
        let mut events = Vec::with_capacity(EVENTS_PER_WAIT);
        let hard_end = started + bound.duration + DRAIN;
        loop {
            let now = Instant::now();
            let paced = run.rate.is_some();
            let expects_more = (paced || !run.parked.is_empty()) && run.may_issue(now);
            if (run.waiting == 0 && !expects_more) || now >= hard_end {
                break;
            }
            if expects_more && now >= run.parked_until {
                for index in std::mem::take(&mut run.parked) {
                    self.begin(index, &mut run);
                }
            }
            self.issue_due(&mut run, now);
            events.clear();
            let buffer = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, buffer, Some(&run.patience(now))) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                self.readable(event.data.u64() as usize, &mut run);
            }
        }
        self.abandon(&mut run);
        run.outcome.elapsed = started.elapsed();
        Ok(run.outcome)
    }

    /// Starts the next request of a connection, if the run has not ended; in a paced run the connection waits for one.
    fn begin(&mut self, index: usize, run: &mut Run<'_>) {
        let now = Instant::now();
        if run.rate.is_some() {
            run.free.push_back(index);
        } else if run.may_issue(now) {
            self.issue(index, run, now);
        }
    }

    /// Starts the requests that are due, as far as there are free connections.
    fn issue_due(&mut self, run: &mut Run<'_>, now: Instant) {
        while let Some(due) = run.due().filter(|due| *due <= now && run.may_issue(now))
            && let Some(index) = run.free.pop_front()
        {
            self.issue(index, run, due);
        }
    }

    /// Starts a request that was due at that time.
    fn issue(&mut self, index: usize, run: &mut Run<'_>, due: Instant) {
        run.issued += 1;
        let connection = &mut self.connections[index];
        connection.ask = (connection.ask + 1) % self.plan.asks.len();
        connection.sent_at = due;
        connection.retries = 0;
        self.send(index, run);
    }

    /// Sends a connection's request, over a new connection when there is none.
    fn send(&mut self, index: usize, run: &mut Run<'_>) {
        if self.connections[index].stream.is_none() {
            match self.connect(index) {
                Ok(is_resumed) => run.outcome.open(is_resumed),
                Err(error) => {
                    run.outcome.lose(Loss::Refused, Instant::now(), format!("connect: {error}"));
                    return run.park(index);
                }
            }
        }
        let connection = &mut self.connections[index];
        connection.damaged = false;
        let Some(stream) = &mut connection.stream else { return };
        let request = &self.requests[connection.ask];
        // A request is far smaller than an empty socket buffer: it is sent completely or not at all.
        let written = stream.send(request);
        connection.waiting = true;
        run.waiting += 1;
        match written {
            Ok(count) if count == request.len() => {}
            Ok(_) => self.give_up(index, run, "request written in part"),
            // The server closed an idle connection, as it may (keepalive_requests, timeouts).
            Err(error) => self.lose(index, run, &format!("write: {error}")),
        }
    }

    /// Returns whether the handshake resumed a session.
    fn connect(&mut self, index: usize) -> io::Result<bool> {
        let stream = Wire::connect(&self.plan.address, self.tls.as_ref(), CONNECT_TIMEOUT)?;
        let is_resumed = stream.is_resumed();
        let data = epoll::EventData::new_u64(index as u64);
        epoll::add(&self.epoll, &stream, data, epoll::EventFlags::IN)?;
        let connection = &mut self.connections[index];
        connection.stream = Some(stream);
        connection.reader = ResponseReader::default();
        connection.opened_at = Instant::now();
        Ok(is_resumed)
    }

    /// One read; epoll is level-triggered, so that the rest is reported again.
    fn readable(&mut self, index: usize, run: &mut Run<'_>) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        let Some(stream) = &mut connection.stream else { return };
        let progress = match stream.receive(&mut self.buffer, &mut self.plain) {
            Ok(Received::Nothing) => return,
            Ok(Received::End) if !connection.waiting => {
                connection.stream = None;
                return;
            }
            Ok(Received::End) => connection.reader.end(),
            Ok(Received::Bytes(bytes)) => match &self.plan.asks[connection.ask].body {
                None => connection.reader.feed(bytes),
                Some(expected) => {
                    let damaged = &mut connection.damaged;
                    connection.reader.feed_into(bytes, &mut |at, part| {
                        *damaged |= !is_part(expected, at, part);
                    })
                }
            },
            Err(error) if is_transient(&error) => return,
            Err(error) => return self.lose(index, run, &format!("read: {error}")),
        };
        match progress {
            Ok(Progress::Partial) => {}
            Ok(complete @ Progress::Complete { .. }) => self.complete(index, run, complete),
            Err(ResponseError::ClosedEarly) => {
                self.lose(index, run, "closed before the end of the response")
            }
            Err(fault) => self.give_up(index, run, &format!("{fault:?}")),
        }
    }

    fn complete(&mut self, index: usize, run: &mut Run<'_>, progress: Progress) {
        let Progress::Complete { status, body_bytes, close, hit } = progress else { return };
        let now = Instant::now();
        let connection = &mut self.connections[index];
        if !connection.waiting {
            return self.give_up(index, run, "response without a request");
        }
        connection.waiting = false;
        run.waiting -= 1;
        let ask = &self.plan.asks[connection.ask];
        if (status, body_bytes) == (ask.status, ask.body_bytes) && !connection.damaged {
            run.outcome.serve(index);
            run.outcome.hits += u64::from(hit);
            run.outcome.bytes += body_bytes;
            run.outcome.latency.record(now - connection.sent_at);
        } else {
            let is_object = status == ask.status && ask.body.is_some();
            let loss = if is_object { Loss::Damaged } else { Loss::Wrong };
            let damage = if connection.damaged { ", not the expected ones" } else { "" };
            let reason = format!("status {status}, {body_bytes} body bytes{damage}");
            run.outcome.lose(loss, now, reason);
        }
        if close || self.plan.mode == Mode::Close {
            connection.stream = None;
        }
        self.begin(index, run);
    }

    /// The connection ended under a request.
    fn lose(&mut self, index: usize, run: &mut Run<'_>, reason: &str) {
        let connection = &mut self.connections[index];
        let again = self.plan.loss_policy == LossPolicy::Retry
            && connection.waiting
            && connection.reader.is_untouched()
            && connection.retries < RETRIES_MAX;
        if !again {
            return self.give_up(index, run, reason);
        }
        connection.retries += 1;
        connection.stream = None;
        connection.waiting = false;
        run.waiting -= 1;
        run.outcome.reconnects += 1;
        self.send(index, run);
    }

    /// Counts a broken exchange and continues with a new connection.
    fn give_up(&mut self, index: usize, run: &mut Run<'_>, reason: &str) {
        let fresh = self.connections[index].reader.is_untouched();
        self.drop_connection(index, run, reason);
        if fresh {
            // Perhaps no server listens at the moment: not again at once.
            run.park(index);
        } else {
            self.begin(index, run);
        }
    }

    fn drop_connection(&mut self, index: usize, run: &mut Run<'_>, reason: &str) {
        let connection = &mut self.connections[index];
        let opened_at = connection.opened_at;
        let loss = if connection.damaged { Loss::Damaged } else { Loss::Broken { opened_at } };
        run.outcome.lose(loss, Instant::now(), reason);
        connection.stream = None;
        if std::mem::take(&mut connection.waiting) {
            run.waiting -= 1;
        }
    }

    /// Responses that did not arrive before the end are errors.
    fn abandon(&mut self, run: &mut Run<'_>) {
        for index in 0..self.connections.len() {
            if self.connections[index].waiting {
                self.drop_connection(index, run, "no response before the end of the run");
            }
        }
    }
}

/// Whether `part` equals `whole` at that offset.
pub(crate) fn is_part(whole: &[u8], at: u64, part: &[u8]) -> bool {
    let start = usize::try_from(at).ok();
    start.and_then(|start| whole.get(start..)?.get(..part.len())).is_some_and(|it| it == part)
}

/// Whether the socket call should be repeated.
pub(crate) fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Bytes taken by one read, as much as curl takes. The size decides whether sendfile or memory is cheaper
/// for the server on loopback: at 64 KiB and more sendfile is, since whole pages change hands.
const READ_BYTES: usize = 16 * 1024;
const EVENTS_PER_WAIT: usize = 256;
/// Longest delay of responses after the end of a run.
pub(crate) const DRAIN: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest time between two readings of the clock.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// While connections are parked, at least this often.
const WAIT_PARKED: Duration = Duration::from_millis(5);
/// Before a connection that could not be used is opened again.
const PARKING: Duration = Duration::from_millis(10);
/// A server that drops the same request this often does not serve it.
pub(crate) const RETRIES_MAX: u32 = 3;
