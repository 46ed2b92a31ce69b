//! The functions that a location's plan holds for its requests, and the phases that they run in.

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
pub const PHASE_COUNT: usize = Phase::Content as usize + 1;

/// A phase handler. It runs on the connection's thread and must not block.
pub type PhaseHandler = Box<dyn for<'a> Fn(&'a mut Exchange) -> Step<'a> + Send + Sync>;

/// A handler that runs first in a request of a client, in front of the post-read phase of the server that it came to. It
/// runs as well, and is not waited for, where a request is refused before the phases.
pub type EnteringHandler = Arc<dyn for<'a> Fn(&'a mut Exchange) -> Step<'a> + Send + Sync>;

/// A response filter: changes `x.response` and wraps or replaces the body.
pub type Filter = Box<dyn Fn(&mut Exchange, Body) -> Body + Send + Sync>;

/// Adds to `x.response.trailers` once the body has been sent.
pub type Trailer = Box<dyn Fn(&mut Exchange) + Send + Sync>;

/// Runs when the request has ended, with or without a response.
pub type Logger = Box<dyn Fn(&mut Exchange) + Send + Sync>;
