//! Closed-loop HTTP/1.1 load: N connections, each with one request in flight.
//!
//! One thread around one epoll instance, so that the generator costs little more than its system
//! calls. Every response is checked (status and body length). A run ends by time or by count,
//! whichever comes first, and then waits for the answers that are still due.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};

use crate::histogram::Histogram;
use crate::response::{Progress, ResponseReader};

/// What is asked, and which answer is right.
#[derive(Clone, Debug)]
pub struct Plan {
    pub address: SocketAddr,
    /// Request target, such as `/index.html`.
    pub target: String,
    pub connections: usize,
    pub mode: Mode,
    pub status: u16,
    pub body_bytes: u64,
}

/// What happens to a connection after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It is used again until the server closes it.
    KeepAlive,
    /// Each request asks for `Connection: close`; connecting counts into the latency.
    Close,
}

/// The end of a run: whichever comes first.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    pub duration: Duration,
    pub requests_max: u64,
}

/// What a run saw.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Right answers.
    pub requests: u64,
    /// Wrong, broken or missing answers.
    pub errors: u64,
    /// Body bytes of right answers.
    pub bytes: u64,
    /// From the first request to the last answer.
    pub elapsed: Duration,
    pub latency: Histogram,
    /// The first error in words.
    pub first_error: Option<String>,
}

impl Outcome {
    /// Right answers in a second.
    pub fn requests_per_second(&self) -> f64 {
        self.requests as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    fn error(&mut self, reason: impl Into<String>) {
        self.errors += 1;
        self.first_error.get_or_insert_with(|| reason.into());
    }
}

/// The connections of a plan; may run several times (a warm-up, then the measurement).
pub struct Load {
    plan: Plan,
    request: Vec<u8>,
    epoll: OwnedFd,
    connections: Vec<Connection>,
    buffer: Vec<u8>,
}

struct Connection {
    /// `None` after a failed connect: not tried again before the next run.
    stream: Option<TcpStream>,
    reader: ResponseReader,
    sent_at: Instant,
    waiting: bool,
}

/// Progress of one run.
struct Run {
    outcome: Outcome,
    bound: Bound,
    started: Instant,
    issued: u64,
    waiting: usize,
}

impl Run {
    fn may_issue(&self, now: Instant) -> bool {
        self.issued < self.bound.requests_max && now - self.started < self.bound.duration
    }
}

impl Load {
    /// Prepares the plan. Connections are opened when first used.
    ///
    /// # Errors
    /// When the kernel gives no epoll instance.
    pub fn new(plan: Plan) -> io::Result<Load> {
        let connection_field = match plan.mode {
            Mode::KeepAlive => "",
            Mode::Close => "Connection: close\r\n",
        };
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\n{connection_field}\r\n",
            plan.target, plan.address
        );
        let now = Instant::now();
        let connection = || Connection {
            stream: None,
            reader: ResponseReader::default(),
            sent_at: now,
            waiting: false,
        };
        Ok(Load {
            request: request.into_bytes(),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            connections: (0..plan.connections).map(|_| connection()).collect(),
            buffer: vec![0; READ_BYTES],
            plan,
        })
    }

