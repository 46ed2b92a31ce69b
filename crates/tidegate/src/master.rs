//! The master: reads and checks configurations, holds what needs privileges, supervises the worker. It never reads data
//! from a network.

mod children;
mod environment;
mod forked;
mod signals;
pub(crate) mod upgrade;

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Instant;

use tidegate_core::error_log::{ErrorLog, Level};
use tidegate_os::{process, title};
use tidegate_rt::clock::exact_now;

use crate::configuration::Origin;
use crate::events::{self, QueuedSignal};
use crate::generation::{CheckedPlan, FIRST_GENERATION, Generation};
use crate::handover::{ToMaster, ToWorker};
use crate::listening::remove_socket_files;
use crate::pidfile::PidFile;
use crate::report::Report;
use crate::start_error::StartError;
use crate::supervisor::Supervisor;
use crate::{panics, version};
use children::Children;
use forked::Fork;
use upgrade::Upgrade;

/// An event of a master.
pub(crate) enum MasterEvent {
    Signal(QueuedSignal),
    /// A message of a worker, with its process id.
    FromWorker(u32, ToMaster),
    /// A message could not be sent to a worker; whether it was a generation to be served.
    Unsent {
        pid: u32,
        serves: bool,
        error: io::Error,
    },
}

impl From<QueuedSignal> for MasterEvent {
    fn from(signal: QueuedSignal) -> MasterEvent {
        MasterEvent::Signal(signal)
    }
}

/// How the master ends.
///
/// ```text
///         QUIT                    TERM, INT
///    No ──────▶ Graceful ───────────────────▶ Fast
///     └───────────────────────────────────────▲ │ each KILL_AFTER: those that still run are killed
///                  TERM, INT, no first worker └─┘
/// ```
///
/// The master ends when no worker is left. Invariant: `Graceful` changes to nothing but `Fast`; reloads and new workers
/// happen in `No` alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    No,
    Graceful,
    /// Workers that still run then are killed.
    Fast(Instant),
}

/// A running master process.
///
/// A reload in the master:
///
/// | `pending` | happens | then |
/// |---|---|---|
/// | none | HUP | read, checked, sockets opened: sent to the worker, `pending` |
/// | some | HUP | `reload_again`: begun once this one has ended |
/// | some | USR2 | `change_again`, likewise |
/// | none, a new binary runs | HUP | nothing is read: a worker is started if none serves |
/// | some | the worker serves it | `commit`: it is `current`, with its pid file and sockets |
/// | some | the worker cannot, or ends | `roll_back`: its sockets and directories are released |
///
/// Invariant: `current` is the generation that is served, or that the next worker is started with; none of its
/// resources is released before the worker has reported that it serves the next one. Numbers of generations are not
/// used twice.
pub(crate) struct Master {
    origin: Origin,
    current: Generation,
    /// The generation that was sent to the worker, which has not replied yet.
    pending: Option<Generation>,
    /// The worker that got it, which a signal may have asked to end meanwhile.
    replier: Option<u32>,
    /// A reload was requested while another one was in progress.
    reload_again: bool,
    /// A change of the binary was, which would not have the sockets of the generation that is pending.
    change_again: bool,
    next_generation: u64,
    children: Children,
    pid_file: PidFile,
    upgrade: Upgrade,
    supervisor: Supervisor,
    ending: Ending,
    /// The worker was ended by WINCH and is not to be replaced.
    worker_stopped: bool,
    /// The plan of the first generation: the first worker's memory is a copy of it. Freed behind the worker's start, which
    /// it would slow down.
    checked: Option<CheckedPlan>,
    exit: ExitCode,
}

