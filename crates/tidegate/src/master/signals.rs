//! The master's actions on signals (nginx's manual, "Controlling nginx").

use std::collections::HashSet;
use std::fs::File;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use tidegate_core::error_log::Level;
use tidegate_os::process::wait_any_nohang;
use tidegate_rt::clock::exact_now;
use tidegate_rt::signal::ProcessSignal;

use super::children::{Role, end_report};
use super::{Ending, Master};
use crate::generation::Generation;
use crate::handover::ToWorker;
use crate::listening::{BindError, remove_socket_files};
use crate::report::{log_diagnostic, open_failed};
use crate::start_error::StartError;
use crate::{claims, configuration};

/// Time that a worker gets to end at once before it is killed.
pub(super) const KILL_AFTER: Duration = Duration::from_secs(2);

impl Master {
    pub(super) fn signal(&mut self, signal: ProcessSignal) {
        // A terminal sends it to all of its processes when its window changes its size: no order to stop.
        if signal == ProcessSignal::WindowChange && std::io::stdin().is_terminal() {
            return;
        }
        let (number, name, what) = match signal {
            ProcessSignal::Hangup => (1, "SIGHUP", ", reconfiguring"),
            ProcessSignal::Interrupt => (2, "SIGINT", ", exiting"),
            ProcessSignal::Quit => (3, "SIGQUIT", ", shutting down"),
            ProcessSignal::User1 => (10, "SIGUSR1", ", reopening logs"),
            ProcessSignal::User2 => (12, "SIGUSR2", ", changing binary"),
            ProcessSignal::Terminate => (15, "SIGTERM", ", exiting"),
            ProcessSignal::Child => (17, "SIGCHLD", ""),
            ProcessSignal::WindowChange => (28, "SIGWINCH", ", gracefully shutting down workers"),
        };
        self.say(Level::Notice, &format!("signal {number} ({name}) received{what}"));
        match signal {
            ProcessSignal::Hangup => self.reload(),
            ProcessSignal::Quit => self.end_gracefully(),
            ProcessSignal::Terminate | ProcessSignal::Interrupt => self.end_fast(),
            ProcessSignal::User1 => self.reopen_logs(),
            ProcessSignal::User2 => self.change_binary(),
            ProcessSignal::WindowChange => self.stop_worker(),
            ProcessSignal::Child => self.collect_children(),
        }
    }

    /// Reads the configuration again; it becomes the current one when the worker serves it.
    ///
    /// While a new binary runs, nothing is read: this master is to be able to serve again as it did, whatever the new one's
    /// configuration says ("Upgrading Executable on the Fly").
    ///
    /// Without a serving worker (it died, or WINCH ended it) no reply can be awaited: the generation is current as soon
    /// as it is checked, and the next worker starts with it. Source: nginx's "Controlling nginx", "Changing
    /// Configuration".
    pub(super) fn reload(&mut self) {
        if self.ending != Ending::No {
            return;
        }
        if self.upgrade.newer().is_some() {
            self.supervisor.reloading(self.current.log());
            self.supervisor.refused(self.current.number, self.current.log());
            self.worker_stopped = false;
            if !self.children.has_serving_worker() {
                self.start_worker();
            }
            return;
        }
        if self.pending.is_some() {
            self.reload_again = true;
            return;
        }
        self.say(Level::Notice, "reconfiguring");
        self.supervisor.reloading(self.current.log());
        let next = self.read_next();
        // The plan was for the check alone.
        tidegate_os::return_free_memory();
        let Some(next) = next else {
            return self.supervisor.refused(self.current.number, self.current.log());
        };
        self.worker_stopped = false;
        if !self.children.has_serving_worker() {
            // No worker to wait for: the next one starts with it.
            self.pending = Some(next);
            self.commit();
            return self.start_worker();
        }
        self.hand_over(next);
    }

    /// Sends the next generation to the serving worker, or to a new process when the worker cannot serve it: a user,
    /// limits and a priority that a process has given up cannot be restored.
    fn hand_over(&mut self, next: Generation) {
        let handover = next.handover(&self.origin);
        if !next.needs_other_process_than(&self.current) {
            self.pending = Some(next);
            self.replier = self.children.serving();
            return self.children.send(ToWorker::Serve(Box::new(handover)));
        }
        let started = self.children.start_successor(handover, &next.main);
        self.pending = Some(next);
        self.replier = started.as_ref().ok().copied();
        match started {
            Ok(pid) => self.say(Level::Notice, &format!("start worker process {pid}")),
            Err(error) => self.roll_back(&format!("cannot start a worker: {error}")),
        }
    }

    /// Builds the next generation, checked, with its sockets open.
    ///
    /// Invariant: the sockets of `current` are copied, not moved, so that any failure leaves them as they are; files of
    /// new Unix sockets are removed again. Directories are given to the new worker's user before their locks are taken:
    /// the first is reverted where the second fails. Each failure is logged as it happens, in nginx's words.
    fn read_next(&mut self) -> Option<Generation> {
        let number = self.next_generation;
        self.next_generation += 1;
        let mut parsed = configuration::read(&self.origin);
        let read = Generation::build(&self.origin, &mut parsed, number, self.current.kept.clone());
        for diagnostic in &parsed.diagnostics {
            log_diagnostic(self.log(), diagnostic, &parsed.sources);
        }
        let built = read?;
        // The new generation shares them, so that any failure below leaves the current one as it is.
        let mut present = self.current.listening.clone();
        let log = self.log().clone();
        let log_failure = |error: &BindError| {
            log.say(Level::Emerg, format_args!("{error}"));
        };
        let mut next = match built.open_sockets(&mut present, log_failure) {
            // The plan was for the check alone.
            Ok((next, _)) => next,
            Err(failed) => {
                remove_socket_files(&failed, &self.current.listening);
                self.say(Level::Emerg, "still could not bind()");
                return None;
            }
        };
        let given = next.give_directories().map_err(StartError::Directory);
        let claim = || claims::take(&next.directories.claimed).map_err(StartError::Claim);
        match given.and_then(|()| claim()) {
            Ok(claims) => {
                next.claims = claims;
                Some(next)
            }
            Err(error) => {
                self.say(Level::Emerg, &error.to_string());
                self.take_back(&next);
                None
            }
        }
    }

