//! The front side: listeners, TLS and HTTP/1, from a socket to an [`tidegate_core::Exchange`] and back.
#![forbid(unsafe_code)]

pub mod accept;
pub mod conn;
mod duplex;
pub mod front;
pub mod h1;
mod io;
pub mod parking;
mod serve;
pub mod session;
mod start;
pub mod tls;

pub use front::{Front, Shared};
pub use tls::MODULES;
