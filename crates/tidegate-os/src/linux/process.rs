//! Starting, watching and signalling processes, and the limits of this process.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Pid, Resource, Rlimit, Signal as RawSignal, WaitOptions};

use super::check;
use crate::types::Spawned;

/// Signals that nginx's processes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signal {
    /// HUP: read the configuration again.
    Hangup,
    /// QUIT: finish the open requests, then end.
    Quit,
    /// TERM: end now.
    Terminate,
    /// INT: end now.
    Interrupt,
    /// USR1: open the logs again.
    User1,
    /// USR2: start the new binary.
    User2,
    /// WINCH: end the workers gracefully.
    WindowChange,
    /// KILL.
    Kill,
}

/// Starts a program with exactly the given environment. Each listed descriptor is open in it under the given number;
/// all others that this program opened are close-on-exec. Standard input, output and error are shared. `name` is the
/// program's argument 0, `args` are those after it. Signals that the calling thread holds back are held back in it.
///
/// # Errors
/// The program cannot be executed, a number below 3 or a repeated one, no processes or descriptors left.
pub fn spawn(
    exe: &OsStr,
    name: &OsStr,
    args: &[OsString],
    env: &[(OsString, OsString)],
    inherited: &[(BorrowedFd<'_>, RawFd)],
) -> io::Result<Spawned> {
    let moves = Moves::prepare(inherited)?;
    let pairs: Vec<(RawFd, RawFd)> =
        moves.copies.iter().map(|(copy, target)| (copy.as_raw_fd(), *target)).collect();
    let mut command = Command::new(exe);
    command.arg0(name).args(args).env_clear().envs(env.iter().map(|(name, value)| (name, value)));
    // SAFETY: the closure runs between fork and exec and makes only dup2 calls, which are
    // async-signal-safe; it neither allocates nor takes locks. The numbers stay open until the
    // spawn below returned, since `moves` lives longer.
    unsafe {
        command.pre_exec(move || {
            for (copy, target) in &pairs {
                // A duplicate made by dup2 is not close-on-exec.
                check(libc::dup2(*copy, *target))?;
            }
            Ok(())
        });
    }
    let child = command.spawn()?;
    drop(moves);
    Ok(Spawned { pid: child.id() })
}

/// Continues in two processes with the same memory and open descriptors; signals that are held back stay so in both.
/// Returns the id of the new one in the process that called, and `None` in the new one.
///
/// # Errors
/// Refused once the process has more than one thread, since only the calling one would survive; no processes or memory
/// left; /proc is not mounted.
pub fn fork() -> io::Result<Option<u32>> {
    if thread_count()? != 1 {
        return Err(io::Error::other("cannot fork after threads were started"));
    }
    // SAFETY: this is the only thread, so no lock can be held by a thread that the child lacks.
    let pid = check(unsafe { libc::fork() })?;
    Ok(u32::try_from(pid).ok().filter(|pid| *pid != 0))
}

/// Replaces the environment of this process. Variables that no environment can hold are left out: those without a name, or
/// with a `=` in the name or a NUL byte.
///
/// # Errors
/// Refused once the process has more than one thread, which might read the environment meanwhile.
pub fn set_environment(variables: &[(OsString, OsString)]) -> io::Result<()> {
    if thread_count()? != 1 {
        return Err(io::Error::other("cannot change the environment after threads were started"));
    }
    let text = |text: &OsString| CString::new(text.as_bytes()).ok();
    // SAFETY: this is the only thread, so no other one reads or changes `environ`; the strings end with NUL, and setenv
    // copies them.
    unsafe {
        check(libc::clearenv())?;
        for (name, value) in variables {
            if let (Some(name), Some(value)) = (text(name), text(value)) {
                libc::setenv(name.as_ptr(), value.as_ptr(), 1);
            }
        }
    }
    Ok(())
}

/// Collects one child that has ended, if any.
pub fn wait_any_nohang() -> Option<(u32, ExitStatus)> {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => {
                let pid = u32::try_from(pid.as_raw_pid()).unwrap_or(0);
                return Some((pid, ExitStatus::from_raw(status.as_raw())));
            }
            Err(Errno::INTR) => {}
            Ok(None) | Err(_) => return None,
        }
    }
}

/// Sends a signal to a process.
///
/// # Errors
/// No such process (ESRCH), or no permission (`PermissionDenied`).
pub fn kill(pid: u32, signal: Signal) -> io::Result<()> {
    let signal = match signal {
        Signal::Hangup => RawSignal::HUP,
        Signal::Quit => RawSignal::QUIT,
        Signal::Terminate => RawSignal::TERM,
        Signal::Interrupt => RawSignal::INT,
        Signal::User1 => RawSignal::USR1,
        Signal::User2 => RawSignal::USR2,
        Signal::WindowChange => RawSignal::WINCH,
        Signal::Kill => RawSignal::KILL,
    };
    Ok(rustix::process::kill_process(process_id(pid)?, signal)?)
}

