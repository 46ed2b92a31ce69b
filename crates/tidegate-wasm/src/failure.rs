//! What may go wrong with programs: they cannot be used, or fail at a request.

use std::fmt;
use std::io;
use std::sync::Arc;

use wasmtime_wasi_http::p2::bindings::http::types::ErrorCode;

/// Why a file's content is no program for this server, on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramError(Arc<str>);

impl ProgramError {
    pub(crate) fn of(error: &wasmtime::Error) -> ProgramError {
        ProgramError(one_line(error).into())
    }
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ProgramError {}

/// Why a program has not answered a request, as the end of a sentence that begins with the program.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The interface has no such method (RFC 9110, section 9.1).
    Method(http::method::InvalidMethod),
    /// The interface cannot say the target.
    Target(http::Error),
    /// No instance could be made, or its code failed: how, and what it had to say.
    Instance(String),
    /// The client has left, or the time is over.
    Abandoned,
    /// It gave an error of the interface instead of a response.
    Gave(ErrorCode),
    Unfinished,
    EndedWithout,
    NoResponse,
    /// The thread of the pool can make no loop.
    NoLoop(io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Method(error) => error.fmt(f),
            Failure::Target(error) => write!(f, "has no words for the request: {error}"),
            Failure::Instance(problem) => f.write_str(problem),
            Failure::Abandoned => f.write_str("is not waited for any more"),
            Failure::Gave(code) => write!(f, "gave the error {code:?}"),
            Failure::Unfinished => f.write_str("left its response unfinished"),
            Failure::EndedWithout => f.write_str("ended without a response"),
            Failure::NoResponse => f.write_str("has no response"),
            Failure::NoLoop(error) => write!(f, "has no loop: {error}"),
        }
    }
}

impl std::error::Error for Failure {}

/// An error with its causes.
pub(crate) fn one_line(error: &wasmtime::Error) -> String {
    format!("{error:#}").lines().map(str::trim).collect::<Vec<_>>().join(" ")
}
