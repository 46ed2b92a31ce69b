//! The builder of a server.

use tidegate_core::plan::Server;

use crate::outline::Outline;
use crate::plan_builder::PlanBuilder;

/// The builder of a server; modules get it in `prepare_server`.
pub struct ServerBuilder<'p, 'e> {
    /// The builder of the plan.
    pub plan: &'p mut PlanBuilder<'e>,
    /// The `server` block.
    pub outline: &'p Outline,
    /// The server so far.
    pub server: Server,
}
