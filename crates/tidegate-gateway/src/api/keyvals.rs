//! Commands about the pairs of `keyval_zone`, of `http` and of `stream`.

use std::time::{Duration, Instant};

use serde_json::json;
use tidegate_codec::request::Method;
use tidegate_codec::uri;
use tidegate_core::blocking;

use super::command::{Command, SubPath, allow_change};
use super::error::ApiError;
use super::objects::{Contents, Form, Object, Objects};
use super::query::{Changed, CommandResult, Query};
use super::routes::of_all;
use crate::keyval::pairs::{self, Pair, PairsError, Wanted};
use crate::keyval::table::{Record, Table, TableError};
use crate::keyval::write::{Write, WriteError};
use crate::keyval::{Zone, Zones};

/// The paths of zones below the route, and their methods.
pub(super) const PATHS: &[SubPath] = &[
    SubPath { path: "", methods: &[Method::Get], what: "Zones of pairs" },
    SubPath {
        path: "/{name}",
        methods: &[Method::Get, Method::Post, Method::Patch, Method::Delete],
        what: "The pairs of a zone",
    },
];

pub(super) fn http(query: &Query<'_>, command: &Command<'_>) -> Result<CommandResult, ApiError> {
    carry_out(query, command, query.x.plan.extensions.of(), "http")
}

pub(super) fn stream(query: &Query<'_>, command: &Command<'_>) -> Result<CommandResult, ApiError> {
    let sessions = query.x.plan.sessions.as_ref();
    carry_out(query, command, sessions.and_then(|plan| plan.extensions.of()), "stream")
}

/// Handles commands about zones of pairs, by nginx's API (`/http/keyvals/…`, `/stream/keyvals/…`).
///
/// | method | all | `NAME` |
/// |---|---|---|
/// | GET, HEAD | all zones with their pairs | its pairs, or that of the argument `key` |
/// | POST | | adds a pair, or several to an empty zone: 201 with the place |
/// | PATCH | | changes a pair, or removes it (`null`): 204 |
/// | DELETE | | removes all pairs: 204 |
///
/// # Errors
/// In this order: 404 for other paths, 405 for methods outside the table and for changes without `write=on`, 404 for an
/// unknown zone, then those of the command.
fn carry_out(
    query: &Query<'_>,
    command: &Command<'_>,
    zones: Option<&Zones>,
    block: &str,
) -> Result<CommandResult, ApiError> {
    let method = query.x.request.method;
    let reads = matches!(method, Method::Get | Method::Head);
    let has = match command.rest {
        [] => reads,
        [_] => reads || matches!(method, Method::Post | Method::Patch | Method::Delete),
        _ => return Err(ApiError::no_path()),
    };
    if !has {
        return Err(ApiError::no_method());
    }
    if !reads {
        allow_change(query)?;
    }
    let now = query.source.now.monotonic;
    let [name] = command.rest else {
        return Ok(of_all(query, Contents::of(all(zones, now)), Form::Map));
    };
    let unknown = || ApiError::new(404, "KeyvalNotFound", "keyval not found");
    let zone = zones.and_then(|zones| zones.0.get(*name)).ok_or_else(unknown)?;
    if let (Some(shared), false) = (&zone.shared, reads) {
        let write = write(zone, method, command.body, now)?;
        let status = if method == Method::Post { 201 } else { 204 };
        let place = format!("/{}/{block}/keyvals/{name}/", command.version);
        let place = (method == Method::Post).then_some(place);
        let changed = Changed::Shared { zone: zone.clone(), shared: shared.clone(), write };
        return Ok(CommandResult {
            status,
            place,
            changed: Some(changed),
            ..CommandResult::nothing()
        });
    }
    let done = match method {
        Method::Post => {
            add(zone, command.body, now)?;
            let place = format!("/{}/{block}/keyvals/{name}/", command.version);
            CommandResult { status: 201, place: Some(place), ..CommandResult::nothing() }
        }
        Method::Patch => {
            change(zone, command.body, now)?;
            CommandResult::nothing()
        }
        Method::Delete => {
            let removed = zone.store.change().replace(Table::new(zone.store.matching()));
            // Many pairs take longer than an event loop may be held.
            blocking::detach(move || drop(removed));
            CommandResult::nothing()
        }
        _ => return show(query, zone, now),
    };
    Ok(CommandResult { changed: Some(Changed::Pairs(zone.clone())), ..done })
}

