//! Figures as one tree of objects, at the paths of Angie's API: `api /status/;`.
//!
//! ```nginx
//! location /status/ { api /status/; api_config_files on; allow 127.0.0.1; deny all; }
//! ```
//! The path of a request's object is the argument and what follows the location's name, as with `alias`. Each object has a
//! path, down to single numbers: `GET /status/http/server_zones/shop/requests/total`. `?date=epoch` shows times as seconds
//! since 1970. `/status/tidegate` is another name of `/status/angie`.

mod error;
mod groups;
mod process;
#[cfg(test)]
mod tests;
mod zones;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use tidegate_codec::Known;
use tidegate_codec::request::Method;
use tidegate_core::{Exchange, Level, Step, Template};

use super::caches;
use super::objects::{Contents, Document, Object, Objects};
use super::one::among;
use super::query::{Query, Settings};
use super::source::Source;
use error::TreeError;
pub(super) use process::look_at_program;

/// The settings of a location with a tree.
pub(super) struct TreeSettings {
    /// The path of an object, up to what follows the location's name.
    pub(super) path: Template,
    /// Bytes of the location's name; `None` where nothing is appended to the path.
    pub(super) prefix: Option<usize>,
    /// When the configuration was loaded.
    pub(super) loaded: u64,
    /// `api_config_files`: the files of the configuration.
    pub(super) files: Option<ConfigFiles>,
}

/// Names and texts of the files of a configuration.
pub(crate) type ConfigFiles = Arc<[(String, Arc<[u8]>)]>;

/// How times are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dates {
    /// By ISO 8601, with milliseconds.
    Text,
    /// Seconds since 1970.
    Epoch,
}

/// What objects are shown with.
#[derive(Clone)]
pub(super) struct View {
    dates: Dates,
    files: Option<ConfigFiles>,
}

/// What is at a path.
enum Content {
    Object(fn(&Query<'_>, &View) -> Object),
    /// Objects by name.
    Collection(fn(&Source, &View) -> Objects),
}

/// The paths below `/status`, in the order in which they are shown.
const ROUTES: &[(&[&str], Content)] = &[
    (&["angie"], Content::Object(process::server)),
    (&["connections"], Content::Object(|_, _| super::process::connections())),
    (&["slabs"], Content::Collection(|source, _| super::zones::slabs(source))),
    (&["http", "server_zones"], Content::Collection(|source, _| zones::servers(source))),
    (&["http", "location_zones"], Content::Collection(|source, _| zones::locations(source))),
    (&["http", "caches"], Content::Collection(|source, _| caches::caches(source))),
    (&["http", "limit_conns"], Content::Collection(|source, _| zones::limit_conns(source))),
    (&["http", "limit_reqs"], Content::Collection(|source, _| zones::limit_reqs(source))),
    (&["http", "upstreams"], Content::Collection(groups::http)),
    (&["resolvers"], Content::Collection(|source, _| zones::resolvers(source))),
    (&["stream", "server_zones"], Content::Collection(|source, _| zones::session_servers(source))),
    (&["stream", "limit_conns"], Content::Collection(|source, _| zones::session_limits(source))),
    (&["stream", "upstreams"], Content::Collection(groups::stream)),
];

/// The root of all paths.
const ROOT: &str = "status";

/// What a path names.
enum Found {
    /// An object.
    Whole(Object),
    /// What a function looks for, among so many objects that take time.
    Part { find: Find, weight: usize },
}

/// Looks for an object, on any thread.
type Find = Box<dyn FnOnce() -> Option<Object> + Send>;

/// Responds with the object of a request's path.
///
/// # Errors
/// 405 for methods other than GET and HEAD, else 404 for a path without an object; both with a description in JSON.
pub(super) async fn respond(x: &mut Exchange, settings: &TreeSettings) -> Step<'static> {
    let path = path(x, settings);
    let found = match x.request.method {
        Method::Get | Method::Head => match object(x, settings, &path).await {
            Ok(found) => found.ok_or_else(|| TreeError::no_path(&path)),
            Err(step) => return step,
        },
        _ => Err(TreeError::no_method(x.request.method.name(), &path)),
    };
    let (status, object) = match found {
        Ok(object) => (200, object),
        Err(error) => {
            x.response.reason = error.reason.map(Bytes::from_static);
            (error.status, Object::new(move || error.value()))
        }
    };
    x.disposition.set_status(status);
    x.response.headers.set_known(Known::ContentType, b"application/json");
    Step::Respond(Document::single(object).body())
}

/// Returns the path of the object that a request is for.
fn path(x: &mut Exchange, settings: &TreeSettings) -> String {
    let mut path = settings.path.value(x);
    let rest = settings.prefix.and_then(|prefix| x.request.path.get(prefix..));
    path.extend_from_slice(rest.unwrap_or_default());
    String::from_utf8_lossy(&path).into_owned()
}

/// Returns the object at a path. Among many objects a pool thread looks for it; for a part it makes the whole.
async fn object(
    x: &mut Exchange,
    settings: &TreeSettings,
    path: &str,
) -> Result<Option<Object>, Step<'static>> {
    let view = View { dates: dates(&x.request.args), files: settings.files.clone() };
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let (find, weight) = match find(x, settings.loaded, &view, &parts) {
        None => return Ok(None),
        Some(Found::Whole(object)) => return Ok(Some(object)),
        Some(Found::Part { find, weight }) => (find, weight),
    };
    among(weight, find).await.map_err(|error| {
        x.log(Level::Error, format_args!("figures were not collected: {error}"));
        Step::Status(503)
    })
}

