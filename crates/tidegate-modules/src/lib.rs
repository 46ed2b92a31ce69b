//! nginx's modules: one file or directory for each, and the one list of them all.
//!
//! A module is a type that implements [`tidegate_plan::Module`]: rows of directives, variables, and functions that
//! turn settings into handlers and filters. Other crates name no module; the caller that builds a plan passes
//! [`MODULES`] to the builder:
//!
//! ```
//! let names: Vec<_> = tidegate_modules::MODULES.iter().map(|module| module.name()).collect();
//! assert!(names.contains(&"autoindex"));
//! ```
//!
//! To add one, write its file or directory in `http` or `stream` and one line in the list, at the position where
//! its handlers and filters are to run.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

#[cfg(test)]
mod default_tests;
#[cfg(test)]
mod gateway_tests;
mod http;
mod stream;
#[cfg(test)]
mod testing;

use tidegate_plan::http_core::HttpCore;
use tidegate_plan::main_core::MainCore;
use tidegate_plan::stream_core::StreamCore;
use tidegate_plan::{Entry, ErasedModule};

use http::access::Access;
use http::acme::Acme;
use http::addition::Addition;
use http::auth_basic::AuthBasic;
use http::auth_jwt::AuthJwt;
use http::auth_request::AuthRequest;
use http::autoindex::Autoindex;
use http::browser::Browser;
use http::charset::Charset;
use http::dashboard::Dashboard;
use http::dav::Dav;
use http::early_body::EarlyBody;
use http::empty_gif::EmptyGif;
use http::flv::Flv;
use http::geo::Geo;
use http::geoip::GeoIp;
use http::geoip2::GeoIp2;
use http::gunzip::Gunzip;
use http::gzip::Gzip;
use http::gzip_static::GzipStatic;
use http::handler::Handlers;
use http::headers::AddedHeaders;
use http::headers_more::HeadersMore;
use http::index::Index;
use http::limit_conn::LimitConn;
use http::limit_req::LimitReq;
use http::log::AccessLog;
use http::map::Map;
use http::metrics::Metrics;
use http::mirror::Mirror;
use http::mp4::Mp4;
use http::not_modified::NotModified;
use http::otel::Otel;
use http::prometheus::Prometheus;
use http::random_index::RandomIndex;
use http::range::Ranges;
use http::realip::RealIp;
use http::referer::Referer;
use http::rewrite::Rewrite;
use http::secure_link::SecureLink;
use http::split_clients::SplitClients;
use http::ssi::Ssi;
use http::static_files::StaticFiles;
use http::status_zone::StatusZone;
use http::stub_status::StubStatus;
use http::sub::Sub;
use http::timeline::Timelines;
use http::try_files::TryFiles;
use http::userid::UserId;
use http::wasm::Wasm;
use stream::pass::Pass;
use stream::reply::SessionReply;
use stream::set::SessionSet;
use stream::ssl_preread::SslPreread;
use tidegate_front::{Http2, Http3, Ssl};
use tidegate_gateway::{
    Api, Docker, FastCgi, FastCgiCache, Grpc, HealthCheck, Keyval, Memcached, Proxy, ProxyCache,
    Scgi, ScgiCache, SessionHealthCheck, SessionProxy, Slice, Upstream, Upsync, Uwsgi, UwsgiCache,
    ZoneSync,
};

/// Writes out all buffers of access logs of this process (`access_log … buffer=`), on the calling thread. It is
/// called before logs are reopened, and at the end of the process. If the disk is full the lines are lost.
pub use http::log::flush_logs;

#[doc(hidden)]
pub use http::geoip::database::fuzz_geoip;
#[doc(hidden)]
pub use http::geoip2::database::fuzz_geoip2;
#[doc(hidden)]
pub use http::log::{fuzz_error_log, fuzz_json_log};
#[doc(hidden)]
pub use http::otel::fuzz_otel;
#[doc(hidden)]
pub use tidegate_gateway::{
    fuzz_discovery, fuzz_keyval_pairs, fuzz_log_query, fuzz_peer_field, fuzz_purge_entries,
    fuzz_tier_objects,
};

