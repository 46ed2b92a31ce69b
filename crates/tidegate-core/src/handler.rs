//! The functions that a location's plan holds for its requests, and the phases that they run in.

use std::fmt;
use std::sync::Arc;

use crate::body::Body;
use crate::exchange::Exchange;
use crate::step::Step;

/// A step in the processing of a request; handlers can be registered in all but FindConfig, PostRewrite and
/// PostAccess.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Before anything is decided: `realip`.
    PostRead,
    /// `rewrite`, `set` and `return` of the server block.
    ServerRewrite,
    /// The choice of the location.
    FindConfig,
    /// `rewrite`, `if`, `set` and `return` of the location.
    Rewrite,
    /// Back to FindConfig where the path has changed.
    PostRewrite,
    /// Limits.
    Preaccess,
    /// `allow`, `deny` and `auth_*`.
    Access,
    /// The result of `satisfy any`.
    PostAccess,
    /// `try_files` and `mirror`.
    Precontent,
    /// The response is made.
    Content,
}

/// Number of phases, for tables indexed by phase.
const PHASE_COUNT: usize = Phase::Content as usize + 1;

/// A phase handler. It runs on the connection's thread and must not block.
pub type PhaseHandler = Box<dyn for<'a> Fn(&'a mut Exchange) -> Step<'a> + Send + Sync>;

/// The handlers of a location.
pub type PhaseHandlers = ByPhase<PhaseHandler>;

/// Values by phase. One list holds all: a configuration may have many locations, and most have few handlers.
pub struct ByPhase<T> {
    /// In the order of the phases, and in each phase in the order that they run.
    list: Vec<T>,
    /// The place in the list of each phase's first value, and the list's length.
    bounds: [u32; PHASE_COUNT + 1],
}

impl<T> ByPhase<T> {
    /// Returns the values of a phase in order.
    #[inline]
    pub fn of(&self, phase: Phase) -> &[T] {
        let [start, end] = self.bounds(phase);
        self.list.get(start..end).unwrap_or_default()
    }

    /// Adds a value behind those of its phase.
    pub fn push(&mut self, phase: Phase, value: T) {
        self.insert(phase, self.bounds(phase)[1], value);
    }

    /// Adds a value before those of its phase.
    pub fn push_first(&mut self, phase: Phase, value: T) {
        self.insert(phase, self.bounds(phase)[0], value);
    }

    /// Gives memory back that no value uses.
    pub fn shrink(&mut self) {
        self.list.shrink_to_fit();
    }

    /// Returns the place in the list of a phase's first value, and that behind its last one.
    #[inline]
    fn bounds(&self, phase: Phase) -> [usize; 2] {
        [phase as usize, phase as usize + 1].map(|bound| self.bounds[bound] as usize)
    }

    fn insert(&mut self, phase: Phase, place: usize, value: T) {
        self.list.insert(place, value);
        self.bounds[phase as usize + 1..].iter_mut().for_each(|bound| *bound += 1);
    }
}

impl<T> Default for ByPhase<T> {
    fn default() -> ByPhase<T> {
        ByPhase { list: Vec::new(), bounds: [0; PHASE_COUNT + 1] }
    }
}

impl<T> fmt::Debug for ByPhase<T> {
    /// Shows the number of values of each phase.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.bounds.windows(2).map(|bounds| bounds[1] - bounds[0])).finish()
    }
}

/// A handler that runs first in a request of a client, in front of the post-read phase of the server that it came to. It
/// runs as well, and is not waited for, where a request is refused before the phases.
pub type EnteringHandler = Arc<dyn for<'a> Fn(&'a mut Exchange) -> Step<'a> + Send + Sync>;

/// A response filter: changes `x.response` and wraps or replaces the body.
pub type Filter = Box<dyn Fn(&mut Exchange, Body) -> Body + Send + Sync>;

/// Adds to `x.response.trailers` once the body has been sent.
pub type Trailer = Box<dyn Fn(&mut Exchange) + Send + Sync>;

/// Runs when the request has ended, with or without a response.
pub type Logger = Box<dyn Fn(&mut Exchange) + Send + Sync>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_the_order_within_their_phase() {
        let mut all = ByPhase::default();
        all.push(Phase::Access, 2);
        all.push(Phase::PostRead, 1);
        all.push(Phase::Content, 5);
        all.push_first(Phase::Access, 1);
        all.push_first(Phase::PostRead, 0);
        all.push(Phase::Access, 3);
        all.push(Phase::Rewrite, 4);
        all.shrink();
        assert_eq!(all.of(Phase::PostRead), [0, 1]);
        assert!(all.of(Phase::ServerRewrite).is_empty());
        assert_eq!(all.of(Phase::Rewrite), [4]);
        assert_eq!(all.of(Phase::Access), [1, 2, 3]);
        assert!(all.of(Phase::Precontent).is_empty());
        assert_eq!(all.of(Phase::Content), [5]);
        assert_eq!(format!("{all:?}"), "[2, 0, 0, 1, 0, 0, 3, 0, 0, 1]");
    }
}
