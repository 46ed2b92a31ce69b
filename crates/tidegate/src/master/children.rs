//! Worker processes: starting them, sending them messages, replacing them.

mod messages;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use tidegate_core::error_log::Level;
use tidegate_core::main_settings::MainSettings;
use tidegate_os::held_signals;
use tidegate_os::process::{self, Signal};
use tidegate_os::socket::socketpair;
use tidegate_os::title;
use tidegate_rt::clock::exact_now;

use super::forked::ForkedWorker;
use super::{EventSender, environment};
use crate::handover::{Handover, ToWorker};
use crate::start::WORKER_ARGUMENT;
use crate::worker::process::SOCKET;
use messages::MessageThreads;

/// The running binary itself, even when another file has its name by now.
const SELF: &str = "/proc/self/exe";

/// The program's name where the system does not report it.
const NAME: &str = "tidegate";

/// A worker that lived at least this long is replaced at once.
const LIFE_MIN: Duration = Duration::from_secs(2);
/// Others are replaced after this pause, doubled each time up to the maximum.
const RESPAWN_PAUSE: Duration = Duration::from_millis(100);
const RESPAWN_PAUSE_MAX: Duration = Duration::from_secs(10);

struct Child {
    pid: u32,
    /// To the writing thread: a worker that does not read must not block the master.
    messages: Sender<ToWorker>,
    started: Instant,
    role: Role,
}

/// The role of a worker process.
///
/// ```text
///              reported that it serves
///   Successor ─────────────────────▶ Serving
///       │                               │ the successor serves, or WINCH
///       │ the reload is given up        ▼
///       └──────────────────────────▶ Leaving
/// ```
///
/// Invariant: at most one is `Serving` and one `Successor`. Only a `Serving` one that ends is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It is replaced when it ends.
    Serving,
    /// It is to serve instead of the other worker, once it can: a reload needs another process.
    Successor,
    /// It was asked to end.
    Leaving,
}

/// The worker processes of a master: one that serves, perhaps its successor, and some that are ending.
pub(super) struct Children {
    events: EventSender,
    running: Vec<Child>,
    respawn_at: Option<Instant>,
    respawn_pause: Duration,
    /// A worker has served.
    ready_once: bool,
    last_successor: Option<u32>,
}

impl Children {
    pub(super) fn new(events: EventSender) -> Children {
        Children {
            events,
            running: Vec::new(),
            respawn_at: None,
            respawn_pause: Duration::ZERO,
            ready_once: false,
            last_successor: None,
        }
    }

    /// Starts a worker and sends it the generation to serve.
    ///
    /// # Errors
    /// No process or descriptor is available; another attempt is due later.
    pub(super) fn start(&mut self, handover: Handover, main: &MainSettings) -> io::Result<u32> {
        self.respawn_at = None;
        let started = self.try_start(handover, main, Role::Serving);
        if started.is_err() {
            self.respawn_at = Some(exact_now() + RESPAWN_PAUSE_MAX);
        }
        started
    }

    /// Lets a process begin to serve that was forked with its generation.
    ///
    /// # Errors
    /// No thread is available: the process ends, and another attempt is due later.
    pub(super) fn begin(&mut self, forked: ForkedWorker) -> io::Result<u32> {
        let ForkedWorker { pid, socket } = forked;
        let threads = MessageThreads::start(socket, self.events.clone(), &messages::spawn)
            .inspect_err(|_| self.respawn_at = Some(exact_now() + RESPAWN_PAUSE_MAX))?;
        let messages = threads.begin(pid);
        let _ = messages.send(ToWorker::Begin);
        self.running.push(Child { pid, messages, started: exact_now(), role: Role::Serving });
        Ok(pid)
    }

    /// Starts a worker that is to replace the serving one, see [`Children::succeed`].
    ///
    /// # Errors
    /// No process or descriptor is available.
    pub(super) fn start_successor(
        &mut self,
        handover: Handover,
        main: &MainSettings,
    ) -> io::Result<u32> {
        let pid = self.try_start(handover, main, Role::Successor)?;
        self.last_successor = Some(pid);
        Ok(pid)
    }

    /// Whether a worker was started as a successor. It may have ended before its last message is read.
    pub(super) fn was_successor(&self, pid: u32) -> bool {
        self.last_successor == Some(pid)
    }

    /// Makes a successor the serving worker: the worker before it ends gracefully. Does nothing when `pid` is not a
    /// successor.
    pub(super) fn succeed(&mut self, pid: u32) {
        if !self.running.iter().any(|child| child.pid == pid && child.role == Role::Successor) {
            return;
        }
        for child in &mut self.running {
            if child.pid == pid {
                child.role = Role::Serving;
            } else if child.role == Role::Serving {
                child.role = Role::Leaving;
                let _ = child.messages.send(ToWorker::LeaveQuic(true));
                let _ = child.messages.send(ToWorker::Quit);
            }
        }
        self.respawn_at = None;
    }

    /// Ends a successor that is not to take over any more.
    pub(super) fn dismiss_successor(&mut self) {
        for child in self.running.iter_mut().filter(|child| child.role == Role::Successor) {
            child.role = Role::Leaving;
            let _ = child.messages.send(ToWorker::Terminate);
        }
    }

