//! The gateways, which pass requests and sessions on to other servers: the modules proxy, FastCGI, SCGI, uwsgi,
//! gRPC and memcached, the cache in front of them, their groups of servers, and `stream`'s proxy.
//!
//! Other crates see modules of nginx, for the list of modules, and three functions. Passing and caching are internal:
//!
//! | module | contents |
//! |---|---|
//! | `common` | the common part of all gateways: directives, settings, the steps from a request to a response, variables |
//! | `proxy`, `fastcgi`, `scgi`, `uwsgi`, `grpc`, `memcached` | the part of one protocol |
//! | `cache` | the cache's rules and directives; `tidegate-cache` stores |
//! | `slice` | responses made of several parts of an object |
//! | `upstream`, `health_check`, `api` | groups of servers: their directives, health checks, changes at run time |
//! | `discovery` | servers of groups that another program names |
//! | `live_log` | requests as they end, for programs that watch them |
//! | `keyval` | pairs that are looked up, and changed at run time |
//! | `zone_sync` | stores by which servers share zones |
//! | `stream` | the same for sessions of TCP and UDP |
//!
//! The clock is read once for an event, by the task that waited for it or by the first function called: a handler, a
//! task, a variable, a drop. The functions below get the time as `now`: rules and decisions read no clock.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod api;
mod cache;
mod common;
mod discovery;
pub mod exposition;
mod fastcgi;
mod grpc;
mod health_check;
mod keyval;
mod live_log;
mod memcached;
pub mod outbound;
mod proxy;
mod scgi;
mod slice;
mod stream;
#[cfg(test)]
mod testing;
mod upstream;
mod uwsgi;
pub mod zone_sync;

pub use api::Api;
pub use api::discovery::discovery_metrics;
pub use api::exporters::{Names as ExporterNames, exporter_metrics, note_start};
pub use api::history::keep as keep_history;
pub use api::prometheus::plus_metrics;
pub use api::purge_figures::purge_metrics;
pub use api::ring_figures::ring_metrics;
pub use api::tier_figures::tier_metrics;
pub use api::tree::figures_tree;
pub use cache::decide::conditions::comparison as if_modified_since;
#[doc(hidden)]
pub use cache::purge_sync::fuzz_purge_entries;
#[doc(hidden)]
pub use cache::ring::fuzz_peer_field;
#[doc(hidden)]
pub use cache::tier::fuzz as fuzz_tier_objects;
pub use common::content::{read_body, read_body_by};
pub use common::state::attempts;
#[doc(hidden)]
pub use discovery::fuzz_discovery;
pub use discovery::{Docker, Upsync};
pub use fastcgi::{FastCgi, FastCgiCache};
pub use grpc::Grpc;
pub use grpc::call as grpc_call;
pub use health_check::HealthCheck;
pub use keyval::Keyval;
#[doc(hidden)]
pub use keyval::pairs::fuzz_keyval_pairs;
#[doc(hidden)]
pub use live_log::fuzz_log_query;
pub use memcached::Memcached;
pub use proxy::{Proxy, ProxyCache};
pub use scgi::{Scgi, ScgiCache};
pub use slice::Slice;
pub use stream::health_check::SessionHealthCheck;
pub use stream::proxy::SessionProxy;
pub use upstream::Upstream;
pub use uwsgi::{Uwsgi, UwsgiCache};
pub use zone_sync::ZoneSync;