/// Whether a process with this id exists.
pub fn exists(pid: u32) -> bool {
    let Ok(pid) = process_id(pid) else { return false };
    !matches!(rustix::process::test_kill_process(pid), Err(Errno::SRCH))
}

/// Returns the number of threads of this process, which decides whether a fork is safe.
///
/// # Errors
/// /proc is not mounted.
pub fn thread_count() -> io::Result<usize> {
    Ok(std::fs::read_dir("/proc/self/task")?.count())
}

/// Makes writes to closed peers fail with an error instead of ending the process.
pub fn ignore_sigpipe() {
    // SAFETY: SIG_IGN installs no code of ours; it can fail for invalid signal numbers only.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Ignores signals that nginx's processes survive, and that would end this one: IO, ALRM, SYS.
pub fn ignore_stray_signals() {
    for signal in [libc::SIGIO, libc::SIGALRM, libc::SIGSYS] {
        // SAFETY: as in `ignore_sigpipe`.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Sets the limit of open files, soft and hard (`worker_rlimit_nofile`).
///
/// # Errors
/// `PermissionDenied` when raising the hard limit without privilege.
pub fn set_nofile_limit(files: u64) -> io::Result<()> {
    set_limit(Resource::Nofile, files)
}

/// Returns the limit of open files: the soft limit.
pub fn nofile_limit() -> u64 {
    rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Sets the largest size of a core file in bytes (`worker_rlimit_core`).
///
/// # Errors
/// `PermissionDenied` when raising the hard limit without privilege.
pub fn set_core_limit(bytes: u64) -> io::Result<()> {
    set_limit(Resource::Core, bytes)
}

/// Sets the scheduling priority, -20 (highest) to 19 (`worker_priority`).
///
/// # Errors
/// `PermissionDenied` when raising it without privilege.
pub fn set_priority(nice: i32) -> io::Result<()> {
    Ok(rustix::process::setpriority_process(None, nice)?)
}

/// Allows core files and debuggers, which changing the user forbids.
///
/// # Errors
/// Those of prctl.
pub fn set_dumpable(on: bool) -> io::Result<()> {
    let behavior = if on { DumpableBehavior::Dumpable } else { DumpableBehavior::NotDumpable };
    Ok(rustix::process::set_dumpable_behavior(behavior)?)
}

/// Makes this process and its children use pages of the usual size (`PR_SET_THP_DISABLE`): with huge pages a few bytes
/// would hold two megabytes. Pages that are already huge stay so.
///
/// # Errors
/// Those of prctl: a kernel without huge pages.
pub fn use_small_pages() -> io::Result<()> {
    Ok(rustix::thread::disable_transparent_huge_pages(true)?)
}

/// Sends TERM to this process when the thread that started it ends, so that no worker survives a master that was
/// killed. Changing the user clears it: call it afterwards.
///
/// # Errors
/// Those of prctl.
pub fn parent_death_signal() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(RawSignal::TERM))?)
}

/// Returns the id of the process that started this one.
pub fn parent_id() -> u32 {
    std::os::unix::process::parent_id()
}

/// Sets the permission bits that new files do not get, and returns the former ones.
pub fn umask(mask: u32) -> u32 {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(mask & 0o777)).as_raw_mode()
}

/// Copies of the passed descriptors, above all target numbers.
struct Moves {
    copies: Vec<(OwnedFd, RawFd)>,
    _reserved: Vec<OwnedFd>,
}

impl Moves {
    /// Prepares the copies. No copy has a target's number, so no move overwrites the source of a later one. Free target
    /// numbers are occupied until the child has started: otherwise the pipe through which the child reports a failed
    /// exec could get one of them and be overwritten.
    fn prepare(inherited: &[(BorrowedFd<'_>, RawFd)]) -> io::Result<Moves> {
        let mut targets: Vec<RawFd> = inherited.iter().map(|(_, target)| *target).collect();
        targets.sort_unstable();
        let distinct = targets.windows(2).all(|pair| pair[0] != pair[1]);
        if !distinct || targets.first().is_some_and(|first| *first < 3) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let above = targets.last().map_or(3, |last| last.saturating_add(1));
        let mut copies = Vec::with_capacity(inherited.len());
        for (source, target) in inherited {
            copies.push((rustix::io::fcntl_dupfd_cloexec(*source, above)?, *target));
        }
        let mut reserved = Vec::new();
        for (source, target) in inherited {
            let fd = rustix::io::fcntl_dupfd_cloexec(*source, *target)?;
            if fd.as_raw_fd() == *target {
                reserved.push(fd);
            }
        }
        Ok(Moves { copies, _reserved: reserved })
    }
}

fn set_limit(resource: Resource, value: u64) -> io::Result<()> {
    let limit = Rlimit { current: Some(value), maximum: Some(value) };
    Ok(rustix::process::setrlimit(resource, limit)?)
}

fn process_id(pid: u32) -> io::Result<Pid> {
    let raw = i32::try_from(pid).ok().filter(|raw| *raw > 0);
    raw.and_then(Pid::from_raw).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}
