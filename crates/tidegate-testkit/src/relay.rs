//! A relay of datagrams between clients and the server that loses, delays, changes and reorders them by rules, and changes
//! its address towards the server as a NAT does. What it does depends on the numbers of datagrams and on a seed alone.
//!
//! Each client has a socket towards the server, with a thread that receives; one more thread sends what was delayed.

mod link;
mod words;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::bell::{Failure, locked};
use crate::origin::Shared;
use link::{Counts, Link};
pub(crate) use words::relay_line;
pub(crate) use words::{RelayCount, RelayLine};

/// How often a thread looks whether it is still needed.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Largest datagram.
const DATAGRAM_BYTES_MAX: usize = 65536;

/// A direction of the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From clients to the server.
    Up,
    /// From the server to clients.
    Down,
}

/// A relay that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Relay {
    paths: Arc<Paths>,
    /// Its address for clients.
    pub address: SocketAddr,
}

/// What its threads share.
#[derive(Debug)]
struct Paths {
    front: UdpSocket,
    server: SocketAddr,
    state: Mutex<State>,
    /// Notified when datagrams were put off.
    changed: Condvar,
    is_over: AtomicBool,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct State {
    up: Link,
    down: Link,
    /// The socket towards the server of each client.
    flows: BTreeMap<SocketAddr, Arc<UdpSocket>>,
    /// The address of new ones.
    ip: IpAddr,
}

impl State {
    fn link(&mut self, direction: Direction) -> &mut Link {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }
}

impl Relay {
    /// Starts a relay before the server at `server`.
    pub(crate) fn start(server: SocketAddr, shared: Arc<Shared>) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::new(format!("a relay: {error}"));
        let ip: IpAddr = match server {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        let front = UdpSocket::bind((ip, 0)).map_err(failed)?;
        let address = front.local_addr().map_err(failed)?;
        front.set_read_timeout(Some(LOOK_AGAIN)).map_err(failed)?;
        let (up, down) = (Link::new(1), Link::new(2));
        let state = State { up, down, flows: BTreeMap::new(), ip };
        let paths = Arc::new(Paths {
            front,
            server,
            state: Mutex::new(state),
            changed: Condvar::new(),
            is_over: AtomicBool::new(false),
            shared,
        });
        let (receiver, sender) = (paths.clone(), paths.clone());
        std::thread::spawn(move || receiver.receive_from_clients());
        std::thread::spawn(move || sender.send_later());
        Ok(Self { paths, address })
    }

    /// Changes it.
    pub(crate) fn apply(&self, line: &RelayLine) -> Result<(), Failure> {
        match line {
            RelayLine::To(_) => Err(Failure::new("the relay has started already")),
            RelayLine::Seed(seed) => {
                let mut state = locked(&self.paths.state);
                state.up.seed(*seed);
                state.down.seed(seed.wrapping_add(1));
                Ok(())
            }
            RelayLine::Rules(directions, rules) => {
                let mut state = locked(&self.paths.state);
                for direction in directions {
                    let link = state.link(*direction);
                    rules.iter().for_each(|rule| link.set(rule, Instant::now()));
                }
                Ok(())
            }
            RelayLine::Rebind(address) => self.paths.rebind(*address),
        }
    }

    /// Returns a number of it.
    pub(crate) fn count(&self, direction: Direction, count: RelayCount) -> i64 {
        let mut state = locked(&self.paths.state);
        let Counts { packets, bytes, lost } = state.link(direction).counts;
        match count {
            RelayCount::Packets => packets,
            RelayCount::Bytes => bytes,
            RelayCount::Lost => lost,
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.paths.is_over.store(true, Ordering::SeqCst);
        self.paths.changed.notify_all();
    }
}

impl Paths {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst) || self.shared.over.load(Ordering::SeqCst)
    }

    fn receive_from_clients(self: Arc<Self>) {
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        while !self.is_over() {
            let Ok((count, client)) = self.front.recv_from(&mut buffer) else { continue };
            let mut state = locked(&self.state);
            if !state.flows.contains_key(&client) {
                let Ok(socket) = self.flow(client, state.ip) else { continue };
                state.flows.insert(client, socket);
            }
            state.up.push(Instant::now(), client, &buffer[..count]);
            self.send(state);
        }
    }

    /// Opens a socket towards the server, with its thread.
    fn flow(self: &Arc<Self>, client: SocketAddr, ip: IpAddr) -> std::io::Result<Arc<UdpSocket>> {
        let socket = Arc::new(UdpSocket::bind((ip, 0))?);
        socket.set_read_timeout(Some(LOOK_AGAIN))?;
        let (paths, own) = (self.clone(), socket.clone());
        std::thread::spawn(move || paths.receive_from_server(client, &own));
        Ok(socket)
    }

    fn receive_from_server(&self, client: SocketAddr, socket: &Arc<UdpSocket>) {
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        while !self.is_over() {
            let received = socket.recv_from(&mut buffer);
            let mut state = locked(&self.state);
            if !state.flows.get(&client).is_some_and(|newest| Arc::ptr_eq(newest, socket)) {
                // The NAT has forgotten this port.
                return;
            }
            let Ok((count, _)) = received else { continue };
            state.down.push(Instant::now(), client, &buffer[..count]);
            self.send(state);
        }
    }

    /// Sends what is due.
    fn send(&self, mut state: MutexGuard<'_, State>) {
        let now = Instant::now();
        while let Some((client, bytes)) = state.up.due(now) {
            if let Some(socket) = state.flows.get(&client) {
                let _ = mark(socket, state.up.mark);
                let _ = socket.send_to(&bytes, self.server);
            }
        }
        while let Some((client, bytes)) = state.down.due(now) {
            let _ = mark(&self.front, state.down.mark);
            let _ = self.front.send_to(&bytes, client);
        }
        drop(state);
        self.changed.notify_all();
        self.shared.bell.ring();
    }

    fn send_later(&self) {
        while !self.is_over() {
            let state = locked(&self.state);
            let next = [state.up.next(), state.down.next()].into_iter().flatten().min();
            let now = Instant::now();
            let pause = next.map_or(LOOK_AGAIN, |at| at.saturating_duration_since(now));
            if pause.is_zero() {
                self.send(state);
                continue;
            }
            let _ = self.changed.wait_timeout(state, pause.min(LOOK_AGAIN));
        }
    }

    fn rebind(self: &Arc<Self>, address: Option<IpAddr>) -> Result<(), Failure> {
        let mut state = locked(&self.state);
        state.ip = address.unwrap_or(state.ip);
        let clients: Vec<_> = state.flows.keys().copied().collect();
        for client in clients {
            let socket = self.flow(client, state.ip);
            let socket = socket.map_err(|error| Failure::new(format!("a new port: {error}")))?;
            state.flows.insert(client, socket);
        }
        Ok(())
    }
}

/// Sets the ECN field of what a socket sends from here on.
fn mark(socket: &UdpSocket, mark: u32) -> std::io::Result<()> {
    match socket.local_addr()? {
        SocketAddr::V4(_) => socket2::SockRef::from(socket).set_tos_v4(mark),
        SocketAddr::V6(_) => socket2::SockRef::from(socket).set_tclass_v6(mark),
    }
}
