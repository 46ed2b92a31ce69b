//! What the objects of the API are collected from.

use std::sync::Arc;
use std::time::Instant;

use tidegate_core::Exchange;
use tidegate_core::plan::Plan;
use tidegate_rt::clock;

use crate::upstream::Groups;

/// The time of a command, by both clocks.
#[derive(Clone, Copy)]
pub(super) struct CommandTime {
    pub(super) monotonic: Instant,
    /// Milliseconds since 1970.
    pub(super) unix_millis: u64,
}

/// Returns the present time by both clocks.
pub(super) fn now() -> CommandTime {
    CommandTime { monotonic: clock::now(), unix_millis: clock::unix_millis() }
}

/// What objects are collected from, on any thread: collecting thousands of them takes longer than an event loop may be held.
#[derive(Clone)]
pub(super) struct Source {
    pub(super) plan: Arc<Plan>,
    pub(super) now: CommandTime,
    /// About how many objects there are in all.
    pub(super) weight: usize,
}

impl Source {
    /// Makes a source of what the plan of a request has. The time for it grows with the number of groups, and not with that
    /// of zones.
    pub(super) fn of(x: &Exchange) -> Source {
        let plan = x.plan.shared().clone();
        let sessions = plan.sessions.as_ref().map_or(0, |plan| plan.figures.len());
        let servers = |stream| of_block(&plan, stream).map_or(0, Groups::servers);
        let weight = plan.figures.len() + sessions + servers(false) + servers(true);
        Source { plan, now: now(), weight }
    }
}

/// Returns the groups of the `http` or the `stream` block.
pub(super) fn of_block(plan: &Plan, stream: bool) -> Option<&Groups> {
    match stream {
        false => plan.extensions.of(),
        true => plan.sessions.as_ref()?.extensions.of(),
    }
}
