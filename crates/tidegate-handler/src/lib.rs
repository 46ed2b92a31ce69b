//! Application code inside the server: a handler gets a [`Request`] on a pool thread, where it may block, and returns
//! a [`Response`].
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
//! A failure of a handler ends its own request: the client gets 500 for a panic, an error, and an invalid status or
//! field, and the error log gets a line. When a handler's time has elapsed, the client gets 504; nothing can stop the
//! handler, so it should check [`Request::is_abandoned`] in long loops. Its memory is the process's and not limited.
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

/// The error of a handler, of any type. The client gets 500, the error log the text.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// The result of a handler.
pub type Result<T = Response> = std::result::Result<T, Error>;

/// Application code for requests (`handler NAME;`). It is called on threads of a pool, on several at the same time,
/// and may block.
pub trait Handler: Send + Sync + 'static {
    /// Makes the response to a request.
    ///
    /// # Errors
    /// Anything: the client gets 500.
    fn handle(&self, request: Request) -> Result;

    /// Returns the names (without `$`) of the configuration's variables whose values requests carry.
    fn variables(&self) -> &[&str] {
        &[]
    }
}

impl<F: Fn(Request) -> Result + Send + Sync + 'static> Handler for F {
    fn handle(&self, request: Request) -> Result {
        self(request)
    }
}

/// Returns a handler whose requests carry the values of these variables.
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
