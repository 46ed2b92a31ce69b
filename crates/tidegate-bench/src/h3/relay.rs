//! A relay of datagrams between one client and a server, which loses some of them and delays all; the same ones in each
//! run, by their numbers.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What the relay does to the datagrams of each direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// Of a thousand datagrams, those that are lost.
    pub lost_per_thousand: u64,
    pub delay: Duration,
}

/// A running relay; dropping it ends it. It serves one client socket: the last one that has sent.
pub(crate) struct Relay {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    counts: Arc<Counts>,
    thread: Option<JoinHandle<()>>,
}

/// Datagrams of both directions.
#[derive(Debug, Default)]
struct Counts {
    received: AtomicU64,
    lost: AtomicU64,
}

impl Relay {
    /// Starts a relay to a server.
    ///
    /// # Errors
    /// No sockets, or no thread.
    pub(crate) fn start(server: SocketAddr, path: Path) -> io::Result<Relay> {
        let bind = || -> io::Result<UdpSocket> {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            socket.set_nonblocking(true)?;
            // The system may give less.
            let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BYTES);
            let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, SOCKET_BYTES);
            Ok(socket)
        };
        let (front, back) = (bind()?, bind()?);
        back.connect(server)?;
        let address = front.local_addr()?;
        let (stop, counts) = (Arc::new(AtomicBool::new(false)), Arc::<Counts>::default());
        let mut running = Running {
            front,
            back,
            client: None,
            path,
            lanes: [Lane::new(FIRST_SEED), Lane::new(SECOND_SEED)],
            counts: counts.clone(),
        };
        let stopped = stop.clone();
        let thread = thread::Builder::new().name("relay".to_owned()).spawn(move || {
            let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
            while !stopped.load(Ordering::Relaxed) {
                running.turn(&mut buffer);
            }
        })?;
        Ok(Relay { address, stop, counts, thread: Some(thread) })
    }

    /// The address for the client.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The share of datagrams that were lost, in percent.
    pub(crate) fn lost_percent(&self) -> f64 {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64;
        count(&self.counts.lost) / count(&self.counts.received).max(1.0) * 100.0
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The relay on its thread.
struct Running {
    front: UdpSocket,
    back: UdpSocket,
    client: Option<SocketAddr>,
    path: Path,
    /// Towards the server, towards the client.
    lanes: [Lane; 2],
    counts: Arc<Counts>,
}

/// One direction.
struct Lane {
    random: Random,
    /// Datagrams on their way, with the time of their arrival.
    queue: VecDeque<(Instant, Vec<u8>)>,
}

impl Lane {
    fn new(seed: u64) -> Lane {
        Lane { random: Random(seed), queue: VecDeque::new() }
    }
}

impl Running {
    /// Waits for a datagram or the next arrival, then moves what there is.
    fn turn(&mut self, buffer: &mut [u8]) {
        let arrivals = self.lanes.iter().filter_map(|lane| lane.queue.front());
        let next = arrivals.map(|(at, _)| at.saturating_duration_since(Instant::now())).min();
        let wait = next.unwrap_or(WAIT_MAX).min(WAIT_MAX);
        let wait = Timespec { tv_sec: 0, tv_nsec: wait.subsec_nanos().into() };
        let mut sockets =
            [PollFd::new(&self.front, PollFlags::IN), PollFd::new(&self.back, PollFlags::IN)];
        let _ = poll(&mut sockets, Some(&wait));
        for _ in 0..DATAGRAMS_PER_TURN {
            let mut is_empty = true;
            if let Ok((count, from)) = self.front.recv_from(buffer) {
                self.client = Some(from);
                self.take(0, &buffer[..count]);
                is_empty = false;
            }
            if let Ok(count) = self.back.recv(buffer) {
                self.take(1, &buffer[..count]);
                is_empty = false;
            }
            if is_empty {
                break;
            }
        }
        self.deliver();
    }

    fn take(&mut self, lane: usize, datagram: &[u8]) {
        self.counts.received.fetch_add(1, Ordering::Relaxed);
        let lane = &mut self.lanes[lane];
        if lane.random.next() % 1000 < self.path.lost_per_thousand || lane.queue.len() >= QUEUE_MAX
        {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        lane.queue.push_back((Instant::now() + self.path.delay, datagram.to_vec()));
    }

    fn deliver(&mut self) {
        let now = Instant::now();
        let [to_server, to_client] = &mut self.lanes;
        while let Some((_, datagram)) = to_server.queue.pop_front_if(|(at, _)| *at <= now) {
            // What a socket does not take is lost, as on any path.
            let _ = self.back.send(&datagram);
        }
        while let Some((_, datagram)) = to_client.queue.pop_front_if(|(at, _)| *at <= now) {
            if let Some(client) = self.client {
                let _ = self.front.send_to(&datagram, client);
            }
        }
    }
}

/// Numbers that are the same in each run: xorshift (Marsaglia 2003).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Datagrams on their way in one direction: more are lost, as in a router's queue.
const QUEUE_MAX: usize = 10_000;
const DATAGRAMS_PER_TURN: usize = 64;
const DATAGRAM_BYTES_MAX: usize = 65_536;
const SOCKET_BYTES: usize = 4 << 20;
/// Longest time between two looks at the signal to end.
const WAIT_MAX: Duration = Duration::from_millis(50);
const FIRST_SEED: u64 = 0x9e37_79b9_7f4a_7c15;
const SECOND_SEED: u64 = 0xd1b5_4a32_d192_ed03;
