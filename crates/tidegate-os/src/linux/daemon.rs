//! Becoming a daemon: `daemon on`.

use std::io;

use rustix::fs::{Mode, OFlags};

use super::{check, held_signals, process};

/// Continues as a child in a session of its own, with standard input, output and error at /dev/null; the calling
/// process ends with status 0. Returns in the child, which gets the signals that are held back.
///
/// Standard error is redirected too: print messages of the start before.
///
/// # Errors
/// Refused once the process has more than one thread, since only the calling one would survive.
pub fn daemonize() -> io::Result<()> {
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    if process::thread_count()? != 1 {
        let message = "cannot go into the background after threads were started";
        return Err(io::Error::other(message));
    }
    // SAFETY: this is the only thread, so no lock can be held by a thread that the child lacks.
    let pid = check(unsafe { libc::fork() })?;
    if pid != 0 {
        held_signals::pass_on(pid);
        // SAFETY: _exit ends the process without running destructors, whose effects (removing
        // files, flushing buffers) belong to the child.
        unsafe { libc::_exit(0) };
    }
    rustix::process::setsid()?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}
