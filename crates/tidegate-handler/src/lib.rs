//! Application code inside the server: a handler gets a [`Request`] on a pool thread, where it may block,
//! and gives a [`Response`].
//!
//! ```
//! use std::io::{Read, Write};
//! use tidegate_handler::{Handler, Request, Response};
//!
//! /// Anything that is `Fn(Request) -> Result<Response, Error>` is a handler.
//! fn count(mut request: Request) -> tidegate_handler::Result {
//!     let mut text = String::new();
//!     request.body().read_to_string(&mut text)?;
//!     Ok(Response::stream(move |out| {
//!         for (number, line) in text.lines().enumerate() {
//!             writeln!(out, "{number} {line}")?;
//!         }
//!         Ok(())
//!     }))
//! }
//! let response = count(Request::for_test("POST", "/count").with_body("a\nb\n"));
//! assert_eq!(response?.into_bytes()?, "0 a\n1 b\n");
//! # Ok::<(), tidegate_handler::Error>(())
//! ```
//! What a handler does wrong stays its own affair: a panic and an error are answered with 500, an invalid
//! status or field too, and each leaves a line in the error log. A handler that is over its time is
//! answered for with 504; nothing can stop it, so it should look at [`Request::is_abandoned`] in long
//! loops. Its memory is the process's: what it allocates is not limited.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod abandonment;
mod body;
mod invalid;
mod registry;
mod request;
mod response;
#[doc(hidden)]
pub mod server;
#[cfg(test)]
mod tests;
mod writer;

pub use body::RequestBody;
pub use bytes::Bytes;
pub use request::Request;
pub use response::Response;
pub use writer::Writer;

/// Why a handler has no response: any error. The client gets 500, the error log the text.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// What a handler gives.
pub type Result<T = Response> = std::result::Result<T, Error>;

/// Application code that answers requests (`handler NAME;`). It is called on threads of a pool, many at
/// the same time, and may block.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request.
    ///
    /// # Errors
    /// Anything: the client gets 500.
    fn handle(&self, request: Request) -> Result;

    /// Names (without `$`) of the configuration's variables whose values a request is to bring along.
    fn variables(&self) -> &[&str] {
        &[]
    }
}

impl<F: Fn(Request) -> Result + Send + Sync + 'static> Handler for F {
    fn handle(&self, request: Request) -> Result {
        self(request)
    }
}

/// A handler whose requests bring the values of these variables along.
///
/// ```
/// use tidegate_handler::{Request, Response, with_variables};
/// let handler = with_variables(&["remote_user"], |request: Request| {
///     let user = request.variable("remote_user").unwrap_or(b"nobody");
///     Ok(Response::text(user.to_vec()))
/// });
/// ```
pub fn with_variables<H: Handler>(names: &'static [&'static str], handler: H) -> impl Handler {
    WithVariables { names, handler }
}

struct WithVariables<H> {
    names: &'static [&'static str],
    handler: H,
}

impl<H: Handler> Handler for WithVariables<H> {
    fn handle(&self, request: Request) -> Result {
        self.handler.handle(request)
    }

    fn variables(&self) -> &[&str] {
        self.names
    }
}
