//! The frozen, compiled configuration of one generation: all that exists at request time.

use std::collections::HashMap;
use std::sync::Arc;

use crate::handler::{Filter, Handler, Logger, PHASE_COUNT, Phase, Trailer};
pub use crate::ids::{LocationId, ServerId};
use crate::listen::ListenerPlan;
use crate::location_set::LocationSet;
use crate::main_settings::MainSettings;
use crate::settings::{ServerSettings, Settings};
use crate::variables::VariableTable;

/// One `server` block.
pub struct Server {
    /// Its first name, for `$server_name`.
    pub name: String,
    /// The settings of the block itself, where server rewrites run.
    pub location: LocationId,
    pub locations: LocationSet,
    pub named: HashMap<Vec<u8>, LocationId>,
    pub settings: ServerSettings,
    /// What modules of the server level (TLS) left here, by type.
    pub extensions: PlanExtensions,
}

/// What modules leave at a server or location for the time of requests, by type.
#[derive(Default)]
pub struct PlanExtensions(HashMap<std::any::TypeId, Box<dyn std::any::Any + Send + Sync>>);

impl PlanExtensions {
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        self.0.insert(std::any::TypeId::of::<T>(), Box::new(value));
    }

    pub fn of<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.0.get(&std::any::TypeId::of::<T>())?.downcast_ref()
    }
}

impl Server {
    /// The location `@name`.
    pub fn named(&self, name: &[u8]) -> Option<LocationId> {
        self.named.get(name).copied()
    }
}

/// One `location` (or `if`, `limit_except`, or server) block with everything its requests need.
pub struct Location {
    /// As written, without modifier.
    pub name: Vec<u8>,
    pub settings: Settings,
    /// Prefix locations ending in `/` with a content handler redirect the name without it.
    pub auto_redirect: bool,
    /// Matched exactly (`=`).
    pub exact: bool,
    /// `^~`: no regular expressions after it.
    pub no_regex: bool,
    /// A regular-expression location.
    pub is_regex: bool,
    pub is_named: bool,
    pub nested: LocationSet,
    /// `limit_except`: methods that stay here; others go to the other location.
    pub limit_except: Option<(u32, LocationId)>,
    pub phases: [Vec<Handler>; PHASE_COUNT],
    /// The location's own content handler (`proxy_pass`, `return` is not one, `stub_status`, …).
    pub content: Option<Handler>,
    pub filters: Vec<Filter>,
    /// They make trailer fields, where the response `expects_trailers`.
    pub trailers: Vec<Trailer>,
    pub loggers: Vec<Logger>,
    /// What modules left here for others of their own kind.
    pub extensions: PlanExtensions,
    /// `uninitialized_variable_warn`: log the use of variables that `set` has not reached.
    pub warn_uninitialized: bool,
}

impl Location {
    /// The handlers of one phase in order.
    pub fn handlers(&self, phase: Phase) -> &[Handler] {
        &self.phases[phase as usize]
    }
}

/// One generation of the whole configuration.
pub struct Plan {
    pub main: MainSettings,
    pub listeners: Vec<ListenerPlan>,
    pub servers: Vec<Server>,
    pub locations: Vec<Location>,
    pub variables: VariableTable,
    pub slot_count: usize,
    /// Number of this generation, counted from 1.
    pub generation: u64,
    /// Objects that modules keep for the plan's lifetime (cache managers, zones), by name.
    pub services: Vec<Arc<dyn Service>>,
    /// That of the `stream` block, if there is one.
    pub sessions: Option<Arc<Plan>>,
}

/// Background work of a plan, run by the worker's housekeeping.
pub trait Service: Send + Sync {
    /// A name for its thread and log lines.
    fn name(&self) -> String;

    /// Does a bounded piece of work; answers when it wants to be called again. May block.
    fn step(&self) -> std::time::Duration;

    /// Last work before the process ends, when no request runs any more. May block for a moment.
    fn finish(&self) {}
}

impl Plan {
    pub fn server(&self, id: ServerId) -> &Server {
        &self.servers[id.0 as usize]
    }

    pub fn location(&self, id: LocationId) -> &Location {
        &self.locations[id.0 as usize]
    }

    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// All sockets, those of `stream` included.
    pub fn all_listeners(&self) -> impl Iterator<Item = &ListenerPlan> {
        let sessions = self.sessions.iter().flat_map(|plan| &plan.listeners);
        self.listeners.iter().chain(sessions)
    }
}
