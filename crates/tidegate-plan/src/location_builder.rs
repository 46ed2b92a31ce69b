//! The builder of a location.

use tidegate_conf::Contexts;
use tidegate_core::phases::{Filter, Logger, Phase, PhaseHandler, Trailer};
use tidegate_core::plan::Location;
use tidegate_core::plan::LocationId;

use crate::outline::Outline;
use crate::plan_builder::PlanBuilder;

/// The builder of a location; modules get it in `prepare`.
pub struct LocationBuilder<'p, 'e> {
    /// The builder of the plan.
    pub plan: &'p mut PlanBuilder<'e>,
    /// The block that is prepared.
    pub outline: &'p Outline,
    /// The location so far.
    pub location: Location,
    pub(crate) ifs: Vec<LocationId>,
}

impl LocationBuilder<'_, '_> {
    /// Returns the block's context: server, location, `if` or `limit_except`.
    pub fn context(&self) -> Contexts {
        self.outline.context
    }

    /// Returns whether the block is an `if` or `limit_except`, which have no name of their own.
    pub fn is_unnamed_block(&self) -> bool {
        self.context()
            .intersects(Contexts::LOCATION_IF | Contexts::SERVER_IF | Contexts::LIMIT_EXCEPT)
    }

    /// Adds a handler to a phase.
    pub fn handler(&mut self, phase: Phase, handler: PhaseHandler) {
        self.location.phases.push(phase, handler);
    }

    /// Sets the location's own content handler.
    pub fn content(&mut self, handler: PhaseHandler) {
        self.location.content = Some(handler);
    }

    /// Sets the content handler of a gateway (`proxy_pass` and others). A location `/name/` then also redirects `/name`
    /// to itself, as nginx documents for gateways alone.
    pub fn gateway(&mut self, handler: PhaseHandler) {
        self.location.auto_redirect = true;
        self.content(handler);
    }

    /// Adds a response filter after those of earlier modules.
    pub fn filter(&mut self, filter: Filter) {
        self.location.filters.push(filter);
    }

    /// Adds a function that makes trailer fields. It runs where a filter has set `expects_trailers`.
    pub fn trailer(&mut self, trailer: Trailer) {
        self.location.trailers.push(trailer);
    }

    /// Adds a function of the log phase.
    pub fn logger(&mut self, logger: Logger) {
        self.location.loggers.push(logger);
    }

    /// Returns the location of the block's `if` number `index`, counted from 0.
    pub fn if_location(&self, index: usize) -> Option<LocationId> {
        self.ifs.get(index).copied()
    }
}
