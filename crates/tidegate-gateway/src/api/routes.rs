//! The paths of the API: one table, from which requests are routed, directories are listed, and the description by
//! OpenAPI is made.

use serde_json::json;
use tidegate_codec::request::Method;
use tidegate_core::figures::BOUNDS_MILLIS;
use tidegate_core::timeline;

use super::command::{CarryOut, Command, Deletes, SubPath, allow, leaf};
use super::error::ApiError;
use super::objects::{Contents, Document, Form, Object, Objects};
use super::one::{Named, Wish};
use super::query::{CommandResult, Later, Query};
use super::source::Source;
use super::{
    cached, caches, discovery, explain, fills, groups, history, inside, keyvals, log, openapi,
    process, purge, rings, sync, tiers, zones,
};

/// Collects objects.
type Collect = fn(&Source) -> Objects;

/// A path of the API and what is there.
pub(super) struct Route {
    /// The parts of the path behind the version.
    pub(super) path: &'static [&'static str],
    pub(super) content: Content,
}

/// What is at a path.
pub(super) enum Content {
    /// The names of the paths one level below.
    Directory,
    /// An object, which DELETE may reset.
    Object { show: fn(&Query<'_>) -> Object, delete: Deletes },
    /// Objects, each with a path of its own below this one, where DELETE may reset it.
    Collection {
        all: Collect,
        form: Form,
        delete: Deletes,
        /// Code and text of the error for a name that no object has.
        missing: (&'static str, &'static str),
    },
    /// Paths that are routed by a function: it gets the parts behind this path.
    Below { carry_out: CarryOut, paths: &'static [SubPath] },
}

/// Accepted versions. They differ in the paths that they have; all paths are in all versions here.
const VERSIONS: std::ops::RangeInclusive<u32> = 1..=9;

const fn object(
    path: &'static [&'static str],
    show: fn(&Query<'_>) -> Object,
    delete: Deletes,
) -> Route {
    Route { path, content: Content::Object { show, delete } }
}

const fn collection(
    path: &'static [&'static str],
    all: Collect,
    delete: Deletes,
    missing: (&'static str, &'static str),
) -> Route {
    Route { path, content: Content::Collection { all, form: Form::Map, delete, missing } }
}

const fn below(
    path: &'static [&'static str],
    carry_out: CarryOut,
    paths: &'static [SubPath],
) -> Route {
    Route { path, content: Content::Below { carry_out, paths } }
}

const fn directory(path: &'static [&'static str]) -> Route {
    Route { path, content: Content::Directory }
}

