//! Caches, as JSON.

use std::sync::Arc;

use serde_json::{Value, json};

use super::command::{Command, leaf};
use super::error::ApiError;
use super::objects::{Object, Objects};
use super::query::{CommandResult, Query};
use super::source::Source;
use crate::cache::config::zones::{ShownCaches, Zone};
use crate::cache::status::CacheStatus;

/// Returns the names of the caches.
///
/// # Errors
/// As [`leaf`].
pub(super) fn names(query: &Query<'_>, command: &Command<'_>) -> Result<CommandResult, ApiError> {
    leaf(query, command)?;
    let caches = query.x.plan.extensions.of::<ShownCaches>();
    let names = caches.into_iter().flat_map(|caches| caches.0.keys());
    Ok(CommandResult::of(names.map(String::as_str).collect()))
}

/// Returns the cache of a name.
///
/// # Errors
/// 404: there is none.
pub(super) fn named(query: &Query<'_>, name: &str) -> Result<Arc<Zone>, ApiError> {
    let caches = query.x.plan.extensions.of::<ShownCaches>();
    let zone = caches.and_then(|caches| caches.0.get(name)).cloned();
    zone.ok_or_else(|| ApiError::new(404, "CacheNotFound", "cache not found"))
}

pub(super) fn caches(source: &Source) -> Objects {
    let caches = source.plan.extensions.of::<ShownCaches>();
    let object = |(name, zone): (&String, &Arc<Zone>)| {
        let (shown, reset) = (zone.clone(), zone.clone());
        let object = Object::new(move || cache(&shown)).resettable(move || reset.figures.reset());
        (name.clone(), object)
    };
    caches.into_iter().flat_map(|caches| &caches.0).map(object).collect()
}

fn cache(zone: &Zone) -> Value {
    let of = zone.figures.totals();
    let served = |status: CacheStatus| {
        let [responses, bytes, ..] = of(status);
        json!({ "responses": responses, "bytes": bytes })
    };
    let fetched = |status: CacheStatus| {
        let [responses, bytes, responses_written, bytes_written] = of(status);
        json!({
            "responses": responses,
            "bytes": bytes,
            "responses_written": responses_written,
            "bytes_written": bytes_written,
        })
    };
    let stats = zone.store().map(|store| (store.stats(), store.options().size_max));
    let (stats, size_max) = stats.unwrap_or_default();
    let mut value = json!({
        "size": stats.disk_bytes,
        "cold": !stats.loaded,
        "hit": served(CacheStatus::Hit),
        "stale": served(CacheStatus::Stale),
        "updating": served(CacheStatus::Updating),
        "revalidated": served(CacheStatus::Revalidated),
        "miss": fetched(CacheStatus::Miss),
        "expired": fetched(CacheStatus::Expired),
        "bypass": fetched(CacheStatus::Bypass),
    });
    if let Some(size_max) = size_max {
        value["max_size"] = size_max.into();
    }
    if let Some(sync) = &zone.sync {
        value["purge_sync"] = sync.show();
    }
    value
}
