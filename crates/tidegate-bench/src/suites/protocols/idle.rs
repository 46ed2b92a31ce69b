//! Memory of idle connections after one request each.

use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::super::idle::{self, connect_as, grow};
use super::super::{Context, Sample};
use super::http3;
use super::serving::{PATIENCE, Via, start};
use crate::config::FIXED_BODY;
use crate::config::protocols::{Part, TINY};
use crate::h2::client::{Ask, Buffers, Client, wide};
use crate::load::is_transient;
use crate::response::{Progress, ResponseReader};
use crate::server::Binary;
use crate::wire::{Received, Tls, Wire};

/// One run: a fresh server, all connections, both sizes.
pub(super) fn run(context: &Context, binary: &Binary, via: Via) -> Result<Sample, String> {
    let mut connections = idle::worker_connections(context)?;
    if via == Via::H3 {
        // nginx counts each stream as one: three of each side, and the request.
        connections *= STREAMS;
    }
    let job = |scenario| context.job(scenario, connections);
    let serving = match start(context, binary, Part::Front, via, job)? {
        Ok(serving) => serving,
        Err(reason) => return Ok(Sample::not_served(idle::MEASURES.len(), &reason)),
    };
    if via == Via::H3 {
        return http3::idle(context, &serving);
    }
    let (server, address, tls) = (&serving.server, serving.address(via), via.tls()?);
    let tls = tls.as_ref();
    if via == Via::Https {
        let open = |number| fetch(connect_as(address, number)?, tls);
        return grow(context, server, open, Wire::socket, SETTLE);
    }
    let (config, mut buffers) = (wide(1), Buffers::default());
    let ask = Ask::get(TINY, FIXED_BODY.len() as u64);
    let open = |number| {
        let wire = Wire::over(connect_as(address, number)?, tls, PATIENCE)?;
        let mut client = Client::over(wire, address, &config)?;
        let response = client.fetch(&ask, &mut buffers, PATIENCE)?;
        match response.suits(&ask) {
            true => Ok(client),
            false => Err(io::Error::other(format!("wrong response: {response:?}"))),
        }
    };
    grow(context, server, open, |client| client.wire().socket(), SETTLE)
}

/// One request of HTTP/1.1; returns the connection.
fn fetch(socket: TcpStream, tls: Option<&Tls>) -> io::Result<Wire> {
    let mut wire = Wire::over(socket, tls, PATIENCE)?;
    // Far smaller than an empty socket buffer.
    wire.send(format!("GET {TINY} HTTP/1.1\r\nHost: idle\r\n\r\n").as_bytes())?;
    let (mut reader, mut buffer, mut plain) = (ResponseReader::default(), [0; 4096], Vec::new());
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        poll(&mut [PollFd::new(wire.socket(), PollFlags::IN)], Some(&second))?;
        let progress = match wire.receive(&mut buffer, &mut plain) {
            Ok(Received::Bytes(bytes)) => reader.feed(bytes),
            Ok(Received::Nothing) => continue,
            Ok(Received::End) => reader.end(),
            Err(error) if is_transient(&error) => continue,
            Err(error) => return Err(error),
        };
        match progress {
            Ok(Progress::Partial) => {}
            Ok(Progress::Complete { status: 200, close: false, .. }) => return Ok(wire),
            other => return Err(io::Error::other(format!("wrong response: {other:?}"))),
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// Streams of a connection of HTTP/3, and itself.
const STREAMS: u64 = 8;
/// Tidegate gives memory back a second after the last request.
const SETTLE: Duration = Duration::from_millis(2_500);
