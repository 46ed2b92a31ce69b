//! Sockets that systemd opened for this process (sd_listen_fds(3)):
//!
//! ```text
//! LISTEN_PID=<this process> LISTEN_FDS=2 LISTEN_FDNAMES=http:https     descriptors 3 and 4
//! ```
//! Each must be the address of a `listen`: one that is not would take connections that no thread accepts, so the server
//! does not start. A `listen` without a passed socket opens its own.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;

use tidegate_core::listen::ListenerKey;
use tidegate_os::inherit::{self, SocketUse};
use tidegate_os::os_error;

use crate::listening::{Listening, place_of};

/// The variables of the protocol.
pub(crate) const VARIABLES: [&str; 3] = [PROCESS, COUNT, NAMES];

const PROCESS: &str = "LISTEN_PID";
const COUNT: &str = "LISTEN_FDS";
const NAMES: &str = "LISTEN_FDNAMES";

/// Number of the first socket.
const FIRST: i32 = 3;
/// Most sockets: more than any unit has, and less than a process may have open.
const SOCKETS_MAX: u16 = 1024;

/// Why the passed sockets are not used. As a text it is the line for the user who starts the service.
#[derive(Debug)]
pub(crate) enum ActivationError {
    /// A variable has no such value.
    Variable { name: &'static str, value: OsString },
    /// A descriptor is closed, or no socket.
    NoSocket(Passed),
    /// A connection (`Accept=yes`), or a socket of another kind.
    NotListening(Passed),
    /// The address of a socket cannot be read, or has a family that no `listen` has.
    Address(Passed, io::Error),
    /// No `listen` has this address.
    Surplus(Passed, String),
}

/// A descriptor and its name, as the unit of the socket has it (`FileDescriptorName=`).
#[derive(Clone, Debug)]
pub(crate) struct Passed {
    number: i32,
    name: String,
}

/// Takes over the sockets that are meant for this process. `is_wanted` says whether a `listen` has an address.
///
/// # Errors
/// The first socket, in the order of their numbers, that the server cannot use.
pub(crate) fn passed(
    is_wanted: impl Fn(&ListenerKey) -> bool,
) -> Result<Vec<Listening>, ActivationError> {
    let mut listening: Vec<Listening> = Vec::new();
    let count = count(std::env::var_os(PROCESS), std::env::var_os(COUNT), std::process::id())?;
    let names = std::env::var(NAMES).unwrap_or_default();
    let mut names = names.split(':');
    for number in (FIRST..).take(count.into()) {
        let passed = Passed { number, name: names.next().unwrap_or_default().to_owned() };
        let Ok(socket) = inherit::adopt_socket(number) else {
            return Err(ActivationError::NoSocket(passed));
        };
        let place = match inherit::socket_use(&socket) {
            Ok(SocketUse::Listens | SocketUse::Datagrams) => place_of(&socket),
            Ok(SocketUse::Other) => return Err(ActivationError::NotListening(passed)),
            Err(error) => Err(error),
        };
        let place = place.map_err(|error| ActivationError::Address(passed.clone(), error))?;
        if !is_wanted(&place) {
            let kind = if place.datagram { " udp" } else { "" };
            let address = format!("{}{kind}", place.address.text());
            return Err(ActivationError::Surplus(passed, address));
        }
        Listening::add(&mut listening, place, socket, true);
    }
    Ok(listening)
}

/// Returns the number of sockets, given the values of the variables: none when they are meant for another process.
fn count(
    process: Option<OsString>,
    count: Option<OsString>,
    own: u32,
) -> Result<u16, ActivationError> {
    let number = |name, value: &OsStr| {
        let number = value.to_str().and_then(|value| value.parse::<u32>().ok());
        number.ok_or_else(|| ActivationError::Variable { name, value: value.to_owned() })
    };
    let (Some(process), Some(value)) = (process, count) else { return Ok(0) };
    if number(PROCESS, &process)? != own {
        return Ok(0);
    }
    let count = u16::try_from(number(COUNT, &value)?).ok().filter(|count| *count <= SOCKETS_MAX);
    count.ok_or(ActivationError::Variable { name: COUNT, value })
}

impl fmt::Display for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.as_str() {
            "" => write!(f, "socket {} of {COUNT}", self.number),
            name => write!(f, "socket {} of {COUNT} (\"{}\")", self.number, name.escape_debug()),
        }
    }
}

impl fmt::Display for ActivationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ActivationError::Variable { name, value } => {
                write!(f, "invalid environment variable {name}={}", value.display())
            }
            ActivationError::NoSocket(passed) => write!(f, "{passed} is not an open socket"),
            ActivationError::NotListening(passed) => {
                write!(f, "{passed} does not listen: its unit must have \"Accept=no\"")
            }
            ActivationError::Address(passed, error) => {
                write!(f, "{passed} has no usable address ({})", os_error(error))
            }
            ActivationError::Surplus(passed, address) => {
                write!(
                    f,
                    "{passed} is bound to {address}, which no \"listen\" of the configuration has"
                )?;
                match address.strip_prefix("[::]:").filter(|port| !port.contains(' ')) {
                    // systemd's `ListenStream=80`
                    Some(port) => write!(
                        f,
                        "; for \"listen {port};\" the unit needs \"ListenStream=0.0.0.0:{port}\""
                    ),
                    None => Ok(()),
                }
            }
        }
    }
}

impl std::error::Error for ActivationError {}

#[cfg(test)]
mod tests;
