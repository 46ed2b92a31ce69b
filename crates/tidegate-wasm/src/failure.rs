//! Errors of programs: at compilation and at a request.

use std::fmt;
use std::io;
use std::sync::Arc;

use wasmtime_wasi_http::p2::bindings::http::types::ErrorCode;

/// Why a file is no program for this server, on one line.
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

/// Why a program has no response to a request. The text continues a sentence that begins with the program's name.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The interface cannot represent the method (RFC 9110, section 9.1).
    Method(http::method::InvalidMethod),
    /// The interface cannot represent the target.
    Target(http::Error),
    /// No instance could be created, or its code failed: the reason with the instance's output.
    Instance(String),
    /// The client closed the connection, or the time elapsed.
    Abandoned,
    /// The program returned an error of the interface instead of a response.
    ReturnedError(ErrorCode),
    /// The program ended before the end of its body.
    Unfinished,
    /// The program ended without a head.
    EndedWithoutResponse,
    /// The program's body began without a head.
    NoResponse,
    /// The pool's thread cannot create an event loop.
    NoEventLoop(io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Method(error) => error.fmt(f),
            Failure::Target(error) => write!(f, "cannot represent the request's target: {error}"),
            Failure::Instance(problem) => f.write_str(problem),
            Failure::Abandoned => f.write_str("was stopped: its request was abandoned"),
            Failure::ReturnedError(code) => write!(f, "returned the error {code:?}"),
            Failure::Unfinished => f.write_str("left its response unfinished"),
            Failure::EndedWithoutResponse => f.write_str("ended without a response"),
            Failure::NoResponse => f.write_str("has no response"),
            Failure::NoEventLoop(error) => write!(f, "cannot create an event loop: {error}"),
        }
    }
}

impl std::error::Error for Failure {}

/// Formats an error with its causes on one line.
pub(crate) fn one_line(error: &wasmtime::Error) -> String {
    format!("{error:#}").lines().map(str::trim).collect::<Vec<_>>().join(" ")
}
