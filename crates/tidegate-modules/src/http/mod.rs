//! Modules of the `http` block.

pub mod access;
pub mod addition;
pub mod api;
pub mod auth_basic;
pub mod auth_request;
pub mod autoindex;
pub mod browser;
pub mod cache;
pub mod charset;
pub mod dav;
pub mod early_body;
pub mod empty_gif;
pub mod fastcgi;
pub mod file_access;
pub mod files;
pub mod flv;
pub mod gateway;
pub mod geo;
pub mod geoip;
pub mod gunzip;
pub mod gzip;
pub mod gzip_static;
pub mod handler;
pub mod headers;
pub mod health_check;
pub mod index;
pub mod limit_conn;
pub mod limit_req;
pub mod limits;
pub mod log;
pub mod made_variable;
pub mod map;
pub mod media_types;
pub mod memcached;
pub mod metrics;
pub mod mirror;
pub mod mp4;
pub mod network;
pub mod not_modified;
pub mod proxy;
pub mod random_index;
pub mod range;
pub mod realip;
pub mod redirect;
pub mod referer;
pub mod rewrite;
pub mod scgi;
pub mod secure_link;
pub mod slice;
pub mod split_clients;
pub mod ssi;
pub mod static_files;
pub mod stub_status;
pub mod sub;
pub mod try_files;
pub mod upstream;
pub mod userid;
pub mod uwsgi;
pub mod wasm;

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Kind};

/// A row for a directive that ends with `;`.
pub(crate) const fn row<C>(
    name: &'static str,
    contexts: Contexts,
    args: Arity,
    default: &'static str,
    doc: &'static str,
    set: fn(&mut C, &Args<'_>) -> Result<(), Diagnostic>,
) -> Directive<C> {
    Directive { name, contexts, args, kind: Kind::Simple, default, doc, set }
}
