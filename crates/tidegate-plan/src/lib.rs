//! The compilation of a configuration to a plan: the contract of modules, the builders that they get, and nginx's core
//! modules with their directives and variables. It runs at start and reload; requests see the engine's plan alone.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod admin_socket;
mod build;
pub mod http_core;
mod loaded_modules;
mod location_builder;
mod locations;
pub mod made_variable;
pub mod main_core;
pub mod module;
mod outline;
mod plan_builder;
mod resources;
mod server_builder;
mod servers;
pub mod stream_core;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod tools;
mod values;
mod written;

pub use build::build;
pub use location_builder::LocationBuilder;
pub use module::{Entry, ErasedModule, Module};
pub use outline::Outline;
pub use plan_builder::{Environment, PlanBuilder};
pub use resources::{Machine, ReloadState, Resources, SystemNames};
pub use server_builder::ServerBuilder;
