//! `tidegate/purge/ZONE`: purges of a cache by key, by prefix or by tags, as `proxy_cache_purge` does.

use serde_json::Value;
use tidegate_cache::{Key, Scope};
use tidegate_codec::request::Method;
use tidegate_core::Refused;

use super::caches;
use super::command::{Command, SubPath, allow_change};
use super::error::ApiError;
use super::query::{Changed, CommandResult, Query};
use crate::cache::purge::{PURGED_TAGS_MAX, PurgeFailure, PurgeTarget};

/// The paths below the route, and their methods.
pub(super) const PATHS: &[SubPath] = &[
    SubPath { path: "", methods: &[Method::Get], what: "Names of the caches" },
    SubPath {
        path: "/{name}",
        methods: &[Method::Post],
        what: "Purges responses by `key`, `prefix` or `tags`, or makes them stale with `soft`",
    },
];

/// Checks a purge; the API's handler carries it out.
///
/// # Errors
/// In this order: 404 for other paths, 405 for other methods and without `write=on`, 404 for an unknown cache, 400 for a body
/// that does not say what.
pub(super) fn carry_out(
    query: &Query<'_>,
    command: &Command<'_>,
) -> Result<CommandResult, ApiError> {
    if command.rest.is_empty() {
        return caches::names(query, command);
    }
    let [name] = command.rest else { return Err(ApiError::no_path()) };
    if query.x.request.method != Method::Post {
        return Err(ApiError::no_method());
    }
    allow_change(query)?;
    let zone = caches::named(query, name)?;
    let (target, soft) = parse(command.body)?;
    let changed = Some(Changed::Purged { zone, target, soft });
    Ok(CommandResult { changed, ..CommandResult::nothing() })
}

/// Reads what is to be purged, and whether it only becomes stale.
fn parse(body: &[u8]) -> Result<(PurgeTarget, bool), ApiError> {
    let wrong = |text: &str| ApiError::new(400, "PurgeFormatError", text);
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| ApiError::new(415, "JsonError", format!("json error: {error}")))?;
    let Value::Object(fields) = value else {
        return Err(ApiError::new(415, "JsonError", "a JSON object is expected"));
    };
    let (mut target, mut soft) = (None, false);
    for (name, value) in &fields {
        let found = match (name.as_str(), value) {
            ("soft", Value::Bool(wanted)) => {
                soft = *wanted;
                continue;
            }
            ("key", Value::String(key)) => PurgeTarget::Key(Key::new(key.clone().into_bytes())),
            ("prefix", Value::String(prefix)) => {
                PurgeTarget::All(vec![Scope::Prefix(prefix.as_bytes().into())])
            }
            ("tags", Value::Array(tags)) if (1..=PURGED_TAGS_MAX).contains(&tags.len()) => {
                let tag = |tag: &Value| Some(Scope::Tag(tag.as_str()?.as_bytes().into()));
                let scopes = tags.iter().map(tag).collect::<Option<Vec<_>>>();
                PurgeTarget::All(scopes.ok_or_else(|| wrong("a tag is a string"))?)
            }
            _ => return Err(wrong(&format!("invalid \"{name}\""))),
        };
        if target.replace(found).is_some() {
            return Err(wrong("more than one of \"key\", \"prefix\" and \"tags\""));
        }
    }
    let target =
        target.ok_or_else(|| wrong("one of \"key\", \"prefix\" and \"tags\" is missing"))?;
    Ok((target, soft))
}

/// Returns the error of a purge that has failed.
pub(super) fn failed(failure: PurgeFailure) -> ApiError {
    match failure {
        PurgeFailure::NotDistributed => {
            let text = "purged on this server, not distributed to the others";
            ApiError::new(503, "PurgeNotDistributed", text)
        }
        PurgeFailure::Refused(refused) if refused == Refused::NOT_FOUND => {
            ApiError::new(404, "CacheKeyNotFound", "no response is stored under this key")
        }
        PurgeFailure::Refused(refused) if refused == Refused::UNAVAILABLE => {
            ApiError::new(503, "PurgeUnavailable", "too many purges at a time")
        }
        PurgeFailure::Refused(_) => {
            ApiError::new(500, "PurgeFailed", "the purge failed; the error log has the reason")
        }
    }
}
