//! A scripted client: one connection at a time, its own HTTP/1 reader.

pub(crate) mod http2;
pub(crate) mod http3;

use crate::bell::{Deadline, Failure};
use crate::flood::Flood;
use crate::ops::{ClientOp, HeadCheck, Place};
use crate::wire::{Ending, Framing, Message, Stream, Wire};
use crate::words::{Matcher, shown};
use http2::SharedConnections;
use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// The data of the case that a client needs.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    /// Addresses of the server by name.
    pub fronts: BTreeMap<String, SocketAddr>,
    /// Its UDP addresses.
    pub datagrams: BTreeMap<String, SocketAddr>,
    /// The case's directory, for sockets in it.
    pub directory: PathBuf,
    /// Its connections of HTTP/2.
    pub shared: SharedConnections,
    /// Its connections of HTTP/3.
    pub quic: http3::Connections,
    /// End of all waiting.
    pub deadline: Deadline,
}

/// A client between two lines of the script.
#[derive(Debug, Default)]
pub(crate) struct Client {
    wire: Option<Wire>,
    /// Methods of sent requests whose final head was not read yet.
    asked: VecDeque<String>,
    /// The current response.
    response: Option<Message>,
    flood: Option<Flood>,
    /// Its connection of HTTP/3.
    quic: Option<http3::Client>,
}

impl Client {
    /// Runs the operations of one line.
    pub(crate) fn run(&mut self, ops: &[ClientOp], around: &Surroundings) -> Result<(), Failure> {
        ops.iter().try_for_each(|op| {
            self.one(op, around).map_err(|failure| {
                match self.quic.as_ref().and_then(http3::Client::ending) {
                    Some(ending) if !failure.0.contains(&ending) => {
                        Failure::new(format!("{failure} ({ending})"))
                    }
                    _ => failure,
                }
            })
        })
    }

    /// The response at hand.
    pub(crate) fn response(&self) -> Option<&Message> {
        self.response.as_ref()
    }

