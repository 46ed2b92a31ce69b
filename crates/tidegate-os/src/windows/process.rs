//! Signals between processes (`-s`) as named events, and the limits of this process.

use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};

use windows_sys::Win32::Foundation::{HANDLE, WAIT_FAILED, WAIT_OBJECT_0};
use windows_sys::Win32::System::Threading::{
    CreateEventW, EVENT_MODIFY_STATE, INFINITE, OpenEventW, OpenProcess,
    PROCESS_QUERY_LIMITED_INFORMATION, SetEvent, WaitForMultipleObjects,
};

/// Signals that nginx's processes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signal {
    /// HUP: read the configuration again.
    Hangup,
    /// QUIT: finish the open requests, then end.
    Quit,
    /// TERM: end now.
    Terminate,
    /// USR1: open the logs again.
    User1,
}

/// The signals that can be sent, with the names of their events before the process id; the names are those of nginx for
/// Windows.
const SIGNALS: [(Signal, &str); 4] = [
    (Signal::Terminate, "Global\\ngx_stop_"),
    (Signal::Quit, "Global\\ngx_quit_"),
    (Signal::Hangup, "Global\\ngx_reload_"),
    (Signal::User1, "Global\\ngx_reopen_"),
];

/// The events by which this process receives signals. Only users who may open them can send signals: by default this
/// user and administrators.
#[derive(Debug)]
pub struct SignalEvents {
    events: [OwnedHandle; SIGNALS.len()],
}

impl SignalEvents {
    /// Makes the events.
    ///
    /// # Errors
    /// Another user has made such an event.
    pub fn create() -> io::Result<SignalEvents> {
        let pid = std::process::id();
        let make = |name: &str| {
            let name = super::wide(&format!("{name}{pid}"));
            // SAFETY: the name ends in a zero unit; without attributes the defaults hold. The event resets
            // itself and begins unset.
            let event = unsafe { CreateEventW(std::ptr::null(), 0, 0, name.as_ptr()) };
            own(event)
        };
        let [(_, stop), (_, quit), (_, reload), (_, reopen)] = SIGNALS;
        Ok(SignalEvents { events: [make(stop)?, make(quit)?, make(reload)?, make(reopen)?] })
    }

    /// Waits for a signal. Equal ones that arrive before the first is taken count once.
    ///
    /// # Errors
    /// None in practice.
    pub fn wait(&self) -> io::Result<Signal> {
        let handles = self.events.each_ref().map(AsRawHandle::as_raw_handle);
        // SAFETY: the handles are open as long as `self`, and their number is given.
        let which =
            unsafe { WaitForMultipleObjects(handles.len() as u32, handles.as_ptr(), 0, INFINITE) };
        if which == WAIT_FAILED {
            return Err(io::Error::last_os_error());
        }
        let signal = SIGNALS.get(which.wrapping_sub(WAIT_OBJECT_0) as usize);
        signal.map(|(signal, _)| *signal).ok_or_else(|| io::Error::other("waiting was abandoned"))
    }
}

/// Sends a signal to a process of this program.
///
/// # Errors
/// No such process (`NotFound`), or no permission (`PermissionDenied`).
pub fn kill(pid: u32, signal: Signal) -> io::Result<()> {
    let name = SIGNALS.iter().find(|(known, _)| *known == signal).map(|(_, name)| *name);
    let name = super::wide(&format!("{}{pid}", name.unwrap_or_default()));
    // SAFETY: the name ends in a zero unit.
    let event = own(unsafe { OpenEventW(EVENT_MODIFY_STATE, 0, name.as_ptr()) })?;
    // SAFETY: the event is open.
    super::check(unsafe { SetEvent(event.as_raw_handle()) })
}

/// Whether a process with this id exists.
pub fn exists(pid: u32) -> bool {
    // SAFETY: only integers are given.
    own(unsafe { OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, 0, pid) }).is_ok()
}

/// Returns 0: processes have no parent on this system.
pub fn parent_id() -> u32 {
    0
}

/// Does nothing: there is no such signal on this system.
pub fn ignore_sigpipe() {}

/// Does nothing: huge pages are used only on request, which this program never makes.
///
/// # Errors
/// None.
pub fn use_small_pages() -> io::Result<()> {
    Ok(())
}

/// Returns the limit of open files: memory is the only limit on this system.
pub fn nofile_limit() -> u64 {
    1 << 24
}

fn own(handle: HANDLE) -> io::Result<OwnedHandle> {
    if handle.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call that made the handle has succeeded, and the handle has no other owner.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}
