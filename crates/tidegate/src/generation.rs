//! One generation before it serves: checked, with all open files and sockets that a worker needs.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use tidegate_conf::{Bundle, Diagnostic};
use tidegate_core::error_log::ErrorLog;
#[cfg(unix)]
use tidegate_core::listen::ListenerKey;
use tidegate_core::listen::ListenerPlan;
use tidegate_core::log_file::LogFiles;
use tidegate_core::main_settings::MainSettings;
use tidegate_core::plan::Plan;
use tidegate_plan::ReloadState;

use crate::configuration::{Origin, Parsed, PlanInputs};
use crate::listening::{self, BindError, Listening, open_patiently, socket_file};
use crate::resources::{Directories, Findings, KeptFiles, MasterResources};
use crate::rights::{self, Rights};
use crate::worker::threads;

/// A checked configuration with its open sockets.
pub(crate) struct Generation {
    pub number: u64,
    pub main: MainSettings,
    pub logs: LogFiles,
    pub log_paths: Vec<PathBuf>,
    pub bundle: Bundle,
    pub findings: Findings,
    /// Files of this generation that the next one need not read again.
    pub kept: Arc<KeptFiles>,
    pub rights: Rights,
    pub directories: Directories,
    /// Locks of directories that only one server may use.
    pub claims: Vec<File>,
    pub listening: Vec<Listening>,
}

/// The number of the generation with which a server starts.
pub(crate) const FIRST_GENERATION: u64 = 1;

/// A checked configuration before its sockets are opened.
pub(crate) struct Built {
    pub generation: Generation,
    checked: CheckedPlan,
}

/// A plan that was built as a check, and the objects in it that a next plan would take over.
pub(crate) struct CheckedPlan {
    pub plan: Plan,
    pub reload_state: ReloadState,
}

impl Generation {
    /// Builds the plan as a check, and opens its logs. `None` when there are fatal diagnostics. `kept` is that of the
    /// generation before.
    pub(crate) fn build(
        origin: &Origin,
        parsed: &mut Parsed,
        number: u64,
        kept: Arc<KeptFiles>,
    ) -> Option<Built> {
        let logs = LogFiles::default();
        kept.begin(number);
        let resources = MasterResources::new(&logs, &kept, number);
        let reload_state = ReloadState::default();
        let inputs = PlanInputs {
            resources: &resources,
            reload_state: &reload_state,
            parsed: &kept.parsed,
            generation: number,
            is_checked: false,
        };
        let plan = parsed.plan(origin, &inputs)?;
        let found = rights::of(&plan.main, resources.sends_from_anywhere());
        let Ok((rights, warning)) = found.map_err(|message| parsed.diagnostics.push(message))
        else {
            return None;
        };
        parsed.diagnostics.extend(warning);
        let (held, findings, directories) = resources.into_parts();
        let log_paths = held.iter().map(|log| log.path().to_owned()).collect();
        let generation = Generation {
            number,
            main: plan.main.clone(),
            logs,
            log_paths,
            bundle: std::mem::take(&mut parsed.bundle),
            findings,
            kept,
            rights,
            directories,
            claims: Vec::new(),
            listening: Vec::new(),
        };
        Some(Built { generation, checked: CheckedPlan { plan, reload_state } })
    }

    pub(crate) fn log(&self) -> &ErrorLog {
        &self.main.error_log
    }

    /// Makes the directories that the worker writes into, and gives it the existing ones.
    ///
    /// # Errors
    /// A directory cannot be made.
    pub(crate) fn give_directories(&self) -> Result<(), Diagnostic> {
        rights::make_directories(&self.directories, self.rights.credentials.as_ref())
    }

    /// Whether the worker process of `running` cannot serve this generation: its user, groups, limits, priority,
    /// directory and environment are fixed at the start of a process.
    pub(crate) fn needs_other_process_than(&self, running: &Generation) -> bool {
        self.rights != running.rights || self.main.env != running.main.env
    }
}

impl Built {
    /// Makes the directories that are missing, as a check. Existing ones keep their owner: the running server may have
    /// another user.
    ///
    /// # Errors
    /// A directory cannot be made.
    pub(crate) fn make_missing_directories(&self) -> Result<(), Diagnostic> {
        let generation = &self.generation;
        let written = generation.directories.written.iter().filter(|directory| !directory.exists());
        let missing = Directories { written: written.cloned().collect(), claimed: Vec::new() };
        rights::make_directories(&missing, generation.rights.credentials.as_ref())
    }

    /// Whether a `listen` has this address.
    #[cfg(unix)]
    pub(crate) fn listens_at(&self, place: &ListenerKey) -> bool {
        self.checked.plan.all_listeners().any(|listener| listener.place() == *place)
    }

    fn wanted(&self) -> Vec<&ListenerPlan> {
        self.checked.plan.all_listeners().collect()
    }

    /// Opens the sockets that are not in `present`. Returns the plan beside the generation.
    ///
    /// # Errors
    /// The new sockets, when an address could not be opened.
    pub(crate) fn open_sockets(
        mut self,
        present: &mut Vec<Listening>,
        on_failure: impl FnMut(&BindError),
    ) -> Result<(Generation, CheckedPlan), Vec<Listening>> {
        let threads = threads::count(&self.generation.main);
        let opening = open_patiently(&self.wanted(), present, threads, on_failure);
        if opening.failed.is_empty() {
            self.generation.listening = opening.listening;
            return Ok((self.generation, self.checked));
        }
        let is_new = |one: &Listening| opening.new.contains(&one.place) && !one.sockets.is_empty();
        Err(opening.listening.into_iter().filter(is_new).collect())
    }

    /// Opens and closes the sockets that are not open, as a check: taken ports belong to another server, probably the
    /// one that runs with this configuration. Files of sockets that are there stay: that of a dead `admin_socket` as well,
    /// which a start replaces.
    pub(crate) fn try_sockets(&self) -> Vec<BindError> {
        let mut wanted = self.wanted();
        wanted.retain(|listener| {
            let file = socket_file(&listener.address);
            let is_replaced = |path: PathBuf| path.symlink_metadata().is_ok();
            listener.socket.unix_mode.is_none() || !file.is_some_and(is_replaced)
        });
        let opening = listening::try_to_open(&wanted);
        for listening in opening.listening.iter().filter(|one| !one.sockets.is_empty()) {
            if let Some(path) = socket_file(&listening.place.address) {
                let _ = std::fs::remove_file(path);
            }
        }
        opening.failed.into_iter().filter(|error| !error.is_taken()).collect()
    }
}
