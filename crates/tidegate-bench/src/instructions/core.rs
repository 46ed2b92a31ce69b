//! Instructions of `tidegate-h2` alone: this program under callgrind, with one replay and with three.

use std::process::Stdio;

use super::counts::{self, Counts};
use super::traced::{OUT_FILE, counting};
use crate::h2::core_loop::{COMMAND, REPLAYED};

/// The counts of the server's end for one request.
///
/// # Errors
/// In words: valgrind or the loop failed.
pub(super) fn count() -> Result<Counts, String> {
    let replays = |number: u64| -> Result<Counts, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = counting(&program, directory.path());
        command.arg(COMMAND).arg(number.to_string()).stdin(Stdio::null());
        let output = command.output().map_err(|error| format!("valgrind: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        counts::read(&directory.path().join(OUT_FILE))
    };
    let (least, most) = (replays(1)?, replays(1 + MORE)?);
    Ok(most.beyond(least).of_each(MORE * REPLAYED))
}

/// Replays whose cost is counted.
const MORE: u64 = 2;
