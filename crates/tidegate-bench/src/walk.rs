//! Clients that all ask for the same files in the same order, each at its own pace, and note when
//! every byte arrived: one thread around one epoll instance, as in [`crate::load`].

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};

use crate::load::{TestRequest, is_part, is_transient};
use crate::response::{Progress, ResponseReader};

/// One request of one client.
#[derive(Clone, Debug)]
pub(crate) struct Visit {
    /// Index of the requested file.
    pub file: usize,
    pub requested_at: Instant,
    /// (when, body bytes by then)
    pub arrived: Vec<(Instant, u64)>,
    /// The reason why the response is wrong. It is the client's last one.
    pub fault: Option<String>,
}

/// Sends all first requests at once and reads until every client has had all files, or until no
/// byte arrives for [`PATIENCE`]. Returns each client's visits.
///
/// # Errors
/// When a client cannot connect at the begin, or epoll fails; errors of servers are recorded in
/// the visits.
pub(crate) fn walk(
    server: SocketAddr,
    files: &[TestRequest],
    clients: usize,
) -> io::Result<Vec<Vec<Visit>>> {
    let request =
        |ask: &TestRequest| format!("GET {} HTTP/1.1\r\nHost: {server}\r\n\r\n", ask.target);
    let requests: Vec<String> = files.iter().map(request).collect();
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut walk = Walk { server, epoll, files, requests, walking: clients };
    let mut walkers = Vec::with_capacity(clients);
    for index in 0..clients as u64 {
        let stream = Some(walk.connect(index)?);
        let reader = ResponseReader::default();
        walkers.push(Walker { index, stream, reader, visits: Vec::new(), damaged: false });
    }
    for walker in &mut walkers {
        walk.ask(walker);
    }
    let mut buffer = vec![0; READ_BYTES];
    let mut events = Vec::with_capacity(clients.max(1));
    let mut last_event = Instant::now();
    while walk.walking > 0 && last_event.elapsed() < PATIENCE {
        events.clear();
        let space = rustix::buffer::spare_capacity(&mut events);
        match epoll::wait(&walk.epoll, space, Some(&WAIT_MAX)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => last_event = Instant::now(),
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            if let Some(walker) = walkers.get_mut(event.data.u64() as usize) {
                walk.readable(walker, &mut buffer);
            }
        }
    }
    for walker in walkers.iter_mut().filter(|walker| walker.stream.is_some()) {
        walk.stop(walker, Some("nothing more came".to_owned()));
    }
    Ok(walkers.into_iter().map(|walker| walker.visits).collect())
}

/// The common state of all clients.
struct Walk<'a> {
    server: SocketAddr,
    epoll: OwnedFd,
    files: &'a [TestRequest],
    requests: Vec<String>,
    /// Clients that have not stopped.
    walking: usize,
}

/// One client.
struct Walker {
    index: u64,
    /// `None` when it has stopped.
    stream: Option<TcpStream>,
    reader: ResponseReader,
    visits: Vec<Visit>,
    /// A byte of the response in progress was not the expected one.
    damaged: bool,
}

impl Walk<'_> {
    fn connect(&self, index: u64) -> io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.server, CONNECT_TIMEOUT)?;
        stream.set_nonblocking(true)?;
        epoll::add(&self.epoll, &stream, epoll::EventData::new_u64(index), epoll::EventFlags::IN)?;
        Ok(stream)
    }

    /// Requests the client's next file; stops after the last one.
    fn ask(&mut self, walker: &mut Walker) {
        let file = walker.visits.len();
        let (Some(request), Some(stream)) = (self.requests.get(file), &mut walker.stream) else {
            return self.stop(walker, None);
        };
        let requested_at = Instant::now();
        walker.damaged = false;
        walker.visits.push(Visit { file, requested_at, arrived: Vec::new(), fault: None });
        // A request is far smaller than an empty socket buffer.
        if let Err(error) = stream.write_all(request.as_bytes()) {
            self.stop(walker, Some(format!("write: {error}")));
        }
    }

    /// Takes one read; epoll is level-triggered, so that the rest is reported again.
    fn readable(&mut self, walker: &mut Walker, buffer: &mut [u8]) {
        let Walker { stream: Some(stream), reader, visits, damaged, .. } = walker else { return };
        let Some(visit) = visits.last_mut() else { return };
        let ask = &self.files[visit.file];
        let read = stream.read(buffer);
        // Before the bytes are checked, which takes time.
        let now = Instant::now();
        let progress = match read {
            Ok(0) => reader.end(),
            Ok(count) => reader.feed_into(&buffer[..count], &mut |at, part| {
                if !part.is_empty() {
                    visit.arrived.push((now, at + part.len() as u64));
                }
                *damaged |= ask.body.as_ref().is_some_and(|body| !is_part(body, at, part));
            }),
            Err(error) if is_transient(&error) => return,
            Err(error) => return self.stop(walker, Some(format!("read: {error}"))),
        };
        match progress {
            Ok(Progress::Partial) => {}
            Ok(Progress::Complete { status, body_bytes, close, .. }) => {
                if (status, body_bytes) != (ask.status, ask.body_bytes) || *damaged {
                    let damage = if *damaged { ", not the expected ones" } else { "" };
                    let fault = format!("status {status}, {body_bytes} body bytes{damage}");
                    return self.stop(walker, Some(fault));
                }
                self.go_on(walker, close);
            }
            Err(fault) => self.stop(walker, Some(format!("{fault:?}"))),
        }
    }

    fn go_on(&mut self, walker: &mut Walker, reconnect: bool) {
        if reconnect && walker.visits.len() < self.files.len() {
            match self.connect(walker.index) {
                Ok(stream) => walker.stream = Some(stream),
                Err(error) => return self.stop(walker, Some(format!("connect: {error}"))),
            }
        }
        self.ask(walker);
    }

    fn stop(&mut self, walker: &mut Walker, fault: Option<String>) {
        if walker.stream.take().is_some() {
            self.walking -= 1;
        }
        if let Some(visit) = walker.visits.last_mut()
            && fault.is_some()
        {
            visit.fault = fault;
        }
    }
}

/// nginx's cache lock ends after five seconds, and a slow disk may take as long.
const PATIENCE: Duration = Duration::from_secs(30);
const READ_BYTES: usize = 64 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const WAIT_MAX: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
