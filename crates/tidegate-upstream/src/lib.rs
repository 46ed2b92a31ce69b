//! Origins: groups of servers, connections that are kept, and a fetch that tries one server after the other.
//!
//! The interface for everything that needs a response from an origin is [`fetch()`]: it takes an [`OriginRequest`]
//! that owns all it needs, so it can run inside a request's handler or in a task of its own that outlives the request
//! (a cache fill).
//!
//! ```text
//! fetch(OriginRequest, Arc<FetchSettings>, SharedReport, LogContext)
//!     -> Result<OriginResponse { head, body, .. }, FetchError { status, .. }>
//! ```
//!
//! This crate knows no directives: the modules build groups and settings from theirs.
//!
//! # A fetch
//!
//! - [`OriginRequest`] is a request with everything needed to send it: the group of servers, the head's bytes, the
//!   payload, the protocol. A fetch consumes it.
//! - [`RequestPayload`] is the data behind the head. It decides whether the request can be sent twice: a streamed
//!   body cannot.
//! - [`Wire`] is the protocol of an origin: HTTP/1, a CGI response behind any request (SCGI, uwsgi), [`FastCgiRules`] with
//!   its rule for the error stream, or [`MemcachedGet`] with its key. All share connections, retries and bodies.
//! - [`ConnectionReuse`] says whether a connection is kept behind a response that leaves it usable.
//! - [`FetchSettings`] are the limits that depend on the location alone; one value serves all of its requests.
//! - [`LocalAddress`] is the local side of a connection, where a configuration chooses it (`proxy_bind`).
//! - [`NextUpstream`] is the set of cases in which another server is tried (`proxy_next_upstream`).
//! - [`OriginResponse`] is a head and an [`OriginBody`], which is complete, a [`BodyReader`] that reads as it is
//!   pulled and gives the connection back at its end, or [`Upgraded`]: a connection that has left HTTP, for
//!   [`tunnel()`].
//! - [`FetchError`] is the status to respond with where there is no response. The reason was logged.
//! - [`PartRequest`] keeps a request, to request a range of its response later.
//! - [`LogContext`] is the request that log lines name. It owns copies, as a fetch has no exchange.
//! - [`Report`] lists the [`Attempt`]s of a request, for `$upstream_*`; [`SharedReport`] is held by the request's
//!   variables and by the body that is still read.
//!
//! # Servers
//!
//! - [`Group`] is the servers among which requests are spread, shared by all threads ([`peers`] has its parts). A
//!   choice gives a lease on a [`Peer`], one address with its counters, which outlasts reloads.
//! - [`Member`] is a `server` of a group, with [`ServerOptions`]; its addresses may change.
//! - [`BalancingMethod`] is how a group chooses, [`GroupOptions`] its other settings, and [`Keepalive`] how many idle
//!   connections it keeps and how long. [`idle_of`] counts those of all threads.
//! - [`care`] does the background work of groups: it resolves names again and checks servers.
//! - [`resolve`] finds the addresses of names: hosts with ports as directives write them, and the `resolver`.
//!
//! # Sessions
//!
//! Protocols other than HTTP use the same groups and connect by themselves: [`dial`] and [`secure`] give an [`Io`],
//! or a [`ConnectError`] that displays nginx's log line; [`relay`] passes bytes both ways.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod address;
pub mod care;
mod connection;
mod fetch;
mod h1;
mod h2;
mod head;
mod link;
mod log;
mod moment;
mod part;
pub mod peers;
mod pool;
pub mod relay;
mod report;
mod request;
pub mod resolve;
mod response;
mod retry;
mod settings;
mod tunnel;
mod wire;

pub use connection::{ConnectError, connect_options, count_handshake, dial, secure};
pub use fetch::{READING_HEAD, fetch};
pub use h1::body::{BodyReader, CollectError, OriginBody, Upgraded};
pub use h1::scratch::give_head;
pub use head::{FieldWriter, HeadList, ListFields, OriginHead, TextFields};
pub use log::{LogContext, os_error};
pub use part::PartRequest;
pub use peers::{BalancingMethod, Group, GroupOptions, Keepalive, Member, Peer, ServerOptions};
pub use pool::idle_of;
pub use report::{Attempt, Report, SharedReport, write_millis};
pub use request::{ConnectionReuse, OriginRequest, RequestPayload};
pub use response::{FetchError, OriginResponse};
pub use retry::NextUpstream;
pub use settings::{FetchSettings, LocalAddress};
pub use tunnel::tunnel;
pub use wire::{FastCgiRules, MemcachedGet, Wire};

/// An origin's byte stream, plain or TLS.
pub type Io = tidegate_tls::Io<tidegate_tls::Client>;
