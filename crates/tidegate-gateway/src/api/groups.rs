//! Commands about groups of servers, of `http` and of `stream`.

use std::sync::Arc;

use tidegate_codec::request::Method;
use tidegate_upstream::Group;

use super::change;
use super::command::{Command, SubPath, allow_change};
use super::error::ApiError;
use super::objects::{Contents, Form, Object, Objects};
use super::query::{Changed, CommandResult, Query};
use super::routes::{of_all, of_one};
use super::source::{CommandTime, Source, of_block};
use super::view::{self, Sessions};

/// The paths of groups below the route, and their methods.
pub(super) const PATHS: &[SubPath] = &[
    SubPath { path: "", methods: &[Method::Get], what: "Groups of servers that have a `zone`" },
    SubPath { path: "/{name}", methods: &[Method::Get, Method::Delete], what: "A group" },
    SubPath {
        path: "/{name}/servers",
        methods: &[Method::Get, Method::Post],
        what: "Parameters of the servers of a group",
    },
    SubPath {
        path: "/{name}/servers/{id}",
        methods: &[Method::Get, Method::Patch, Method::Delete],
        what: "Parameters of a server",
    },
];

pub(super) fn http(query: &Query<'_>, command: &Command<'_>) -> Result<CommandResult, ApiError> {
    carry_out(query, command, "http")
}

pub(super) fn stream(query: &Query<'_>, command: &Command<'_>) -> Result<CommandResult, ApiError> {
    carry_out(query, command, "stream")
}

/// Returns all groups of `http`.
pub(super) fn all_http(source: &Source) -> Objects {
    all(source, Sessions::No)
}

/// Returns all groups of `stream`.
pub(super) fn all_stream(source: &Source) -> Objects {
    all(source, Sessions::Of)
}

fn all(source: &Source, sessions: Sessions) -> Objects {
    let groups = of_block(&source.plan, sessions == Sessions::Of).cloned().unwrap_or_default();
    let shown = |(name, (group, zone))| (name, shown(group, zone, source.now, sessions));
    groups.changing().into_iter().map(shown).collect()
}

/// Handles commands about groups, by nginx's API (`/http/upstreams/…`, `/stream/upstreams/…`).
///
/// | method | all | `NAME` | `NAME/servers` | `NAME/servers/ID` |
/// |---|---|---|---|---|
/// | GET, HEAD | all groups | its servers and statistics | parameters of all | parameters of one |
/// | POST | | | adds one: 201 with its place | |
/// | PATCH | | | | changes parameters |
/// | DELETE | | resets its statistics: 204 | | removes it |
///
/// # Errors
/// In this order: 404 for other paths, 405 for methods outside the table and for changes without `write=on`, 404 for an
/// unknown group and 400 for one without a `zone`, then those of the command.
fn carry_out(
    query: &Query<'_>,
    command: &Command<'_>,
    block: &str,
) -> Result<CommandResult, ApiError> {
    let (x, now) = (query.x, query.source.now);
    let sessions = if block == "stream" { Sessions::Of } else { Sessions::No };
    let method = x.request.method;
    let reads = matches!(method, Method::Get | Method::Head);
    let has = match command.rest {
        [] => reads,
        [_] => reads || method == Method::Delete,
        [_, "servers"] => reads || method == Method::Post,
        [_, "servers", _] => reads || matches!(method, Method::Patch | Method::Delete),
        _ => return Err(ApiError::no_path()),
    };
    if !has {
        return Err(ApiError::no_method());
    }
    if !reads {
        allow_change(query)?;
    }
    let [name, rest @ ..] = command.rest else {
        let all = move |source: &Source| all(source, sessions);
        return Ok(of_all(query, Contents::later(&query.source, all), Form::Map));
    };
    let groups = of_block(&x.plan, sessions == Sessions::Of).cloned().unwrap_or_default();
    let Some((group, zone)) = groups.changing().remove(*name) else {
        return Err(match groups.is_named(name) {
            true => ApiError::new(400, "UpstreamStatic", "upstream is static"),
            false => ApiError::new(404, "UpstreamNotFound", "upstream not found"),
        });
    };
    let id = |text: &str| {
        let wrong = || ApiError::new(400, "UpstreamBadServerId", "invalid server ID");
        text.parse::<u32>().map_err(|_| wrong())
    };
    let changed = match groups.saved(name) {
        Some(file) if !reads && !rest.is_empty() => {
            Some(Changed::Servers { name: (*name).to_owned(), group: group.clone(), file })
        }
        _ => None,
    };
    let done = match (method, rest) {
        (Method::Post, _) => {
            let (number, value) = change::add(&group, command.body, now)?;
            let version = command.version;
            let place = format!("/{version}/{block}/upstreams/{name}/servers/{number}/");
            Ok(CommandResult { status: 201, place: Some(place), ..CommandResult::of(value) })
        }
        (Method::Patch, [_, text]) => {
            let number = id(text)?;
            change::patch(&group, number, command.body, now)?;
            view::server(&group, number, now).map(CommandResult::of).ok_or_else(ApiError::no_server)
        }
        (Method::Delete, [_, text]) => {
            change::remove(&group, id(text)?, now)?;
            Ok(CommandResult::new(servers(group, now)))
        }
        (_, [_, text]) => view::server(&group, id(text)?, now)
            .map(CommandResult::of)
            .ok_or_else(ApiError::no_server),
        (_, [_]) => Ok(CommandResult::new(servers(group, now))),
        _ => Ok(of_one(query, shown(group, zone, now, sessions))),
    };
    Ok(CommandResult { changed, ..done? })
}

/// Shows a group, or resets its statistics.
fn shown(group: Arc<Group>, zone: String, now: CommandTime, sessions: Sessions) -> Object {
    let (reset, weight) = (group.clone(), group.attempts_max() as usize);
    let show = view::upstream(group, zone, now, sessions);
    let reset = move || {
        reset.view(now.monotonic).iter().for_each(|slot| slot.peer.statistics.reset());
    };
    Object::of_pieces(show).resettable(reset).weighing(weight)
}

fn servers(group: Arc<Group>, now: CommandTime) -> super::objects::Document {
    let weight = group.attempts_max() as usize;
    let object = Object::new(move || view::servers(&group, now));
    super::objects::Document::single(object.weighing(weight))
}
