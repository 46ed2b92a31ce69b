//! The common part of all modules that pass requests to an origin (`proxy_`, `fastcgi_`, `uwsgi_`, `scgi_`,
//! `memcached_`): directives, settings, the steps to a response, variables.
//!
//! The steps of a request: the protocol's module makes an `OriginRequest` → [`run::fetch`] (the client may leave
//! meanwhile) → [`respond::respond`] makes the client's response of the origin's.

pub(crate) mod buffered;
pub(crate) mod cgi;
pub(crate) mod chosen_certificate;
pub(crate) mod content;
pub(crate) mod hints;
pub(crate) mod options;
pub(crate) mod params;
pub(crate) mod pass;
pub(crate) mod pass_conf;
pub(crate) mod request_head;
pub(crate) mod respond;
pub(crate) mod run;
pub(crate) mod settings;
pub(crate) mod state;
pub(crate) mod store;
pub(crate) mod target;
pub(crate) mod tls;
pub(crate) mod variables;

#[cfg(test)]
mod tests;
