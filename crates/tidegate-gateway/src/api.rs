//! `api`: groups of servers read and changed at run time, by HTTP and JSON, at the paths of nginx's commercial
//! edition.
//!
//! ```nginx
//! location /api { api write=on; allow 127.0.0.1; deny all; }
//! ```
//! `GET /api/9/http/upstreams/NAME`, `POST …/NAME/servers` with `{"server":"192.0.2.1:80"}`,
//! `PATCH …/NAME/servers/3` with `{"drain":true}`, `DELETE …/NAME/servers/3`.

mod change;
mod error;
mod view;

#[cfg(test)]
mod tests;

use bytes::Bytes;
use serde_json::{Value, json};
use tidegate_codec::Known;
use tidegate_codec::request::Method;
use tidegate_conf::{Arity, Contexts, Diagnostic, Directive, once, row};
use tidegate_core::{Body, Exchange, Level, Step};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::Module;
use tidegate_rt::clock;

use super::common::content::read_body;
use super::upstream::Groups;
use error::ApiError;
use view::CommandTime;

/// `ngx_http_api_module`: the directive `api`, whose location responds with the state of groups of servers in JSON
/// and, with `write=on`, changes them at run time.
pub struct Api;

#[derive(Default)]
pub struct Conf {
    /// Whether changes are allowed.
    write: Option<bool>,
}

/// The settings of a location's handler.
struct Settings {
    groups: Groups,
    write: bool,
    /// Bytes of the location's name.
    prefix: usize,
}

/// Accepted API versions; they differ only in parts that are absent here.
const VERSIONS: std::ops::RangeInclusive<u32> = 1..=9;
/// Longest body of a command, in bytes.
const BODY_BYTES_MAX: u64 = 64 * 1024;

impl Module for Api {
    type Conf = Conf;
    const NAME: &'static str = "api";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let Some(write) = conf.write else { return Ok(()) };
        let groups = location.plan.shared::<Groups>().clone();
        let prefix = location.location.name.len();
        let settings = std::sync::Arc::new(Settings { groups, write, prefix });
        location.content(Box::new(move |x| {
            let settings = settings.clone();
            Step::Wait(Box::pin(async move { handle(x, &settings).await }))
        }));
        Ok(())
    }
}

const ROWS: &[Directive<Conf>] = &[row(
    "api",
    Contexts::LOCATION,
    Arity::between(0, 1),
    "",
    "Sends the state of upstream groups in JSON; `write=on` allows requests to change them.",
    |conf, args| {
        let write = match args.bytes(0) {
            b"" | b"write=off" => false,
            b"write=on" => true,
            _ => return Err(args.invalid_parameter(0)),
        };
        once(&mut conf.write, write, args)
    },
)];

/// The result of a command.
pub(crate) struct CommandResult {
    status: u16,
    /// The body; `None` for none.
    value: Option<Value>,
    /// Path of the created object, below the version.
    place: Option<String>,
}

impl CommandResult {
    fn of(value: Value) -> CommandResult {
        CommandResult { status: 200, value: Some(value), place: None }
    }
}

/// Handles a command: reads its body, carries it out, and writes the group's state before the response is sent.
///
/// Invariant: a command is carried out completely or not at all, between two awaits. Cancelling: dropped while the
/// body is read it has changed nothing; dropped while the state is written it has changed the group, and the pool
/// writes the file all the same.
async fn handle(x: &mut Exchange, settings: &Settings) -> Step<'static> {
    let body = match read(x).await {
        Ok(body) => body,
        Err(step) => return step,
    };
    let path = String::from_utf8_lossy(x.request.path.get(settings.prefix..).unwrap_or_default());
    let path = path.into_owned();
    let now = CommandTime { monotonic: clock::now(), unix_millis: clock::unix_millis() };
    let result = route(x, settings, &path, &body, now);
    if result.is_ok() {
        save(x, settings, &path).await;
    }
    let (status, value, place) = match result {
        Ok(CommandResult { status, value, place }) => (status, value, place),
        Err(error) => (error.status, Some(error.value(&request_id(x))), None),
    };
    x.disposition.set_status(status);
    if let Some(place) = place {
        let kept = x.request.path.len() - path.len();
        let mut location = x.request.path[..kept].to_vec();
        location.extend_from_slice(place.as_bytes());
        x.response.headers.set_known(Known::Location, &location);
    }
    let Some(value) = value else { return Step::Respond(Body::from(Bytes::new())) };
    x.response.headers.set_known(Known::ContentType, b"application/json");
    Step::Respond(Body::from(Bytes::from(value.to_string())))
}

/// Writes a changed group's servers to its file, where it has one (`state`).
async fn save(x: &mut Exchange, settings: &Settings, path: &str) {
    if matches!(x.request.method, Method::Get | Method::Head) {
        return;
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let [_, "http", "upstreams", name, "servers", ..] = &parts[..] else { return };
    let group = settings.groups.changing().remove(*name).map(|(group, _)| group);
    if let (Some(saved), Some(group)) = (settings.groups.saved(name), group)
        && let Err(error) = saved.write(group).await
    {
        x.log(
            Level::Error,
            format_args!("the state of upstream \"{name}\" was not written: {error}"),
        );
    }
}

/// Reads the body of a command. One that does not fit into memory is too long.
async fn read(x: &mut Exchange) -> Result<Vec<u8>, Step<'static>> {
    x.request.body.lower_limit(BODY_BYTES_MAX);
    read_body(x).await?;
    match x.request.body.stored() {
        None => Ok(Vec::new()),
        Some(stored) if stored.file.is_some() => Err(Step::Status(413)),
        Some(stored) => Ok(stored.memory.concat()),
    }
}

