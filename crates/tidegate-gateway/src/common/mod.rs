//! What all modules that ask an origin have in common (`proxy_`, `fastcgi_`, `uwsgi_`, `scgi_`, `memcached_`): directives,
//! settings, the way to a response, variables.
//!
//! A request's way: the protocol's module makes an `OriginRequest` → [`run::fetch`] (the client may leave
//! meanwhile) → [`respond::respond`] makes the client's response of the origin's.

pub mod buffered;
pub mod cgi;
pub mod chosen_certificate;
pub mod content;
pub mod hints;
pub mod options;
pub mod params;
pub mod pass;
pub mod pass_conf;
pub mod respond;
pub mod run;
pub mod settings;
pub mod state;
pub mod store;
pub mod target;
pub mod tls;
pub mod variables;

#[cfg(test)]
mod tests;
