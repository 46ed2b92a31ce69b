//! Many clients ask at once for one object that the origin sends over three seconds, through a
//! cold cache: how often is the origin asked, and how long does each byte wait for each client?

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};

use super::{Context, Measure, Sample};
use crate::config::Scenario;
use crate::load::is_transient;
use crate::response::{Progress, ResponseReader};
use crate::server::{Binary, Job, Server};
use crate::statistics::{Spread, average_byte_wait};

/// What the case reports. The leader is the client whose bytes waited least.
pub const MEASURES: [Measure; 6] = [
    Measure::new("origin requests", "", 0),
    Measure::new("first byte p50", "ms", 1),
    Measure::new("first byte p100", "ms", 1),
    Measure::new("byte wait leader", "ms", 1),
    Measure::new("byte wait p50", "ms", 1),
    Measure::new("byte wait p100", "ms", 1),
];

/// One run; `number` keeps the objects of different runs apart.
pub fn run(
    context: &Context,
    binary: &Binary,
    is_tidegate: bool,
    number: u32,
) -> Result<Sample, String> {
    let job = Job {
        scenario: Scenario::Streaming,
        origin: context.origin_address(),
        worker_connections: 1024,
        tempfile_directive: is_tidegate,
        private_copy: false,
        cpu: context.processors.server,
    };
    let server = Server::start(binary, job)?;
    let target = format!(
        "/slow?ms={}&bytes={OBJECT_BYTES}&chunks=100&max-age=3600&run={number}",
        OBJECT_TIME.as_millis()
    );
    let clients = fetch(server.address(), &target).map_err(|error| format!("clients: {error}"))?;
    let mut sample = Sample::default();
    if server.without_tempfile {
        sample.note = Some("does not know proxy_cache_tempfile; run without it".to_owned());
    }
    if let Some(fault) = clients.iter().find_map(|client| client.fault.clone()) {
        sample.note = Some(format!("first error: {fault}"));
    }
    sample.errors = clients.iter().filter(|client| client.fault.is_some()).count() as u64;
    let traces = context.origin.sent(&target);
    let Some((origin_first, sent)) = traces.first().and_then(|sent| Some((sent.first()?.0, sent)))
    else {
        return Err("the origin sent nothing".to_owned());
    };
    let sent = relative(sent, origin_first);
    let good = clients.iter().filter(|client| client.fault.is_none());
    let arrivals: Vec<Vec<(f64, u64)>> =
        good.map(|client| relative(&client.arrived, origin_first)).collect();
    sample.values = summarise(context.origin.requests(&target), &sent, &arrivals);
    Ok(sample)
}

/// The figures in the order of [`MEASURES`]. Times are seconds since the origin's first byte.
pub(crate) fn summarise(
    origin_requests: u64,
    sent: &[(f64, u64)],
    arrivals: &[Vec<(f64, u64)>],
) -> Vec<f64> {
    let spread = |values: Vec<f64>| {
        Spread::of(&values).unwrap_or(Spread {
            median: f64::NAN,
            minimum: f64::NAN,
            maximum: f64::NAN,
        })
    };
    let firsts = arrivals.iter().filter_map(|arrived| arrived.first());
    let firsts = spread(firsts.map(|(at, _)| at * 1e3).collect());
    let waits = arrivals.iter().map(|arrived| average_byte_wait(sent, arrived) * 1e3);
    let waits = spread(waits.collect());
    vec![
        origin_requests as f64,
        firsts.median,
        firsts.maximum,
        waits.minimum,
        waits.median,
        waits.maximum,
    ]
}

/// One of the clients and what it saw.
struct Client {
    stream: Option<TcpStream>,
    reader: ResponseReader,
    /// (when, body bytes by then)
    arrived: Vec<(Instant, u64)>,
    fault: Option<String>,
}

/// Sends all requests at once and reads until every client has its end or time is up.
fn fetch(server: SocketAddr, target: &str) -> io::Result<Vec<Client>> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut clients = Vec::with_capacity(CLIENTS);
    for index in 0..CLIENTS {
        clients.push(Client::connect(server, &epoll, index as u64)?);
    }
    let request = format!("GET {target} HTTP/1.1\r\nHost: {server}\r\n\r\n");
    for client in &mut clients {
        if let Some(stream) = &mut client.stream {
            stream.write_all(request.as_bytes())?;
        }
    }
    let mut buffer = vec![0; 64 * 1024];
    let mut events = Vec::with_capacity(CLIENTS);
    let end = Instant::now() + OBJECT_TIME + PATIENCE;
    let mut open = CLIENTS;
    while open > 0 && Instant::now() < end {
        events.clear();
        let space = rustix::buffer::spare_capacity(&mut events);
        match epoll::wait(&epoll, space, Some(&WAIT_MAX)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            if let Some(client) = clients.get_mut(event.data.u64() as usize)
                && client.readable(&mut buffer)
            {
                open -= 1;
            }
        }
    }
    for client in clients.iter_mut().filter(|client| client.stream.is_some()) {
        client.fault = Some("not complete in time".to_owned());
    }
    Ok(clients)
}

impl Client {
    fn connect(server: SocketAddr, epoll: &OwnedFd, index: u64) -> io::Result<Client> {
        let stream = TcpStream::connect_timeout(&server, Duration::from_secs(2))?;
        stream.set_nonblocking(true)?;
        epoll::add(epoll, &stream, epoll::EventData::new_u64(index), epoll::EventFlags::IN)?;
        let reader = ResponseReader::default();
        Ok(Client { stream: Some(stream), reader, arrived: Vec::new(), fault: None })
    }

    /// Takes one read; true when this client is done, well or not.
    fn readable(&mut self, buffer: &mut [u8]) -> bool {
        let Some(stream) = &mut self.stream else { return false };
        let progress = match stream.read(buffer) {
            Ok(0) => self.reader.end(),
            Ok(count) => self.reader.feed(&buffer[..count]),
            Err(error) if is_transient(&error) => return false,
            Err(error) => return self.finish(Some(error.to_string())),
        };
        let now = Instant::now();
        match progress {
            Ok(Progress::Partial) => {
                let received = self.reader.body_received();
                if received > 0 {
                    self.arrived.push((now, received));
                }
                false
            }
            Ok(Progress::Complete { status: 200, body_bytes: OBJECT_BYTES, .. }) => {
                self.arrived.push((now, OBJECT_BYTES));
                self.finish(None)
            }
            other => self.finish(Some(format!("{other:?}"))),
        }
    }

    fn finish(&mut self, fault: Option<String>) -> bool {
        self.fault = fault;
        self.stream = None;
        true
    }
}

/// Instants as signed seconds since `base`.
fn relative(points: &[(Instant, u64)], base: Instant) -> Vec<(f64, u64)> {
    let seconds = |at: Instant| {
        at.saturating_duration_since(base).as_secs_f64()
            - base.saturating_duration_since(at).as_secs_f64()
    };
    points.iter().map(|(at, bytes)| (seconds(*at), *bytes)).collect()
}

const CLIENTS: usize = 100;
const OBJECT_TIME: Duration = Duration::from_secs(3);
const OBJECT_BYTES: u64 = 1024 * 1024;
/// nginx gives up its cache lock after five seconds; then those clients ask the origin.
const PATIENCE: Duration = Duration::from_secs(20);
const WAIT_MAX: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