fn request_id(x: &mut Exchange) -> String {
    let mut id = Vec::new();
    x.variable_named(b"request_id", &mut id);
    String::from_utf8_lossy(&id).into_owned()
}

/// Carries a command out and makes the response.
fn route(
    x: &Exchange,
    settings: &Settings,
    path: &str,
    body: &[u8],
    now: CommandTime,
) -> Result<CommandResult, ApiError> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let [version, rest @ ..] = &parts[..] else {
        only_get(x)?;
        return Ok(CommandResult::of(VERSIONS.collect::<Vec<_>>().into()));
    };
    let known = version.parse().is_ok_and(|version| VERSIONS.contains(&version));
    if !known || version.starts_with('0') {
        return Err(ApiError::new(404, "UnknownVersion", "unknown version"));
    }
    if let ["http", "upstreams", name, rest @ ..] = rest {
        return upstream(x, settings, version, (name, rest), (body, now));
    }
    only_get(x)?;
    let mut value = match rest {
        [] => json!(["nginx", "connections", "http"]),
        ["nginx"] => view::process(x, now),
        ["connections"] => view::connections(),
        ["http"] => json!(["requests", "upstreams"]),
        ["http", "requests"] => view::requests(),
        ["http", "upstreams"] => view::upstreams(&settings.groups, now),
        _ => return Err(ApiError::new(404, "PathNotFound", "path not found")),
    };
    match rest {
        // `fields` selects fields of each group.
        ["http", "upstreams"] => value
            .as_object_mut()
            .into_iter()
            .flat_map(|groups| groups.values_mut())
            .for_each(|group| choose_fields(x, group)),
        _ => choose_fields(x, &mut value),
    }
    Ok(CommandResult::of(value))
}

/// Handles commands about one group, by nginx's API (`/http/upstreams/NAME/…`).
///
/// | method | the group | `servers` | `servers/ID` |
/// |---|---|---|---|
/// | GET, HEAD | its servers and statistics | parameters of all | parameters of one |
/// | POST | | adds one: 201 with its place | |
/// | PATCH | | | changes parameters |
/// | DELETE | resets its statistics: 204 | | removes it |
///
/// # Errors
/// In this order: 404 for an unknown group and 400 for one without a `zone`, 405 for a change without `write=on`,
/// then those of the command. Methods outside the table are 405, unknown paths 404.
fn upstream(
    x: &Exchange,
    settings: &Settings,
    version: &str,
    (name, rest): (&str, &[&str]),
    (body, now): (&[u8], CommandTime),
) -> Result<CommandResult, ApiError> {
    let groups = settings.groups.changing();
    let Some((group, zone)) = groups.get(name) else {
        return Err(match settings.groups.is_named(name) {
            true => ApiError::new(400, "UpstreamStatic", "upstream is static"),
            false => ApiError::new(404, "UpstreamNotFound", "upstream not found"),
        });
    };
    let writes = !matches!(x.request.method, Method::Get | Method::Head);
    if writes && !settings.write {
        return Err(ApiError::new(405, "MethodDisabled", "method disabled"));
    }
    let id = |text: &str| {
        let wrong = || ApiError::new(400, "UpstreamBadServerId", "invalid server ID");
        text.parse::<u32>().map_err(|_| wrong())
    };
    match (x.request.method, rest) {
        (Method::Get | Method::Head, []) => {
            let mut value = view::upstream(group, zone, now);
            choose_fields(x, &mut value);
            Ok(CommandResult::of(value))
        }
        (Method::Delete, []) => {
            group.view(now.monotonic).iter().for_each(|slot| slot.peer.statistics.reset());
            Ok(CommandResult { status: 204, value: None, place: None })
        }
        (Method::Get | Method::Head, ["servers"]) => {
            Ok(CommandResult::of(view::servers(group, now)))
        }
        (Method::Post, ["servers"]) => {
            let (number, value) = change::add(group, body, now)?;
            let place = format!("/{version}/http/upstreams/{name}/servers/{number}/");
            Ok(CommandResult { status: 201, value: Some(value), place: Some(place) })
        }
        (Method::Get | Method::Head, ["servers", text]) => view::server(group, id(text)?, now)
            .map(CommandResult::of)
            .ok_or_else(ApiError::no_server),
        (Method::Patch, ["servers", text]) => {
            let number = id(text)?;
            change::patch(group, number, body, now)?;
            view::server(group, number, now).map(CommandResult::of).ok_or_else(ApiError::no_server)
        }
        (Method::Delete, ["servers", text]) => {
            change::remove(group, id(text)?, now)?;
            Ok(CommandResult::of(view::servers(group, now)))
        }
        (_, [] | ["servers"] | ["servers", _]) => {
            Err(ApiError::new(405, "MethodNotSupported", "method not supported"))
        }
        _ => Err(ApiError::new(404, "PathNotFound", "path not found")),
    }
}

fn only_get(x: &Exchange) -> Result<(), ApiError> {
    match x.request.method {
        Method::Get | Method::Head => Ok(()),
        _ => Err(ApiError::new(405, "MethodNotSupported", "method not supported")),
    }
}

/// Keeps the fields that the argument `fields` names.
fn choose_fields(x: &Exchange, value: &mut Value) {
    let args = String::from_utf8_lossy(&x.request.args);
    let wanted = args.split('&').find_map(|arg| arg.strip_prefix("fields="));
    if let (Some(wanted), Value::Object(fields)) = (wanted, value) {
        fields.retain(|name, _| wanted.split(',').any(|wanted| wanted == name));
    }
}