fn dates(args: &[u8]) -> Dates {
    match args.split(|byte| *byte == b'&').any(|arg| arg == b"date=epoch") {
        true => Dates::Epoch,
        false => Dates::Text,
    }
}

/// Collects the tree below `/status`, with times as seconds since 1970; the returned function makes its value, which takes
/// time where there are many objects.
pub fn figures_tree(x: &Exchange) -> impl FnOnce() -> Value + Send + 'static {
    let settings = Settings { write: false, show_keys: false, loaded: 0, prefix: 0 };
    let query = Query { x, settings: &settings, source: Source::of(x) };
    let object = below(&query, &View { dates: Dates::Epoch, files: None }, &[]);
    move || object.value()
}

/// Finds what a path names, whose first part is `status`.
fn find(x: &Exchange, loaded: u64, view: &View, parts: &[&str]) -> Option<Found> {
    let settings = Settings { write: false, show_keys: false, loaded, prefix: 0 };
    let query = Query { x, settings: &settings, source: Source::of(x) };
    let [root, rest @ ..] = parts else {
        return Some(Found::Whole(below(&query, view, &[]).inside(ROOT)));
    };
    if *root != ROOT {
        return None;
    }
    let mut rest = rest.to_vec();
    if rest.first() == Some(&"tidegate") {
        rest[0] = "angie";
    }
    let known = |route: &&(&[&str], Content)| rest.starts_with(route.0) && is_there(x, route.0);
    let Some((route, content)) = ROUTES.iter().find(known) else {
        let is_directory = |(route, _): &(&[&str], Content)| route.starts_with(&rest);
        let exists = ROUTES.iter().any(is_directory) && is_there(x, &rest);
        return exists.then(|| Found::Whole(below(&query, view, &rest)));
    };
    let names: Vec<String> = rest[route.len()..].iter().map(|name| (*name).to_owned()).collect();
    match content {
        Content::Object(show) => Some(Found::of(show(&query, view), names)),
        Content::Collection(all) if names.is_empty() => {
            Some(Found::Whole(later(&query, view, *all)))
        }
        Content::Collection(all) => {
            let (source, view, all) = (query.source.clone(), view.clone(), *all);
            let weight = source.weight;
            let find = move || member(all(&source, &view), &names);
            Some(Found::Part { find: Box::new(find), weight })
        }
    }
}

