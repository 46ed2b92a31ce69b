//! Signals of the process's life before it can react to them: held back, so that none is lost and none ends the process
//! by its default action.
//!
//! A thread holds signals back for itself, for the threads that it starts and for the programs that it starts. A signal
//! that is held back is delivered once it is released; equal ones count once.

use super::check;

/// Those that ask the process to end.
const ENDS: [libc::c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT];

/// All others.
const OTHERS: [libc::c_int; 4] = [libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2, libc::SIGWINCH];

/// Holds back HUP, USR1, USR2, WINCH, TERM, INT and QUIT from the calling thread, and no others: the process that started
/// this one may have blocked some, as nginx does for a new binary.
pub fn hold() {
    change(libc::SIG_SETMASK, ENDS.iter().chain(&OTHERS));
}

/// Releases all of them in the calling thread.
pub fn release() {
    change(libc::SIG_UNBLOCK, ENDS.iter().chain(&OTHERS));
}

/// Makes TERM, INT and QUIT end the process at once with status 0, as long as it has nothing to clean up; the others stay
/// held back. QUIT would leave a core file otherwise.
pub fn end_on_request() {
    extern "C" fn end(_signal: libc::c_int) {
        // SAFETY: _exit is async-signal-safe, and runs no code of this program.
        unsafe { libc::_exit(0) };
    }
    let handler: extern "C" fn(libc::c_int) = end;
    for signal in ENDS {
        // SAFETY: the handler does nothing that a handler must not do; `signal` fails for invalid numbers only.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
    change(libc::SIG_UNBLOCK, ENDS.iter());
}

/// Holds back TERM, INT and QUIT again, in place of [`end_on_request`]. To be called before handlers are installed, which
/// may call those that they find.
pub fn prepare_handlers() {
    hold();
    for signal in ENDS {
        // SAFETY: SIG_DFL installs no code of ours; `signal` fails for invalid numbers only.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Sends the signals that this process holds back to the process that continues its work.
pub(super) fn pass_on(pid: libc::pid_t) {
    let mut pending = empty();
    // SAFETY: the set is a valid one, which the call overwrites.
    if check(unsafe { libc::sigpending(&mut pending) }).is_err() {
        return;
    }
    for signal in ENDS.iter().chain(&OTHERS) {
        // SAFETY: only a set, which is valid, and integers are given.
        unsafe {
            if libc::sigismember(&pending, *signal) == 1 {
                libc::kill(pid, *signal);
            }
        }
    }
}

fn change<'s>(how: libc::c_int, signals: impl Iterator<Item = &'s libc::c_int>) {
    let mut set = empty();
    // SAFETY: the set is a valid one; both calls fail for invalid numbers only.
    unsafe {
        for signal in signals {
            libc::sigaddset(&mut set, *signal);
        }
        libc::pthread_sigmask(how, &set, std::ptr::null_mut());
    }
}

fn empty() -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: sigemptyset initializes the set, and cannot fail for a valid address.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    }
}
