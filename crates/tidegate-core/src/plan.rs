//! The frozen, compiled configuration of one generation: the only configuration at request time.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

use tidegate_conf::Diagnostic;

use crate::figures::{Catalog, Zone};
use crate::handler::{
    EnteringHandler, Filter, Logger, Phase, PhaseHandler, PhaseHandlers, Trailer,
};
pub use crate::ids::{LocationId, ServerId};
use crate::listen::{ListenerKey, ListenerPlan};
use crate::location_set::LocationSet;
use crate::main_settings::MainSettings;
use crate::settings::{ServerSettings, Settings};
use crate::variables::VariableTable;

/// One `server` block.
pub struct Server {
    /// The first name, for `$server_name`.
    pub name: String,
    /// The location of the block itself, where server rewrites run.
    pub location: LocationId,
    /// The locations directly in the block.
    pub locations: LocationSet,
    /// Named locations by name with `@`.
    pub named: HashMap<Vec<u8>, LocationId>,
    /// The core module's settings of the block.
    pub settings: ServerSettings,
    /// Values of modules of the server level (TLS), by type.
    pub extensions: PlanExtensions,
}

/// Values of modules at a server or location for request time, by type. There are a few, hence a list.
#[derive(Default)]
pub struct PlanExtensions(Vec<(TypeId, Box<dyn Any + Send + Sync>)>);

impl PlanExtensions {
    /// Adds a value, in place of an earlier one of its type.
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        let (id, value) = (TypeId::of::<T>(), Box::new(value));
        match self.0.iter_mut().find(|(known, _)| *known == id) {
            Some((_, earlier)) => *earlier = value,
            None => self.0.push((id, value)),
        }
    }

    /// Returns the value of this type, which is its default at first.
    pub fn entry<T: Default + Send + Sync + 'static>(&mut self) -> &mut T {
        let id = TypeId::of::<T>();
        let known = self.0.iter().position(|(known, _)| *known == id);
        let at = known.unwrap_or_else(|| {
            self.0.push((id, Box::<T>::default()));
            self.0.len() - 1
        });
        match self.0[at].1.downcast_mut() {
            Some(value) => value,
            // The key is the type's own id, so the value is of that type.
            None => unreachable!("values are stored under their type"),
        }
    }

    /// Returns the value of this type.
    pub fn of<T: Send + Sync + 'static>(&self) -> Option<&T> {
        let id = TypeId::of::<T>();
        self.0.iter().find(|(known, _)| *known == id)?.1.downcast_ref()
    }
}

impl Server {
    /// Returns the named location; `name` includes the `@`.
    pub fn named(&self, name: &[u8]) -> Option<LocationId> {
        self.named.get(name).copied()
    }
}

/// A `location`, `if`, `limit_except` or `server` block, compiled for its requests.
pub struct Location {
    /// The name as written, without modifier.
    pub name: Vec<u8>,
    /// The core module's settings, which locations without directives of their own share.
    pub settings: Arc<Settings>,
    /// Whether the name without its final slash is redirected: for prefix locations of gateways.
    pub auto_redirect: bool,
    /// Whether the name is matched exactly (`=`).
    pub exact: bool,
    /// Whether regular expressions of the level are not tried after it (`^~`).
    pub no_regex: bool,
    /// Whether the name is a regular expression (`~`, `~*`).
    pub is_regex: bool,
    /// Whether it is a named location (`@`).
    pub is_named: bool,
    /// The locations in this one, if there are any.
    pub nested: Option<Box<LocationSet>>,
    /// `limit_except`: the methods that stay here, as bits; other methods use the other location.
    pub limit_except: Option<(u32, LocationId)>,
    /// Handlers by phase.
    pub phases: PhaseHandlers,
    /// The location's own content handler (`proxy_pass`, `stub_status`, …; `return` is none).
    pub content: Option<PhaseHandler>,
    /// Of an `if` without a content handler: the location around it, whose handler responds.
    pub outer: Option<LocationId>,
    /// Response filters in the order that they run.
    pub filters: Vec<Filter>,
    /// Functions that add trailer fields where the response `expects_trailers`.
    pub trailers: Vec<Trailer>,
    /// Functions of the log phase.
    pub loggers: Vec<Logger>,
    /// The status zone that counts requests which begin here as in progress: that of the server block.
    pub zone: Option<&'static Zone>,
    /// Values of modules for their own handlers, by type.
    pub extensions: PlanExtensions,
    /// `uninitialized_variable_warn`: whether the use of a variable without a value is logged.
    pub warn_uninitialized: bool,
}

