//! How much memory idle keepalive connections cost: growth of the server's proportional set
//! size from before them to after one request on each.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

use super::{Context, Measure, Sample};
use crate::config::{FIXED_BODY, Scenario};
use crate::response::{Progress, ResponseReader};
use crate::server::{Binary, Server};

/// The measures of the case.
pub(super) const MEASURES: [Measure; 3] = [
    Measure::new("memory per connection", "B", 0),
    Measure::new("memory before", "KiB", 0),
    Measure::new("memory after", "KiB", 0),
];

/// The request of a connection before it is idle.
pub(super) struct Visit {
    scenario: Scenario,
    target: &'static str,
    body_bytes: u64,
}

/// A fixed response.
pub(super) const FIXED: Visit =
    Visit { scenario: Scenario::Fixed, target: "/", body_bytes: FIXED_BODY.len() as u64 };
/// A response from the origin, over kept connections.
pub(super) const PROXIED: Visit =
    Visit { scenario: Scenario::ProxyTuned, target: "/bytes?n=1024", body_bytes: 1024 };

/// One run: a fresh server, all connections, both sizes.
pub(super) fn run(context: &Context, binary: &Binary, visit: &Visit) -> Result<Sample, String> {
    let job = context.job(visit.scenario, worker_connections(context)?);
    let server = Server::start(binary, job)?;
    let open = |number| open(server.address(), visit, number);
    grow(context, &server, open, |stream| stream, Duration::ZERO)
}

/// Raises the limit of descriptors for `--idle-connections`; returns a sufficient `worker_connections`.
///
/// # Errors
/// The limit is lower.
pub(super) fn worker_connections(context: &Context) -> Result<u64, String> {
    let wanted = context.options.idle_connections as u64;
    let descriptors = crate::machine::raise_descriptor_limit(wanted + DESCRIPTORS_SPARE);
    if descriptors < wanted + DESCRIPTORS_SPARE {
        return Err(format!("only {descriptors} descriptors allowed; lower --idle-connections"));
    }
    Ok(wanted + DESCRIPTORS_SPARE / 2)
}

/// Opens all connections by `open`, and compares both sizes of the server, the second one after `pause`.
///
/// # Errors
/// The first connection cannot be opened, or the sizes cannot be read.
pub(super) fn grow<T>(
    context: &Context,
    server: &Server,
    mut open: impl FnMut(usize) -> io::Result<T>,
    socket: impl Fn(&T) -> &TcpStream,
    pause: Duration,
) -> Result<Sample, String> {
    let wanted = context.options.idle_connections;
    // The first request loads code and buffers that every server needs once.
    drop(open(0).map_err(|error| format!("first connection: {error}"))?);
    let before = settled_memory(server)?;
    let mut held = Vec::with_capacity(wanted);
    let mut errors = 0;
    let mut note = None;
    for number in 0..wanted {
        match open(number) {
            Ok(stream) => held.push(stream),
            Err(error) => {
                errors += 1;
                note.get_or_insert_with(|| format!("connection {number}: {error}"));
                if errors > ERRORS_MAX {
                    break;
                }
            }
        }
    }
    thread::sleep(pause);
    let after = settled_memory(server)?;
    let growth = after.saturating_sub(before) as f64 / held.len().max(1) as f64;
    let closed = held.iter().filter(|held| is_closed(socket(held))).count() as u64;
    if closed > 0 {
        note.get_or_insert_with(|| format!("{closed} connections were closed by the server"));
    }
    let values = vec![growth, before as f64 / 1024.0, after as f64 / 1024.0];
    Ok(Sample { values, errors: errors + closed, note })
}

/// Connects, sends one request, reads the complete response, and keeps the connection.
pub(super) fn open(server: SocketAddr, visit: &Visit, number: usize) -> io::Result<TcpStream> {
    let mut stream = connect_as(server, number)?;
    let target = visit.target;
    stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: {server}\r\n\r\n").as_bytes())?;
    let mut reader = ResponseReader::default();
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer)?;
        let progress = if count == 0 { reader.end() } else { reader.feed(&buffer[..count]) };
        match progress {
            Ok(Progress::Partial) => {}
            Ok(Progress::Complete { status: 200, body_bytes, close: false, .. })
                if body_bytes == visit.body_bytes =>
            {
                return Ok(stream);
            }
            other => return Err(io::Error::other(format!("wrong response: {other:?}"))),
        }
    }
}

/// Connects from an address of the loopback that has a port left for the connection of this number.
///
/// # Errors
/// No connection in time.
pub(super) fn connect_as(server: SocketAddr, number: usize) -> io::Result<TcpStream> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    for direction in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&socket, direction, Some(SOCKET_TIMEOUT))?;
    }
    // One loopback address has ports for this number of connections only.
    let group = number / CONNECTIONS_PER_ADDRESS;
    if group > 0 {
        let source = Ipv4Addr::new(127, 0, 0, 1 + u8::try_from(group).unwrap_or(u8::MAX - 1));
        bind(&socket, &SocketAddrV4::new(source, 0))?;
    }
    connect(&socket, &server)?;
    Ok(TcpStream::from(socket))
}

/// Returns the size once it no longer changes; a server may release memory after its last response.
pub(super) fn settled_memory(server: &Server) -> Result<u64, String> {
    let read = || server.memory().map_err(|error| format!("memory: {error}"));
    let mut last = read()?;
    for _ in 0..SETTLE_TRIES {
        thread::sleep(SETTLE_INTERVAL);
        let now = read()?;
        if now == last {
            break;
        }
        last = now;
    }
    Ok(last)
}

/// Whether the peer has closed an idle connection.
fn is_closed(stream: &TcpStream) -> bool {
    if stream.set_nonblocking(true).is_err() {
        return true;
    }
    match stream.peek(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}

/// Descriptors beside the connections, on either side.
const DESCRIPTORS_SPARE: u64 = 2_000;
/// Below the 28,000 ports that Linux gives to one address.
const CONNECTIONS_PER_ADDRESS: usize = 20_000;
/// With more failures than this, the rest is expected to fail too.
const ERRORS_MAX: u64 = 10;
const SOCKET_TIMEOUT: Duration = Duration::from_secs(5);
const SETTLE_TRIES: usize = 10;
const SETTLE_INTERVAL: Duration = Duration::from_millis(100);
