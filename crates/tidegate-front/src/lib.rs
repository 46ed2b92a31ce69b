//! The front side: listeners, TLS, HTTP/1, HTTP/2 and HTTP/3, from a socket to an [`tidegate_core::Exchange`] and back.
//!
//! A worker's thread has one [`Front`], made by [`open`]. For each listening socket it runs one of three futures until it
//! drops them: [`accept_connections`], or over UDP [`serve_packets`] for HTTP/3 and [`receive_datagrams`] for `stream`. The public interface is this and [`Ssl`];
//! connections and protocols are private:
//!
//! ```no_run
//! # use std::rc::Rc;
//! # use std::sync::Arc;
//! # use tidegate_core::client::Address;
//! # use tidegate_core::plan::Plan;
//! # use tidegate_rt::net::Listener;
//! async fn worker(plan: Arc<Plan>, listener: Rc<Listener>, address: Address) {
//!     let front = tidegate_front::open(plan, Arc::default());
//!     tidegate_rt::spawn_local(tidegate_front::accept_connections(front.clone(), listener, address));
//!     // … until the process is to end:
//!     front.drain(tidegate_rt::clock::now());
//!     front.drained().await;
//! }
//! ```
//!
//! These modules know no HTTP: `link` (a connection), `parking` (where idle connections wait), `parked_loop` and `task`
//! (which serve connections), `session` (`stream`), `tls`. A protocol is a directory beside `h1` and a row in each
//! function of `protocol`; the steps of a request that all protocols need are in `serve`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod accept;
mod action;
mod client;
mod duplex;
mod first_bytes;
mod front;
mod h1;
mod h2;
mod h3;
mod io;
mod linger;
mod link;
mod listener;
mod parked_loop;
mod parking;
mod protocol;
mod serve;
mod session;
mod start;
mod starting;
mod task;
mod taskless;
#[cfg(test)]
mod testing;
mod tls;

pub use accept::accept_connections;
pub use front::{Front, Shared};
pub use h2::directives::Http2;
pub use h3::directives::Http3;
pub use h3::serve_packets;
pub use h3::threads::Threads;
pub use parked_loop::open;
pub use session::udp::receive_datagrams;
pub use tidegate_quic::Packet;
pub use tls::{HandshakeChallenges, Ssl, shown_certificate};