    /// Sends and checks until the bound is reached and every answer is in (at most
    /// [`DRAIN`] later).
    ///
    /// # Errors
    /// When epoll itself fails; what servers do wrong is counted in the outcome.
    pub fn run(&mut self, bound: Bound) -> io::Result<Outcome> {
        let started = Instant::now();
        let mut run = Run { outcome: Outcome::default(), bound, started, issued: 0, waiting: 0 };
        for index in 0..self.connections.len() {
            let now = Instant::now();
            if run.may_issue(now) {
                self.issue(index, now, &mut run);
            }
        }
        let mut events = Vec::with_capacity(EVENTS_PER_WAIT);
        let hard_end = started + bound.duration + DRAIN;
        while run.waiting > 0 && Instant::now() < hard_end {
            events.clear();
            let buffer = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, buffer, Some(&WAIT_MAX)) {
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

    /// Sends the next request, over a new connection when there is none.
    fn issue(&mut self, index: usize, now: Instant, run: &mut Run) {
        run.issued += 1;
        self.connections[index].sent_at = now;
        if self.connections[index].stream.is_none()
            && let Err(error) = self.connect(index)
        {
            run.outcome.error(format!("connect: {error}"));
            return;
        }
        let connection = &mut self.connections[index];
        let Some(stream) = &mut connection.stream else { return };
        // A request is far smaller than an empty socket buffer: it goes out whole or not at all.
        match stream.write(&self.request) {
            Ok(count) if count == self.request.len() => {
                connection.waiting = true;
                run.waiting += 1;
            }
            Ok(_) => self.drop_connection(index, run, "request written in part"),
            // The server closed an idle connection, as it may (keepalive_requests, timeouts).
            Err(error) => self.drop_connection(index, run, &format!("write: {error}")),
        }
    }

    fn connect(&mut self, index: usize) -> io::Result<()> {
        let stream = TcpStream::connect_timeout(&self.plan.address, CONNECT_TIMEOUT)?;
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let data = epoll::EventData::new_u64(index as u64);
        epoll::add(&self.epoll, &stream, data, epoll::EventFlags::IN)?;
        let connection = &mut self.connections[index];
        connection.stream = Some(stream);
        connection.reader = ResponseReader::default();
        Ok(())
    }

    /// One read; epoll is level-triggered, so that the rest is reported again.
    fn readable(&mut self, index: usize, run: &mut Run) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        let Some(stream) = &mut connection.stream else { return };
        let progress = match stream.read(&mut self.buffer) {
            Ok(0) if !connection.waiting => {
                connection.stream = None;
                return;
            }
            Ok(0) => connection.reader.end(),
            Ok(count) => connection.reader.feed(&self.buffer[..count]),
            Err(error) if is_transient(&error) => return,
            Err(error) => return self.fail(index, run, &format!("read: {error}")),
        };
        match progress {
            Ok(Progress::Partial) => {}
            Ok(Progress::Complete { status, body_bytes, close }) => {
                self.complete(index, run, (status, body_bytes), close);
            }
            Err(fault) => self.fail(index, run, &format!("{fault:?}")),
        }
    }

    fn complete(&mut self, index: usize, run: &mut Run, got: (u16, u64), close: bool) {
        let now = Instant::now();
        let connection = &mut self.connections[index];
        if !connection.waiting {
            return self.fail(index, run, "response without a request");
        }
        connection.waiting = false;
        run.waiting -= 1;
        if got == (self.plan.status, self.plan.body_bytes) {
            run.outcome.requests += 1;
            run.outcome.bytes += got.1;
            run.outcome.latency.record(now - connection.sent_at);
        } else {
            run.outcome.error(format!("status {}, {} body bytes", got.0, got.1));
        }
        if close || self.plan.mode == Mode::Close {
            connection.stream = None;
        }
        if run.may_issue(now) {
            self.issue(index, now, run);
        }
    }

    /// Counts a broken exchange and goes on with a new connection.
    fn fail(&mut self, index: usize, run: &mut Run, reason: &str) {
        self.drop_connection(index, run, reason);
        let now = Instant::now();
        if run.may_issue(now) {
            self.issue(index, now, run);
        }
    }

    fn drop_connection(&mut self, index: usize, run: &mut Run, reason: &str) {
        run.outcome.error(reason);
        let connection = &mut self.connections[index];
        connection.stream = None;
        if std::mem::take(&mut connection.waiting) {
            run.waiting -= 1;
        }
    }

    /// Answers that did not come before the end are errors.
    fn abandon(&mut self, run: &mut Run) {
        for index in 0..self.connections.len() {
            if self.connections[index].waiting {
                self.drop_connection(index, run, "no answer before the end of the run");
            }
        }
    }
}

/// Whether the socket should simply be asked again.
pub fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Bytes taken by one read: a large body should need few.
const READ_BYTES: usize = 256 * 1024;
const EVENTS_PER_WAIT: usize = 256;
/// How long answers may be late after the end of a run.
pub const DRAIN: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The loop looks at the clock at least this often.
const WAIT_MAX: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
