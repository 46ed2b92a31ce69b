//! Worker processes: starting them, hearing them, replacing them.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use tidegate_core::error_log::Level;
use tidegate_core::main_settings::MainSettings;
use tidegate_os::process::{self, Signal};
use tidegate_os::socket::socketpair;
use tidegate_os::title;
use tidegate_rt::clock::exact_now;

use super::{Event, EventSender, environment};
use crate::handover::{Handover, ToMaster, ToWorker};
use crate::start::WORKER_ARGUMENT;
use crate::worker::process::SOCKET;

/// The running binary itself, even when another file has its name by now.
const SELF: &str = "/proc/self/exe";

/// The program's name where the system does not tell it.
const NAME: &str = "tidegate";

/// A worker that lived so long is replaced at once.
const LIFE_MIN: Duration = Duration::from_secs(2);
/// Others after this pause, doubled each time up to the longest.
const RESPAWN_PAUSE: Duration = Duration::from_millis(100);
const RESPAWN_PAUSE_MAX: Duration = Duration::from_secs(10);

struct Child {
    pid: u32,
    /// To the thread that writes: a worker that does not read must not hold the master.
    messages: Sender<ToWorker>,
    started: Instant,
    role: Role,
}

/// What a worker process is to its master.
///
/// ```text
///              told that it serves
///   Successor ─────────────────────▶ Serving
///       │                               │ the successor serves, or WINCH
///       │ the reload is given up        ▼
///       └──────────────────────────▶ Leaving
/// ```
///
/// Invariant: at most one is `Serving` and one `Successor`. Only a `Serving` one that ends is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Is to be replaced when it ends.
    Serving,
    /// Shall serve instead of the other one, once it can: a reload asked for another process.
    Successor,
    /// Was told to end.
    Leaving,
}

/// The worker processes of a master: one that serves, perhaps its successor, and some that come to their end.
pub(super) struct Children {
    events: EventSender,
    running: Vec<Child>,
    respawn_at: Option<Instant>,
    respawn_pause: Duration,
    /// Some worker has served.
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

    /// Starts a worker and hands it what it serves by.
    ///
    /// # Errors
    /// No process or descriptor can be had; another attempt is due later.
    pub(super) fn start(&mut self, handover: Handover, main: &MainSettings) -> io::Result<u32> {
        self.respawn_at = None;
        let started = self.try_start(handover, main, Role::Serving);
        if started.is_err() {
            self.respawn_at = Some(exact_now() + RESPAWN_PAUSE_MAX);
        }
        started
    }

    /// Starts a worker that shall take the place of the one that serves, see [`Children::succeed`].
    ///
    /// # Errors
    /// No process or descriptor can be had.
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

    /// The successor serves: the worker before it ends gracefully. Nothing happens when `pid` is no successor.
    pub(super) fn succeed(&mut self, pid: u32) {
        if !self.running.iter().any(|child| child.pid == pid && child.role == Role::Successor) {
            return;
        }
        for child in &mut self.running {
            if child.pid == pid {
                child.role = Role::Serving;
            } else if child.role == Role::Serving {
                child.role = Role::Leaving;
                let _ = child.messages.send(ToWorker::Quit);
            }
        }
        self.respawn_at = None;
    }

    /// Ends a successor that shall not take over after all.
    pub(super) fn dismiss_successor(&mut self) {
        for child in self.running.iter_mut().filter(|child| child.role == Role::Successor) {
            child.role = Role::Leaving;
            let _ = child.messages.send(ToWorker::Terminate);
        }
    }

    /// What fails behind the start leaves the process in `running`: its end is collected as any other's.
    fn try_start(
        &mut self,
        handover: Handover,
        main: &MainSettings,
        role: Role,
    ) -> io::Result<u32> {
        let (ours, theirs) = socketpair()?;
        let arguments = [WORKER_ARGUMENT.into()];
        let variables = environment::of_worker(&main.env);
        let passed = [(theirs.as_fd(), SOCKET)];
        // The worker takes the master's short name: that of its own file would be `exe`.
        let name = title::short_name().unwrap_or_else(|_| NAME.to_owned());
        let started =
            process::spawn(OsStr::new(SELF), OsStr::new(&name), &arguments, &variables, &passed)?;
        drop(theirs);
        let (pid, socket) = (started.pid, Arc::new(ours));
        let (messages, to_send) = channel();
        self.running.push(Child { pid, messages, started: exact_now(), role });
        self.listen(pid, socket.clone())?;
        write_from(pid, to_send, socket)?;
        if let Some(child) = self.running.last() {
            let _ = child.messages.send(ToWorker::Serve(Box::new(handover)));
        }
        Ok(pid)
    }

