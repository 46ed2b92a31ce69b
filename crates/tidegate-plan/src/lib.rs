//! From a configuration to a plan: the contract of modules, what they are given while a plan is built, and nginx's core
//! modules with their directives and variables. It works at start and reload; a request meets what is left of that in the
//! engine's plan.
#![forbid(unsafe_code)]

mod build;
pub mod http_core;
mod loaded_modules;
mod location_builder;
mod locations;
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

pub use build::build;
pub use location_builder::LocationBuilder;
pub use module::{Entry, ErasedModule, Module};
pub use outline::Outline;
pub use plan_builder::{Environment, PlanBuilder};
pub use resources::{Machine, Resources, Survivors, SystemNames};
pub use server_builder::ServerBuilder;
