//! Running fills of caches, as JSON: what is being fetched, how far it is, and where its readers are.

use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_cache::Fill;

use super::objects::Object;
use super::query::Query;
use crate::cache::config::zones::{ShownCaches, Zone};
use crate::cache::meta::Meta;

/// Fills that are shown: those with the most readers.
const SHOWN_MAX: usize = 100;
/// Readers of a fill whose positions are shown.
const READERS_MAX: usize = 50;
/// Bytes of a key that are shown.
const KEY_BYTES_SHOWN: usize = 512;

/// Shows the running fills with the most readers, and the number of all.
pub(super) fn running(query: &Query<'_>) -> Object {
    let caches = query.x.plan.extensions.of::<ShownCaches>();
    let caches: Vec<(String, Arc<Zone>)> = caches
        .into_iter()
        .flat_map(|caches| &caches.0)
        .map(|(name, zone)| (name.clone(), zone.clone()))
        .collect();
    let now = query.source.now.unix_millis;
    Object::new(move || {
        let mut all: Vec<(&str, usize, Arc<Fill>)> = Vec::new();
        for (name, zone) in &caches {
            let fills = zone.store().map(|store| store.fills()).unwrap_or_default();
            all.extend(fills.into_iter().map(|fill| (name.as_str(), fill.readers(), fill)));
        }
        let (total, readers) =
            (all.len(), all.iter().map(|(_, readers, _)| readers).sum::<usize>());
        all.sort_by(|(_, one, first), (_, other, second)| {
            other.cmp(one).then(first.started_at().cmp(&second.started_at()))
        });
        all.truncate(SHOWN_MAX);
        let shown: Vec<Value> =
            all.iter().map(|(cache, _, fill)| shown(cache, fill, now)).collect();
        json!({ "running": total, "readers": readers, "fills": shown })
    })
}

fn shown(cache: &str, fill: &Fill, now: u64) -> Value {
    let head = fill.head_now();
    let status =
        head.as_ref().and_then(|head| Meta::decode(&head.metadata)).map(|meta| meta.status);
    let text = fill.key().text();
    let key = String::from_utf8_lossy(&text[..text.len().min(KEY_BYTES_SHOWN)]).into_owned();
    let state = match (head.is_some(), fill.has_ended()) {
        (false, false) => "waiting",
        (true, false) => "receiving",
        (_, true) => "storing",
    };
    json!({
        "cache": cache,
        "key": key,
        "state": state,
        "status": status,
        "age_ms": now.saturating_sub(fill.started_at()),
        "idle_ms": now.saturating_sub(fill.last_progress_at()),
        "bytes": fill.watermark(),
        "length": head.and_then(|head| head.body_bytes),
        "on_disk": fill.has_file(),
        "readers": fill.readers(),
        "offsets": fill.offsets(READERS_MAX),
    })
}
