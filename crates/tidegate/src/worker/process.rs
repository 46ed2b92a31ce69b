//! The worker process: receives the generation to serve, drops privileges, serves.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tidegate_core::error_log::Level;
use tidegate_core::log_file::LogFiles;
use tidegate_core::plan::Plan;
use tidegate_modules::flush_logs;
use tidegate_os::{held_signals, identity, inherit, process, title};
use tidegate_plan::ReloadState;
use tidegate_rt::clock::exact_now;
use tidegate_rt::signal::ProcessSignal;

use super::WorkerServer;
use crate::configuration::{self, Origin, PlanInputs};
use crate::events::{self, QueuedSignal};
use crate::generation::{CheckedPlan, Generation};
use crate::handover::{Handover, ToMaster, ToWorker};
use crate::listening::Listening;
use crate::panics;
use crate::resources::WorkerResources;
use crate::rights::Rights;
use crate::start_error::StartError;

/// The descriptor under which a worker finds its socket to the master.
pub(crate) const SOCKET: i32 = 3;

/// Interval of the check whether requests of older generations have ended, while there are any.
const CHECK_PAUSE: Duration = Duration::from_millis(50);

/// Why a message of the master could not be used.
const NO_ROOM: &str = "too many open files in the worker process (\"worker_rlimit_nofile\")";

enum WorkerEvent {
    Signal(QueuedSignal),
    Message(Box<ToWorker>),
    MasterGone,
    ThreadEnded(usize),
    /// Every event loop has responded.
    Alive,
}

impl From<QueuedSignal> for WorkerEvent {
    fn from(signal: QueuedSignal) -> WorkerEvent {
        WorkerEvent::Signal(signal)
    }
}

/// Runs a worker process to its end, under the short name of its master.
pub(crate) fn run(name: &str) -> ExitCode {
    let socket = match inherit::adopt_socket(SOCKET) {
        Ok(socket) => Arc::new(socket),
        Err(_) => {
            eprintln!("nginx: worker processes are started by the master process only");
            return ExitCode::FAILURE;
        }
    };
    held_signals::end_on_request();
    title::set_short_name(name);
    title::set_process_title("nginx: worker process");
    process::ignore_sigpipe();
    process::ignore_stray_signals();
    let handover = match ToWorker::receive(&*socket) {
        Ok(Some(ToWorker::Serve(handover))) => handover,
        Ok(Some(ToWorker::Lost(Some(generation)))) => {
            let _ = ToMaster::Failed(generation, NO_ROOM.to_owned()).send(&*socket);
            return ExitCode::FAILURE;
        }
        // Asked to end before it began, or the master has ended.
        _ => return ExitCode::SUCCESS,
    };
    let (logs, reload_state) = (LogFiles::default(), ReloadState::default());
    let (generation, rights) = (handover.generation, handover.rights.clone());
    let kept = Kept { logs, reload_state };
    serve(socket, generation, &rights, kept, |kept| {
        let (plan, listening, _) = plan(*handover, &kept.logs, &kept.reload_state)?;
        kept.reload_state.keep_made();
        Ok((plan, listening))
    })
}

/// Runs a process that was forked by a master with the generation to serve, to its end. `changed` is the result of the
/// change of its environment.
pub(crate) fn run_forked(
    socket: OwnedFd,
    origin: &Origin,
    first: Generation,
    checked: CheckedPlan,
    changed: io::Result<()>,
) -> ExitCode {
    let socket = Arc::new(socket);
    held_signals::end_on_request();
    title::set_process_title("nginx: worker process");
    let CheckedPlan { mut plan, reload_state } = checked;
    let Generation { number, logs, kept, rights, listening, bundle, findings, claims, .. } = first;
    reload_state.adopt(&kept.parsed);
    // What the configuration names, and the locks, are the master's.
    drop((kept, findings, claims));
    match ToWorker::receive(&*socket) {
        Ok(Some(ToWorker::Begin)) => {}
        // Asked to end before it began, or the master has given up.
        _ => return ExitCode::SUCCESS,
    }
    serve(socket, number, &rights, Kept { logs, reload_state }, |_| {
        changed.map_err(StartError::System)?;
        configuration::open(&mut plan, origin, bundle)?;
        Ok((Arc::new(plan), listening))
    })
}