    /// Starts the thread that hears what a worker tells.
    fn listen(&self, pid: u32, socket: Arc<OwnedFd>) -> io::Result<()> {
        let events = self.events.clone();
        std::thread::Builder::new().name(format!("worker {pid}")).spawn(move || {
            while let Ok(Some(told)) = ToMaster::receive(&*socket) {
                if events.send(Event::Told(pid, told)).is_err() {
                    return;
                }
            }
        })?;
        Ok(())
    }

    /// Sends to the worker that serves, if there is one. Whether it arrives is known by its answer
    /// or by its end.
    pub(super) fn send(&self, message: ToWorker) {
        if let Some(child) = self.running.iter().find(|child| child.role == Role::Serving) {
            let _ = child.messages.send(message);
        }
    }

    /// Has every worker write on in these files, those that are coming to their end as well.
    pub(super) fn reopen(&self, files: &[(PathBuf, File)]) -> io::Result<()> {
        for child in &self.running {
            let copy = |(path, file): &(PathBuf, File)| Ok((path.clone(), file.try_clone()?));
            let files = files.iter().map(copy).collect::<io::Result<_>>()?;
            let _ = child.messages.send(ToWorker::Reopen(files));
        }
        Ok(())
    }

    /// Has every worker end gracefully.
    pub(super) fn quit_all(&self) {
        for child in self.running.iter().filter(|child| child.role != Role::Leaving) {
            let _ = child.messages.send(ToWorker::Quit);
        }
    }

    /// A worker has told that it serves.
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
        self.running.iter().any(|child| child.role == Role::Serving)
    }

    /// All workers were told to end and are not to be replaced.
    pub(super) fn forget_serving(&mut self) {
        self.running.iter_mut().for_each(|child| child.role = Role::Leaving);
        self.respawn_at = None;
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

    /// Takes note of an end. Returns what the worker was; `None` when it was no worker.
    ///
    /// How soon the next one is started is decided here: at once behind one that lived for [`LIFE_MIN`], else behind a
    /// pause that doubles from [`RESPAWN_PAUSE`] up to [`RESPAWN_PAUSE_MAX`], so that a worker that cannot live does
    /// not take the machine.
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

    /// Has the worker replaced: at once, unless the last ones ended right after their start.
    pub(super) fn respawn_soon(&mut self) {
        self.respawn_at = Some(exact_now() + self.respawn_pause);
    }

    pub(super) fn respawn_at(&self) -> Option<Instant> {
        self.respawn_at
    }
}

/// Starts the thread that writes to a worker.
fn write_from(pid: u32, messages: Receiver<ToWorker>, socket: Arc<OwnedFd>) -> io::Result<()> {
    std::thread::Builder::new().name(format!("to worker {pid}")).spawn(move || {
        for message in messages {
            if message.send(&*socket).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}

/// Number of the signal by which a worker is told to end at once.
const SIGTERM: i32 = 15;

/// What the log says of an ended worker. One that was told to end may not have been there yet to take it
/// as more than a signal.
pub(super) fn epitaph(pid: u32, status: ExitStatus, told_to_end: bool) -> (Level, String) {
    match (status.signal(), status.code()) {
        (Some(signal), _) => {
            let core = if status.core_dumped() { " (core dumped)" } else { "" };
            let expected = told_to_end && signal == SIGTERM;
            let level = if expected { Level::Notice } else { Level::Alert };
            (level, format!("worker process {pid} exited on signal {signal}{core}"))
        }
        (None, code) => {
            let code = code.unwrap_or(-1);
            (Level::Notice, format!("worker process {pid} exited with code {code}"))
        }
    }
}