/// All paths, in the order in which directories list them.
pub(super) const ROUTES: &[Route] = &[
    directory(&[]),
    object(&["nginx"], process::nginx, Deletes::Never),
    object(&["processes"], process::processes, Deletes::Resets),
    object(&["connections"], |_| process::connections(), Deletes::Resets),
    collection(&["slabs"], zones::slabs, Deletes::Resets, ("SlabNotFound", "slab not found")),
    directory(&["http"]),
    object(&["http", "requests"], |_| process::requests(), Deletes::Resets),
    collection(&["http", "server_zones"], zones::servers, Deletes::Resets, SERVER_ZONE),
    collection(&["http", "location_zones"], zones::locations, Deletes::Resets, LOCATION_ZONE),
    collection(
        &["http", "caches"],
        caches::caches,
        Deletes::Resets,
        ("CacheNotFound", "cache not found"),
    ),
    collection(&["http", "limit_conns"], zones::limit_conns, Deletes::Resets, LIMIT_CONN),
    collection(
        &["http", "limit_reqs"],
        zones::limit_reqs,
        Deletes::Resets,
        ("LimitReqNotFound", "limit_req not found"),
    ),
    below(&["http", "upstreams"], groups::http, groups::PATHS),
    below(&["http", "keyvals"], keyvals::http, keyvals::PATHS),
    directory(&["stream"]),
    collection(&["stream", "server_zones"], zones::session_servers, Deletes::Resets, SERVER_ZONE),
    collection(&["stream", "limit_conns"], zones::session_limit_conns, Deletes::Resets, LIMIT_CONN),
    below(&["stream", "upstreams"], groups::stream, groups::PATHS),
    below(&["stream", "keyvals"], keyvals::stream, keyvals::PATHS),
    object(&["stream", "zone_sync"], sync::zone_sync, Deletes::Never),
    collection(
        &["resolvers"],
        zones::resolvers,
        Deletes::Resets,
        ("ResolverZoneNotFound", "resolver zone not found"),
    ),
    object(&["ssl"], |_| process::ssl(), Deletes::Resets),
    Route {
        path: &["workers"],
        content: Content::Collection {
            all: process::workers,
            form: Form::List,
            delete: Deletes::Never,
            missing: ("WorkerNotFound", "worker not found"),
        },
    },
    // Ours.
    directory(&["tidegate"]),
    collection(&["tidegate", "server_times"], zones::server_times, Deletes::Never, SERVER_ZONE),
    collection(
        &["tidegate", "location_times"],
        zones::location_times,
        Deletes::Never,
        LOCATION_ZONE,
    ),
    collection(
        &["tidegate", "stores"],
        sync::all,
        Deletes::Never,
        ("StoreNotFound", "store not found"),
    ),
    collection(
        &["tidegate", "discovery"],
        discovery::all,
        Deletes::Never,
        ("DiscoveryNotFound", "discovery not found"),
    ),
    collection(
        &["tidegate", "tiers"],
        tiers::all,
        Deletes::Never,
        ("TierNotFound", "tier not found"),
    ),
    collection(
        &["tidegate", "cache_peers"],
        rings::all,
        Deletes::Never,
        ("CachePeersNotFound", "cache peers not found"),
    ),
    object(&["tidegate", "fills"], fills::running, Deletes::Never),
    object(&["tidegate", "limits"], inside::limits, Deletes::Never),
    object(&["tidegate", "certificates"], inside::certificates, Deletes::Never),
    object(&["tidegate", "pools"], inside::pools, Deletes::Never),
    object(&["tidegate", "loops"], inside::loops, Deletes::Never),
    object(&["tidegate", "verdicts"], inside::verdicts, Deletes::Never),
    below(&["tidegate", "snapshot"], snapshot, &[only("All objects, each by its path")]),
    below(
        &["tidegate", "history"],
        history,
        &[only("The sums of each second of the last minutes")],
    ),
    below(&["tidegate", "slow"], slow, &[only("The latest slow requests, the newest first")]),
    below(&["tidegate", "purge"], purge::carry_out, purge::PATHS),
    below(
        &["tidegate", "explain"],
        explain::explain,
        &[only(
            "The server and the location that a request for the argument `url` would meet, with the directives that hold there; \
             `host` is in place of that of the URL",
        )],
    ),
    below(&["tidegate", "cached"], cached::carry_out, cached::PATHS),
    below(
        &["tidegate", "log"],
        log::watch,
        &[only(
            "Requests as they end, a JSON object a line, of those for which the argument `query` holds",
        )],
    ),
];

const fn only(what: &'static str) -> SubPath {
    SubPath { path: "", methods: &[Method::Get], what }
}

const LOCATION_ZONE: (&str, &str) = ("LocationZoneNotFound", "location zone not found");
const SERVER_ZONE: (&str, &str) = ("ServerZoneNotFound", "server zone not found");
const LIMIT_CONN: (&str, &str) = ("LimitConnNotFound", "limit_conn not found");

/// Carries a command out and makes the response.
///
/// # Errors
/// In this order: an unknown version, an unknown path (404), a method that the path does not have (405), a change without
/// `write=on` (405), a name that is not there (404), then those of the command.
pub(super) fn carry_out(
    query: &Query<'_>,
    path: &str,
    body: &[u8],
) -> Result<CommandResult, ApiError> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let [version, rest @ ..] = &parts[..] else {
        allow(query, Deletes::Never)?;
        return Ok(CommandResult::of(VERSIONS.collect::<Vec<_>>().into()));
    };
    if *version == openapi::NAME && rest.is_empty() {
        allow(query, Deletes::Never)?;
        return Ok(CommandResult::of(openapi::document(*VERSIONS.end())));
    }
    let known = version.parse().is_ok_and(|version| VERSIONS.contains(&version));
    if !known || version.starts_with('0') {
        return Err(ApiError::new(404, "UnknownVersion", "unknown version"));
    }
    let fitting = ROUTES.iter().filter(|route| rest.starts_with(route.path));
    let route = fitting.max_by_key(|route| route.path.len());
    let Some(Route { path, content }) = route else { return Err(ApiError::no_path()) };
    let below = &rest[path.len()..];
    match (content, below) {
        (Content::Below { carry_out, .. }, rest) => {
            carry_out(query, &Command { version, rest, body })
        }
        (Content::Directory, []) => {
            allow(query, Deletes::Never)?;
            Ok(CommandResult::of(json!(names_below(path))))
        }
        (Content::Object { show, delete }, []) => {
            allow(query, *delete)?;
            Ok(of_one(query, show(query)))
        }
        (Content::Collection { all, form, .. }, []) => {
            allow(query, Deletes::Never)?;
            Ok(of_all(query, Contents::later(&query.source, *all), *form))
        }
        (Content::Collection { all, delete, missing, .. }, name) => {
            allow(query, *delete)?;
            // Names may have slashes: values of variables are names of zones.
            let name = name.join("/");
            let (source, wish) = (query.source.clone(), wish(query));
            let named = Named { source, all: *all, name, missing: *missing, wish };
            Ok(CommandResult { later: Some(Later::Named(named)), ..CommandResult::nothing() })
        }
        (Content::Directory | Content::Object { .. }, _) => Err(ApiError::no_path()),
    }
}