/// What reloads take over from the generation before.
struct Kept {
    logs: LogFiles,
    reload_state: ReloadState,
}

/// Takes the rights of a worker, and serves the plan that `make` returns.
fn serve(
    socket: Arc<OwnedFd>,
    generation: u64,
    rights: &Rights,
    kept: Kept,
    make: impl FnOnce(&Kept) -> Result<(Arc<Plan>, Vec<Listening>), StartError>,
) -> ExitCode {
    let started = take_rights(rights).and_then(|failures| {
        let (plan, listening) = make(&kept)?;
        for error in failures {
            plan.main.error_log.say(Level::Alert, format_args!("{error}"));
        }
        Worker::start(generation, plan, listening, kept, socket.clone())
    });
    match started {
        Ok((worker, events)) => {
            // What the configuration was read and compiled with; behind the start, which it would slow down.
            tidegate_os::return_free_memory();
            worker.run(&events)
        }
        Err(error) => {
            let _ = ToMaster::Failed(generation, error.to_string()).send(&*socket);
            ExitCode::FAILURE
        }
    }
}

/// | `finishing` | happens | then |
/// |---|---|---|
/// | no | a generation from the master | swapped in; the reply is Ready or Failed, and the one before is among `older` |
/// | no | Quit, QUIT | listeners close, connections finish: yes |
/// | any | Terminate, TERM, the master has ended | listeners and connections close: yes |
/// | any | a thread has ended | replaced if it was not asked to end; the process ends with the last one while finishing |
///
/// Invariant: new requests are served with one plan at a time; a request continues with the plan that it began with. A
/// generation is `older` until nothing holds its plan, which is reported to the master once (Retired).
/// `worker_shutdown_timeout` counts from the reload that made it `older`; those before it end with it.
struct Worker {
    socket: Arc<OwnedFd>,
    kept: Kept,
    server: WorkerServer,
    listening: Vec<Listening>,
    /// Generations before the current one whose requests or sessions have not all ended.
    older: Vec<OlderGeneration>,
    finishing: bool,
    /// For events of this process.
    sender: Sender<WorkerEvent>,
}

/// A generation before the current one.
struct OlderGeneration {
    number: u64,
    /// When its requests are ended (`worker_shutdown_timeout`).
    until: Option<Instant>,
    parts: Vec<Weak<Plan>>,
}

impl Worker {
    fn start(
        generation: u64,
        plan: Arc<Plan>,
        listening: Vec<Listening>,
        kept: Kept,
        socket: Arc<OwnedFd>,
    ) -> Result<(Worker, Receiver<WorkerEvent>), StartError> {
        panics::log_to(plan.main.error_log.clone());
        let (sender, events) = events::queue();
        events::watch_signals(sender.clone()).map_err(StartError::System)?;
        listen_to_master(socket.clone(), sender.clone()).map_err(StartError::System)?;
        let to_end = sender.clone();
        let ended = Arc::new(move |number| drop(to_end.send(WorkerEvent::ThreadEnded(number))));
        let server = WorkerServer::start(plan, &listening, ended).map_err(StartError::System)?;
        let _ = ToMaster::Ready(generation).send(&*socket);
        let worker =
            Worker { socket, kept, server, listening, older: Vec::new(), finishing: false, sender };
        Ok((worker, events))
    }

