//! A plan in the making: what modules see when they prepare, and what a build starts from.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use tidegate_conf::{Diagnostic, Word};
use tidegate_core::main_settings::MainSettings;
use tidegate_core::plan::{Location, Server, Service};
use tidegate_core::variables::VariableTable;
use tidegate_os::layout::Layout;

use crate::module::ErasedModule;
use crate::outline::Outline;
use crate::resources::{Resources, Survivors};

/// Everything a build starts from.
pub struct Environment<'a> {
    pub modules: &'a [&'static dyn ErasedModule],
    /// Ends with `/`.
    pub prefix: &'a str,
    /// Where the configuration file lies: certificates and password files are looked for from there.
    pub conf_directory: &'a Path,
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

/// A plan in the making; what modules see in `prepare_http`.
pub struct PlanBuilder<'e> {
    pub environment: &'e Environment<'e>,
    pub main: &'e MainSettings,
    pub variables: VariableTable,
    pub(crate) locations: Vec<Option<Location>>,
    pub(crate) servers: Vec<Server>,
    pub services: Vec<Arc<dyn Service>>,
    pub(crate) shared: HashMap<TypeId, Box<dyn Any>>,
    /// Names of the server whose locations are being built, as written.
    pub server_names: Vec<Word>,
    pub(crate) block: Option<&'e Outline>,
    pub(crate) stream: bool,
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
}
