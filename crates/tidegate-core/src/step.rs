//! What a phase handler answers: how the request goes on.

use crate::body::Body;
use crate::future::LocalFuture;

/// The answer of a phase handler.
pub enum Step<'a> {
    /// Not mine: the next handler of the phase.
    Decline,
    /// Done and allowed: in the access phase a vote for letting the request in, elsewhere as `Decline`.
    Next,
    /// End with this status: `error_page` or the built-in page answers.
    Status(u16),
    /// `x.response` is the head and this is the body of the answer.
    Respond(Body),
    /// Go on with another path: `x.redirect_to` style helpers make these.
    Jump(Jump),
    /// The answer comes later.
    Wait(LocalFuture<'a, Step<'static>>),
    /// Close the connection without an answer (`return 444`).
    Close,
}

/// An internal redirect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Jump {
    /// To a path, from the server's rewrite phase on.
    Path { path: Vec<u8>, args: Vec<u8> },
    /// To a named location, by its name with `@`.
    Named(Vec<u8>),
}

impl Step<'_> {
    /// The step without its borrow. One that waits has been awaited before; left waiting it would never
    /// end, so it counts as declined.
    pub fn settled(self) -> Step<'static> {
        match self {
            Step::Decline | Step::Wait(_) => Step::Decline,
            Step::Next => Step::Next,
            Step::Status(status) => Step::Status(status),
            Step::Respond(body) => Step::Respond(body),
            Step::Jump(jump) => Step::Jump(jump),
            Step::Close => Step::Close,
        }
    }
}