/// Runs a master with its first generation until it ends.
///
/// The process that serves the first generation is forked while there is one thread ([`forked`]), and begins once nothing
/// of the start can fail any more. Signals wait until then.
pub(crate) fn run(
    origin: Origin,
    (first, checked): (Generation, CheckedPlan),
    arguments: Vec<OsString>,
    inherited: bool,
    report: &Report,
) -> Result<ExitCode, StartError> {
    let line: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
    title::set_process_title(&format!("nginx: master process {}", line.join(" ")));
    process::ignore_sigpipe();
    let (first, checked, forked) = match forked::fork(&origin, first, checked, report) {
        Fork::Continue(both) => both,
        Fork::Break(code) => return Ok(code),
    };
    let log = first.log().clone();
    panics::log_to(log.clone());
    let (sender, events) = events::queue();
    let watched = events::watch_signals(sender.clone()).map_err(StartError::System);
    let created =
        watched.and_then(|()| PidFile::create(&first.main.pid).map_err(StartError::PidFile));
    let pid_file = created.inspect_err(|_| {
        if !inherited {
            remove_socket_files(&first.listening, &[]);
        }
    })?;
    report.close();
    greet(&log);
    let mut master = Master {
        origin,
        current: first,
        pending: None,
        replier: None,
        reload_again: false,
        change_again: false,
        next_generation: FIRST_GENERATION + 1,
        children: Children::new(sender),
        pid_file,
        upgrade: Upgrade::new(arguments, inherited),
        supervisor: Supervisor::from_environment(exact_now()),
        ending: Ending::No,
        worker_stopped: false,
        checked: Some(checked),
        exit: ExitCode::SUCCESS,
    };
    match forked {
        Some(forked) => {
            let begun = master.children.begin(forked);
            master.say_started(begun);
        }
        None => master.start_worker(),
    }
    // The process that was forked may have ended before the signal of its end was caught.
    master.collect_children();
    master.run_events(&events);
    master.close();
    Ok(master.exit)
}

/// Writes the lines that nginx's log begins with.
fn greet(log: &ErrorLog) {
    log.say(
        Level::Notice,
        format_args!("using the \"{}\" event method", tidegate_os::platform::EVENT_METHOD),
    );
    log.say(Level::Notice, format_args!("nginx/{}", version::NGINX));
    log.say(Level::Notice, format_args!("tidegate/{}", version::TIDEGATE));
    let limit = process::nofile_limit();
    log.say(Level::Notice, format_args!("getrlimit(RLIMIT_NOFILE): {limit}:{limit}"));
}

impl Master {
    fn log(&self) -> &ErrorLog {
        self.current.log()
    }

    fn say(&self, level: Level, message: &str) {
        self.log().say(level, format_args!("{message}"));
    }