/// The collections of groups, which have a function for their paths.
const GROUPS: [(&str, Collect); 2] =
    [("http/upstreams", groups::all_http), ("stream/upstreams", groups::all_stream)];

/// Shows all objects of the API at one time, each under its path, and collections as one object.
fn snapshot(query: &Query<'_>, command: &Command<'_>) -> Result<CommandResult, ApiError> {
    leaf(query, command)?;
    let source = &query.source;
    let of_page = json!({
        "bounds_ms": BOUNDS_MILLIS,
        "cpu_ms": history::cpu_millis(),
        "time_ms": source.now.unix_millis,
        "write": query.settings.write,
    });
    let mut objects = vec![("api".to_owned(), Object::new(move || of_page))];
    for Route { path, content } in ROUTES {
        let object = match content {
            Content::Object { show, .. } => show(query),
            Content::Collection { all, .. } => Contents::later(source, *all).whole(),
            _ => continue,
        };
        objects.push((path.join("/"), object));
    }
    for (path, all) in GROUPS {
        objects.push((path.to_owned(), Contents::later(source, all).whole()));
    }
    Ok(of_all(query, Contents::later(source, |_| objects), Form::Map))
}

/// Shows the figures of the last minutes.
fn history(query: &Query<'_>, command: &Command<'_>) -> Result<CommandResult, ApiError> {
    leaf(query, command)?;
    Ok(of_one(query, history::shown()))
}

/// Shows the latest requests that a `slow_log` is about.
fn slow(query: &Query<'_>, command: &Command<'_>) -> Result<CommandResult, ApiError> {
    leaf(query, command)?;
    let mut all = timeline::slow::latest().into_iter();
    let mut first = true;
    let write = move |out: &mut Vec<u8>| {
        out.push(if std::mem::take(&mut first) { b'[' } else { b',' });
        match all.next() {
            Some(description) => out.extend_from_slice(&description),
            // The list is over, or empty.
            None => {
                if out.last() == Some(&b',') {
                    out.pop();
                }
                out.push(b']');
                return false;
            }
        }
        true
    };
    Ok(of_one(query, Object::of_pieces(write)))
}

/// Shows objects, or the fields of each that are wanted.
pub(super) fn of_all(query: &Query<'_>, objects: Contents, form: Form) -> CommandResult {
    CommandResult::new(Document { objects, form, fields: fields(query) })
}

/// Shows or resets an object, by the method.
pub(super) fn of_one(query: &Query<'_>, object: Object) -> CommandResult {
    wish(query).carry_out(object)
}

fn wish(query: &Query<'_>) -> Wish {
    match query.x.request.method {
        Method::Delete => Wish::Reset,
        _ => Wish::Show(fields(query)),
    }
}

/// Returns the names of the paths one level below a directory.
fn names_below(path: &[&str]) -> Vec<&'static str> {
    let below = ROUTES.iter().filter(|route| route.path.len() == path.len() + 1);
    let below = below.filter(|route| route.path.starts_with(path));
    below.filter_map(|route| route.path.last().copied()).collect()
}

/// Returns the fields that the argument `fields` names; `None` without it.
fn fields(query: &Query<'_>) -> Option<Vec<String>> {
    let args = String::from_utf8_lossy(&query.x.request.args);
    let wanted = args.split('&').find_map(|arg| arg.strip_prefix("fields="))?;
    let names = wanted.split(',').filter(|name| !name.is_empty());
    Some(names.map(str::to_owned).collect())
}
