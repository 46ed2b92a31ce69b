//! Everything in one process: `master_process off`.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Instant;

use tidegate_core::error_log::Level;
use tidegate_core::log_file::LogFiles;
use tidegate_core::plan::Plan;
use tidegate_modules::flush_logs;
use tidegate_os::platform::EVENT_METHOD;
use tidegate_plan::ReloadState;
use tidegate_rt::clock::exact_now;
use tidegate_rt::signal::ProcessSignal;

use crate::configuration::{self, Origin, PlanInputs};
use crate::events::{self, QueuedSignal};
use crate::generation::{CheckedPlan, Generation};
use crate::listening::{Listening, open_patiently, remove_socket_files};
#[cfg(unix)]
use crate::master::upgrade::Upgrade;
use crate::panics;
use crate::pidfile::PidFile;
use crate::report::log_diagnostic;
use crate::resources::{KeptFiles, MasterResources};
use crate::start_error::StartError;
use crate::supervisor::Supervisor;
use crate::worker::{WorkerServer, threads};

enum ProcessEvent {
    Signal(QueuedSignal),
    ThreadEnded(usize),
    /// Every event loop has responded.
    Alive,
}

impl From<QueuedSignal> for ProcessEvent {
    fn from(signal: QueuedSignal) -> ProcessEvent {
        ProcessEvent::Signal(signal)
    }
}

/// The only process of the server.
///
/// | `ending` | happens | then |
/// |---|---|---|
/// | no | HUP | reloaded; each older generation is ended at its time in `abort_at` |
/// | any | QUIT | listeners close, connections finish: yes |
/// | any | TERM, INT | listeners and connections close: yes |
/// | any | a thread has ended | replaced if it was not asked to end; the process ends with the last one while ending |
///
/// It is master and worker in one: no process replaces another, so USR2 and WINCH do nothing.
struct Single {
    origin: Origin,
    logs: LogFiles,
    kept: Arc<KeptFiles>,
    reload_state: ReloadState,
    server: WorkerServer,
    listening: Vec<Listening>,
    /// The number of the last generation that was tried.
    attempted: u64,
    supervisor: Supervisor,
    /// For events of this process.
    sender: Sender<ProcessEvent>,
    ending: bool,
    /// Until when requests of older generations may last (`worker_shutdown_timeout`), the oldest first.
    abort_at: VecDeque<(u64, Instant)>,
    #[cfg(unix)]
    upgrade: Upgrade,
    /// The files of Unix sockets were removed.
    files_are_removed: bool,
}

/// Serves until it is asked to end. `inherited` says that another master has sockets of the same addresses.
///
/// # Errors
/// A resource that was not available at the start.
pub(crate) fn run(
    origin: Origin,
    mut first: Generation,
    checked: CheckedPlan,
    inherited: bool,
) -> Result<ExitCode, StartError> {
    let (sender, events) = events::queue();
    let listening = std::mem::take(&mut first.listening);
    let logs = std::mem::take(&mut first.logs);
    let CheckedPlan { plan, reload_state } = checked;
    reload_state.adopt(&first.kept.parsed);
    let started = start(&origin, &mut first, plan, &listening, &sender);
    let started = started.inspect_err(|error| {
        first.log().say(Level::Emerg, format_args!("{error}"));
        if !inherited {
            remove_socket_files(&listening, &[]);
        }
    });
    let (pid_file, server) = started?;
    let mut single = Single {
        origin,
        logs,
        kept: first.kept,
        reload_state,
        attempted: server.plan().generation,
        server,
        listening,
        supervisor: Supervisor::from_environment(exact_now()),
        sender,
        ending: false,
        abort_at: VecDeque::new(),
        #[cfg(unix)]
        upgrade: Upgrade::new(Vec::new(), inherited),
        files_are_removed: false,
    };
    single.announce_ready();
    single.run_events(&events);
    single.leave_files();
    single.server.close();
    pid_file.remove();
    Ok(ExitCode::SUCCESS)
}

