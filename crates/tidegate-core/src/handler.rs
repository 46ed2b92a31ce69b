//! What the plan of a location holds for its requests: functions, in the order of the phases.

use crate::body::Body;
use crate::exchange::Exchange;
use crate::step::Step;

/// A step of the way; handlers can be registered in all but FindConfig, PostRewrite and PostAccess.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    PostRead,
    ServerRewrite,
    FindConfig,
    Rewrite,
    PostRewrite,
    Preaccess,
    Access,
    PostAccess,
    Precontent,
    Content,
}

/// Number of phases, for tables indexed by phase.
pub const PHASE_COUNT: usize = Phase::Content as usize + 1;

/// A phase handler. It runs on the connection's thread and must not block.
pub type Handler = Box<dyn for<'a> Fn(&'a mut Exchange) -> Step<'a> + Send + Sync>;

/// A response filter: changes `x.response` and wraps or replaces the body.
pub type Filter = Box<dyn Fn(&mut Exchange, Body) -> Body + Send + Sync>;

/// Adds to `x.response.trailers` once the body has been sent.
pub type Trailer = Box<dyn Fn(&mut Exchange) + Send + Sync>;

/// Runs when the request is over, whatever became of it.
pub type Logger = Box<dyn Fn(&mut Exchange) + Send + Sync>;
