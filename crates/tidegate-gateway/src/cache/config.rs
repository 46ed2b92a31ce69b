//! Directives, compiled settings, and the caches themselves.
//!
//! | file | what |
//! |---|---|
//! | `conf`, `rows` | directives, once for all prefixes |
//! | `purge` | `*_cache_purge` in its two syntaxes |
//! | `settings` | the settings of one location, compiled |
//! | `zones` | the caches of `*_cache_path` and their managers |
//! | `sharing` | `purge_sync` |
//! | `scrub` | the pace of a cache's scrubber |

pub(crate) mod conf;
pub(crate) mod purge;
pub(crate) mod rows;
mod scrub;
pub(crate) mod settings;
pub(crate) mod sharing;
pub(crate) mod zones;