/// Starts what serves. Where that fails, no pid file is left.
fn start(
    origin: &Origin,
    first: &mut Generation,
    mut plan: Plan,
    listening: &[Listening],
    sender: &Sender<ProcessEvent>,
) -> Result<(PidFile, WorkerServer), StartError> {
    events::watch_signals(sender.clone()).map_err(StartError::System)?;
    let pid_file = PidFile::create(&first.main.pid).map_err(StartError::PidFile)?;
    let opened = configuration::open(&mut plan, origin, std::mem::take(&mut first.bundle));
    let server = opened.and_then(|()| {
        let plan = Arc::new(plan);
        panics::log_to(plan.main.error_log.clone());
        let log = &plan.main.error_log;
        log.say(Level::Notice, format_args!("using the \"{EVENT_METHOD}\" event method"));
        let to_end = sender.clone();
        let ended = Arc::new(move |number| drop(to_end.send(ProcessEvent::ThreadEnded(number))));
        WorkerServer::start(plan, listening, ended).map_err(StartError::System)
    });
    match server {
        Ok(server) => Ok((pid_file, server)),
        Err(error) => {
            pid_file.remove();
            Err(error)
        }
    }
}

impl Single {
    /// Handles events until the last thread has ended, after it was asked to. See [`Single`] for the effect of each
    /// event.
    fn run_events(&mut self, events: &Receiver<ProcessEvent>) {
        loop {
            self.timers();
            let abort = self.abort_at.iter().map(|(_, at)| *at).min();
            let next = [abort, self.supervisor.next_sign()].into_iter().flatten().min();
            let event = match next {
                Some(at) => events.recv_timeout(at.saturating_duration_since(exact_now())),
                None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let event = match event {
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            match event {
                ProcessEvent::Signal(signal) => self.signal(signal.take()),
                ProcessEvent::Alive => {
                    self.supervisor.alive(exact_now(), &self.server.plan().main.error_log);
                }
                ProcessEvent::ThreadEnded(number) => {
                    if self.server.thread_ended(number, &self.listening) && self.ending {
                        return;
                    }
                }
            }
        }
    }

    /// Does what is due.
    fn timers(&mut self) {
        let now = exact_now();
        let late = self.abort_at.iter().filter(|(_, at)| *at <= now);
        if let Some(last) = late.map(|(generation, _)| *generation).max() {
            self.abort_at.retain(|(generation, _)| *generation > last);
            self.server.abort_older(last + 1);
        }
        if self.supervisor.asks(now) {
            let sender = self.sender.clone();
            self.server.when_all_responded(move || drop(sender.send(ProcessEvent::Alive)));
        }
    }

    /// Removes the files of Unix sockets, once: another server may have them from then on. They stay as long as the older
    /// server has them whose sockets were inherited.
    fn leave_files(&mut self) {
        if !self.files_are_removed && !self.sockets_are_used() {
            self.files_are_removed = true;
            remove_socket_files(&self.listening, &[]);
        }
    }

    #[cfg(unix)]
    fn sockets_are_used(&self) -> bool {
        self.upgrade.sockets_are_used()
    }

    #[cfg(windows)]
    fn sockets_are_used(&self) -> bool {
        false
    }

    fn announce_ready(&mut self) {
        let plan = self.server.plan();
        self.supervisor.ready(plan.generation, &plan.main.error_log);
    }

    fn announce_end(&mut self) {
        if !std::mem::replace(&mut self.ending, true) {
            self.supervisor.stopping(&self.server.plan().main.error_log);
        }
    }

    fn signal(&mut self, signal: ProcessSignal) {
        match signal {
            ProcessSignal::Quit => {
                self.say(Level::Notice, "gracefully shutting down");
                self.announce_end();
                self.server.finish();
                self.leave_files();
            }
            ProcessSignal::Terminate | ProcessSignal::Interrupt => {
                self.announce_end();
                self.server.stop();
            }
            ProcessSignal::Hangup if !self.ending => {
                self.supervisor.reloading(&self.server.plan().main.error_log);
                match self.reload() {
                    true => self.announce_ready(),
                    false => {
                        let plan = self.server.plan();
                        self.supervisor.refused(plan.generation, &plan.main.error_log);
                    }
                }
            }
            ProcessSignal::User1 => {
                self.say(Level::Notice, "reopening logs");
                flush_logs();
                for (path, error) in self.logs.reopen() {
                    self.say(Level::Emerg, &crate::report::open_failed(&path, &error));
                }
            }
            ProcessSignal::Hangup
            | ProcessSignal::User2
            | ProcessSignal::WindowChange
            | ProcessSignal::Child => {}
        }
    }

    /// Reloads the configuration; returns whether it is served. Invariant: a step that fails is logged and leaves the
    /// serving generation as it is: its sockets are shared, and new ones kept only where the threads have taken over the plan. Sockets
    /// that the configuration no longer has close with their last thread; files of Unix sockets are removed.
    fn reload(&mut self) -> bool {
        let done = self.try_reload();
        match done {
            true => self.reload_state.keep_made(),
            false => self.reload_state.forget_made(),
        }
        done
    }

    fn try_reload(&mut self) -> bool {
        self.say(Level::Notice, "reconfiguring");
        // Each attempt has a number of its own: what was made for one that fails is not taken for the next one's.
        self.attempted += 1;
        let generation = self.attempted;
        let log = self.server.plan().main.error_log.clone();
        let log_failure = |message: &str| log.say(Level::Emerg, format_args!("{message}"));
        let Some(plan) =
            plan(&self.origin, &self.logs, &self.kept, &self.reload_state, generation, log_failure)
        else {
            return false;
        };
        let mut present = self.listening.clone();
        let count = threads::count(&plan.main);
        let wanted: Vec<_> = plan.all_listeners().collect();
        let opening =
            open_patiently(&wanted, &mut present, count, |error| log_failure(&error.to_string()));
        let old = self.server.plan().generation;
        let changed = match opening.failed.is_empty() {
            true => self
                .server
                .reload(plan, &opening.listening, &self.listening)
                .map_err(|error| error.to_string()),
            false => Err("still could not bind()".to_owned()),
        };
        if let Err(reason) = changed {
            // Dropping `opening` closes its new sockets; those that serve stay open.
            remove_socket_files(&opening.listening, &self.listening);
            self.say(Level::Emerg, &reason);
            return false;
        }
        self.listening = opening.listening;
        // What is left in `present` is no longer wanted.
        remove_socket_files(&present, &self.listening);
        let limit = self.server.plan().main.worker_shutdown_timeout;
        self.abort_at.extend(limit.map(|limit| (old, exact_now() + limit)));
        self.say(Level::Notice, &format!("gracefully shutting down generation {old}"));
        true
    }

    fn say(&self, level: Level, message: &str) {
        self.server.plan().main.error_log.say(level, format_args!("{message}"));
    }
}

/// Builds the plan of a reload.
fn plan(
    origin: &Origin,
    logs: &LogFiles,
    kept: &KeptFiles,
    reload_state: &ReloadState,
    generation: u64,
    log_failure: impl Fn(&str),
) -> Option<Arc<Plan>> {
    let mut parsed = configuration::read(origin);
    kept.begin(generation);
    let resources = MasterResources::new(logs, kept, generation);
    let inputs = PlanInputs {
        resources: &resources,
        reload_state,
        parsed: reload_state,
        generation,
        is_checked: false,
    };
    let plan = parsed.opened_plan(origin, &inputs);
    match &plan {
        None => {
            for found in parsed.diagnostics.iter().filter(|found| found.severity.is_fatal()) {
                log_failure(&found.first_line(&parsed.sources));
            }
        }
        Some(plan) => {
            let log = &plan.main.error_log;
            parsed.diagnostics.iter().for_each(|found| log_diagnostic(log, found, &parsed.sources));
        }
    }
    plan.map(Arc::new)
}
