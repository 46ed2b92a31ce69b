//! Opening the sockets that a plan listens on, and keeping those that are already open.

use std::collections::{HashMap, HashSet};
use std::io;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tidegate_core::client::Address;
use tidegate_core::listen::{ListenerKey, ListenerPlan};
use tidegate_os::error::is_out_of_descriptors;
use tidegate_os::listen::{HAS_REUSEPORT, apply_listen_options, listen_socket};
use tidegate_os::os_error;
use tidegate_os::steer::by_connection_number;
use tidegate_os::{Keepalive, ListenAddr, ListenOptions, OwnedSocket, Transport};

/// Attempts to open a taken port, and the pause between them, as in nginx: the process that holds it may be about to
/// end.
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_millis(500);

/// The open sockets of one address: several with `reuseport` and with `quic`, one for each worker thread.
///
/// Invariant: those of `quic` are in the order in which they were bound, which is that of the kernel's index.
#[derive(Clone, Debug)]
pub(crate) struct Listening {
    pub place: ListenerKey,
    pub sockets: Vec<Arc<OwnedSocket>>,
    /// The supervisor opened them (`activation`): files of Unix sockets are its own.
    pub is_supervisors: bool,
}

impl Listening {
    /// Adds a socket to those of its place.
    pub(crate) fn add(
        all: &mut Vec<Listening>,
        place: ListenerKey,
        socket: OwnedSocket,
        is_supervisors: bool,
    ) {
        match all.iter_mut().find(|known| known.place == place) {
            Some(known) => {
                known.is_supervisors |= is_supervisors;
                known.sockets.push(socket.into());
            }
            None => all.push(Listening { place, sockets: vec![socket.into()], is_supervisors }),
        }
    }
}

/// Why no socket listens on an address.
#[derive(Debug)]
pub(crate) struct BindError {
    pub address: Address,
    pub error: io::Error,
    /// The process that holds the address, and its program, where the system reports it.
    pub holder: Option<(u32, String)>,
}

impl BindError {
    /// Whether the port is taken by another program.
    pub(crate) fn is_taken(&self) -> bool {
        self.error.kind() == io::ErrorKind::AddrInUse
    }
}

impl std::fmt::Display for BindError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (address, error) = (self.address.text(), os_error(&self.error));
        write!(formatter, "bind() to {address} failed ({error})")?;
        match &self.holder {
            Some((pid, program)) => write!(formatter, ", held by \"{program}\" (process {pid})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for BindError {}

/// The result of opening sockets.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    /// All addresses of the plan that are open, in its order.
    pub listening: Vec<Listening>,
    /// Addresses whose sockets are new.
    pub new: Vec<ListenerKey>,
    pub failed: Vec<BindError>,
}

/// Opens the sockets of `wanted` that `present` does not have; sockets that are not wanted any more stay in `present`.
/// `threads` is the number of sockets of a `reuseport` or `quic` address.
pub(crate) fn open(
    wanted: &[&ListenerPlan],
    present: &mut Vec<Listening>,
    threads: usize,
) -> Opening {
    open_with(wanted, present, threads, listen_options)
}

/// Opens a socket for each of `wanted`, as a check, where no other one is open: beside those of a running server it would
/// take clients of theirs.
pub(crate) fn try_to_open(wanted: &[&ListenerPlan]) -> Opening {
    let alone = |listener: &_| ListenOptions {
        reuseport: false,
        exclusive: true,
        ..listen_options(listener)
    };
    open_with(wanted, &mut Vec::new(), 1, alone)
}

fn open_with(
    wanted: &[&ListenerPlan],
    present: &mut Vec<Listening>,
    threads: usize,
    options_of: impl Fn(&ListenerPlan) -> ListenOptions,
) -> Opening {
    let mut opening = Opening::default();
    let mut open = by_place(present);
    'wanted: for listener in wanted {
        let options = options_of(listener);
        let place = listener.place();
        let none =
            || Listening { place: place.clone(), sockets: Vec::new(), is_supervisors: false };
        let mut known = open.remove(&place).unwrap_or_else(none);
        let count = match options.reuseport && HAS_REUSEPORT {
            false => 1,
            // One that closes gives its index to another one: surplus ones stay open, and get no packets.
            true if listener.quic && has_steering() => threads.max(known.sockets.len()).max(1),
            true => threads.max(1),
        };
        known.sockets.truncate(count);
        for socket in &known.sockets {
            // Options that cannot be changed on an open socket stay as they are.
            let _ = apply_listen_options(&**socket, &options);
        }
        if known.sockets.is_empty() {
            opening.new.push(listener.place());
        }
        while known.sockets.len() < count {
            match open_one(&listener.address, &options) {
                Ok(socket) => known.sockets.push(socket.into()),
                Err(error) => {
                    let address = listener.address.clone();
                    let holder = holder_of(&address, options.transport, &error);
                    let is_last = error.raw_os_error().is_some_and(is_out_of_descriptors);
                    opening.failed.push(BindError { address, error, holder });
                    if is_last {
                        // All others would fail for the same reason.
                        opening.listening.push(known);
                        break 'wanted;
                    }
                    break;
                }
            }
        }
        opening.listening.push(known);
    }
    present.extend(open.into_values());
    opening
}

