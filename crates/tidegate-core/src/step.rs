//! The result of a phase handler: how the request goes on.

use crate::body::Body;
use crate::future::LocalFuture;

/// The result of a phase handler.
pub enum Step<'a> {
    /// The request is not for this handler: the next handler of the phase runs.
    Decline,
    /// The request is allowed: in the access phase a vote for it (`satisfy any`), elsewhere as `Decline`.
    Next,
    /// The request ends with this status and its `error_page` or built-in page.
    Status(u16),
    /// The response is `x.response` with this body.
    Respond(Body),
    /// The request goes on at another path or named location.
    Jump(Jump),
    /// The step is the result of this future.
    Wait(LocalFuture<'a, Step<'static>>),
    /// The connection is closed without a response (`return 444`).
    Close,
}

/// An internal redirect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Jump {
    /// To a path, from the server's rewrite phase on.
    Path {
        /// The decoded path.
        path: Vec<u8>,
        /// The query without `?`.
        args: Vec<u8>,
    },
    /// To a named location, by its name with `@`.
    Named(Vec<u8>),
}

impl Step<'_> {
    /// Describes the step for a line at the level `debug`.
    pub(crate) fn outline(&self) -> String {
        match self {
            Step::Decline => "declined".to_owned(),
            Step::Next => "allowed".to_owned(),
            Step::Status(status) => format!("status {status}"),
            Step::Respond(_) => "response".to_owned(),
            Step::Jump(Jump::Path { path, .. }) => {
                format!("redirect to \"{}\"", String::from_utf8_lossy(path))
            }
            Step::Jump(Jump::Named(name)) => {
                format!("redirect to \"{}\"", String::from_utf8_lossy(name))
            }
            Step::Wait(_) => "wait".to_owned(),
            Step::Close => "close".to_owned(),
        }
    }

    /// Returns the step without its borrow. The caller has awaited `Wait` before; here it would never end, so it
    /// becomes `Decline`.
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