impl Found {
    fn of(object: Object, names: Vec<String>) -> Found {
        if names.is_empty() {
            return Found::Whole(object);
        }
        let weight = object.weight();
        Found::Part { find: Box::new(move || part(object, &names)), weight }
    }
}

/// Returns whether the configuration has what a path is about.
fn is_there(x: &Exchange, path: &[&str]) -> bool {
    path.first() != Some(&"stream") || x.plan.sessions.is_some()
}

/// Shows all paths below a directory as one object.
fn below(query: &Query<'_>, view: &View, directory: &[&str]) -> Object {
    let depth = directory.len();
    let mut objects = Objects::new();
    for (path, content) in ROUTES {
        if !path.starts_with(directory) || !is_there(query.x, path) {
            continue;
        }
        let name = path[depth];
        if objects.iter().any(|(known, _)| known == name) {
            continue;
        }
        let object = match content {
            _ if path.len() > depth + 1 => below(query, view, &path[..=depth]),
            Content::Object(show) => show(query, view),
            Content::Collection(all) => later(query, view, *all),
        };
        objects.push((name.to_owned(), object));
    }
    Contents::later(&query.source, |_| objects).whole()
}

/// Shows a collection as one object.
fn later(query: &Query<'_>, view: &View, all: fn(&Source, &View) -> Objects) -> Object {
    let view = view.clone();
    Contents::later(&query.source, move |source| all(source, &view)).whole()
}

/// Finds an object of a collection by the first names, and the part of it that the others lead to.
fn member(mut objects: Objects, names: &[String]) -> Option<Object> {
    let (place, used) = longest(objects.iter().map(|(known, _)| &**known), names)?;
    part(objects.swap_remove(place).1, &names[used..])
}

/// Returns the part of an object that the names lead to: without names the object itself.
fn part(object: Object, mut names: &[String]) -> Option<Object> {
    if names.is_empty() {
        return Some(object);
    }
    let mut value = object.value();
    while !names.is_empty() {
        let Value::Object(fields) = &mut value else { return None };
        let (place, used) = longest(fields.keys().map(|key| &**key), names)?;
        let found = fields.values_mut().nth(place)?.take();
        (value, names) = (found, &names[used..]);
    }
    Some(Object::new(move || value))
}

/// Finds the name with which a path begins; names may have slashes, and that of the most parts wins. Returns its place and
/// the number of its parts.
fn longest<'n>(names: impl Iterator<Item = &'n str>, path: &[String]) -> Option<(usize, usize)> {
    let mut longest = None;
    for (place, name) in names.enumerate() {
        let is_longer = |used: &usize| longest.is_none_or(|(_, most)| *used > most);
        if let Some(used) = begins_with(path, name).filter(is_longer) {
            longest = Some((place, used));
        }
    }
    longest
}

/// Returns the number of parts of a name with which a path begins; `None` where it begins otherwise. Paths have lost repeated
/// slashes.
fn begins_with(path: &[String], name: &str) -> Option<usize> {
    let mut used = 0;
    for part in name.split('/').filter(|part| !part.is_empty()) {
        if path.get(used)? != part {
            return None;
        }
        used += 1;
    }
    (used > 0).then_some(used)
}

/// Shows a time in Unix milliseconds.
fn time(millis: u64, dates: Dates) -> Value {
    match dates {
        Dates::Text => super::view::time(millis).into(),
        Dates::Epoch => (millis / 1000).into(),
    }
}

/// Makes an object of names and values.
fn named<'n>(pairs: impl IntoIterator<Item = (&'n str, u64)>) -> Value {
    let fields = pairs.into_iter().map(|(name, value)| (name.to_owned(), value.into()));
    Value::Object(fields.collect::<Map<String, Value>>())
}