    fn run(mut self, events: &Receiver<WorkerEvent>) -> ExitCode {
        loop {
            let event = match self.pause() {
                Some(pause) => events.recv_timeout(pause),
                None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match event {
                Ok(WorkerEvent::ThreadEnded(number)) => {
                    if self.server.thread_ended(number, &self.listening) && self.finishing {
                        break;
                    }
                }
                Ok(event) => self.handle(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.check_older();
        }
        let log = self.server.plan().main.error_log.clone();
        log.say(Level::Notice, format_args!("exiting"));
        self.server.close();
        log.say(Level::Notice, format_args!("exit"));
        ExitCode::SUCCESS
    }

    fn handle(&mut self, event: WorkerEvent) {
        match event {
            WorkerEvent::Signal(signal) => self.signal(signal.take()),
            WorkerEvent::MasterGone => self.stop(),
            WorkerEvent::Alive => drop(ToMaster::Alive.send(&*self.socket)),
            WorkerEvent::ThreadEnded(_) => {}
            WorkerEvent::Message(message) => match *message {
                ToWorker::Serve(handover) if !self.finishing => self.reload(*handover),
                ToWorker::Serve(_) | ToWorker::Begin => {}
                ToWorker::Reopen(files) => {
                    self.say("reopening logs");
                    flush_logs();
                    self.replace_logs(files);
                }
                ToWorker::Lost(Some(generation)) => {
                    let _ = ToMaster::Failed(generation, NO_ROOM.to_owned()).send(&*self.socket);
                }
                ToWorker::Lost(None) => {
                    let log = &self.server.plan().main.error_log;
                    log.say(Level::Emerg, format_args!("logs are not reopened: {NO_ROOM}"));
                }
                ToWorker::LeaveQuic(true) => self.server.leave_quic(),
                ToWorker::LeaveQuic(false) if !self.finishing => {
                    if let Err(error) = self.server.resume_quic(&self.listening) {
                        let log = &self.server.plan().main.error_log;
                        log.say(Level::Emerg, format_args!("cannot receive QUIC again: {error}"));
                    }
                }
                ToWorker::LeaveQuic(_) => {}
                ToWorker::AreYouAlive => {
                    let sender = self.sender.clone();
                    self.server.when_all_responded(move || drop(sender.send(WorkerEvent::Alive)));
                }
                ToWorker::Quit => self.finish(),
                ToWorker::Terminate => self.stop(),
            },
        }
    }

    fn signal(&mut self, signal: ProcessSignal) {
        match signal {
            ProcessSignal::Quit => self.finish(),
            ProcessSignal::Terminate | ProcessSignal::Interrupt => self.stop(),
            ProcessSignal::User1 => {
                self.say("reopening logs");
                flush_logs();
                self.kept.logs.reopen();
            }
            ProcessSignal::Hangup
            | ProcessSignal::User2
            | ProcessSignal::WindowChange
            | ProcessSignal::Child => {}
        }
    }

    fn finish(&mut self) {
        if !self.finishing {
            self.say("gracefully shutting down");
            title::set_process_title("nginx: worker process is shutting down");
            self.finishing = true;
            self.listening.clear();
            self.server.finish();
        }
    }

    fn stop(&mut self) {
        self.finishing = true;
        self.listening.clear();
        self.server.stop();
    }

    /// Changes to a generation. Invariant: it succeeds as a whole or leaves the serving generation as it is. Logs that both
    /// generations have continue in one file, which the master has opened again. The reply is sent last: the master
    /// relies on it.
    fn reload(&mut self, handover: Handover) {
        let generation = handover.generation;
        let reload_state = &self.kept.reload_state;
        let made = plan(handover, &self.kept.logs, reload_state).and_then(|made| {
            let (plan, listening, again) = made;
            let before = self.server.plan().clone();
            let changed = self.server.reload(plan, &listening, &self.listening);
            changed.map_err(StartError::System)?;
            Ok((before, listening, again))
        });
        match &made {
            Ok(_) => reload_state.keep_made(),
            Err(_) => reload_state.forget_made(),
        }
        let reply = match made {
            Ok((before, listening, again)) => {
                // Logs that the generation before writes to as well continue in the file that was opened again.
                self.replace_logs(again);
                self.listening = listening;
                let main = &self.server.plan().main;
                panics::log_to(main.error_log.clone());
                let until = main.worker_shutdown_timeout.map(|limit| exact_now() + limit);
                // Weak references to every part that a request or session may hold: once none can be upgraded, all have
                // ended.
                let parts = std::iter::once(&before).chain(&before.sessions);
                let parts = parts.map(Arc::downgrade).collect();
                self.older.push(OlderGeneration { number: before.generation, until, parts });
                self.say(&format!("gracefully shutting down generation {}", before.generation));
                ToMaster::Ready(generation)
            }
            Err(error) => ToMaster::Failed(generation, error.to_string()),
        };
        let _ = reply.send(&*self.socket);
    }

    fn replace_logs(&self, files: Vec<(PathBuf, File)>) {
        let logs = self.kept.logs.by_path();
        for (path, file) in files {
            if let Some(log) = logs.get(&path) {
                log.replace(file);
            }
        }
    }

    /// Returns how long to wait for events before the next check of older generations.
    fn pause(&self) -> Option<Duration> {
        let check = (!self.older.is_empty()).then_some(CHECK_PAUSE);
        let abort = self.older.iter().filter_map(|older| older.until).min();
        let abort = abort.map(|until| until.saturating_duration_since(exact_now()));
        [check, abort].into_iter().flatten().min()
    }

    /// Reports older generations that have ended. Polled every [`CHECK_PAUSE`] while there are any, since the last drop
    /// of a plan gives no event. It is on no request's path.
    fn check_older(&mut self) {
        let now = exact_now();
        let late = |older: &&mut OlderGeneration| older.until.is_some_and(|until| until <= now);
        let late = self.older.iter_mut().filter(late).map(|older| {
            older.until = None;
            older.number
        });
        if let Some(last) = late.max() {
            self.server.abort_older(last + 1);
        }
        let (socket, before) = (&self.socket, self.older.len());
        self.older.retain(|older| {
            let used = older.parts.iter().any(|plan| plan.strong_count() > 0);
            if !used {
                let _ = ToMaster::Retired(older.number).send(&**socket);
            }
            used
        });
        if self.older.len() < before {
            tidegate_os::return_free_memory();
        }
    }

    fn say(&self, message: &str) {
        self.server.plan().main.error_log.say(Level::Notice, format_args!("{message}"));
    }
}

/// A plan, its sockets, and files that are left over.
type WorkerPlan = (Arc<Plan>, Vec<Listening>, Vec<(PathBuf, File)>);

/// Builds the plan that the master has checked. The files that are left over belong to logs that were open before.
fn plan(
    handover: Handover,
    logs: &LogFiles,
    reload_state: &ReloadState,
) -> Result<WorkerPlan, StartError> {
    let Handover { generation, origin, bundle, findings, logs: files, listening, .. } = handover;
    let resources = WorkerResources::new(logs, findings, files);
    let mut parsed = configuration::read_again(&origin, bundle);
    let inputs = PlanInputs {
        resources: &resources,
        reload_state,
        parsed: reload_state,
        generation,
        is_checked: true,
    };
    let Some(plan) = parsed.opened_plan(&origin, &inputs) else {
        return Err(StartError::Configuration(parsed.first_mistake()));
    };
    // The configuration as written, and what it was compiled from.
    drop(parsed);
    tidegate_os::return_free_memory();
    Ok((Arc::new(plan), listening, resources.into_unused()))
}

/// Sets limits, priority, user, directory: once in a process, in the order in which each step still has the privileges
/// it needs. Returns the failures that need not end the process, as in nginx.
fn take_rights(rights: &Rights) -> Result<Vec<StartError>, StartError> {
    let failed = |what: &str, error| StartError::Right { call: what.to_owned(), error };
    let mut failures = Vec::new();
    if let Some(Err(error)) = rights.priority.map(process::set_priority) {
        failures.push(failed("setpriority()", error));
    }
    if let Some(Err(error)) = rights.files_max.map(process::set_nofile_limit) {
        failures.push(failed("setrlimit(RLIMIT_NOFILE)", error));
    }
    if let Some(Err(error)) = rights.core_bytes_max.map(process::set_core_limit) {
        failures.push(failed("setrlimit(RLIMIT_CORE)", error));
    }
    if let Some(credentials) = &rights.credentials {
        identity::drop_privileges(credentials, rights.sends_from_anywhere)
            .map_err(|error| failed("setuid()", error))?;
        if let Err(error) = process::set_dumpable(true) {
            failures.push(failed("prctl(PR_SET_DUMPABLE)", error));
        }
    }
    if let Some(directory) = &rights.directory {
        std::env::set_current_dir(directory)
            .map_err(|error| failed(&format!("chdir(\"{}\")", directory.display()), error))?;
    }
    // After the change of user, which clears it.
    if let Err(error) = process::parent_death_signal() {
        failures.push(failed("prctl(PR_SET_PDEATHSIG)", error));
    }
    Ok(failures)
}

/// Starts the thread that receives the master's messages.
fn listen_to_master(socket: Arc<OwnedFd>, events: Sender<WorkerEvent>) -> io::Result<()> {
    std::thread::Builder::new().name("master".to_owned()).spawn(move || {
        while let Ok(Some(message)) = ToWorker::receive(&*socket) {
            if events.send(WorkerEvent::Message(Box::new(message))).is_err() {
                return;
            }
        }
        let _ = events.send(WorkerEvent::MasterGone);
    })?;
    Ok(())
}