fn all(zones: Option<&Zones>, now: Instant) -> Objects {
    let zones = zones.into_iter().flat_map(|zones| &zones.0);
    zones.map(|(name, zone)| (name.clone(), shown(zone, now))).collect()
}

/// Shows the pairs of a zone. They are read in parts, so that a large zone can be changed meanwhile.
fn shown(zone: &Zone, now: Instant) -> Object {
    let used = zone.store.table().used();
    let weight = used.entries.max(used.bytes / BYTES_OF_WEIGHT);
    let object = Object::of_pieces(zone.store.clone().show(now));
    object.weighing(usize::try_from(weight).unwrap_or(usize::MAX))
}

/// Bytes of pairs that take as long as another object.
const BYTES_OF_WEIGHT: u64 = 1024;

fn show(query: &Query<'_>, zone: &Zone, now: Instant) -> Result<CommandResult, ApiError> {
    let Some(key) = key(query) else {
        return Ok(CommandResult::new(super::objects::Document::single(shown(zone, now))));
    };
    let table = zone.store.table();
    let record = table.get(&key, now).ok_or_else(|| error_of(TableError::Missing(key.clone())))?;
    Ok(CommandResult::of(json!({ (&*record.key): &*record.value })))
}

/// Returns the argument `key`, decoded; `None` without it.
fn key(query: &Query<'_>) -> Option<String> {
    let wanted = query.x.request.args.split(|byte| *byte == b'&');
    let wanted = wanted.into_iter().find_map(|arg| arg.strip_prefix(b"key="))?;
    let mut key = Vec::new();
    uri::unescape(wanted, &mut key);
    Some(String::from_utf8_lossy(&key).into_owned())
}

fn add(zone: &Zone, body: &[u8], now: Instant) -> Result<(), ApiError> {
    let pairs = parse(body)?;
    let many = pairs.len() > 1;
    let record = |Pair { key, wanted }| match wanted {
        Wanted::Value { value: Some(value), time } => {
            let expires = zone.expiry(time_of(zone, time)?, now);
            Ok(Record { key: key.into(), value: value.into(), expires })
        }
        _ => Err(format_error(format!("no value for key \"{key}\""))),
    };
    let mut records = pairs.into_iter().map(record).collect::<Result<Vec<_>, _>>()?;
    if many {
        let matching = zone.store.matching();
        let filled = Table::of(matching, records, zone.bytes_max, now).map_err(error_of);
        let mut table = zone.store.change();
        if !table.is_empty(now) {
            return Err(format_error("only one key can be added"));
        }
        table.replace(filled?);
        return Ok(());
    }
    let record = records.pop().ok_or_else(|| format_error("key required"))?;
    zone.store.change().add(record, zone.bytes_max, now).map_err(error_of)
}

