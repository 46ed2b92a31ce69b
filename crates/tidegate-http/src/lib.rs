//! Pure HTTP: heads, chunks, URIs, ranges, dates, caching rules; no I/O, no clock.
//!
//! Everything here takes bytes and times as arguments and gives back decisions, so that all of it
//! can be tested as tables. `request` and `headers` are the hot path: they fill buffers that the
//! caller reuses and do not allocate for a common request.
#![forbid(unsafe_code)]

pub mod caching;
pub mod cgi;
pub mod chunked;
pub mod client_hello;
pub mod conditional;
pub mod connection;
pub mod cookie;
pub mod date;
mod decimal;
pub mod fastcgi;
#[doc(hidden)]
pub mod fuzzing;
pub mod headers;
mod lines;
pub mod memcached;
pub mod pages;
pub mod proxy_protocol;
pub mod range;
pub mod request;
pub mod response;
pub mod span;
pub mod uri;

pub use headers::{Headers, Known};
pub use span::Span;