    pub(super) fn end_gracefully(&mut self) {
        if self.ending == Ending::No {
            self.ending = Ending::Graceful;
            self.announce_end();
            self.forget_pending();
            self.current.close_sockets();
            if !self.upgrade.sockets_are_used() {
                // Requests may last for long: another server may begin at the same addresses meanwhile.
                remove_socket_files(&self.current.listening, &[]);
                self.current.listening.clear();
            }
            self.children.quit_all();
        }
    }

    pub(super) fn end_fast(&mut self) {
        if self.ending == Ending::No {
            self.announce_end();
        }
        self.ending = Ending::Fast(exact_now() + KILL_AFTER);
        self.forget_pending();
        self.children.terminate_all();
    }

    /// Gives up a reload as the server ends. Workers may use the directories that were given to the next one's user.
    fn forget_pending(&mut self) {
        if let Some(next) = self.pending.take() {
            remove_socket_files(&next.listening, &self.current.listening);
        }
    }

    /// Tells the supervisor that the server ends, or which process continues it.
    fn announce_end(&mut self) {
        match self.upgrade.newer() {
            Some(process) => self.supervisor.succeeded_by(process, self.current.log()),
            None => self.supervisor.stopping(self.current.log()),
        }
    }

    /// Ends the worker gracefully without a replacement (WINCH); the sockets stay open for another master, or for HUP.
    fn stop_worker(&mut self) {
        self.worker_stopped = true;
        self.children.quit_all();
        self.children.forget_serving();
    }

    fn reopen_logs(&mut self) {
        self.say(Level::Notice, "reopening logs");
        let mut files: Vec<(PathBuf, File)> = Vec::new();
        let mut opened = HashSet::new();
        // The worker may serve the one that is pending already.
        for generation in [Some(&self.current), self.pending.as_ref()].into_iter().flatten() {
            // Failures are reported below, where the worker's files are opened.
            let _ = generation.logs.reopen();
            for path in generation.log_paths.iter().filter(|path| opened.insert(*path)) {
                match generation.logs.append_at_once(path) {
                    Ok(file) => files.push((path.clone(), file)),
                    Err(error) => self.say(Level::Emerg, &open_failed(path, &error)),
                }
            }
        }
        if let Err(error) = self.children.reopen(&files) {
            self.say(Level::Emerg, &format!("cannot hand over logs: {error}"));
        }
    }

    /// Collects all children that have ended: signals of the same kind may arrive as one.
    ///
    /// | ended | then |
    /// |---|---|
    /// | the new binary | the pid file has its name back; a worker is started where WINCH had ended it |
    /// | any worker while the master ends, or one that was asked to end and owes no reply | nothing |
    /// | one that was asked to end (WINCH) before its reply to a reload | the reload is given up |
    /// | the worker that serves, or its successor | a reload in progress is given up; a worker is due if none serves |
    pub(super) fn collect_children(&mut self) {
        while let Some((pid, status)) = wait_any_nohang() {
            if self.upgrade.has_ended(pid, &mut self.pid_file) {
                self.say(Level::Notice, &format!("new binary process {pid} exited: {status}"));
                self.children.send(ToWorker::LeaveQuic(false));
                if self.worker_stopped && self.ending == Ending::No {
                    self.worker_stopped = false;
                    self.start_worker();
                }
                continue;
            }
            let Some(role) = self.children.ended(pid) else { continue };
            self.free_checked();
            // One that has ended responds no more.
            self.show_life();
            let (level, text) = end_report(pid, status, self.ending != Ending::No);
            self.say(level, &text);
            let leaves = role == Role::Leaving;
            if self.ending != Ending::No || leaves && self.replier != Some(pid) {
                continue;
            }
            self.roll_back("the worker ended");
            if !leaves && !self.children.has_serving_worker() {
                self.children.respawn_soon();
            }
        }
    }

    /// Starts the new binary (USR2), which inherits the sockets and gets the pid file's name; this one's becomes
    /// `….oldbin`. Both serve until one of them is asked to end (nginx's "Upgrading Executable on the Fly"); packets of
    /// QUIC are for the new one alone, as each process knows its own connections.
    pub(super) fn change_binary(&mut self) {
        if self.ending != Ending::No {
            return;
        }
        if self.pending.is_some() {
            self.change_again = true;
            return;
        }
        let environment = super::environment::inherited();
        let started = self.upgrade.start(&self.current.listening, environment, &mut self.pid_file);
        match started {
            Ok(pid) => {
                self.say(Level::Notice, &format!("start new binary process {pid}"));
                self.children.send(ToWorker::LeaveQuic(true));
            }
            Err(error) => self.say(Level::Alert, &error.to_string()),
        }
    }
}
