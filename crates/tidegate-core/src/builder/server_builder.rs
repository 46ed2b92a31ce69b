//! A server in the making.

use super::outline::Outline;
use super::plan_builder::PlanBuilder;
use crate::plan::Server;

/// A server in the making; what modules see in `prepare_server`.
pub struct ServerBuilder<'p, 'e> {
    pub plan: &'p mut PlanBuilder<'e>,
    pub outline: &'p Outline,
    pub server: Server,
}
