//! dns-01: a program of the administrator changes the records (`challenge dns-01 exec=PROGRAM`).
//!
//! It is called as `PROGRAM set NAME VALUE` and `PROGRAM clear NAME VALUE`, by the worker's user, and ends with 0 once the
//! name servers have the record. A name and its wildcard have two values of one name, and a call may be repeated. Its error
//! output goes where that of the server goes.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tidegate_acme::Challenge;
use tidegate_core::blocking;
use tidegate_rt::{clock, timer};

/// The program, and the longest time that a call of it may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DnsProgram {
    pub(super) path: PathBuf,
    pub(super) time_max: Duration,
}

/// What the program does with a record.
#[derive(Clone, Copy)]
pub(super) enum Action {
    Set,
    Clear,
}

/// The time between two looks whether the program has ended. A pool thread waits.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

impl DnsProgram {
    /// Runs the program for each challenge, one after the other, on a pool thread.
    ///
    /// # Errors
    /// It cannot be started, fails, or does not end in time: the reason.
    pub(super) async fn run(&self, action: Action, list: &[Challenge]) -> Result<(), String> {
        for challenge in list {
            let (program, (name, value)) = (self.clone(), challenge.record());
            let call = move || Ok(call(&program, action, &name, &value));
            let called = blocking::run(call).await;
            called.unwrap_or_else(|error: io::Error| Err(error.to_string()))?;
        }
        Ok(())
    }
}

fn call(program: &DnsProgram, action: Action, name: &str, value: &str) -> Result<(), String> {
    let DnsProgram { path, time_max } = program;
    let word = match action {
        Action::Set => "set",
        Action::Clear => "clear",
    };
    let failed = |reason: &str| format!("\"{} {word} {name}\" {reason}", path.display());
    let mut command = Command::new(path);
    command.args([word, name, value]).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
    let mut child = command.spawn().map_err(|error| failed(&format!("cannot run: {error}")))?;
    let end = clock::exact_now() + *time_max;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if clock::exact_now() < end => timer::pause(LOOK_PAUSE),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed(&format!("has not ended within {} s", time_max.as_secs())));
            }
            Err(error) => return Err(failed(&error.to_string())),
        }
    };
    if status.success() {
        return Ok(());
    }
    Err(failed(&format!("has failed ({status})")))
}

/// Returns whether the file can be a program.
pub(super) fn is_program(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|found| found.is_file() && tidegate_os::file::mode(&found) & 0o111 != 0)
}
