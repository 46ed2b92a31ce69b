//! `proxy_cache`: the streaming cache of responses from origins.
//!
//! ```nginx
//! proxy_cache_path /var/cache/tidegate levels=1:2 keys_zone=one:10m inactive=1h max_size=10g;
//!
//! location / {
//!     proxy_pass           http://origin;
//!     proxy_cache          one;
//!     proxy_cache_valid    200 10m;
//!     proxy_cache_lock     on;
//!     proxy_cache_tempfile on;   # requests that arrive during the fetch are sent its bytes as they arrive
//! }
//! ```
//!
//! | file | what |
//! |---|---|
//! | `handle` | the entry point: fresh hits are served at once |
//! | `session` | all other requests: looks up, decides, and carries out the decision |
//! | `decide/` | the rules, without I/O and clocks: the next step, storability, the bytes of a fill that a request needs |
//! | `lookup` | the object, variant and fill of a request |
//! | `meta` | the stored form of a response's head, and its tags |
//! | `fill/` | the detached task that fetches, stores and feeds all readers |
//! | `serve/` | heads and bodies sent from the cache |
//! | `ranges/` | ranges that are fetched separately |
//! | `purge` | requests that purge |
//! | `purge_sync` | purges that several servers share |
//! | `tier` | a second tier of the cache, in a bucket of an S3-compatible store |
//! | `ring` | the caches of several servers as one |
//! | `counter` | the figures of both |
//! | `status` | the variables that describe what the cache did for a request |
//! | `gateway` | the interface of a gateway (proxy, fastcgi, …) |
//! | `config/` | directives, once for all prefixes; compiled settings; the caches and their managers |

pub(crate) mod config;
mod counter;
pub(crate) mod decide;
pub(crate) mod figures;
mod fill;
pub(crate) mod gateway;
mod handle;
mod lookup;
pub(crate) mod meta;
pub(crate) mod purge;
pub(crate) mod purge_sync;
mod ranges;
pub(crate) mod ring;
mod serve;
mod session;
pub(crate) mod status;
#[cfg(test)]
mod tests;
pub(crate) mod tier;

use std::marker::PhantomData;

use tidegate_conf::{Diagnostic, Directive};
use tidegate_core::variables::Variable;
use tidegate_os::layout::Layout;
use tidegate_plan::http_core::conf::TempPath;
use tidegate_plan::module::{BlockInfo, Module};
use tidegate_plan::{Outline, PlanBuilder};

use config::conf::CacheConf;
pub(super) use config::rows::cache_rows;
pub(crate) use config::settings::CacheSettings;
use config::{settings, zones};
pub(crate) use gateway::Gateway;
pub(crate) use handle::handle;
pub(crate) use purge::StoredObject;
pub(crate) use status::forget;

/// The `*_cache…` directives of a gateway's module, implemented once for all of them. The handler belongs to the
/// gateway, which takes the settings of its own cache from here; the caches themselves are shared by name and survive
/// reloads.
pub struct Cache<C>(PhantomData<fn() -> C>);

/// The interface of a gateway's module for the cache in front of it.
pub trait CacheCaller: 'static {
    /// The name of the cache module: the prefix and `cache`.
    const NAME: &'static str;
    /// The prefix of its directives, such as `proxy_`.
    const PREFIX: &'static str;
    /// The directory of temporary files unless `*_temp_path` sets another.
    const TEMPORARY: fn(&Layout) -> &'static str;
    /// The directive rows: `cache_rows!` of the prefix.
    const ROWS: &'static [Directive<CacheConf>];
    /// The cache's variables; declared by one module only.
    const VARIABLES: &'static [Variable] = &[];

    /// Returns the `*_temp_path` setting of the `http` block.
    fn temp_path(http: &Outline) -> Option<&TempPath>;
}

impl<C: CacheCaller> Module for Cache<C> {
    type Conf = CacheConf;
    const NAME: &'static str = C::NAME;
    const DIRECTIVES: &'static [&'static [Directive<CacheConf>]] = &[C::ROWS];
    const VARIABLES: &'static [Variable] = C::VARIABLES;

    fn inherit(inner: &mut CacheConf, outer: &CacheConf, _block: BlockInfo<'_>) {
        inner.inherit(outer);
    }

    fn prepare_http(conf: &CacheConf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        let temporary = plan.http_block().and_then(C::temp_path);
        let built_in = C::TEMPORARY(plan.environment.layout);
        let temporary = temporary.map_or(built_in, |temporary| &temporary.path).to_owned();
        open_zones(C::PREFIX, conf, &temporary, plan)?;
        settings::check_zone(C::PREFIX, conf, plan)
    }

    fn prepare(
        conf: &CacheConf,
        location: &mut tidegate_plan::LocationBuilder<'_, '_>,
    ) -> Result<(), Diagnostic> {
        settings::check_zone(C::PREFIX, conf, location.plan)?;
        purge::install(C::PREFIX, conf, location)
    }
}

/// Opens the caches of a prefix. Files are written in the directory `temporary` until they are complete.
fn open_zones(
    prefix: &'static str,
    conf: &CacheConf,
    temporary: &str,
    plan: &mut PlanBuilder<'_>,
) -> Result<(), Diagnostic> {
    tier::config::open_tiers(prefix, &conf.tiers, plan)?;
    for path in &conf.paths {
        let directory = plan.path(temporary);
        zones::open(prefix, path, directory, plan)?;
    }
    Ok(())
}
