//! What passes requests and sessions on to others: the modules proxy, FastCGI, SCGI, uwsgi and memcached, the cache in
//! front of them, their groups of servers, and `stream`'s proxy.
//!
//! | room | what |
//! |---|---|
//! | `common` | what all of them have in common: directives, settings, the way from a request to a response, variables |
//! | `proxy`, `fastcgi`, `scgi`, `uwsgi`, `memcached` | what is particular to one protocol |
//! | `cache` | the cache's rules and directives, over `tidegate-cache`, which stores |
//! | `slice` | responses made of several parts of an object |
//! | `upstream`, `health_check`, `api` | groups of servers: their directives, their checks, their changes while they work |
//! | `stream` | the same for sessions of TCP and UDP |
#![forbid(unsafe_code)]

pub mod api;
pub mod cache;
pub mod common;
pub mod fastcgi;
pub mod health_check;
pub mod memcached;
pub mod proxy;
mod refused;
pub mod scgi;
pub mod slice;
pub mod stream;
#[cfg(test)]
mod testing;
pub mod upstream;
pub mod uwsgi;

pub use refused::Refused;