    /// After a row: nothing may follow the response.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        if let Some(quic) = &self.quic {
            quic.close();
        }
        match self.wire {
            Some(wire) if !wire.buffer.is_empty() => {
                Err(Failure::new(format!("bytes after the response: {}", shown(&wire.buffer))))
            }
            _ => Ok(()),
        }
    }

    /// Opens a new connection; an older one is closed.
    pub(crate) fn connect(&mut self, place: &Place, around: &Surroundings) -> Result<(), Failure> {
        let left = around.deadline.remaining()?;
        if let Place::Http3 { front, options } = place {
            let address = around.datagrams.get(front);
            let address = *address.ok_or_else(|| Failure::new(format!("no UDP port {front}")))?;
            let (options, deadline) = (options.as_ref(), around.deadline);
            let (socket, quic) =
                around.quic.client(front, address, options, &around.directory, deadline)?;
            let wire = Some(Wire::new(Stream::Unix(socket), deadline));
            *self = Self { wire, quic: Some(quic), ..Self::default() };
            return Ok(());
        }
        let stream = match place {
            Place::Front(name) if around.datagrams.contains_key(name) => {
                datagram_socket(around.datagrams[name]).map(Stream::Udp)
            }
            Place::Front(name) => {
                let address = around.fronts.get(name);
                let address = address.ok_or_else(|| Failure::new(format!("no port {name}")))?;
                TcpStream::connect_timeout(address, left).map(Stream::Tcp)
            }
            Place::Http2 { front, is_new } => {
                let address = around.fronts.get(front);
                let address = address.ok_or_else(|| Failure::new(format!("no port {front}")))?;
                let connect = || TcpStream::connect_timeout(address, left);
                let socket = around.shared.client(front, *is_new, connect, around.deadline);
                socket.map(Stream::Unix)
            }
            Place::Http3 { .. } => return Ok(()),
            Place::Unix(name) => UnixStream::connect(around.directory.join(name)).map(Stream::Unix),
        };
        let stream = stream.map_err(|error| Failure::new(format!("cannot connect: {error}")))?;
        *self = Self { wire: Some(Wire::new(stream, around.deadline)), ..Self::default() };
        Ok(())
    }

    fn one(&mut self, op: &ClientOp, around: &Surroundings) -> Result<(), Failure> {
        if let ClientOp::Connect(place) = op {
            return self.connect(place, around);
        }
        if self.wire.is_none() {
            self.connect(&Place::Front("front".to_owned()), around)?;
        }
        let Some(wire) = self.wire.as_mut() else { return Ok(()) };
        match op {
            ClientOp::Connect(_) => Ok(()),
            ClientOp::Send { bytes, method } => {
                self.asked.extend(method.clone());
                wire.send(bytes)
            }
            ClientOp::WaitHead(status) => self.wait_head(*status),
            ClientOp::WaitBody(prefix) => {
                let response = at_hand(&mut self.response)?;
                response.read_body(wire, prefix.len())?;
                if response.body.starts_with(prefix) {
                    return Ok(());
                }
                Err(Failure::new(format!(
                    "expected a body that begins with {}, got {} ({:?} left, {:?})",
                    shown(prefix),
                    shown(&response.body),
                    response.framing,
                    wire.ending
                )))
            }
            ClientOp::WaitEnd(expected) => {
                wait_end(at_hand(&mut self.response)?, wire, expected.as_ref())
            }
            ClientOp::WaitBroken => wait_broken(at_hand(&mut self.response)?, wire),
            ClientOp::WaitFailed => {
                self.asked.pop_front();
                wait_failed(wire)
            }
            ClientOp::Sip(count) => sip(at_hand(&mut self.response)?, wire, *count),
            ClientOp::Drip(bytes) => drip(wire, bytes),
            ClientOp::Flood(bytes) => {
                self.flood = Some(Flood::begin(wire, bytes)?);
                Ok(())
            }
            ClientOp::StillFloods => match &self.flood {
                Some(flood) => flood.still(),
                None => Err(Failure::new("it never did")),
            },
            ClientOp::WaitRaw(bytes) => wire.take_exactly(bytes),
            ClientOp::WaitPast(bytes) => wire.take_past(bytes),
            ClientOp::WaitClose => ended(wire, Some(Ending::Closed)),
            ClientOp::WaitReset => ended(wire, Some(Ending::Reset)),
            ClientOp::WaitGone => ended(wire, None),
            ClientOp::Quic(op) => match &self.quic {
                Some(quic) => quic.run(op),
                None => Err(Failure::new("the client has no connection of HTTP/3")),
            },
            ClientOp::Check(condition) => check(condition, at_hand(&mut self.response)?),
            ClientOp::HalfClose => wire.half_close(),
            ClientOp::Close => {
                (self.wire, self.flood) = (None, None);
                Ok(())
            }
            ClientOp::Reset => {
                if let Some(wire) = self.wire.take() {
                    wire.reset();
                }
                Ok(())
            }
        }
    }

    fn wait_head(&mut self, status: u16) -> Result<(), Failure> {
        let Some(wire) = self.wire.as_mut() else { return Ok(()) };
        if let Some(before) = self.response.as_mut() {
            before.read_body(wire, usize::MAX)?;
            if before.framing != Framing::Complete {
                return Err(Failure::new("the response before this one was cut"));
            }
        }
        let Some(mut response) = wire.take_head()? else {
            return Err(Failure::new(format!("expected a head with {status}, got the end")));
        };
        let found = response
            .status()
            .ok_or_else(|| Failure::new(format!("bad status line {:?}", response.start)))?;
        let interim = (100..200).contains(&found);
        let method = if interim { None } else { self.asked.pop_front() };
        if !interim && !matches!(found, 204 | 304) && method.as_deref() != Some("HEAD") {
            response.frame(true)?;
        }
        let head = shown(&response.head);
        self.response = Some(response);
        if found == status {
            return Ok(());
        }
        Err(Failure::new(format!("expected status {status}, got {head}")))
    }
}

/// Opens a socket for datagrams to and from one address.
fn datagram_socket(to: SocketAddr) -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(to)?;
    Ok(socket)
}

fn at_hand(response: &mut Option<Message>) -> Result<&mut Message, Failure> {
    response.as_mut().ok_or_else(|| Failure::new("no response at hand: `wait head` comes first"))
}