/// Opens as [`open`], and tries taken ports again for a while. The callback is called for each failure.
///
/// Invariant: the sockets opened in one round are kept for the next ([`open`] takes them from `present`), so a socket
/// is opened once, and `new` has all that were not there before. Only a taken port is worth another round: a server
/// that ends may hold it. As nginx: 5 tries, half a second between them.
pub(crate) fn open_patiently(
    wanted: &[&ListenerPlan],
    present: &mut Vec<Listening>,
    threads: usize,
    mut on_failure: impl FnMut(&BindError),
) -> Opening {
    let mut all = Opening::default();
    for round in 1..=TRIES {
        let opening = open(wanted, present, threads);
        all.new.extend(opening.new);
        all.listening = opening.listening;
        all.failed = opening.failed;
        all.failed.iter().for_each(&mut on_failure);
        let worth_waiting = all.failed.iter().any(BindError::is_taken);
        if !worth_waiting || round == TRIES {
            break;
        }
        present.append(&mut all.listening);
        tidegate_rt::timer::pause(PAUSE);
    }
    all
}

/// Removes the files of Unix sockets in `of` that are not in `kept`.
pub(crate) fn remove_socket_files(of: &[Listening], kept: &[Listening]) {
    let kept: HashSet<&ListenerKey> = kept.iter().map(|kept| &kept.place).collect();
    for listening in of.iter().filter(|listening| !listening.is_supervisors) {
        let is_kept = kept.contains(&listening.place);
        if let Some(path) = socket_file(&listening.place.address).filter(|_| !is_kept) {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Returns the file of a Unix socket, which is removed with it.
pub(crate) fn socket_file(address: &Address) -> Option<PathBuf> {
    match address {
        Address::Unix(path) => Some(Path::new(path).to_owned()),
        Address::Inet(_) => None,
    }
}

/// Returns the address of an inherited socket.
pub(crate) fn place_of(socket: &OwnedSocket) -> io::Result<ListenerKey> {
    let address = match tidegate_os::socket::local_addr(socket)? {
        ListenAddr::Inet(address) => Address::Inet(address),
        ListenAddr::Unix(path) => Address::Unix(path.to_string_lossy().into_owned()),
    };
    Ok(ListenerKey { address, datagram: tidegate_os::socket::is_datagram(socket)? })
}

/// Takes all sockets, grouped by place.
fn by_place(present: &mut Vec<Listening>) -> HashMap<ListenerKey, Listening> {
    let mut open: HashMap<ListenerKey, Listening> = HashMap::new();
    for listening in present.drain(..) {
        match open.get_mut(&listening.place) {
            Some(known) => known.sockets.extend(listening.sockets),
            None => drop(open.insert(listening.place.clone(), listening)),
        }
    }
    open
}

/// Whether the kernel can choose among the sockets of `quic`. Tried once, with a socket of its own.
fn has_steering() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let any = ListenAddr::Inet(([127, 0, 0, 1], 0).into());
        let options = ListenOptions {
            transport: Transport::Datagram,
            reuseport: true,
            ..ListenOptions::default()
        };
        let socket = listen_socket(&any, &options);
        socket.and_then(|socket| by_connection_number(socket, NonZeroU16::MIN)).is_ok()
    })
}

fn open_one(address: &Address, options: &ListenOptions) -> io::Result<OwnedSocket> {
    let address = match address {
        Address::Inet(address) => ListenAddr::Inet(*address),
        Address::Unix(path) => ListenAddr::Unix(path.into()),
    };
    listen_socket(&address, options)
}

/// Returns the process that holds a taken address.
fn holder_of(address: &Address, transport: Transport, error: &io::Error) -> Option<(u32, String)> {
    match address {
        Address::Inet(address) if error.kind() == io::ErrorKind::AddrInUse => {
            tidegate_os::holder::holder(*address, transport)
        }
        _ => None,
    }
}

/// nginx's queue length on Linux.
pub(crate) const BACKLOG_DEFAULT: u32 = 511;

fn listen_options(listener: &ListenerPlan) -> ListenOptions {
    let socket = &listener.socket;
    let backlog = match socket.backlog {
        None => BACKLOG_DEFAULT,
        // -1 requests the longest queue that the system allows.
        Some(length) => u32::try_from(length).unwrap_or(i32::MAX as u32),
    };
    ListenOptions {
        transport: if listener.datagram { Transport::Datagram } else { Transport::Stream },
        backlog,
        // nginx needs the word for more than one worker process.
        reuseport: socket.reuseport || listener.quic,
        deferred: socket.deferred,
        fastopen: socket.fastopen.and_then(|length| u32::try_from(length).ok()),
        rcvbuf: socket.rcvbuf,
        sndbuf: socket.sndbuf,
        keepalive: socket.so_keepalive.as_ref().map(|keepalive| Keepalive {
            on: keepalive.on,
            idle: keepalive.idle,
            interval: keepalive.interval,
            count: keepalive.count,
        }),
        ipv6only: socket.ipv6only.unwrap_or(true),
        unix_mode: socket.unix_mode,
        multipath: socket.multipath,
        ..ListenOptions::default()
    }
}

#[cfg(test)]
mod tests;
