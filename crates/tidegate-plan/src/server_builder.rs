//! A server in the making.

use tidegate_core::plan::Server;

use crate::outline::Outline;
use crate::plan_builder::PlanBuilder;

/// A server in the making; what modules see in `prepare_server`.
pub struct ServerBuilder<'p, 'e> {
    pub plan: &'p mut PlanBuilder<'e>,
    pub outline: &'p Outline,
    pub server: Server,
}
