//! `tidegate/cached/ZONE`: what a cache has stored, in pages.

use serde_json::{Value, json};
use tidegate_cache::{ListPosition, ListedEntry, PageLimits};
use tidegate_codec::request::Method;
use tidegate_core::blocking;

use super::caches;
use super::command::{Command, SubPath, allow_read};
use super::error::ApiError;
use super::query::{CommandResult, Later, Listing, Query, argument};
use super::source::CommandTime;
use crate::cache::meta::Meta;

/// The paths below the route, and their methods.
pub(super) const PATHS: &[SubPath] = &[
    SubPath { path: "", methods: &[Method::Get], what: "Names of the caches" },
    SubPath {
        path: "/{name}",
        methods: &[Method::Get],
        what: "A page of what is stored under keys that begin with the argument `prefix`: `limit` entries from `from` on, which is \
               `next` of the page before",
    },
];

/// Entries of a page, without and at most with `limit`.
const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 1000;
/// Files that are looked at for a page: a prefix that few keys have makes no request that reads the whole cache.
const FILES_MAX: usize = 2000;

/// Checks a request for a page; the API's handler reads it on a pool thread.
///
/// # Errors
/// 404 for other paths and an unknown cache, 405 for other methods, 400 for an invalid argument, 403 without `write=on`: keys
/// are requests of clients.
pub(super) fn carry_out(
    query: &Query<'_>,
    command: &Command<'_>,
) -> Result<CommandResult, ApiError> {
    if command.rest.is_empty() {
        return caches::names(query, command);
    }
    let [name] = command.rest else { return Err(ApiError::no_path()) };
    allow_read(query)?;
    if !query.settings.write {
        let text = "keys are shown at the \"admin_socket\" and in locations with \"api write=on\"";
        return Err(ApiError::new(403, "KeysDisabled", text));
    }
    let zone = caches::named(query, name)?;
    let args = &query.x.request.args;
    let wrong = |name: &str| ApiError::new(400, "ListArgumentError", format!("invalid \"{name}\""));
    let from = match argument(args, "from") {
        None => ListPosition::default(),
        Some(text) => std::str::from_utf8(&text)
            .ok()
            .and_then(ListPosition::parse)
            .ok_or_else(|| wrong("from"))?,
    };
    let limit = match argument(args, "limit") {
        None => LIMIT_DEFAULT,
        Some(text) => std::str::from_utf8(&text)
            .ok()
            .and_then(|text| text.parse().ok())
            .filter(|limit| (1..=LIMIT_MAX).contains(limit))
            .ok_or_else(|| wrong("limit"))?,
    };
    let prefix = argument(args, "prefix").unwrap_or_default();
    let later = Some(Later::Listing(Listing { zone, from, prefix, limit }));
    Ok(CommandResult { later, ..CommandResult::nothing() })
}

/// Reads a page.
///
/// # Errors
/// 503 where the cache is not open yet, or the pool has too much to do.
pub(super) async fn page(listing: Listing, now: CommandTime) -> Result<CommandResult, ApiError> {
    let busy = || ApiError::new(503, "ListUnavailable", "the list cannot be read now");
    let store = listing.zone.store().ok_or_else(busy)?.clone();
    let Listing { from, prefix, limit, .. } = listing;
    let limits = PageLimits { entries: limit, files: FILES_MAX };
    let read = move || {
        let page = store.list(from, &prefix, limits);
        let entries: Vec<Value> =
            page.entries.iter().map(|entry| shown(entry, now.unix_millis)).collect();
        Ok(json!({ "entries": entries, "next": page.next.map(|next| next.to_string()) }))
    };
    let value = blocking::run(read).await.map_err(|_| busy())?;
    Ok(CommandResult::of(value))
}

fn shown(entry: &ListedEntry, now: u64) -> Value {
    let meta = Meta::decode(&entry.metadata);
    let tags = meta.as_ref().map(|meta| String::from_utf8_lossy(&meta.tags).into_owned());
    let tags: Vec<&str> =
        tags.iter().flat_map(|tags| tags.split(' ')).filter(|tag| !tag.is_empty()).collect();
    json!({
        "key": String::from_utf8_lossy(&entry.key),
        "status": meta.as_ref().map(|meta| meta.status),
        "bytes": entry.body_bytes,
        "created": entry.times.created,
        "valid_until": entry.times.valid_until,
        "fresh": now < entry.times.valid_until,
        "tags": tags,
    })
}