    /// Starts the threads that carry messages, then the process, and sends it its generation. Nothing that can fail
    /// follows the start of the process: a worker that nothing can be sent to would wait for ever.
    fn try_start(
        &mut self,
        handover: Handover,
        main: &MainSettings,
        role: Role,
    ) -> io::Result<u32> {
        let (ours, theirs) = socketpair()?;
        let threads = MessageThreads::start(ours, self.events.clone(), &messages::spawn)?;
        let arguments = [WORKER_ARGUMENT.into()];
        let variables = environment::of_worker(&main.env);
        let passed = [(theirs.as_fd(), SOCKET)];
        // The worker takes the master's short name: that of its own file would be `exe`.
        let name = title::short_name().unwrap_or_else(|_| NAME.to_owned());
        // A worker that cannot react to signals yet holds them back, from its first instruction on.
        held_signals::hold();
        let started =
            process::spawn(OsStr::new(SELF), OsStr::new(&name), &arguments, &variables, &passed);
        held_signals::release();
        let started = started?;
        let messages = threads.begin(started.pid);
        let _ = messages.send(ToWorker::Serve(Box::new(handover)));
        self.running.push(Child { pid: started.pid, messages, started: exact_now(), role });
        Ok(started.pid)
    }

    /// Sends to the serving worker, if there is one. Its reply or its end shows whether the message arrived.
    pub(super) fn send(&self, message: ToWorker) {
        if let Some(child) = self.running.iter().find(|child| child.role == Role::Serving) {
            let _ = child.messages.send(message);
        }
    }

    /// Makes every worker log into these files, including those that are ending.
    pub(super) fn reopen(&self, files: &[(PathBuf, File)]) -> io::Result<()> {
        for child in &self.running {
            let copy = |(path, file): &(PathBuf, File)| Ok((path.clone(), file.try_clone()?));
            let files = files.iter().map(copy).collect::<io::Result<_>>()?;
            let _ = child.messages.send(ToWorker::Reopen(files));
        }
        Ok(())
    }

    /// Asks every worker to end gracefully.
    pub(super) fn quit_all(&self) {
        for child in self.running.iter().filter(|child| child.role != Role::Leaving) {
            let _ = child.messages.send(ToWorker::Quit);
        }
    }

    /// Records that a worker has reported that it serves.
    pub(super) fn note_ready(&mut self) {
        self.ready_once = true;
    }

    pub(super) fn was_ready(&self) -> bool {
        self.ready_once
    }

    pub(super) fn has_workers(&self) -> bool {
        !self.running.is_empty()
    }

    pub(super) fn has_serving_worker(&self) -> bool {
        self.serving().is_some()
    }

    /// Returns the serving worker, if there is one.
    pub(super) fn serving(&self) -> Option<u32> {
        let child = self.running.iter().find(|child| child.role == Role::Serving)?;
        Some(child.pid)
    }

    /// Records that all workers were asked to end and are not to be replaced.
    pub(super) fn forget_serving(&mut self) {
        self.running.iter_mut().for_each(|child| child.role = Role::Leaving);
        self.respawn_at = None;
    }

    /// Ends a worker at once. It is replaced if it serves.
    pub(super) fn terminate(&self, pid: u32) {
        if self.running.iter().any(|child| child.pid == pid) {
            let _ = process::kill(pid, Signal::Terminate);
        }
    }

    pub(super) fn terminate_all(&self) {
        for child in &self.running {
            let _ = process::kill(child.pid, Signal::Terminate);
        }
    }

    pub(super) fn kill_all(&self) {
        for child in &self.running {
            let _ = process::kill(child.pid, Signal::Kill);
        }
    }

    /// Records the end of a process. Returns the worker's role; `None` when it was not a worker.
    ///
    /// How soon the next one is started is decided here: at once after one that lived for [`LIFE_MIN`], else after a
    /// pause that doubles from [`RESPAWN_PAUSE`] up to [`RESPAWN_PAUSE_MAX`], so that a worker that fails at its start
    /// does not take the processor.
    pub(super) fn ended(&mut self, pid: u32) -> Option<Role> {
        let place = self.running.iter().position(|child| child.pid == pid)?;
        let child = self.running.swap_remove(place);
        if child.role == Role::Serving {
            self.respawn_pause = match exact_now().duration_since(child.started) >= LIFE_MIN {
                true => Duration::ZERO,
                false => (self.respawn_pause * 2).clamp(RESPAWN_PAUSE, RESPAWN_PAUSE_MAX),
            };
        }
        Some(child.role)
    }

    /// Schedules a new worker: at once, unless the last ones ended right after their start.
    pub(super) fn respawn_soon(&mut self) {
        self.respawn_at = Some(exact_now() + self.respawn_pause);
    }

    pub(super) fn respawn_at(&self) -> Option<Instant> {
        self.respawn_at
    }
}

/// Number of the signal that asks a worker to end at once.
const SIGTERM: i32 = 15;

/// Returns the log line for an ended worker. One that was asked to end may have been ended by the signal before it
/// could handle it.
pub(super) fn end_report(pid: u32, status: ExitStatus, asked_to_end: bool) -> (Level, String) {
    match (status.signal(), status.code()) {
        (Some(signal), _) => {
            let core = if status.core_dumped() { " (core dumped)" } else { "" };
            let expected = asked_to_end && signal == SIGTERM;
            let level = if expected { Level::Notice } else { Level::Alert };
            (level, format!("worker process {pid} exited on signal {signal}{core}"))
        }
        (None, code) => {
            let code = code.unwrap_or(-1);
            (Level::Notice, format!("worker process {pid} exited with code {code}"))
        }
    }
}
