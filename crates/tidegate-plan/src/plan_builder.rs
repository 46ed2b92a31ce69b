//! The builder of a plan, which modules use when they prepare, and the input of a build.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidegate_conf::{Diagnostic, SourceMap, Word};
use tidegate_core::figures::{Catalog, Figures};
use tidegate_core::main_settings::MainSettings;
use tidegate_core::phases::EnteringHandler;
use tidegate_core::plan::{Location, Opening, PlanExtensions, Server, Service};
use tidegate_core::variables::VariableTable;
use tidegate_os::layout::Layout;

use crate::module::ErasedModule;
use crate::outline::Outline;
use crate::resources::{ReloadState, Resources};

/// The input of a build beside the configuration's text.
pub struct Environment<'a> {
    /// All modules.
    pub modules: &'a [&'static dyn ErasedModule],
    /// The directory that relative paths are below (`-p`); ends with `/`.
    pub prefix: &'a str,
    /// The directory of the configuration file: paths of certificates and password files are relative to it.
    pub conf_directory: &'a Path,
    /// `-e`, or the built-in default.
    pub error_log: &'a str,
    /// Built-in paths.
    pub layout: &'static Layout,
    /// The texts that the configuration was read from.
    pub sources: &'a SourceMap,
    /// Access to files and names.
    pub resources: &'a dyn Resources,
    /// Objects kept across reloads.
    pub reload_state: &'a ReloadState,
    /// Parsed files, kept across builds, also by a process that uses no plan.
    pub parsed: &'a ReloadState,
    /// Number of the generation, counted from 1.
    pub generation: u64,
    /// Whether the configuration has been checked by a process with more rights: what only that one can look at is not
    /// looked at again.
    pub is_checked: bool,
    /// Receives the settings that modules show ([`PlanBuilder::show`]); only tests have one.
    pub shown: Option<&'a RefCell<Vec<String>>>,
}

/// The builder of a plan; modules get it in `prepare_http`.
pub struct PlanBuilder<'e> {
    /// The input of the build.
    pub environment: &'e Environment<'e>,
    /// Settings of the main context.
    pub main: &'e MainSettings,
    /// The variables in use so far.
    pub variables: VariableTable,
    pub(crate) locations: Vec<Option<Location>>,
    pub(crate) servers: Vec<Server>,
    /// Steps that remain for the use of the plan: only then files are created and read, and caches opened.
    pub openings: Vec<Opening>,
    /// The zones that count what the plan serves.
    pub figures: Catalog,
    /// Whether requests record where their time goes; modules that show it set this.
    pub timelines: bool,
    /// Handlers that run first in a request, of whichever server, before `realip`.
    pub entering: Vec<EnteringHandler>,
    /// Values of modules for request time, by type.
    pub extensions: PlanExtensions,
    /// Background work of the plan.
    pub services: Vec<Arc<dyn Service>>,
    pub(crate) shared: HashMap<TypeId, Box<dyn Any>, foldhash::fast::RandomState>,
    /// Names of the server that is being built, as written.
    pub server_names: Vec<Word>,
    pub(crate) block: Option<&'e Outline>,
    pub(crate) stream: bool,
    /// Warnings and errors so far.
    pub diagnostics: Vec<Diagnostic>,
}

/// Values by the address of the settings that they are made of.
struct Made<T>(HashMap<*const (), Arc<T>, foldhash::fast::RandomState>);

impl<T> Default for Made<T> {
    fn default() -> Made<T> {
        Made(HashMap::default())
    }
}

/// A change that is made when the plan comes into use.
struct Change<F>(F);

/// There is nothing to do later.
const PAUSE: Duration = Duration::from_secs(3600);

impl<F: Fn() + Send + Sync> Service for Change<F> {
    fn name(&self) -> String {
        "change".to_owned()
    }

    fn begin(&self) {
        (self.0)();
    }

    fn step(&self) -> Duration {
        PAUSE
    }
}

impl<'e> PlanBuilder<'e> {
    /// Returns the `http` or `stream` block, for modules that read other modules' blocks (`upstream`).
    pub fn http_block(&self) -> Option<&'e Outline> {
        self.block
    }

    /// Returns whether the plan is that of the `stream` block.
    pub fn in_stream(&self) -> bool {
        self.stream
    }

    /// Returns the process's zones, which reloads keep.
    pub fn all_figures(&self) -> Arc<Figures> {
        let make = || Ok::<_, std::convert::Infallible>(Figures::default());
        match self.environment.reload_state.get_or_make("figures", make) {
            Ok(figures) => figures,
        }
    }

    /// Shows settings that handlers hold. A plan's functions cannot be compared, so a test compares these; the program
    /// does not use them.
    pub fn show(&self, settings: &dyn fmt::Debug) {
        if let Some(shown) = self.environment.shown {
            shown.borrow_mut().push(format!("{settings:#?}"));
        }
    }

    /// Changes state that outlives plans, once the plan comes into use; see [`Service::begin`].
    pub fn when_in_use(&mut self, change: impl Fn() + Send + Sync + 'static) {
        self.services.push(Arc::new(Change(change)));
    }

    /// Stores a value for later steps of this build, by type.
    pub fn share<T: 'static>(&mut self, value: T) {
        self.shared.insert(TypeId::of::<T>(), Box::new(value));
    }

    /// Returns what is made of a module's settings: once for all blocks that share the settings.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn made_of<C, T: 'static>(
        &mut self,
        conf: &C,
        make: impl FnOnce(&mut Self) -> Result<T, Diagnostic>,
    ) -> Result<Arc<T>, Diagnostic> {
        // Settings live longer than the build, so that their addresses name them.
        let address = std::ptr::from_ref(conf).cast();
        if let Some(made) = self.shared::<Made<T>>().0.get(&address) {
            return Ok(made.clone());
        }
        let made = Arc::new(make(self)?);
        self.shared::<Made<T>>().0.insert(address, made.clone());
        Ok(made)
    }

    /// Returns the value of [`PlanBuilder::share`], or the type's default.
    pub fn shared<T: Default + 'static>(&mut self) -> &mut T {
        let value = self.shared.entry(TypeId::of::<T>()).or_insert_with(|| Box::<T>::default());
        match value.downcast_mut() {
            Some(value) => value,
            // The key is the type's own id, so the value is of that type.
            None => unreachable!("shared values are stored under their type"),
        }
    }
}
