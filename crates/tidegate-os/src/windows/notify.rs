//! Messages to the program that supervises this process: systemd's protocol, which this system has not.

use std::ffi::OsStr;
use std::io;

/// Sends one message: not on this system.
///
/// # Errors
/// Always `Unsupported`.
pub fn notify(_address: &OsStr, _message: &str) -> io::Result<()> {
    Err(super::unsupported("there is no systemd on this system"))
}
