//! What passes requests and sessions on to others: the modules proxy, FastCGI, SCGI, uwsgi and memcached, the cache in
//! front of them, their groups of servers, and `stream`'s proxy.
//!
//! Other crates see modules of nginx, to be put on the list of modules, and three functions. How a request is passed on
//! and how the cache decides is a matter of this crate:
//!
//! | room | what |
//! |---|---|
//! | `common` | what all gateways have in common: directives, settings, the way from a request to a response, variables |
//! | `proxy`, `fastcgi`, `scgi`, `uwsgi`, `memcached` | what is particular to one protocol |
//! | `cache` | the cache's rules and directives, over `tidegate-cache`, which stores |
//! | `slice` | responses made of several parts of an object |
//! | `upstream`, `health_check`, `api` | groups of servers: their directives, their checks, their changes while they work |
//! | `stream` | the same for sessions of TCP and UDP |
//!
//! Time is read once for an event, by what waited for it or is called first: a handler, a task, a variable, a drop. What
//! those call gets it as `now`: rules and decisions read no clock.
#![forbid(unsafe_code)]

mod api;
mod cache;
mod common;
mod fastcgi;
mod health_check;
mod memcached;
mod proxy;
mod scgi;
mod slice;
mod stream;
#[cfg(test)]
mod testing;
mod upstream;
mod uwsgi;

pub use api::Api;
pub use cache::decide::conditions::comparison as if_modified_since;
pub use common::content::{read_body, read_body_by};
pub use fastcgi::{FastCgi, FastCgiCache};
pub use health_check::HealthCheck;
pub use memcached::Memcached;
pub use proxy::{Proxy, ProxyCache};
pub use scgi::{Scgi, ScgiCache};
pub use slice::Slice;
pub use stream::health_check::SessionHealthCheck;
pub use stream::proxy::SessionProxy;
pub use upstream::Upstream;
pub use uwsgi::{Uwsgi, UwsgiCache};
