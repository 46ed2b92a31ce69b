//! Messages to the program that supervises this process: systemd's protocol (sd_notify(3)).

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Longest wait for a supervisor whose queue is full: it must not stop the server.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Sends one message to a Unix socket: a path, or an abstract name behind `@`.
///
/// # Errors
/// `InvalidInput` for another kind of address, `WouldBlock` where the receiver does not read, else those of sendto(2).
pub fn notify(address: &OsStr, message: &str) -> io::Result<()> {
    let address = match address.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        [b'/', ..] => SocketAddr::from_pathname(address)?,
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(WAIT_MAX))?;
    socket.send_to_addr(message.as_bytes(), &address).map(drop)
}
