//! Closed-loop HTTP/2 load: N connections, each with M streams in flight, plain or by TLS.
//!
//! One thread around one epoll instance, as [`crate::load`]. Status and length of each response are checked. A run
//! ends by time, by count or on a signal, and then waits for the outstanding responses.
//!
//! A request that the server did not process, as its GOAWAY says, is sent again over a new connection, as clients do
//! (RFC 9113 section 8.7): that is a further connection in the outcome, and no error.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use tidegate_h2::{Config, Connection, ErrorCode, Event, StreamId};

use super::client::{Ask, Buffers, Client, Progress, Response, follow, stream_of, wide};
use crate::load::{Bound, DRAIN, Loss, Outcome, is_transient};
use crate::wire::Tls;

/// The requests of a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub address: SocketAddr,
    /// `None`: by prior knowledge, without TLS.
    pub tls: Option<Tls>,
    /// Streams of a connection request them in rotation. Not empty.
    pub asks: Vec<Ask>,
    pub connections: usize,
    /// Streams of each connection at once.
    pub streams: u32,
}

/// The connections of a plan; may run several times (a warm-up, then the measurement).
pub(crate) struct Load {
    plan: Plan,
    config: Arc<Config>,
    epoll: OwnedFd,
    slots: Vec<Slot>,
    buffers: Buffers,
}

/// One connection, or the place of one.
#[derive(Default)]
struct Slot {
    client: Option<Client>,
    opened_at: Option<Instant>,
    streams: Vec<InFlight>,
    /// Requests to be sent again, with the time of the first try.
    again: Vec<(usize, Instant)>,
    next_ask: usize,
    /// The server takes no more streams.
    is_leaving: bool,
    /// Epoll also reports that writing is possible.
    waits_to_write: bool,
    /// After a failure there is no new connection before this time.
    parked_until: Option<Instant>,
}

struct InFlight {
    stream: StreamId,
    ask: usize,
    begun: Instant,
    response: Response,
}

/// Progress of one run.
struct Run<'a> {
    outcome: Outcome,
    bound: Bound,
    stop: &'a AtomicBool,
    started: Instant,
    issued: u64,
}

impl Run<'_> {
    fn may_issue(&self, now: Instant) -> bool {
        self.issued < self.bound.requests_max
            && now - self.started < self.bound.duration
            && !self.stop.load(Ordering::Relaxed)
    }
}

impl Load {
    /// Prepares the plan. Connections are opened when first used.
    ///
    /// # Errors
    /// When the kernel gives no epoll instance.
    pub(crate) fn new(plan: Plan) -> io::Result<Load> {
        let slot = |index: usize| Slot { next_ask: index, ..Slot::default() };
        Ok(Load {
            config: wide(plan.streams),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            slots: (0..plan.connections).map(slot).collect(),
            buffers: Buffers::default(),
            plan,
        })
    }

