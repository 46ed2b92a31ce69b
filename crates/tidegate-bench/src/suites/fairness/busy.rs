//! The busy clients. Each kind runs until it is stopped, and reports the number of bytes transferred.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};

use crate::config::fairness::{self, Places};
use crate::load::{Bound, Load, LossPolicy, Mode, Plan, TestRequest};
use crate::server::Server;

/// The work of busy clients.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// A method and a target, sent repeatedly without waiting for responses.
    Pipeline(&'static str, &'static str),
    Uploads,
    /// The target of chunks of one byte.
    Chunks(&'static str),
    Tunnel,
    Stream,
    Datagrams,
    Sessions,
    Downloads,
    Followers,
    Parts,
    Compressed,
    Tls,
}

/// Busy clients of a server.
pub(super) struct Busy<'s> {
    pub server: &'s Server,
    pub places: Places,
    /// Bytes, in both directions.
    pub moved: AtomicU64,
    pub stop: AtomicBool,
}

/// Gives the calling thread, and those that it starts, a lower priority than that of the process.
pub(in crate::suites) fn step_back() {
    let _ = rustix::process::nice(19);
}

impl Busy<'_> {
    /// Works until it is stopped.
    ///
    /// # Errors
    /// The server ends a connection, or sends another response.
    pub(super) fn run(&self, work: Work) -> Result<(), String> {
        step_back();
        let address = self.server.address();
        let done = match work {
            Work::Pipeline(method, target) => {
                self.pump(address, &[], &get(method, target).repeat(PIPELINED))
            }
            Work::Uploads => self.pump(address, &[], &upload(UPLOAD_BYTES)),
            Work::Chunks(target) => self.pump(address, &[], &chunks(target)),
            Work::Tunnel => self.pump(address, TUNNEL, &[b't'; BLOCK]),
            Work::Stream => self.pump(self.places.stream.address(), &[], &[b's'; BLOCK]),
            Work::Compressed => self.pump(address, &[], &compressed()),
            Work::Datagrams => self.flood(self.places.datagrams.address(), CLIENTS),
            Work::Sessions => self.flood(self.places.sessions.address(), SESSION_CLIENTS),
            Work::Downloads => {
                return self.load(
                    |_| ("/bytes?n=16777216&max-age=3600".to_owned(), 16 << 20),
                    8,
                    Bound { duration: ROUND, requests_max: u64::MAX },
                );
            }
            Work::Followers => {
                return self.load(
                    |number| {
                        (
                            format!("/slow?ms=300&bytes=4194304&chunks=64&max-age=60&i={number}"),
                            4 << 20,
                        )
                    },
                    FOLLOWERS,
                    Bound { duration: PATIENCE, requests_max: FOLLOWERS as u64 },
                );
            }
            Work::Parts => {
                return self.load(
                    |_| (format!("/{}", fairness::PAGE.0), fairness::PAGE_BYTES),
                    4,
                    Bound { duration: ROUND, requests_max: u64::MAX },
                );
            }
            Work::Tls => return self.tls(),
        };
        done.map_err(|error| error.to_string())
    }

    /// Waits until bytes were transferred, if any are expected.
    ///
    /// # Errors
    /// No bytes were transferred in time.
    pub(super) fn wait_begun(&self, is_busy: bool) -> Result<(), String> {
        let end = Instant::now() + BEGIN_MAX;
        while is_busy && self.moved.load(Ordering::Relaxed) == 0 {
            if Instant::now() > end {
                return Err("the busy clients did not begin".to_owned());
            }
            thread::sleep(Duration::from_millis(10));
        }
        thread::sleep(SETTLE);
        Ok(())
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    fn count(&self, bytes: usize) {
        self.moved.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Writes `first`, then `block` repeatedly on connections, and reads everything.
    fn pump(&self, address: SocketAddr, first: &[u8], block: &[u8]) -> io::Result<()> {
        let streams: Vec<TcpStream> =
            (0..PUMPS).map(|_| connect(address)).collect::<io::Result<_>>()?;
        thread::scope(|scope| {
            let mut threads = Vec::new();
            for stream in &streams {
                threads.push(scope.spawn(move || self.write(stream, first, block)));
                threads.push(scope.spawn(move || self.read(stream)));
            }
            while self.goes_on() && !threads.iter().any(thread::ScopedJoinHandle::is_finished) {
                thread::sleep(LOOK_EVERY);
            }
            let was_stopped = !self.goes_on();
            self.stop.store(true, Ordering::Relaxed);
            streams.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
            let ends = threads.into_iter().map(|thread| thread.join().unwrap_or(Ok(())));
            let first = ends.collect::<io::Result<()>>();
            if was_stopped { Ok(()) } else { first }
        })
    }

    fn write(&self, mut stream: &TcpStream, first: &[u8], block: &[u8]) -> io::Result<()> {
        stream.write_all(first)?;
        while self.goes_on() {
            for piece in block.chunks(BLOCK) {
                stream.write_all(piece)?;
                self.count(piece.len());
            }
        }
        Ok(())
    }

    /// Ends with an error: the server's or, after a shutdown, that of this side.
    fn read(&self, mut stream: &TcpStream) -> io::Result<()> {
        let mut buffer = vec![0; BLOCK];
        loop {
            match stream.read(&mut buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.count(count),
            }
        }
    }

    /// Sends datagrams of N clients in rotation, as fast as the kernel accepts them.
    fn flood(&self, to: SocketAddr, clients: usize) -> io::Result<()> {
        let sockets = (0..clients).map(|_| {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            socket.set_nonblocking(true)?;
            socket.connect(to)?;
            Ok(socket)
        });
        let sockets = sockets.collect::<io::Result<Vec<_>>>()?;
        let mut buffer = [0; 2048];
        for socket in sockets.iter().cycle().take_while(|_| self.goes_on()) {
            // Losses are expected in a flood.
            if socket.send(&[b'd'; DATAGRAM_BYTES]).is_ok() {
                self.count(DATAGRAM_BYTES);
            }
            while let Ok(count) = socket.recv(&mut buffer) {
                self.count(count);
            }
        }
        Ok(())
    }

    /// Whole requests: those of one round, then those for the next target.
    fn load(
        &self,
        target: impl Fn(u64) -> (String, u64),
        connections: usize,
        round: Bound,
    ) -> Result<(), String> {
        for number in 0.. {
            if !self.goes_on() {
                break;
            }
            let (target, bytes) = target(number);
            let plan = Plan {
                address: self.server.address(),
                asks: vec![TestRequest::counted(target, bytes)],
                connections,
                mode: Mode::KeepAlive,
                loss_policy: LossPolicy::Retry,
            };
            let mut load = Load::new(plan).map_err(|error| error.to_string())?;
            let outcome = load.run_until(round, &self.stop).map_err(|error| error.to_string())?;
            self.count(outcome.bytes as usize);
            if let Some(error) = outcome.first_error {
                return Err(error);
            }
        }
        Ok(())
    }

    fn tls(&self) -> Result<(), String> {
        let failed = |error: &dyn std::fmt::Display| error.to_string();
        let path = self.server.directory().join(fairness::CERTIFICATE);
        let pem = fs::read(path).map_err(|error| failed(&error))?;
        let certificate = CertificateDer::from_pem_slice(&pem).map_err(|error| failed(&error))?;
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate).map_err(|error| failed(&error))?;
        let config = rustls::ClientConfig::builder().with_root_certificates(roots);
        let config = Arc::new(config.with_no_client_auth());
        thread::scope(|scope| {
            let threads = (0..PUMPS).map(|_| scope.spawn(|| self.download_by_tls(config.clone())));
            let threads: Vec<_> = threads.collect();
            let ends = threads.into_iter().map(|thread| thread.join().unwrap_or(Ok(())));
            ends.collect::<io::Result<()>>()
        })
        .map_err(|error| failed(&error))
    }

    fn download_by_tls(&self, config: Arc<rustls::ClientConfig>) -> io::Result<()> {
        let name = ServerName::IpAddress(std::net::IpAddr::V4(fairness::NAME).into());
        let connection = rustls::ClientConnection::new(config, name).map_err(io::Error::other)?;
        let mut stream = rustls::StreamOwned::new(connection, connect(self.places.tls.address())?);
        let (request, mut buffer) =
            (get("GET", &format!("/{}", fairness::DOWNLOAD.0)), vec![0; BLOCK]);
        while self.goes_on() {
            stream.write_all(&request)?;
            let mut left = fairness::DOWNLOAD.1;
            while left > 0 && self.goes_on() {
                let count = stream.read(&mut buffer)?;
                if count == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                self.count(count);
                left = left.saturating_sub(count as u64);
            }
        }
        Ok(())
    }
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_nodelay(true)?;
    // A client that waits so long is not busy.
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn get(method: &str, target: &str) -> Vec<u8> {
    format!("{method} {target} HTTP/1.1\r\nHost: busy\r\n\r\n").into_bytes()
}

fn compressed() -> Vec<u8> {
    let target = fairness::TEXT.0;
    let request = format!("GET /{target} HTTP/1.1\r\nHost: busy\r\nAccept-Encoding: gzip\r\n\r\n");
    request.into_bytes()
}

fn upload(bytes: usize) -> Vec<u8> {
    let head = format!("POST /upload HTTP/1.1\r\nHost: busy\r\nContent-Length: {bytes}\r\n\r\n");
    [head.into_bytes(), vec![b'u'; bytes]].concat()
}

fn chunks(target: &str) -> Vec<u8> {
    let head =
        format!("POST {target} HTTP/1.1\r\nHost: busy\r\nTransfer-Encoding: chunked\r\n\r\n");
    [head.as_bytes(), &b"1\r\nx\r\n".repeat(CHUNKS), b"0\r\n\r\n"].concat()
}

const TUNNEL: &[u8] =
    b"GET /tunnel HTTP/1.1\r\nHost: busy\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\n";
const PUMPS: usize = 4;
const BLOCK: usize = 64 * 1024;
/// Requests of one block.
const PIPELINED: usize = 1000;
const UPLOAD_BYTES: usize = 8 << 20;
/// Bytes of one body: 1 MiB that arrives as 6.
const CHUNKS: usize = 1 << 20;
const CLIENTS: usize = 64;
const SESSION_CLIENTS: usize = 512;
const DATAGRAM_BYTES: usize = 64;
const FOLLOWERS: usize = 100;
const ROUND: Duration = Duration::from_millis(500);
const BEGIN_MAX: Duration = Duration::from_secs(60);
const SETTLE: Duration = Duration::from_millis(200);
const LOOK_EVERY: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(30);
