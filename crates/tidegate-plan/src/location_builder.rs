//! A location in the making.

use tidegate_conf::Contexts;
use tidegate_core::phases::{Filter, Handler, Logger, Phase, Trailer};
use tidegate_core::plan::Location;
use tidegate_core::plan::LocationId;

use crate::outline::Outline;
use crate::plan_builder::PlanBuilder;

/// A location in the making; what modules see in `prepare`.
pub struct LocationBuilder<'p, 'e> {
    pub plan: &'p mut PlanBuilder<'e>,
    pub outline: &'p Outline,
    pub location: Location,
    pub(crate) ifs: Vec<LocationId>,
}

impl LocationBuilder<'_, '_> {
    /// Where this block stands: server, location, `if` or `limit_except`.
    pub fn context(&self) -> Contexts {
        self.outline.context
    }

    /// True for `if` blocks and `limit_except`, which stand for their location.
    pub fn is_nameless(&self) -> bool {
        self.context()
            .intersects(Contexts::LOCATION_IF | Contexts::SERVER_IF | Contexts::LIMIT_EXCEPT)
    }

    /// Adds a handler to a phase.
    pub fn handler(&mut self, phase: Phase, handler: Handler) {
        self.location.phases[phase as usize].push(handler);
    }

    /// Sets the location's own content handler.
    pub fn content(&mut self, handler: Handler) {
        self.location.content = Some(handler);
    }

    /// Sets the content handler of a gateway (`proxy_pass` and its kin): besides answering, a location
    /// `/name/` then redirects `/name` to itself, as nginx documents for these alone.
    pub fn gateway(&mut self, handler: Handler) {
        self.location.auto_redirect = true;
        self.content(handler);
    }

    /// Adds a response filter behind those of earlier modules.
    pub fn filter(&mut self, filter: Filter) {
        self.location.filters.push(filter);
    }

    /// Adds a maker of trailer fields. A filter tells by `expects_trailers` whether they are wanted.
    pub fn trailer(&mut self, trailer: Trailer) {
        self.location.trailers.push(trailer);
    }

    pub fn logger(&mut self, logger: Logger) {
        self.location.loggers.push(logger);
    }

    /// The location of the block's n-th `if`.
    pub fn if_location(&self, index: usize) -> Option<LocationId> {
        self.ifs.get(index).copied()
    }
}
