//! `proxy_cache`: the streaming cache of answers from origins.
//!
//! ```nginx
//! proxy_cache_path /var/cache/tidegate levels=1:2 keys_zone=one:10m inactive=1h max_size=10g;
//!
//! location / {
//!     proxy_pass           http://origin;
//!     proxy_cache          one;
//!     proxy_cache_valid    200 10m;
//!     proxy_cache_lock     on;
//!     proxy_cache_tempfile on;   # those who come while it is fetched get its bytes as they arrive
//! }
//! ```
//!
//! | file | what |
//! |---|---|
//! | `conf`, `rows` | directives, once for all prefixes |
//! | `settings`, `zones` | compiled settings; the caches and their managers |
//! | `policy` | may this response be stored, until when |
//! | `turn` | one request's conversation with the cache, a state machine without I/O |
//! | `meta` | what is kept of a response's head |
//! | `seam` | what a gateway (proxy, fastcgi, …) has to offer |
//! | `lookup` | which object, variant or fill a request is about |
//! | `join` | how much of a fill a request needs |
//! | `run` | asks the store, tells `turn`, does what `turn` says |
//! | `fill` | the detached task that fetches, stores and feeds all readers |
//! | `pump` | the body's way into the cache |
//! | `rounds` | how often the readers of a fill are woken |
//! | `writers` | who may work on a cache's files at a time |
//! | `purge`, `purge_conf` | requests that purge, and tags |
//! | `resume` | the rest of a body whose origin broke off |
//! | `rescue` | the rest of a body whose fill went on without a reader |
//! | `parts` | ranges that are fetched by themselves |
//! | `wait` | waits with an eye on the client |
//! | `serve` | heads and bodies out of the cache |
//! | `rfc9111` | `Age`, unsafe methods and HEAD as RFC 9111 has them |
//! | `verified` | bodies that are compared with their checksums on the way |

pub mod conditions;
pub mod conf;
mod fill;
mod join;
mod lookup;
pub mod meta;
mod parts;
pub mod policy;
mod pump;
mod purge;
pub mod purge_conf;
mod rescue;
mod resume;
mod rfc9111;
mod rounds;
mod rows;
mod run;
mod scrub;
pub mod seam;
mod serve;
pub mod settings;
pub mod status;
#[cfg(test)]
mod tests;
pub mod turn;
mod verified;
mod wait;
mod writers;
pub mod zones;

use std::marker::PhantomData;

use tidegate_conf::{Diagnostic, Directive};
use tidegate_core::builder::{Outline, PlanBuilder};
use tidegate_core::http_core::conf::TempPath;
use tidegate_core::module::{BlockInfo, Module};
use tidegate_core::variables::Variable;
use tidegate_os::layout::Layout;

use super::fastcgi::FastCgi;
use super::proxy::Proxy;
use super::scgi::Scgi;
use super::uwsgi::Uwsgi;
use conf::CacheConf;
pub use purge::StoredAt;
use rows::cache_rows;
pub use run::handle;
pub use seam::Gateway;
pub use settings::CacheSettings;

/// A family of `*_cache…` directives. The handler is the gateway's.
pub struct Cache<F>(PhantomData<fn() -> F>);

/// What differs between the families.
pub trait Family: 'static {
    const NAME: &'static str;
    const PREFIX: &'static str;
    /// Where temporary files are unless `*_temp_path` says otherwise.
    const TEMPORARY: fn(&Layout) -> &'static str;
    const ROWS: &'static [Directive<CacheConf>];
    /// The cache's variables belong to the first family.
    const VARIABLES: &'static [Variable] = &[];

    /// `*_temp_path` of the `http` block.
    fn temp_path(http: &Outline) -> Option<&TempPath>;
}

/// Makes a family of a gateway's module.
macro_rules! cache_family {
    ($family:ident, $module:ident, $prefix:literal, $folder:ident, $variables:expr, $temp_path:expr) => {
        #[doc = concat!("`", $prefix, "cache`.")]
        pub struct $family;

        impl Family for $family {
            const NAME: &'static str = concat!($prefix, "cache");
            const PREFIX: &'static str = $prefix;
            const TEMPORARY: fn(&Layout) -> &'static str = |layout| layout.$folder;
            const ROWS: &'static [Directive<CacheConf>] = cache_rows!($prefix);
            const VARIABLES: &'static [Variable] = $variables;

            fn temp_path(http: &Outline) -> Option<&TempPath> {
                let temp_path: fn(&<$module as Module>::Conf) -> &Option<TempPath> = $temp_path;
                http.conf::<$module>().and_then(|conf| temp_path(conf).as_ref())
            }
        }
    };
}

cache_family!(OfProxy, Proxy, "proxy_", proxy_temp, status::VARIABLES, |conf| &conf
    .gateway
    .temp_path);
cache_family!(OfFastCgi, FastCgi, "fastcgi_", fastcgi_temp, &[], |conf| &conf
    .cgi
    .gateway
    .temp_path);

cache_family!(OfUwsgi, Uwsgi, "uwsgi_", uwsgi_temp, &[], |conf| &conf.cgi.gateway.temp_path);
cache_family!(OfScgi, Scgi, "scgi_", scgi_temp, &[], |conf| &conf.cgi.gateway.temp_path);

pub type ProxyCache = Cache<OfProxy>;
pub type FastCgiCache = Cache<OfFastCgi>;
pub type UwsgiCache = Cache<OfUwsgi>;
pub type ScgiCache = Cache<OfScgi>;

impl<F: Family> Module for Cache<F> {
    type Conf = CacheConf;
    const NAME: &'static str = F::NAME;
    const DIRECTIVES: &'static [&'static [Directive<CacheConf>]] = &[F::ROWS];
    const VARIABLES: &'static [Variable] = F::VARIABLES;

    fn inherit(inner: &mut CacheConf, outer: &CacheConf, _block: BlockInfo<'_>) {
        inner.inherit(outer);
    }

    fn prepare_http(conf: &CacheConf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        let temporary = plan.http_block().and_then(F::temp_path);
        let built_in = F::TEMPORARY(plan.environment.layout);
        let temporary = temporary.map_or(built_in, |temporary| &temporary.path).to_owned();
        open_zones(F::PREFIX, conf, &temporary, plan)?;
        settings::check_zone(F::PREFIX, conf, plan)
    }

    fn prepare(
        conf: &CacheConf,
        location: &mut tidegate_core::builder::LocationBuilder<'_, '_>,
    ) -> Result<(), Diagnostic> {
        settings::check_zone(F::PREFIX, conf, location.plan)?;
        purge::install(F::PREFIX, conf, location)
    }
}

/// Opens the caches of a family; `temporary` is where files are written before they are whole.
fn open_zones(
    family: &'static str,
    conf: &CacheConf,
    temporary: &str,
    plan: &mut PlanBuilder<'_>,
) -> Result<(), Diagnostic> {
    for path in &conf.paths {
        let folder = plan.path(temporary);
        zones::open(family, path, folder, plan)?;
    }
    Ok(())
}
