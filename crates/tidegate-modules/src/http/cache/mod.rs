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
//! | `writers` | who may work on a cache's files at a time |
//! | `purge` | requests that purge, and tags |
//! | `resume` | the rest of a body whose origin broke off |
//! | `parts` | ranges that are fetched by themselves |
//! | `wait` | waits with an eye on the client |
//! | `serve` | heads and bodies out of the cache |
//! | `rfc9111` | `Age`, unsafe methods and HEAD as RFC 9111 has them |
//! | `verified` | bodies that are compared with their checksums on the way |

pub mod conf;
mod fill;
mod join;
mod lookup;
pub mod meta;
mod parts;
pub mod policy;
mod pump;
mod purge;
mod resume;
mod rfc9111;
mod rows;
mod run;
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

use tidegate_conf::{Diagnostic, Directive};
use tidegate_core::builder::PlanBuilder;
use tidegate_core::module::{BlockInfo, Module};
use tidegate_core::variables::Variable;

use super::proxy::Proxy;
use conf::CacheConf;
pub use purge::StoredAt;
use rows::cache_rows;
pub use run::handle;
pub use seam::Gateway;
pub use settings::CacheSettings;

/// The family of `proxy_cache…` directives. The handler is the proxy module's.
pub struct ProxyCache;

/// Prefix of the family.
pub const PROXY: &str = "proxy_";

const PROXY_ROWS: &[Directive<CacheConf>] = cache_rows!("proxy_");

impl Module for ProxyCache {
    type Conf = CacheConf;
    const NAME: &'static str = "proxy_cache";
    const DIRECTIVES: &'static [&'static [Directive<CacheConf>]] = &[PROXY_ROWS];
    const VARIABLES: &'static [Variable] = status::VARIABLES;

    fn inherit(inner: &mut CacheConf, outer: &CacheConf, _block: BlockInfo<'_>) {
        inner.inherit(outer);
    }

    fn prepare_http(conf: &CacheConf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        let proxy = plan.http_block().and_then(|http| http.conf::<Proxy>());
        let temporary = proxy.and_then(|proxy| proxy.gateway.temp_path.as_ref());
        let temporary = temporary.map_or("proxy_temp", |temporary| &temporary.path).to_owned();
        open_zones(PROXY, conf, &temporary, plan)?;
        settings::check_zone(PROXY, conf, plan)
    }

    fn prepare(
        conf: &CacheConf,
        location: &mut tidegate_core::builder::LocationBuilder<'_, '_>,
    ) -> Result<(), Diagnostic> {
        settings::check_zone(PROXY, conf, location.plan)
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
