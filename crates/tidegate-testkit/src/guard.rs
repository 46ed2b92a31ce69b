//! Servers end with the harness, however it ends: a process beside it has their process groups, and ends the
//! remaining ones when its standard input closes.
//!
//! A signal handler is not sufficient: nothing is called in a process that is killed (`SIGKILL`).

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Reads `+ GROUP` and `- GROUP`.
const SCRIPT: &str = "
while read -r what group; do
    rest=
    for known in $groups; do [ \"$known\" = \"$group\" ] || rest=\"$rest $known\"; done
    groups=$rest
    [ \"$what\" = - ] || groups=\"$groups $group\"
done
for group in $groups; do kill -s KILL -- \"-$group\"; done
";

/// The harness's own.
static GUARD: OnceLock<Mutex<Guard>> = OnceLock::new();

/// Ends a process group with this process.
///
/// # Errors
/// Those of starting a shell.
pub(crate) fn watch(group: u32) -> io::Result<()> {
    notify("+", group)
}

/// Removes a group that has ended: its number may be reused.
///
/// # Errors
/// Those of starting a shell.
pub(crate) fn forget(group: u32) -> io::Result<()> {
    notify("-", group)
}

fn notify(what: &str, group: u32) -> io::Result<()> {
    let guard = match GUARD.get() {
        Some(guard) => guard,
        None => {
            let guard = Mutex::new(Guard::start()?);
            GUARD.get_or_init(|| guard)
        }
    };
    guard.lock().unwrap_or_else(PoisonError::into_inner).notify(what, group)
}

/// A shell that waits.
struct Guard {
    input: ChildStdin,
    #[cfg(test)]
    child: std::process::Child,
}

impl Guard {
    /// In a separate group: a signal from the terminal to the harness's group does not end it.
    fn start() -> io::Result<Guard> {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(SCRIPT).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::null()).process_group(0).spawn()?;
        let input = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Guard {
            input,
            #[cfg(test)]
            child,
        })
    }

    fn notify(&mut self, what: &str, group: u32) -> io::Result<()> {
        self.input.write_all(format!("{what} {group}\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Child;

    use super::*;

    fn sleeper() -> Child {
        Command::new("sleep").arg("1000").process_group(0).spawn().unwrap()
    }

    #[test]
    fn what_is_left_ends_with_its_owner_and_what_has_ended_is_left_alone() {
        let mut guard = Guard::start().unwrap();
        let (mut left, mut forgotten) = (sleeper(), sleeper());
        for child in [&left, &forgotten] {
            guard.notify("+", child.id()).unwrap();
        }
        guard.notify("-", forgotten.id()).unwrap();
        drop(guard.input);
        assert!(guard.child.wait().unwrap().success());
        assert_eq!(left.wait().unwrap().signal(), Some(9));
        assert!(forgotten.try_wait().unwrap().is_none());
        forgotten.kill().unwrap();
        forgotten.wait().unwrap();
    }
}