fn wait_end(
    response: &mut Message,
    wire: &mut Wire,
    expected: Option<&Matcher>,
) -> Result<(), Failure> {
    response.read_body(wire, usize::MAX)?;
    if response.framing != Framing::Complete {
        return Err(Failure::new(format!(
            "the response was cut ({:?}, {:?}) after {} bytes: {}",
            wire.ending,
            response.framing,
            response.body.len(),
            shown(&response.body)
        )));
    }
    expected.map_or(Ok(()), |matcher| check(&HeadCheck::Body(matcher.clone()), response))
}

fn wait_broken(response: &mut Message, wire: &mut Wire) -> Result<(), Failure> {
    response.read_body(wire, usize::MAX)?;
    match response.framing {
        Framing::Complete => {
            let body = shown(&response.body);
            Err(Failure::new(format!("expected a cut response, it is whole: {body}")))
        }
        _ => Ok(()),
    }
}

/// Expects a response without the complete object: 4xx, 5xx, a truncated response, or none.
fn wait_failed(wire: &mut Wire) -> Result<(), Failure> {
    let head = wire.take_head();
    if wire.ending.is_some() && !matches!(head, Ok(Some(_))) {
        return Ok(());
    }
    let Some(mut response) = head? else { return Ok(()) };
    if response.status().is_some_and(|status| status >= 400) {
        response.frame(true)?;
        return wait_end(&mut response, wire, None);
    }
    response.frame(true)?;
    wait_broken(&mut response, wire)
}

/// Reads so slowly that the server has to buffer. The pause is the tested condition, not a wait for an event.
fn sip(response: &mut Message, wire: &mut Wire, count: u32) -> Result<(), Failure> {
    for _ in 0..count {
        std::thread::sleep(SIP_EVERY);
        let wanted = response.body.len() + 1;
        // Bytes of the framing do not count for the body.
        while response.body.len() < wanted && wire.ending.is_none() {
            wire.fill_at_most(1)?;
            response.absorb(wire)?;
        }
        if response.body.len() < wanted {
            return Err(Failure::new(format!("no further byte ({:?})", wire.ending)));
        }
    }
    Ok(())
}

/// Uses the connection as slowly as possible, but is never silent for long. The server's close ends it.
fn drip(wire: &mut Wire, bytes: &[u8]) -> Result<(), Failure> {
    for byte in bytes {
        if wire.send(&[*byte]).is_err() || wire.ends_within(DRIP_EVERY)? {
            return Ok(());
        }
    }
    Err(Failure::new("all bytes were sent, and the connection is still open"))
}

const DRIP_EVERY: Duration = Duration::from_millis(100);

const SIP_EVERY: Duration = Duration::from_secs(1);

fn ended(wire: &mut Wire, expected: Option<Ending>) -> Result<(), Failure> {
    let ending = wire.wait_ending()?;
    match expected {
        Some(expected) if expected != ending => {
            Err(Failure::new(format!("expected {expected:?}, got {ending:?}")))
        }
        _ => Ok(()),
    }
}

/// Checks a condition on a received message.
pub(crate) fn check(condition: &HeadCheck, message: &Message) -> Result<(), Failure> {
    match condition {
        HeadCheck::Field(name, matcher) => message.expect_field(name, matcher),
        HeadCheck::NoField(name) => message.expect_no_field(name),
        HeadCheck::Trailer(name, matcher) => {
            let mut same =
                message.trailers.iter().filter(|field| field.0.eq_ignore_ascii_case(name));
            if same.any(|(_, value)| matcher.matches(value)) {
                return Ok(());
            }
            Err(Failure::new(format!("trailer {name}: expected {matcher}")))
        }
        HeadCheck::Line(matcher) if matcher.matches(message.start.as_bytes()) => Ok(()),
        HeadCheck::Line(matcher) => {
            Err(Failure::new(format!("line: expected {matcher}, got {:?}", message.start)))
        }
        HeadCheck::Body(matcher) if matcher.matches(&message.body) => Ok(()),
        HeadCheck::Body(matcher) => {
            Err(Failure::new(format!("body: expected {matcher}, got {}", shown(&message.body))))
        }
        HeadCheck::Length(length) if *length == message.body.len() => Ok(()),
        HeadCheck::Length(length) => {
            Err(Failure::new(format!("expected {length} bytes, got {}", message.body.len())))
        }
    }
}
