//! From a parsed configuration to a plan: outline, inherit, prepare, freeze.

mod locations;
mod machine;
mod outline;
mod servers;
#[cfg(test)]
mod tests;
mod tools;
mod values;

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_conf::{Diagnostic, HostNames, Span, Statement, Word};
use tidegate_os::layout::Layout;

use crate::log_file::LogFile;
use crate::main_settings::MainSettings;
use crate::module::ErasedModule;
use crate::plan::{Location, Plan, Server, Service};
use crate::variables::VariableTable;

pub use locations::LocationBuilder;
pub use machine::{Machine, SystemNames};
pub use outline::Outline;
pub use servers::ServerBuilder;
pub use tidegate_os::os_error;
pub(crate) use tools::error_log;

/// What a plan needs from the outside while it is built: files that the master may have opened, and what the
/// machine says of itself. A worker is given the master's: whatever a configuration means is decided once.
pub trait Resources {
    /// The content of a small file: certificates, keys, password files.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// An open log file, the same one for the same path.
    fn log_file(&self, path: &Path) -> io::Result<Arc<LogFile>>;

    /// A file opened for appending, for logs whose names are known per request.
    fn open_append(&self, path: &Path) -> io::Result<File> {
        crate::log_file::open_append(path)
    }

    /// The addresses of a host name that the configuration writes. May block.
    ///
    /// # Errors
    /// The name is not known.
    fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        SystemNames.addresses(host)
    }

    /// The machine that the configuration is for.
    fn machine(&self) -> Machine {
        Machine::look()
    }

    /// Tells of a folder that requests write into (caches, temporary files). A privileged master
    /// makes it if it is missing, as the worker's own; otherwise it is made when it is needed.
    fn folder(&self, _path: &Path) {}

    /// Tells of a folder that one server alone may use (that of a cache).
    fn claim(&self, _path: &Path) {}

    /// Tells that connections are made from addresses that are not the machine's own (`proxy_bind …
    /// transparent`). A privileged master leaves the worker the right to.
    fn send_from_anywhere(&self) {}
}

/// Objects that live on over reloads, by type and name: zones, caches, upstream state.
#[derive(Default)]
pub struct Survivors {
    objects: Mutex<HashMap<(TypeId, String), Arc<dyn Any + Send + Sync>>>,
}

impl Survivors {
    /// The object of this name, made by `make` the first time.
    pub fn get_or_make<T: Send + Sync + 'static, E>(
        &self,
        name: &str,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (TypeId::of::<T>(), name.to_owned());
        if let Some(object) = objects.get(&key)
            && let Ok(object) = object.clone().downcast()
        {
            return Ok(object);
        }
        let object = Arc::new(make()?);
        objects.insert(key, object.clone());
        Ok(object)
    }
}

/// Everything a build starts from.
pub struct Environment<'a> {
    pub modules: &'a [&'static dyn ErasedModule],
    /// Ends with `/`.
    pub prefix: &'a str,
    /// Where the configuration file lies: certificates and password files are looked for from there.
    pub conf_folder: &'a Path,
    /// `-e`, or the built-in default.
    pub error_log: &'a str,
    /// Where things are that nothing names.
    pub layout: &'static Layout,
    pub resources: &'a dyn Resources,
    pub survivors: &'a Survivors,
    pub generation: u64,
    /// Files are created and zones opened only when the plan is going to be used (not for `-t`).
    pub for_use: bool,
}

/// What a block lacks is no mistake of its own while another one may be why it lacks it.
fn leave_out_consequences(diagnostics: &mut Vec<Diagnostic>) {
    let is_consequence = |diagnostic: &Diagnostic| {
        [locations::NO_HANDLER, servers::NO_LISTEN].contains(&diagnostic.message.as_str())
    };
    let is_cause = |found: &Diagnostic| found.severity.is_fatal() && !is_consequence(found);
    if diagnostics.iter().any(is_cause) {
        diagnostics.retain(|found| !is_consequence(found));
    }
}

