//! The user and the machine.

use windows_sys::Win32::System::SystemInformation::{
    ComputerNamePhysicalDnsHostname, GetComputerNameExW,
};
use windows_sys::Win32::System::Threading::GetCurrentThreadId;

/// Whether ports below 1024 may be listened on: every user may on this system.
pub fn is_root() -> bool {
    true
}

/// Returns the machine's name, as `hostname` shows it.
pub fn host_name() -> String {
    let mut buffer = [0_u16; 256];
    let mut length = buffer.len() as u32;
    // SAFETY: the buffer has `length` units, and the system writes no more and returns the number.
    let found = unsafe {
        GetComputerNameExW(ComputerNamePhysicalDnsHostname, buffer.as_mut_ptr(), &raw mut length)
    };
    let name = buffer.get(..length as usize).filter(|_| found != 0).unwrap_or_default();
    String::from_utf16_lossy(name)
}

/// Returns the system's number of the calling thread, as log lines show it.
pub fn thread_id() -> u64 {
    // SAFETY: has no arguments and cannot fail.
    u64::from(unsafe { GetCurrentThreadId() })
}
