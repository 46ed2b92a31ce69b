//! Changing the binary without closing a socket: the new master inherits the sockets (`USR2`).

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::parent_id;
use std::sync::OnceLock;

use tidegate_os::{held_signals, inherit, process};

use crate::listening::{Listening, place_of};
use crate::pidfile::{PidFile, PidFileError};
use crate::start_error::StartError;

/// The variable in which nginx lists inherited sockets, used here as well: each program can replace the other.
pub(crate) const VARIABLE: &str = "NGINX";

/// The variable in which those of them are listed that a supervisor opened: files of Unix sockets are its own, whichever
/// binary serves them.
const SUPERVISORS: &str = "TIDEGATE_SUPERVISORS";

/// The process that has started this one.
static PARENT: OnceLock<u32> = OnceLock::new();

/// Remembers the parent. To be called first of all: it may end while the configuration is read, and another process be the
/// parent then.
pub(crate) fn remember_parent() {
    PARENT.get_or_init(parent_id);
}

/// First number of an inherited socket.
const FIRST: i32 = 3;

/// The older and newer master of the same server.
///
/// | state | USR2 | the new binary ends | this one ends |
/// |---|---|---|---|
/// | alone | starts one | – | files of Unix sockets are removed |
/// | `newer` runs | refused | alone, the pid file has its name back | they stay |
/// | `older` lives | refused: its pid file has the name that this one's would get | – | they stay |
pub(crate) struct Upgrade {
    arguments: Vec<OsString>,
    /// The master whose sockets this one inherited, while it lives.
    older: Option<u32>,
    newer: Option<u32>,
}

/// Takes over the sockets that an older master left for this one.
///
/// # Errors
/// The environment lists numbers that are not listening sockets.
pub(crate) fn inherited() -> Result<Vec<Listening>, StartError> {
    let mut listening: Vec<Listening> = Vec::new();
    let invalid = |variable| move |error| StartError::Inherited { variable, error };
    let supervisors = inherit::env_list(SUPERVISORS).map_err(invalid(SUPERVISORS))?;
    for socket in inherit::env_inherited_listeners(VARIABLE).map_err(invalid(VARIABLE))? {
        let place = place_of(&socket).map_err(invalid(VARIABLE))?;
        let is_supervisors = supervisors.contains(&socket.as_raw_fd());
        Listening::add(&mut listening, place, socket, is_supervisors);
    }
    Ok(listening)
}

/// Why no new binary is started.
#[derive(Debug)]
pub(crate) enum UpgradeError {
    /// One runs already.
    Running,
    /// The one that this one replaces runs still.
    OlderRuns,
    /// This program was started without a name.
    NoName,
    PidFile(PidFileError),
    Spawn(String, io::Error),
}

impl fmt::Display for UpgradeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpgradeError::Running => f.write_str("a new binary runs already"),
            UpgradeError::OlderRuns => f.write_str("the old binary runs still"),
            UpgradeError::NoName => f.write_str("the name of the program is not known"),
            UpgradeError::PidFile(error) => error.fmt(f),
            UpgradeError::Spawn(program, error) => {
                write!(f, "cannot start new binary \"{program}\": {error}")
            }
        }
    }
}

impl std::error::Error for UpgradeError {}

impl Upgrade {
    pub(crate) fn new(arguments: Vec<OsString>, inherited: bool) -> Upgrade {
        let older = inherited.then(|| PARENT.get().copied().unwrap_or_else(parent_id));
        Upgrade { arguments, older, newer: None }
    }

    /// Starts the program anew, by the name and arguments that this one was started with.
    ///
    /// # Errors
    /// A new binary runs already, the old one runs still, or the new one cannot be started.
    ///
    /// Invariant: the pid file has its old name exactly while a new binary is there: it is set aside before the start,
    /// as the new one writes its own, and restored where the start fails. The sockets are passed under the numbers that
    /// [`VARIABLE`] lists, and [`SUPERVISORS`] those of a supervisor.
    pub(crate) fn start(
        &mut self,
        listening: &[Listening],
        mut environment: Vec<(OsString, OsString)>,
        pid_file: &mut PidFile,
    ) -> Result<u32, UpgradeError> {
        if self.newer.is_some() {
            return Err(UpgradeError::Running);
        }
        if self.older_runs() {
            return Err(UpgradeError::OlderRuns);
        }
        let sockets = listening
            .iter()
            .flat_map(|one| one.sockets.iter().map(|socket| (socket.as_fd(), one.is_supervisors)));
        let (mut passed, mut numbers, mut supervisors) = (Vec::new(), Vec::new(), Vec::new());
        for (number, (socket, is_supervisors)) in (FIRST..).zip(sockets) {
            passed.push((socket, number));
            numbers.push(number);
            if is_supervisors {
                supervisors.push(number);
            }
        }
        for (variable, numbers) in [(VARIABLE, numbers), (SUPERVISORS, supervisors)] {
            environment.retain(|(name, _)| name != variable);
            environment.push((variable.into(), inherit::format_list(&numbers).into()));
        }
        let Some((program, arguments)) = self.arguments.split_first() else {
            return Err(UpgradeError::NoName);
        };
        pid_file.set_aside().map_err(UpgradeError::PidFile)?;
        // As a worker's: one order may follow the other before the new binary can react to any.
        held_signals::hold();
        let started = process::spawn(program, program, arguments, &environment, &passed);
        held_signals::release();
        match started {
            Ok(started) => {
                self.newer = Some(started.pid);
                Ok(started.pid)
            }
            Err(error) => {
                pid_file.restore();
                Err(UpgradeError::Spawn(program.to_string_lossy().into_owned(), error))
            }
        }
    }

    /// Records the end of a child; returns whether it was the new binary.
    pub(crate) fn has_ended(&mut self, pid: u32, pid_file: &mut PidFile) -> bool {
        if self.newer != Some(pid) {
            return false;
        }
        self.newer = None;
        pid_file.restore();
        true
    }

    /// Returns the new binary, while it runs.
    pub(crate) fn newer(&self) -> Option<u32> {
        self.newer
    }

    /// Whether another master uses the same Unix sockets, so that their files must stay.
    pub(crate) fn sockets_are_used(&self) -> bool {
        self.newer.is_some() || self.older_runs()
    }

    fn older_runs(&self) -> bool {
        self.older.is_some_and(|older| older == parent_id())
    }
}
