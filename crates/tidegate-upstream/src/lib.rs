//! Origins: groups of servers, connections that are kept, and a fetch that tries one server after the
//! other.
//!
//! The seam for everything that needs an answer from an origin is [`fetch`]: it takes an
//! [`OriginRequest`] that owns all it needs, so it can run inside a request's handler or in a task of
//! its own that outlives the request (a cache fill).
//!
//! ```text
//! fetch(OriginRequest, Arc<FetchSettings>, SharedReport, LogContext)
//!     -> Result<OriginResponse { head, body, .. }, FetchError { status, .. }>
//! ```
//!
//! Nothing here knows a directive: the modules build groups and settings from theirs.
#![forbid(unsafe_code)]

mod address;
pub mod care;
pub mod connection;
mod fetch;
pub mod h1;
pub mod log;
mod moment;
pub mod part;
pub mod peers;
pub mod pool;
pub mod relay;
pub mod report;
pub mod request;
pub mod resolve;
mod response;
pub mod retry;
mod settings;
pub mod tunnel;
mod wire;

pub use fetch::{READING_HEAD, fetch};
pub use h1::body::OriginBody;
pub use log::LogContext;
pub use part::PartRequest;
pub use peers::{Group, GroupOptions, Keepalive, Member, Method, Peer, ServerOptions};
pub use report::{Report, SharedReport};
pub use request::{Keeping, OriginRequest, RequestPayload};
pub use response::{FetchError, OriginResponse};
pub use retry::NextUpstream;
pub use settings::{FetchSettings, LocalAddress};
pub use wire::{FastCgi, Memcached, Wire};

/// An origin's byte stream, plain or TLS.
pub type Io = tidegate_tls::Io<tidegate_tls::Client>;