/// All modules: those of this crate, of the gateways, of the front side and of the engine. Within a phase handlers
/// run in this order, and so do response filters; the groups follow the order of the phases.
pub static MODULES: &[&'static dyn ErasedModule] = &[
    // The base of all others: the file level, servers and locations.
    &Entry::<MainCore>::NEW,
    &Entry::<HttpCore>::NEW,
    &Entry::<StreamCore>::NEW,
    // Counting begins before all rules, and ends before the log line.
    &Entry::<StatusZone>::NEW,
    // Before all rules: validations of names, and the certificates that other servers name.
    &Entry::<Acme>::NEW,
    // Before the zones that are shared by a store.
    &Entry::<ZoneSync>::NEW,
    // Variables made of variables: before the modules that use them, so that `set` finds them defined. GeoIp is the
    // first, as it reserves names from the others.
    &Entry::<GeoIp>::NEW,
    &Entry::<GeoIp2>::NEW,
    &Entry::<Map>::NEW,
    &Entry::<Geo>::NEW,
    &Entry::<SplitClients>::NEW,
    &Entry::<Keyval>::NEW,
    // Variables of modules that have settings in each location.
    &Entry::<Referer>::NEW,
    &Entry::<Browser>::NEW,
    &Entry::<SecureLink>::NEW,
    // The client's address: before all modules that use it, in the post-read and the pre-access phase.
    &Entry::<RealIp>::NEW,
    // Behind it, the body for rewrites that use it.
    &Entry::<EarlyBody>::NEW,
    // Rewrite phases; for sessions, before their limits.
    &Entry::<Rewrite>::NEW,
    &Entry::<SessionSet>::NEW,
    // Limits. A request that is delayed by its rate is not counted among the connections yet.
    &Entry::<LimitReq>::NEW,
    &Entry::<LimitConn>::NEW,
    // Access phase. The cheapest check first: addresses, then passwords, then tokens, then subrequests.
    &Entry::<Access>::NEW,
    &Entry::<AuthBasic>::NEW,
    &Entry::<AuthJwt>::NEW,
    &Entry::<AuthRequest>::NEW,
    // Precontent phase. Where `try_files` leaves the location nothing is mirrored.
    &Entry::<TryFiles>::NEW,
    &Entry::<Mirror>::NEW,
    // For sessions, what is read before they are passed on.
    &Entry::<SslPreread>::NEW,
    // Content phase: handlers that a location has for itself, then index, listings and files.
    &Entry::<Docker>::NEW,
    &Entry::<Upstream>::NEW,
    &Entry::<Upsync>::NEW,
    &Entry::<Proxy>::NEW,
    &Entry::<SessionProxy>::NEW,
    &Entry::<SessionReply>::NEW,
    &Entry::<Pass>::NEW,
    &Entry::<ProxyCache>::NEW,
    &Entry::<FastCgi>::NEW,
    &Entry::<FastCgiCache>::NEW,
    &Entry::<Uwsgi>::NEW,
    &Entry::<UwsgiCache>::NEW,
    &Entry::<Scgi>::NEW,
    &Entry::<ScgiCache>::NEW,
    &Entry::<Grpc>::NEW,
    &Entry::<Memcached>::NEW,
    // Behind the gateways: health checks use their upstream groups.
    &Entry::<HealthCheck>::NEW,
    &Entry::<SessionHealthCheck>::NEW,
    &Entry::<Handlers>::NEW,
    &Entry::<Wasm>::NEW,
    &Entry::<StubStatus>::NEW,
    &Entry::<Metrics>::NEW,
    &Entry::<Prometheus>::NEW,
    &Entry::<Api>::NEW,
    &Entry::<Dashboard>::NEW,
    &Entry::<EmptyGif>::NEW,
    &Entry::<Flv>::NEW,
    &Entry::<Mp4>::NEW,
    &Entry::<RandomIndex>::NEW,
    &Entry::<Index>::NEW,
    &Entry::<Autoindex>::NEW,
    &Entry::<Dav>::NEW,
    &Entry::<GzipStatic>::NEW,
    &Entry::<StaticFiles>::NEW,
    // Response filters. First the one that assembles a response of several parts, so that all others see the whole.
    &Entry::<Slice>::NEW,
    // Then conditional requests: they compare the representation's own validators and may replace the response, to
    // which fields are added then. Then filters of heads and bodies. Ranges last: they count bytes as they are
    // sent.
    &Entry::<NotModified>::NEW,
    &Entry::<HeadersMore>::NEW,
    &Entry::<UserId>::NEW,
    &Entry::<AddedHeaders>::NEW,
    &Entry::<Timelines>::NEW,
    &Entry::<Gunzip>::NEW,
    &Entry::<Addition>::NEW,
    &Entry::<Sub>::NEW,
    &Entry::<Charset>::NEW,
    &Entry::<Ssi>::NEW,
    &Entry::<Gzip>::NEW,
    &Entry::<Ranges>::NEW,
    // The log phase.
    &Entry::<AccessLog>::NEW,
    &Entry::<Otel>::NEW,
    // Settings of connections: it has no handler in a phase, and no filter.
    &Entry::<Ssl>::NEW,
    &Entry::<Http2>::NEW,
    &Entry::<Http3>::NEW,
];