/// Builds a plan. On any error nothing has changed and all mistakes are returned.
pub fn build(
    environment: &Environment<'_>,
    statements: &[Statement],
    span: Span,
) -> Result<(Plan, Vec<Diagnostic>), Vec<Diagnostic>> {
    let names = machine::NamesOf(environment.resources);
    let mut outliner = outline::Outliner::new(environment.modules, &names);
    let root = outliner.outline(statements, span);
    let mut diagnostics = std::mem::take(&mut outliner.diagnostics);
    let values = std::mem::take(&mut outliner.values);
    let main = match MainSettings::prepare(environment, &root) {
        Ok(main) => main,
        Err(diagnostic) => {
            diagnostics.push(diagnostic);
            return Err(diagnostics);
        }
    };
    let mut part = |block: Option<&Outline>, stream: bool| {
        let (plan, found) = part(environment, &main, (block, stream), &values);
        diagnostics.extend(found);
        plan
    };
    let plan = part(root.blocks("http").next(), false);
    let sessions = match root.blocks("stream").next() {
        Some(block) => part(Some(block), true).map(|plan| Some(Arc::new(plan))),
        None => Some(None),
    };
    leave_out_consequences(&mut diagnostics);
    let fatal = diagnostics.iter().any(|diagnostic| diagnostic.severity.is_fatal());
    match (plan, sessions) {
        (Some(mut plan), Some(sessions)) if !fatal => {
            // Background work is one list, whichever block it comes from.
            plan.services.extend(sessions.iter().flat_map(|plan| plan.services.iter().cloned()));
            Ok((Plan { sessions, ..plan }, diagnostics))
        }
        _ => Err(diagnostics),
    }
}

/// The plan of the `http` block, or of the `stream` block: each has its own servers and variables.
fn part(
    environment: &Environment<'_>,
    main: &MainSettings,
    (block, stream): (Option<&Outline>, bool),
    values: &[values::Value],
) -> (Option<Plan>, Vec<Diagnostic>) {
    let declared = environment.modules.iter().flat_map(|module| match stream {
        false => module.variables(),
        true => module.session_variables(),
    });
    let mut plan = PlanBuilder {
        environment,
        main,
        variables: VariableTable::new(declared),
        locations: Vec::new(),
        servers: Vec::new(),
        services: Vec::new(),
        shared: HashMap::new(),
        server_names: Vec::new(),
        block: None,
        stream,
        diagnostics: Vec::new(),
    };
    let listeners = match block {
        Some(block) => plan.fill(block),
        None => Vec::new(),
    };
    plan.check_values(values);
    let unresolved = plan.variables.unresolved();
    plan.diagnostics.extend(unresolved);
    let PlanBuilder { variables, locations, servers, services, diagnostics, .. } = plan;
    let locations: Option<Vec<Location>> = locations.into_iter().collect();
    let slot_count = variables.slot_count();
    let plan = locations.map(|locations| Plan {
        main: main.clone(),
        listeners,
        servers,
        locations,
        variables,
        slot_count,
        generation: environment.generation,
        services,
        sessions: None,
    });
    (plan, diagnostics)
}

/// A plan in the making; what modules see in `prepare_http`.
pub struct PlanBuilder<'e> {
    pub environment: &'e Environment<'e>,
    pub main: &'e MainSettings,
    pub variables: VariableTable,
    locations: Vec<Option<Location>>,
    servers: Vec<Server>,
    pub services: Vec<Arc<dyn Service>>,
    shared: HashMap<TypeId, Box<dyn Any>>,
    /// Names of the server whose locations are being built, as written.
    pub server_names: Vec<Word>,
    block: Option<&'e Outline>,
    stream: bool,
    pub diagnostics: Vec<Diagnostic>,
}

impl<'e> PlanBuilder<'e> {
    /// The `http` (or `stream`) block, for modules that look at others' blocks (`upstream`).
    pub fn http_block(&self) -> Option<&'e Outline> {
        self.block
    }

    /// Whether the plan is that of the `stream` block.
    pub fn in_stream(&self) -> bool {
        self.stream
    }

    /// Leaves something for later steps of this build, found by its type.
    pub fn share<T: 'static>(&mut self, value: T) {
        self.shared.insert(TypeId::of::<T>(), Box::new(value));
    }

    /// What [`PlanBuilder::share`] left, made by default if nothing was.
    pub fn shared<T: Default + 'static>(&mut self) -> &mut T {
        let value = self.shared.entry(TypeId::of::<T>()).or_insert_with(|| Box::<T>::default());
        match value.downcast_mut() {
            Some(value) => value,
            // The key is the type's own id, so the value is of that type.
            None => unreachable!("shared values are stored under their type"),
        }
    }

    fn fill<'b>(&mut self, block: &'b Outline) -> Vec<crate::listen::ListenerPlan>
    where
        'b: 'e,
    {
        self.block = Some(block);
        for (module, conf) in self.environment.modules.iter().zip(&block.confs) {
            let prepared = match self.stream {
                false => module.prepare_http(conf, self),
                true => module.prepare_stream(conf, self),
            };
            if let Err(diagnostic) = prepared {
                self.diagnostics.push(diagnostic);
            }
        }
        let servers: Vec<&Outline> = block.blocks("server").collect();
        for server in &servers {
            self.server(server);
        }
        self.listeners(&servers)
    }
}
