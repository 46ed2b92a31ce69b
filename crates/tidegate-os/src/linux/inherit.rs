//! Descriptors that an older process left open for this one: binary upgrade and re-exec.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Mutex;

use socket2::{SockRef, Type};

use super::check;

/// Numbers that were already adopted; each may have one owner only.
static ADOPTED: Mutex<BTreeSet<RawFd>> = Mutex::new(BTreeSet::new());

/// Takes over the open sockets whose numbers an environment variable lists in nginx's form (`3;4;`). They become
/// close-on-exec. Call it once, at the start of the process: numbers below 3 and those adopted before are refused,
/// since they have another owner.
///
/// # Errors
/// `InvalidInput` for a malformed list, a repeated number or one that is not an open socket.
pub fn env_inherited_listeners(variable: &str) -> io::Result<Vec<OwnedFd>> {
    env_list(variable)?.into_iter().map(adopt_socket).collect()
}

/// Returns the numbers that an environment variable lists in nginx's form; none without the variable.
///
/// # Errors
/// `InvalidInput` for a malformed list or a repeated number.
pub fn env_list(variable: &str) -> io::Result<Vec<RawFd>> {
    match std::env::var(variable) {
        Ok(list) => parse_list(&list),
        Err(std::env::VarError::NotPresent) => Ok(Vec::new()),
        Err(std::env::VarError::NotUnicode(_)) => Err(malformed()),
    }
}

/// Takes over one inherited socket by its number, as [`env_inherited_listeners`] does.
///
/// # Errors
/// `InvalidInput` when it is not an open socket or has an owner already.
pub fn adopt_socket(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: an integer is tested; fstat fails with EBADF on closed numbers.
    let is_socket = unsafe {
        let mut stat = std::mem::zeroed::<libc::stat>();
        libc::fstat(number, &raw mut stat) == 0 && stat.st_mode & libc::S_IFMT == libc::S_IFSOCK
    };
    let mut adopted = ADOPTED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if number < 3 || !is_socket || adopted.contains(&number) {
        return Err(malformed());
    }
    // SAFETY: F_GETFD and F_SETFD take and give integers, and change only the flag of this number.
    let flags = check(unsafe { libc::fcntl(number, libc::F_GETFD) })?;
    if flags & libc::FD_CLOEXEC != 0 {
        // An inherited descriptor cannot have the flag: this one was opened by this process and has an owner.
        return Err(malformed());
    }
    // SAFETY: as above.
    check(unsafe { libc::fcntl(number, libc::F_SETFD, flags | libc::FD_CLOEXEC) })?;
    adopted.insert(number);
    // SAFETY: the number is open, it lacked close-on-exec, which everything that this program opens has, so it was
    // inherited, and by the set above it was not adopted before.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// What an inherited socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketUse {
    /// It accepts connections of a stream.
    Listens,
    /// It receives datagrams.
    Datagrams,
    /// A connection, or a socket of another kind.
    Other,
}

/// Returns what a socket is for.
///
/// # Errors
/// Those of getsockopt.
pub fn socket_use(fd: impl AsFd) -> io::Result<SocketUse> {
    let fd = fd.as_fd();
    let socket = SockRef::from(&fd);
    Ok(match socket.r#type()? {
        Type::STREAM if socket.is_listener()? => SocketUse::Listens,
        Type::DGRAM => SocketUse::Datagrams,
        _ => SocketUse::Other,
    })
}

/// Formats the list in nginx's form for the environment of the next process.
pub fn format_list(numbers: &[RawFd]) -> String {
    numbers.iter().map(|number| format!("{number};")).collect()
}

pub(super) fn parse_list(list: &str) -> io::Result<Vec<RawFd>> {
    let mut numbers = Vec::new();
    for part in list.split([';', ':']).filter(|part| !part.is_empty()) {
        let number: RawFd = part.parse().map_err(|_| malformed())?;
        if number < 3 || numbers.contains(&number) {
            return Err(malformed());
        }
        numbers.push(number);
    }
    Ok(numbers)
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a list of inherited sockets")
}