    fn run_events(&mut self, events: &Receiver<MasterEvent>) {
        while self.ending == Ending::No || self.children.has_workers() {
            let event = match self.next_moment() {
                Some(at) => events.recv_timeout(at.saturating_duration_since(exact_now())),
                None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match event {
                Ok(MasterEvent::Signal(signal)) => self.signal(signal.take()),
                Ok(MasterEvent::FromWorker(pid, message)) => self.receive(pid, message),
                Ok(MasterEvent::Unsent { pid, serves, error }) => self.unsent(pid, serves, &error),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.timers();
        }
    }

    /// Returns the time of the next action without an event.
    fn next_moment(&self) -> Option<Instant> {
        let kill = match self.ending {
            Ending::Fast(at) => Some(at),
            _ => None,
        };
        let sign = self.supervisor.next_sign();
        // A server that ends starts no worker any more.
        let respawn = self.children.respawn_at().filter(|_| self.ending == Ending::No);
        [kill, respawn, sign].into_iter().flatten().min()
    }

    fn timers(&mut self) {
        let now = exact_now();
        if matches!(self.ending, Ending::Fast(at) if at <= now) {
            self.children.kill_all();
            self.ending = Ending::Fast(now + signals::KILL_AFTER);
        }
        if self.ending == Ending::No && self.children.respawn_at().is_some_and(|at| at <= now) {
            self.start_worker();
        }
        if self.supervisor.asks(now) {
            match self.ending == Ending::No && self.children.has_serving_worker() {
                true => self.children.send(ToWorker::AreYouAlive),
                // None is expected to respond.
                false => self.show_life(),
            }
        }
    }

    /// The event loops turn, or none is there to be asked.
    fn show_life(&mut self) {
        self.supervisor.alive(exact_now(), self.current.log());
    }

    fn start_worker(&mut self) {
        let handover = self.current.handover(&self.origin);
        let started = self.children.start(handover, &self.current.main);
        self.say_started(started);
        if self.upgrade.newer().is_some() {
            // The packets of QUIC are the new binary's.
            self.children.send(ToWorker::LeaveQuic(true));
        }
    }

    fn say_started(&self, started: io::Result<u32>) {
        match started {
            Ok(pid) => self.say(Level::Notice, &format!("start worker process {pid}")),
            Err(error) => self.say(Level::Alert, &format!("cannot start a worker: {error}")),
        }
    }

    fn receive(&mut self, pid: u32, message: ToMaster) {
        self.free_checked();
        match message {
            ToMaster::Ready(generation) => {
                self.children.note_ready();
                if self.pending.as_ref().is_some_and(|next| next.number == generation) {
                    self.children.succeed(pid);
                    self.commit();
                } else if self.pending.is_none() && self.ending == Ending::No {
                    self.supervisor.ready(self.current.number, self.current.log());
                }
            }
            ToMaster::Alive => self.show_life(),
            ToMaster::Failed(generation, message) => {
                self.say(Level::Emerg, &message);
                if self.pending.as_ref().is_some_and(|next| next.number == generation) {
                    self.roll_back("the worker cannot use the configuration");
                } else if self.ending == Ending::No
                    && !self.children.was_ready()
                    && !self.children.was_successor(pid)
                {
                    // The first worker cannot even start: there is nothing to continue with.
                    self.exit = ExitCode::FAILURE;
                    self.end_fast();
                }
            }
            // In nginx an old worker process ends when its last request does, and tools wait for this line.
            ToMaster::Retired(generation) => {
                let text =
                    format!("generation {generation} of worker process {pid} exited with code 0");
                self.say(Level::Notice, &text);
            }
        }
    }

    /// Gives up a reload whose configuration cannot be sent to the worker; ends a worker that got none and would wait for ever.
    fn unsent(&mut self, pid: u32, serves: bool, error: &io::Error) {
        // The end of one that has closed its side is reported as such.
        let is_end =
            matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset);
        if is_end || self.ending != Ending::No {
            return;
        }
        self.say(Level::Emerg, &format!("cannot send to worker process {pid}: {error}"));
        if !serves {
            return;
        }
        match self.pending.is_some() && self.replier == Some(pid) {
            true => self.roll_back("the worker cannot get the configuration"),
            false => self.children.terminate(pid),
        }
    }

    /// Makes the pending generation current: the worker serves it.
    fn commit(&mut self) {
        let Some(next) = self.pending.take() else { return };
        let before = std::mem::replace(&mut self.current, next);
        remove_socket_files(&before.listening, &self.current.listening);
        if let Err(error) = self.pid_file.move_to(&self.current.main.pid) {
            self.say(Level::Emerg, &error.to_string());
        }
        self.supervisor.ready(self.current.number, self.current.log());
        self.begin_what_waits();
    }

    /// Frees the plan that was for the check, and for the first worker.
    fn free_checked(&mut self) {
        if self.checked.take().is_some() {
            tidegate_os::return_free_memory();
        }
    }

    fn roll_back(&mut self, why: &str) {
        let Some(next) = self.pending.take() else { return };
        self.children.dismiss_successor();
        self.take_back(&next);
        self.say(Level::Error, &format!("reload given up: {why}"));
        self.supervisor.refused(self.current.number, self.current.log());
        self.begin_what_waits();
    }

    /// Releases the resources of a generation that does not come into use: its sockets' files are removed, and
    /// directories that were given to its worker get back the owner of the continuing worker.
    fn take_back(&self, next: &Generation) {
        remove_socket_files(&next.listening, &self.current.listening);
        if next.rights.credentials != self.current.rights.credentials
            && let Err(found) = self.current.give_directories()
        {
            self.say(Level::Emerg, &found.message);
        }
    }

    /// Begins what was asked for during a reload that has ended.
    fn begin_what_waits(&mut self) {
        if std::mem::take(&mut self.reload_again) {
            self.reload();
        }
        if self.pending.is_none() && std::mem::take(&mut self.change_again) {
            self.change_binary();
        }
    }

    fn close(&mut self) {
        self.say(Level::Notice, "exit");
        if !self.upgrade.sockets_are_used() {
            remove_socket_files(&self.current.listening, &[]);
        }
        self.pid_file.remove();
    }
}

/// The sending end for threads that receive workers' messages.
pub(crate) type EventSender = Sender<MasterEvent>;
