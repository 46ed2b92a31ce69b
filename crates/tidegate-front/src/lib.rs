//! The front side: listeners, TLS and HTTP/1, from a socket to an [`tidegate_core::Exchange`] and back.
//!
//! A worker's thread [`open`]s its front side, and runs [`accept`] for each listener. What knows no HTTP: [`link`] (a
//! connection), [`parking`] (where idle ones wait), `parked_loop` and `task` (who serves them). A protocol is a folder
//! beside [`h1`] and a row in each function of `protocol`; what all of them need of a request is in `serve`.
#![forbid(unsafe_code)]

pub mod accept;
mod action;
mod client;
mod duplex;
pub mod front;
mod h1;
mod io;
mod linger;
mod link;
mod listener;
mod parked_loop;
mod parking;
mod protocol;
mod serve;
pub mod session;
mod start;
mod task;
pub mod tls;

pub use front::{Front, Shared};
pub use parked_loop::open;
pub use tls::Ssl;