/// Returns the change of a shared zone that a command wants. What this server knows is checked here, the rest by the engine.
fn write(zone: &Zone, method: Method, body: &[u8], now: Instant) -> Result<Write, ApiError> {
    let time = |time| Ok::<_, ApiError>(time_of(zone, time)?.or(zone.timeout));
    let matching = zone.store.matching();
    let mut pairs = match method {
        Method::Delete => return Ok(Write::Clear),
        _ => parse(body)?,
    };
    if method == Method::Post {
        let pair = |Pair { key, wanted }| match wanted {
            Wanted::Value { value: Some(value), time: wanted } => Ok((key, value, time(wanted)?)),
            _ => Err(format_error(format!("no value for key \"{key}\""))),
        };
        let pairs = pairs.into_iter().map(pair).collect::<Result<Vec<_>, ApiError>>()?;
        // The keys have to be valid, and the pairs have to fit.
        let record = |(key, value, _): &(String, String, _)| Record {
            key: key.as_str().into(),
            value: value.as_str().into(),
            expires: None,
        };
        let records = pairs.iter().map(record).collect();
        let fitting = Table::of(matching, records, zone.bytes_max, now).map_err(error_of)?;
        let used = zone.store.table().used().bytes.saturating_add(fitting.used().bytes);
        if used > zone.bytes_max as u64 {
            return Err(error_of(TableError::NoRoom));
        }
        return match pairs.len() {
            0 => Err(format_error("key required")),
            1 => Ok(pairs.into_iter().next().map_or(Write::Clear, Write::Add)),
            _ => Ok(Write::Fill(pairs)),
        };
    }
    let pair = pairs.pop().ok_or_else(|| format_error("key required"))?;
    if !pairs.is_empty() {
        return Err(format_error("only one key can be updated"));
    }
    // A network may be written in several ways: the engine has one of them.
    let table = zone.store.table();
    let known = table.get(&pair.key, now);
    if let (Some(record), Wanted::Value { value: Some(value), .. }) = (known, &pair.wanted) {
        let used = table.used().bytes.saturating_sub(record.value.len() as u64);
        let is_longer = value.len() > record.value.len();
        if is_longer && used.saturating_add(value.len() as u64) > zone.bytes_max as u64 {
            return Err(error_of(TableError::NoRoom));
        }
    }
    let key = known.map(|record| (*record.key).to_owned()).unwrap_or(pair.key);
    Ok(match pair.wanted {
        Wanted::Nothing => Write::Remove(key),
        Wanted::Value { value, time: wanted } => Write::Change(key, value, time(wanted)?),
    })
}

/// Returns the response for a change of a shared zone that was not made.
pub(super) fn refused(error: WriteError) -> ApiError {
    match error {
        WriteError::Exists(key) => error_of(TableError::Exists(key)),
        WriteError::Missing(key) => error_of(TableError::Missing(key)),
        WriteError::Filled => format_error("only one key can be added"),
        WriteError::Unavailable(reason) => ApiError::new(503, "StoreUnavailable", reason),
    }
}

fn change(zone: &Zone, body: &[u8], now: Instant) -> Result<(), ApiError> {
    let mut pairs = parse(body)?;
    let pair = pairs.pop().ok_or_else(|| format_error("key required"))?;
    if !pairs.is_empty() {
        return Err(format_error("only one key can be updated"));
    }
    let (key, max) = (&pair.key, zone.bytes_max);
    let changed = match pair.wanted {
        Wanted::Nothing => zone.store.change().remove(key, now),
        Wanted::Value { value, time } => {
            let expires = zone.expiry(time_of(zone, time)?, now);
            zone.store.change().change(key, value.map(Into::into), expires, max, now)
        }
    };
    changed.map_err(error_of)
}

/// Returns the time after which a pair expires, where it has one of its own.
fn time_of(zone: &Zone, millis: Option<u64>) -> Result<Option<Duration>, ApiError> {
    match millis {
        Some(_) if zone.timeout.is_none() => Err(format_error("keyval timeout is not enabled")),
        millis => Ok(millis.map(Duration::from_millis)),
    }
}

fn parse(body: &[u8]) -> Result<Vec<Pair>, ApiError> {
    pairs::parse(body, "expire").map_err(|error| match error {
        PairsError::Syntax(_) => ApiError::new(415, "JsonError", error.to_string()),
        PairsError::Form(what) => format_error(what),
    })
}

fn format_error(text: impl Into<String>) -> ApiError {
    ApiError::new(400, "KeyvalFormatError", text)
}

fn error_of(error: TableError) -> ApiError {
    let text = error.to_string();
    match error {
        TableError::InvalidKey(_) => ApiError::new(400, "KeyvalFormatError", text),
        TableError::Exists(_) => ApiError::new(409, "KeyvalKeyExists", text),
        TableError::Missing(_) => ApiError::new(404, "KeyvalKeyNotFound", text),
        TableError::NoRoom => ApiError::new(507, "KeyvalOutOfMemory", text),
    }
}
