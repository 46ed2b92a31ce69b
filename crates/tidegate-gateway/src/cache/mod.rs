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
//! | `handle` | a request comes to the cache: hits are answered at once |
//! | `session` | everything else: looks, decides, and does what was decided |
//! | `decide/` | the rules, without I/O and clocks: what to do, what may be stored, how much of a fill a request needs |
//! | `lookup` | which object, variant or fill a request is about |
//! | `meta` | what is kept of a response's head, and its tags |
//! | `fill/` | the detached task that fetches, stores and feeds all readers |
//! | `serve/` | heads and bodies out of the cache |
//! | `ranges/` | ranges that are fetched by themselves |
//! | `purge` | requests that purge |
//! | `status` | the variables of a request's way through the cache |
//! | `gateway` | what a gateway (proxy, fastcgi, …) has to offer |
//! | `config/` | directives, once for all prefixes; compiled settings; the caches and their managers |

pub(crate) mod config;
pub(crate) mod decide;
mod fill;
pub(crate) mod gateway;
mod handle;
mod lookup;
pub(crate) mod meta;
mod purge;
mod ranges;
mod serve;
mod session;
pub(crate) mod status;
#[cfg(test)]
mod tests;

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
pub(crate) use purge::StoredAt;

/// The `*_cache…` directives of a gateway's module, once for all of them. The handler is the gateway's, which takes the
/// settings of its own cache from here; the caches themselves are shared by name and survive reloads.
pub struct Cache<C>(PhantomData<fn() -> C>);

/// What a gateway's module gives the cache in front of it.
pub trait CacheCaller: 'static {
    /// The prefix and `cache`.
    const NAME: &'static str;
    /// What the names of its directives begin with: `proxy_`.
    const PREFIX: &'static str;
    /// Where temporary files are unless `*_temp_path` says otherwise.
    const TEMPORARY: fn(&Layout) -> &'static str;
    /// `cache_rows!` of the prefix.
    const ROWS: &'static [Directive<CacheConf>];
    /// The cache's variables belong to one module only.
    const VARIABLES: &'static [Variable] = &[];

    /// `*_temp_path` of the `http` block.
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

/// Opens the caches of a prefix; `temporary` is where files are written before they are whole.
fn open_zones(
    prefix: &'static str,
    conf: &CacheConf,
    temporary: &str,
    plan: &mut PlanBuilder<'_>,
) -> Result<(), Diagnostic> {
    for path in &conf.paths {
        let directory = plan.path(temporary);
        zones::open(prefix, path, directory, plan)?;
    }
    Ok(())
}