impl Location {
    /// Returns the handlers of a phase in order.
    pub fn handlers(&self, phase: Phase) -> &[PhaseHandler] {
        self.phases.of(phase)
    }
}

/// One generation of the configuration.
pub struct Plan {
    /// Settings of the main context.
    pub main: MainSettings,
    /// Listening addresses.
    pub listeners: Vec<ListenerPlan>,
    /// Server blocks by [`ServerId`].
    pub servers: Vec<Server>,
    /// Locations by [`LocationId`].
    pub locations: Vec<Location>,
    /// The variables in use.
    pub variables: VariableTable,
    /// Number of values that an exchange holds for variables.
    pub slot_count: usize,
    /// Number of this generation, counted from 1.
    pub generation: u64,
    /// What remains to be done before it serves, see [`Plan::open`].
    pub openings: Vec<Opening>,
    /// The zones that count what is served.
    pub figures: Catalog,
    /// Whether requests record where their time goes: a directive or a variable asks for it.
    pub timelines: bool,
    /// Handlers that run first in a request, of whichever server. They are in the servers' post-read phases already.
    pub entering: Vec<EnteringHandler>,
    /// Values of modules for request time, by type.
    pub extensions: PlanExtensions,
    /// Background work of modules for the plan's lifetime (cache managers, zones).
    pub services: Vec<Arc<dyn Service>>,
    /// The plan of the `stream` block, if there is one.
    pub sessions: Option<Arc<Plan>>,
}

/// A step between the build of a plan and its use, which a check of a configuration leaves out. It may add background
/// work.
pub type Opening =
    Box<dyn FnOnce(&mut Vec<Arc<dyn Service>>) -> Result<(), Diagnostic> + Send + Sync>;

/// Background work of a plan, run by the worker's housekeeping.
pub trait Service: Send + Sync {
    /// Returns a name for its thread and log lines.
    fn name(&self) -> String;

    /// Does a bounded piece of work and returns the time until the next call. May block.
    fn step(&self) -> std::time::Duration;

    /// Changes state that outlives plans, as the plan has come into use: a plan that fails before that changes nothing. On
    /// the thread that changes plans. Must not block.
    fn begin(&self) {}

    /// Ends work that the next process does, when the graceful end of this one begins. Must not block.
    fn drain(&self) {}

    /// Does last work before the process ends, when no request runs. May block for a moment.
    fn finish(&self) {}
}

impl Plan {
    /// Does what remains before the plan serves: once, and with the rights of the process that serves it.
    ///
    /// # Errors
    /// The first step that fails; the plan cannot serve then.
    pub fn open(&mut self) -> Result<(), Diagnostic> {
        let openings = std::mem::take(&mut self.openings);
        openings.into_iter().try_for_each(|opening| opening(&mut self.services))
    }

    /// Returns a server block of this plan.
    pub fn server(&self, id: ServerId) -> &Server {
        &self.servers[id.0 as usize]
    }

    /// Returns a location of this plan.
    pub fn location(&self, id: LocationId) -> &Location {
        &self.locations[id.0 as usize]
    }

    /// Returns all server blocks.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Whether HTTP/3 is served at a socket.
    pub fn serves_quic(&self, place: &ListenerKey) -> bool {
        place.datagram && self.listeners.iter().any(|one| one.quic && one.address == place.address)
    }

    /// Returns all listening addresses, those of `stream` included.
    pub fn all_listeners(&self) -> impl Iterator<Item = &ListenerPlan> {
        let sessions = self.sessions.iter().flat_map(|plan| &plan.listeners);
        self.listeners.iter().chain(sessions)
    }
}
