//! Running as a service: messages from and to the service manager.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use windows_sys::Win32::Foundation::ERROR_SERVICE_SPECIFIC_ERROR;
use windows_sys::Win32::System::Services::{
    CloseServiceHandle, CreateServiceW, DeleteService, OpenSCManagerW, OpenServiceW,
    RegisterServiceCtrlHandlerW, SC_HANDLE, SC_MANAGER_CREATE_SERVICE, SERVICE_ACCEPT_SHUTDOWN,
    SERVICE_ACCEPT_STOP, SERVICE_AUTO_START, SERVICE_CONTROL_SHUTDOWN, SERVICE_CONTROL_STOP,
    SERVICE_ERROR_NORMAL, SERVICE_RUNNING, SERVICE_START_PENDING, SERVICE_STATUS,
    SERVICE_STATUS_CURRENT_STATE, SERVICE_STOP_PENDING, SERVICE_STOPPED, SERVICE_TABLE_ENTRYW,
    SERVICE_WIN32_OWN_PROCESS, SetServiceStatus, StartServiceCtrlDispatcherW,
};

use super::{check, wide};

/// The right to delete (DELETE of the standard rights).
const DELETE: u32 = 0x0001_0000;

/// The work of a service: returns whether it succeeded.
type Work = Box<dyn FnOnce() -> bool + Send>;

/// The one service of this process, until it is started.
static SERVICE: Mutex<Option<Service>> = Mutex::new(None);
/// Called when the service is to stop.
static STOP: Mutex<Option<fn()>> = Mutex::new(None);
/// The handle for reporting the state to the manager; 0 until there is one.
static STATUS: AtomicUsize = AtomicUsize::new(0);

struct Service {
    name: Vec<u16>,
    work: Work,
}

/// Installs a service: the manager runs a command line at each start of the system.
///
/// # Errors
/// No permission, or a service of this name exists.
pub fn install(name: &str, shown: &str, command_line: &str) -> io::Result<()> {
    let manager = Handle::manager(SC_MANAGER_CREATE_SERVICE)?;
    let (name, shown, line) = (wide(name), wide(shown), wide(command_line));
    let none = std::ptr::null();
    // SAFETY: the manager is open, the texts end in a zero unit, and the null pointers stand for "none".
    let service = unsafe {
        CreateServiceW(
            manager.0,
            name.as_ptr(),
            shown.as_ptr(),
            0,
            SERVICE_WIN32_OWN_PROCESS,
            SERVICE_AUTO_START,
            SERVICE_ERROR_NORMAL,
            line.as_ptr(),
            none,
            std::ptr::null_mut(),
            none,
            none,
            none,
        )
    };
    Handle::of(service).map(drop)
}

/// Removes a service; a running one is removed when it has ended.
///
/// # Errors
/// No permission, or no such service.
pub fn remove(name: &str) -> io::Result<()> {
    let manager = Handle::manager(0)?;
    let name = wide(name);
    // SAFETY: the manager is open, and the name ends in a zero unit.
    let service = Handle::of(unsafe { OpenServiceW(manager.0, name.as_ptr(), DELETE) })?;
    // SAFETY: the service is open with the right to delete it.
    check(unsafe { DeleteService(service.0) })
}

/// Runs the work of a service, for which the service manager has started this process; `stop` is called when it is to
/// end. Returns when it has ended.
///
/// # Errors
/// The process was not started by the service manager.
pub fn run(name: &str, stop: fn(), work: impl FnOnce() -> bool + Send + 'static) -> io::Result<()> {
    *lock(&STOP) = Some(stop);
    *lock(&SERVICE) = Some(Service { name: wide(name), work: Box::new(work) });
    let mut own = wide(name);
    let table = [
        SERVICE_TABLE_ENTRYW { lpServiceName: own.as_mut_ptr(), lpServiceProc: Some(main) },
        SERVICE_TABLE_ENTRYW { lpServiceName: std::ptr::null_mut(), lpServiceProc: None },
    ];
    // SAFETY: the table ends in an empty entry, and it and the name outlive the call, which returns when
    // the service has ended.
    check(unsafe { StartServiceCtrlDispatcherW(table.as_ptr()) })
}

/// Reports to the service manager, if it started this process, that the service has started.
pub fn serving() {
    if STATUS.load(Ordering::SeqCst) != 0 {
        report_state(SERVICE_RUNNING, true);
    }
}

/// Called by the system on a thread of its own.
unsafe extern "system" fn main(_count: u32, _arguments: *mut windows_sys::core::PWSTR) {
    let Some(service) = lock(&SERVICE).take() else { return };
    // SAFETY: the name ends in a zero unit, and the handler is a function, which lives for ever.
    let status = unsafe { RegisterServiceCtrlHandlerW(service.name.as_ptr(), Some(handle)) };
    STATUS.store(status.addr(), Ordering::SeqCst);
    report_state(SERVICE_START_PENDING, true);
    let done = catch_unwind(AssertUnwindSafe(service.work)).unwrap_or(false);
    report_state(SERVICE_STOPPED, done);
}

/// Called by the system when the service is to do something.
unsafe extern "system" fn handle(control: u32) {
    if matches!(control, SERVICE_CONTROL_STOP | SERVICE_CONTROL_SHUTDOWN) {
        report_state(SERVICE_STOP_PENDING, true);
        let stop = *lock(&STOP);
        if let Some(stop) = stop {
            // Nothing may unwind into the system.
            let _ = catch_unwind(stop);
        }
    }
}

fn report_state(state: SERVICE_STATUS_CURRENT_STATE, well: bool) {
    let status = SERVICE_STATUS {
        dwServiceType: SERVICE_WIN32_OWN_PROCESS,
        dwCurrentState: state,
        dwControlsAccepted: SERVICE_ACCEPT_STOP | SERVICE_ACCEPT_SHUTDOWN,
        dwWin32ExitCode: if well { 0 } else { ERROR_SERVICE_SPECIFIC_ERROR },
        dwServiceSpecificExitCode: u32::from(!well),
        dwCheckPoint: 0,
        // Longest silence before the manager considers the service hung, milliseconds.
        dwWaitHint: 60_000,
    };
    let handle = std::ptr::without_provenance_mut(STATUS.load(Ordering::SeqCst));
    // SAFETY: the handle is the one of the registered handler (or null, which is refused), and the pointer
    // is to a live structure of its type.
    unsafe { SetServiceStatus(handle, &raw const status) };
}

/// A handle of the service manager.
struct Handle(SC_HANDLE);

impl Handle {
    fn of(handle: SC_HANDLE) -> io::Result<Handle> {
        if handle.is_null() { Err(io::Error::last_os_error()) } else { Ok(Handle(handle)) }
    }

    fn manager(rights: u32) -> io::Result<Handle> {
        // SAFETY: the null pointers stand for this machine and its usual database.
        Handle::of(unsafe { OpenSCManagerW(std::ptr::null(), std::ptr::null(), rights) })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is open and closed here only.
        unsafe { CloseServiceHandle(self.0) };
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
