//! Origins: groups of servers, connections that are kept, and a fetch that tries one server after the
//! other.
//!
//! The seam for everything that needs a response from an origin is [`fetch()`]: it takes an
//! [`OriginRequest`] that owns all it needs, so it can run inside a request's handler or in a task of
//! its own that outlives the request (a cache fill).
//!
//! ```text
//! fetch(OriginRequest, Arc<FetchSettings>, SharedReport, LogContext)
//!     -> Result<OriginResponse { head, body, .. }, FetchError { status, .. }>
//! ```
//!
//! Nothing here knows a directive: the modules build groups and settings from theirs.
//!
//! # A fetch
//!
//! - [`OriginRequest`] is a request with everything that sending it takes: the group to ask, the head's bytes, the
//!   payload, the language. A fetch consumes it.
//! - [`RequestPayload`] is what is sent behind the head. It decides whether the request can be sent twice: a body that
//!   is streamed cannot.
//! - [`Wire`] is the language of an origin: HTTP/1, a CGI response behind any request (SCGI, uwsgi), [`FastCgi`] with
//!   its rule for the error stream, or [`Memcached`] with its key. All share connections, retries and bodies.
//! - [`Keeping`] says what becomes of a connection behind a response that leaves it usable.
//! - [`FetchSettings`] are the limits that depend on the location alone; one value serves all of its requests.
//! - [`LocalAddress`] is the local side of a connection, where a configuration chooses it (`proxy_bind`).
//! - [`NextUpstream`] is the set of cases in which another server is asked (`proxy_next_upstream`).
//! - [`OriginResponse`] is a head and an [`OriginBody`], which is whole, a [`BodyReader`] that reads as it is pulled
//!   and gives the connection back at its end, or [`Upgraded`]: a connection that has left HTTP, for [`tunnel()`].
//! - [`FetchError`] is the status to answer where there is no response. What happened was logged.
//! - [`PartRequest`] remembers a request, to ask for a range of its response later.
//! - [`LogContext`] is the request in whose name lines are logged. It owns copies, as a fetch has no exchange.
//! - [`Report`] lists the [`Attempt`]s of a request, for `$upstream_*`; [`SharedReport`] is held by the request's
//!   variables and by the body that is still read.
//!
//! # Servers
//!
//! - [`Group`] is the servers among which requests are spread, shared by all threads ([`peers`] has what belongs to
//!   it). A choice gives a lease on a [`Peer`], one address with all that is counted of it, which outlasts reloads.
//! - [`Member`] is a `server` as it is told to a group, with [`ServerOptions`]; its addresses may change.
//! - [`Method`] is how a group chooses, [`GroupOptions`] what else a configuration says of it, and [`Keepalive`] how
//!   many idle connections it keeps and how long. [`idle_of`] counts those of all threads.
//! - [`care`] does what groups need besides requests: names looked up again, servers checked.
//! - [`resolve`] finds the addresses of names: hosts with ports as directives write them, and the `resolver`.
//!
//! # Sessions
//!
//! What speaks no HTTP uses the same groups and connects by itself: [`dial`] and [`secure`] give an [`Io`], or a
//! [`ConnectError`] that displays nginx's log line; [`relay`] passes bytes both ways.
#![forbid(unsafe_code)]

mod address;
pub mod care;
mod connection;
mod fetch;
mod h1;
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

pub use connection::{ConnectError, connect_options, dial, secure};
pub use fetch::{READING_HEAD, fetch};
pub use h1::body::{BodyReader, OriginBody, Upgraded};
pub use h1::scratch::give_head;
pub use log::{LogContext, os_error};
pub use part::PartRequest;
pub use peers::{Group, GroupOptions, Keepalive, Member, Method, Peer, ServerOptions};
pub use pool::idle_of;
pub use report::{Attempt, Report, SharedReport, write_millis};
pub use request::{Keeping, OriginRequest, RequestPayload};
pub use response::{FetchError, OriginResponse};
pub use retry::NextUpstream;
pub use settings::{FetchSettings, LocalAddress};
pub use tunnel::tunnel;
pub use wire::{FastCgi, Memcached, Wire};

/// An origin's byte stream, plain or TLS.
pub type Io = tidegate_tls::Io<tidegate_tls::Client>;
