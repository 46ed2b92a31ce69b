//! nginx's modules: one file or directory for each, and the one list of them all.
//!
//! A module is a type that implements [`tidegate_core::Module`]: rows of directives, variables, and what of a
//! configuration becomes handlers and filters. Nothing outside names one; whoever makes a plan of a configuration gives
//! [`MODULES`] to the builder:
//!
//! ```
//! let names: Vec<_> = tidegate_modules::MODULES.iter().map(|module| module.name()).collect();
//! assert!(names.contains(&"autoindex"));
//! ```
//!
//! To add one, write its file or directory in `http` or `stream` and one line in the list, at the place where its handlers
//! and filters are to run.
#![forbid(unsafe_code)]

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
use http::addition::Addition;
use http::auth_basic::AuthBasic;
use http::auth_request::AuthRequest;
use http::autoindex::Autoindex;
use http::browser::Browser;
use http::charset::Charset;
use http::dav::Dav;
use http::early_body::EarlyBody;
use http::empty_gif::EmptyGif;
use http::flv::Flv;
use http::geo::Geo;
use http::geoip::GeoIp;
use http::gunzip::Gunzip;
use http::gzip::Gzip;
use http::gzip_static::GzipStatic;
use http::handler::Handlers;
use http::headers::AddedHeaders;
use http::index::Index;
use http::limit_conn::LimitConn;
use http::limit_req::LimitReq;
use http::log::AccessLog;
use http::map::Map;
use http::metrics::Metrics;
use http::mirror::Mirror;
use http::mp4::Mp4;
use http::not_modified::NotModified;
use http::random_index::RandomIndex;
use http::range::Ranges;
use http::realip::RealIp;
use http::referer::Referer;
use http::rewrite::Rewrite;
use http::secure_link::SecureLink;
use http::split_clients::SplitClients;
use http::ssi::Ssi;
use http::static_files::StaticFiles;
use http::stub_status::StubStatus;
use http::sub::Sub;
use http::try_files::TryFiles;
use http::userid::UserId;
use http::wasm::Wasm;
use stream::pass::Pass;
use stream::reply::SessionReply;
use stream::set::SessionSet;
use stream::ssl_preread::SslPreread;
use tidegate_front::Ssl;
use tidegate_gateway::{
    Api, FastCgi, FastCgiCache, HealthCheck, Memcached, Proxy, ProxyCache, Scgi, ScgiCache,
    SessionHealthCheck, SessionProxy, Slice, Upstream, Uwsgi, UwsgiCache,
};

/// Writes out all buffers of access logs of this process (`access_log … buffer=`), on the calling thread: before logs
/// are reopened, and at the end of the process. A disk that is full loses the lines.
pub use http::log::flush_logs;

#[doc(hidden)]
pub use http::geoip::database::fuzz_geoip;

/// All modules: those of this crate, of the gateways, of the front side and of the engine. Within a phase handlers run in this order, and so do response filters; the groups follow
/// the way of a request.
pub static MODULES: &[&'static dyn ErasedModule] = &[
    // What everything else stands on: the file level, servers and locations.
    &Entry::<MainCore>::NEW,
    &Entry::<HttpCore>::NEW,
    &Entry::<StreamCore>::NEW,
    // Variables made of variables: before whoever uses them, so that `set` finds them defined.
    // Keeps names from the ones below.
    &Entry::<GeoIp>::NEW,
    &Entry::<Map>::NEW,
    &Entry::<Geo>::NEW,
    &Entry::<SplitClients>::NEW,
    // Variables of modules that have settings in each location.
    &Entry::<Referer>::NEW,
    &Entry::<Browser>::NEW,
    &Entry::<SecureLink>::NEW,
    // Who the client is: before whatever asks, in the read phase and the one of limits.
    &Entry::<RealIp>::NEW,
    // Behind it, the body for whoever goes by that.
    &Entry::<EarlyBody>::NEW,
    // Rewrite phases; for sessions, before their limits.
    &Entry::<Rewrite>::NEW,
    &Entry::<SessionSet>::NEW,
    // Limits. A request that waits for its turn has no place among the connections yet.
    &Entry::<LimitReq>::NEW,
    &Entry::<LimitConn>::NEW,
    // Access phase. The cheapest check first: addresses, then passwords, then subrequests.
    &Entry::<Access>::NEW,
    &Entry::<AuthBasic>::NEW,
    &Entry::<AuthRequest>::NEW,
    // Precontent phase. Copies are of the request as it came, before `try_files` chooses a path.
    &Entry::<Mirror>::NEW,
    &Entry::<TryFiles>::NEW,
    // For sessions, what is looked at before it is passed on.
    &Entry::<SslPreread>::NEW,
    // Content phase: handlers that a location has for itself, then index, listings and files.
    &Entry::<Upstream>::NEW,
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
    &Entry::<Memcached>::NEW,
    // Behind what passes requests on: it looks at where they go.
    &Entry::<HealthCheck>::NEW,
    &Entry::<SessionHealthCheck>::NEW,
    &Entry::<Handlers>::NEW,
    &Entry::<Wasm>::NEW,
    &Entry::<StubStatus>::NEW,
    &Entry::<Metrics>::NEW,
    &Entry::<Api>::NEW,
    &Entry::<EmptyGif>::NEW,
    &Entry::<Flv>::NEW,
    &Entry::<Mp4>::NEW,
    &Entry::<RandomIndex>::NEW,
    &Entry::<Index>::NEW,
    &Entry::<Autoindex>::NEW,
    &Entry::<Dav>::NEW,
    &Entry::<GzipStatic>::NEW,
    &Entry::<StaticFiles>::NEW,
    // Response filters. First what makes one answer of several parts, so that all others see the whole.
    &Entry::<Slice>::NEW,
    // Then conditions: they look at the representation's own validators and may
    // replace the answer, which the added fields then belong to. Then what changes heads and bodies.
    // Ranges last: they count bytes as they are sent.
    &Entry::<NotModified>::NEW,
    &Entry::<UserId>::NEW,
    &Entry::<AddedHeaders>::NEW,
    &Entry::<Gunzip>::NEW,
    &Entry::<Addition>::NEW,
    &Entry::<Sub>::NEW,
    &Entry::<Charset>::NEW,
    &Entry::<Ssi>::NEW,
    &Entry::<Gzip>::NEW,
    &Entry::<Ranges>::NEW,
    // After the answer.
    &Entry::<AccessLog>::NEW,
    // Connections rather than requests: it has no handler in a phase, and no filter.
    &Entry::<Ssl>::NEW,
];