    /// Sends and checks until the bound is reached and all responses have arrived (at most [`DRAIN`] later).
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
        let started = Instant::now();
        let outcome = Outcome::default();
        let mut run = Run { outcome, bound, stop, started, issued: 0 };
        let hard_end = started + bound.duration + DRAIN;
        let mut events = Vec::with_capacity(EVENTS_PER_WAIT);
        (0..self.slots.len()).for_each(|index| self.fill(index, &mut run));
        loop {
            let now = Instant::now();
            let is_busy = self.slots.iter().any(Slot::is_busy);
            if (!is_busy && !run.may_issue(now)) || now >= hard_end {
                break;
            }
            let mut wait = WAIT_MAX;
            for index in 0..self.slots.len() {
                match self.slots[index].parked_until {
                    Some(until) if until <= now => self.fill(index, &mut run),
                    Some(_) => wait = PARKING,
                    None => {}
                }
            }
            let wait = Timespec { tv_sec: 0, tv_nsec: wait.subsec_nanos().into() };
            events.clear();
            let buffer = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, buffer, Some(&wait)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                self.ready(event.data.u64() as usize, &mut run);
            }
        }
        for index in 0..self.slots.len() {
            if self.slots[index].is_busy() {
                self.lose(index, &mut run, "no response before the end of the run");
            }
        }
        run.outcome.elapsed = started.elapsed();
        Ok(run.outcome)
    }

    /// Begins requests on a connection, as many as fit, and sends them; opens the connection where there is none.
    fn fill(&mut self, index: usize, run: &mut Run<'_>) {
        let now = Instant::now();
        let slot = &mut self.slots[index];
        if slot.is_leaving && slot.streams.is_empty() {
            slot.client = None;
        }
        let wanted = !slot.again.is_empty() || run.may_issue(now);
        if slot.client.is_none()
            && wanted
            && !slot.is_parked(now)
            && let Err(error) = self.open(index, run)
        {
            run.outcome.lose(Loss::Refused, now, format!("connect: {error}"));
            return self.slots[index].park(now);
        }
        let Slot { client: Some(client), streams, again, next_ask, .. } = &mut self.slots[index]
        else {
            return;
        };
        while client.h2().may_request().is_ok() {
            let (ask, begun) = match again.pop() {
                Some(repeated) => repeated,
                None if run.may_issue(now) => {
                    run.issued += 1;
                    *next_ask += 1;
                    (*next_ask % self.plan.asks.len(), now)
                }
                None => break,
            };
            match client.ask(&self.plan.asks[ask]) {
                Ok(stream) => {
                    let response = Response::default();
                    streams.push(InFlight { stream, ask, begun, response });
                }
                Err(error) => {
                    run.outcome.lose(Loss::Wrong, now, format!("request: {error}"));
                    break;
                }
            }
        }
        self.send(index, run);
    }

    fn open(&mut self, index: usize, run: &mut Run<'_>) -> io::Result<()> {
        let Plan { address, tls, .. } = &self.plan;
        let client = Client::connect(*address, tls.as_ref(), &self.config, CONNECT_TIMEOUT)?;
        let data = epoll::EventData::new_u64(index as u64);
        epoll::add(&self.epoll, &client, data, epoll::EventFlags::IN)?;
        run.outcome.open(client.wire().is_resumed());
        let slot = &mut self.slots[index];
        slot.client = Some(client);
        slot.opened_at = Some(Instant::now());
        (slot.is_leaving, slot.waits_to_write, slot.parked_until) = (false, false, None);
        Ok(())
    }

    fn send(&mut self, index: usize, run: &mut Run<'_>) {
        let Slot { client: Some(client), waits_to_write, .. } = &mut self.slots[index] else {
            return;
        };
        match client.flush() {
            Ok(is_flushed) if *waits_to_write == is_flushed => {
                *waits_to_write = !is_flushed;
                let flags = match is_flushed {
                    true => epoll::EventFlags::IN,
                    false => epoll::EventFlags::IN | epoll::EventFlags::OUT,
                };
                let data = epoll::EventData::new_u64(index as u64);
                if let Err(error) = epoll::modify(&self.epoll, &*client, data, flags) {
                    self.lose(index, run, &format!("epoll: {error}"));
                }
            }
            Ok(_) => {}
            Err(error) => self.lose(index, run, &format!("write: {error}")),
        }
    }

    fn ready(&mut self, index: usize, run: &mut Run<'_>) {
        let Some(Slot { client: Some(client), streams, is_leaving, again, .. }) =
            self.slots.get_mut(index)
        else {
            return;
        };
        let asks = &self.plan.asks;
        let received = client.receive(&mut self.buffers, |h2, event| {
            if let Event::GoAway { .. } = event {
                *is_leaving = true;
                let is_lost = |flight: &mut InFlight| h2.is_unprocessed(flight.stream);
                let lost: Vec<InFlight> = streams.extract_if(.., is_lost).collect();
                run.outcome.reconnects += lost.len() as u64;
                for flight in lost {
                    h2.close(flight.stream, ErrorCode::CANCEL);
                    again.push((flight.ask, flight.begun));
                }
                return;
            }
            let place = stream_of(&event)
                .and_then(|stream| streams.iter().position(|flight| flight.stream == stream));
            let Some(place) = place else { return };
            if let Some(progress) = follow(h2, event, &mut streams[place].response) {
                let flight = streams.swap_remove(place);
                finish(h2, &flight, progress, &asks[flight.ask], &mut run.outcome);
            }
        });
        match received {
            Ok(()) => self.fill(index, run),
            Err(error) if is_transient(&error) => self.fill(index, run),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.end(index, run, "closed before the end of the response");
            }
            Err(error) => self.lose(index, run, &format!("read: {error}")),
        }
    }

    /// The server has closed the connection, as it may without a stream.
    fn end(&mut self, index: usize, run: &mut Run<'_>, reason: &str) {
        let slot = &mut self.slots[index];
        if slot.streams.is_empty() {
            slot.client = None;
            return self.fill(index, run);
        }
        self.lose(index, run, reason);
    }

    /// The connection has failed: its requests are errors.
    fn lose(&mut self, index: usize, run: &mut Run<'_>, reason: &str) {
        let now = Instant::now();
        let slot = &mut self.slots[index];
        let opened_at = slot.opened_at.unwrap_or(now);
        for _ in 0..(slot.streams.len() + slot.again.len()).max(1) {
            run.outcome.lose(Loss::Broken { opened_at }, now, reason);
        }
        slot.streams.clear();
        slot.again.clear();
        slot.client = None;
        slot.park(now);
    }
}

impl Slot {
    fn is_busy(&self) -> bool {
        !self.streams.is_empty() || !self.again.is_empty()
    }

    fn is_parked(&self, now: Instant) -> bool {
        self.parked_until.is_some_and(|until| until > now)
    }

    fn park(&mut self, now: Instant) {
        self.parked_until = Some(now + PARKING);
    }
}

/// Counts a response that is complete, or never will be.
fn finish(
    h2: &mut Connection<tidegate_h2::Client>,
    flight: &InFlight,
    progress: Progress,
    ask: &Ask,
    outcome: &mut Outcome,
) {
    let now = Instant::now();
    h2.close(flight.stream, ErrorCode::CANCEL);
    let Response { status, body_bytes, .. } = flight.response;
    match progress {
        Progress::Complete if flight.response.suits(ask) => {
            outcome.requests += 1;
            outcome.bytes += body_bytes;
            outcome.latency.record(now - flight.begun);
        }
        Progress::Complete if ask.message.is_some() && status == ask.status => {
            outcome.lose(Loss::Wrong, now, format!("call failed, {body_bytes} body bytes"));
        }
        Progress::Complete => {
            outcome.lose(Loss::Wrong, now, format!("status {status}, {body_bytes} body bytes"));
        }
        Progress::Reset(code) => outcome.lose(Loss::Wrong, now, format!("stream reset: {code}")),
        Progress::Malformed => outcome.lose(Loss::Wrong, now, "malformed response"),
    }
}

const EVENTS_PER_WAIT: usize = 256;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest time between two readings of the clock.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// Before a connection that has failed is opened again.
const PARKING: Duration = Duration::from_millis(10);
