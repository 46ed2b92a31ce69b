//! From a parsed configuration to a plan: outline, inherit, prepare, freeze.

mod build;
pub(crate) mod location_builder;
mod locations;
pub(crate) mod outline;
pub(crate) mod plan_builder;
mod resources;
pub(crate) mod server_builder;
mod servers;
#[cfg(test)]
mod tests;
pub(crate) mod tools;
mod values;

pub use build::build;
pub use location_builder::LocationBuilder;
pub use outline::Outline;
pub use plan_builder::{Environment, PlanBuilder};
pub use resources::{Machine, Resources, Survivors, SystemNames};
pub use server_builder::ServerBuilder;
pub use tidegate_os::os_error;
