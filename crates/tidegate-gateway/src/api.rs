//! `api`: what the server counts, and groups of servers read and changed at run time, by HTTP and JSON, at the paths of
//! nginx's commercial edition.
//!
//! ```nginx
//! location /api { api write=on; allow 127.0.0.1; deny all; }
//! ```
//! `GET /api/9/http/upstreams/NAME`, `POST …/NAME/servers` with `{"server":"192.0.2.1:80"}`,
//! `PATCH …/NAME/servers/3` with `{"drain":true}`, `DELETE …/NAME/servers/3`; `GET /api/9/http/server_zones`;
//! `POST /api/9/http/keyvals/ZONE` with `{"key":"value"}`. The paths are one table, in `routes`.
//!
//! `api /status/;`, with a path, is the form of Angie: see `tree`.

mod cached;
mod caches;
mod change;
mod command;
pub(crate) mod discovery;
mod error;
mod explain;
pub(crate) mod exporters;
mod fills;
mod groups;
pub(crate) mod history;
mod inside;
mod keyvals;
mod log;
mod objects;
mod one;
mod openapi;
mod process;
pub(crate) mod prometheus;
mod purge;
pub(crate) mod purge_figures;
mod query;
pub(crate) mod ring_figures;
mod rings;
mod routes;
mod source;
mod sync;
pub(crate) mod tier_figures;
mod tiers;
pub(crate) mod tree;
mod view;
mod write;
mod zones;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use tidegate_codec::Known;
use tidegate_conf::{Arity, Contexts, Diagnostic, Directive, Word, once, row};
use tidegate_core::request_body::StoreOptions;
use tidegate_core::{Body, Exchange, Level, Step};
use tidegate_plan::module::Module;
use tidegate_plan::{LocationBuilder, PlanBuilder};
use tidegate_rt::clock;

use super::common::content::read_body_by;
use crate::cache::purge::carry_out;
use crate::live_log;
use query::{Changed, CommandResult, Later, Query, Settings};
use source::Source;
use tree::{ConfigFiles, TreeSettings};

/// `ngx_http_api_module`: the directive `api`, whose location responds with the state of groups of servers in JSON
/// and, with `write=on`, changes them at run time.
pub struct Api;

#[derive(Default)]
pub struct Conf {
    form: Option<ApiForm>,
    /// `api_config_files`.
    files: Option<bool>,
}

/// A form of `api`.
enum ApiForm {
    /// The paths of nginx Plus; whether changes are allowed, and whether keys of limits are shown as they are.
    Commands { write: bool, show_keys: bool },
    /// A tree at the paths of Angie.
    Tree(Word),
}

/// Longest body of a command, in bytes.
const BODY_BYTES_MAX: u64 = 64 * 1024;

impl Module for Api {
    type Conf = Conf;
    const NAME: &'static str = "api";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        location.plan.show(&conf.files.unwrap_or(false));
        if conf.form.is_none() && location.plan.main.admin_socket.is_some() {
            live_log::tap(location);
        }
        let prefix = location.location.name.len();
        let loaded = clock::unix_millis();
        match &conf.form {
            None => {}
            Some(ApiForm::Commands { write, show_keys }) => {
                let (write, show_keys) = (*write, *show_keys);
                let settings = Arc::new(Settings { write, show_keys, loaded, prefix });
                location.content(Box::new(move |x| {
                    let settings = settings.clone();
                    Step::Wait(Box::pin(async move { handle(x, &settings).await }))
                }));
            }
            Some(ApiForm::Tree(path)) => {
                tree::look_at_program();
                let is_regex =
                    location.outline.args.first().is_some_and(|word| word.bytes.starts_with(b"~"));
                let settings = Arc::new(TreeSettings {
                    path: location.plan.template(path)?,
                    prefix: (!is_regex).then_some(prefix),
                    loaded,
                    files: (conf.files == Some(true)).then(|| files(location.plan)),
                });
                location.content(Box::new(move |x| {
                    let settings = settings.clone();
                    Step::Wait(Box::pin(async move { tree::respond(x, &settings).await }))
                }));
            }
        }
        Ok(())
    }
}

/// Returns the files of the configuration that is loaded.
fn files(plan: &PlanBuilder<'_>) -> ConfigFiles {
    let files = plan.environment.sources.files();
    let on_disk = files.filter(|(_, file)| file.path().is_some());
    on_disk.map(|(_, file)| (file.name().to_owned(), file.shared_bytes())).collect()
}

const ROWS: &[Directive<Conf>] = &[
    row(
        "api",
        Contexts::LOCATION,
        Arity::between(0, 2),
        "",
        "Sends figures of the server, the state of upstream groups and the pairs of `keyval_zone` in JSON, at the paths of \
         nginx Plus; `write=on` allows requests to change groups and pairs and to reset figures. The fullest keys of \
         limits (`/tidegate/limits`) are shown as hashes, which change with the process; `show_keys=on` shows them as \
         they are. With a path, such as \
         `/status/`, it sends a tree of figures at the paths of Angie instead: the path, which may have variables, and \
         what follows the location's name are the path of an object.",
        |conf, args| {
            if let [b'/', ..] = args.bytes(0) {
                if args.len() > 1 {
                    return Err(args.invalid_parameter(1));
                }
                return once(&mut conf.form, ApiForm::Tree(args.word(0).clone()), args);
            }
            let (mut write, mut show_keys) = (None, None);
            for index in 0..args.len() {
                let (flag, value) = match args.bytes(index) {
                    b"write=on" => (&mut write, true),
                    b"write=off" => (&mut write, false),
                    b"show_keys=on" => (&mut show_keys, true),
                    b"show_keys=off" => (&mut show_keys, false),
                    _ => return Err(args.invalid_parameter(index)),
                };
                if flag.replace(value).is_some() {
                    return Err(args.invalid_parameter(index));
                }
            }
            let (write, show_keys) = (write.unwrap_or(false), show_keys.unwrap_or(false));
            let form = ApiForm::Commands { write, show_keys };
            once(&mut conf.form, form, args)
        },
    ),
    row(
        "api_config_files",
        Contexts::LOCATION,
        Arity::FLAG,
        "off",
        "Adds the names and texts of the configuration's files to `/status/angie` of an `api` with a path. They may have \
         secrets.",
        |conf, args| once(&mut conf.files, args.flag(0)?, args),
    ),
];

/// Handles a command: reads its body, carries it out, and writes the file of what it changed before the response is sent.
///
/// Invariant: a command is carried out completely or not at all, between two awaits, or by the store where servers share a
/// zone. Cancelling: dropped while the
/// body is read it has changed nothing; dropped while the file is written it has changed the group or zone, and the pool
/// writes the file all the same.
async fn handle(x: &mut Exchange, settings: &Settings) -> Step<'static> {
    let body = match read(x).await {
        Ok(body) => body,
        Err(step) => return step,
    };
    let path = String::from_utf8_lossy(x.request.path.get(settings.prefix..).unwrap_or_default());
    let path = path.into_owned();
    let source = Source::of(x);
    let now = source.now;
    let result = routes::carry_out(&Query { x, settings, source }, &path, &body);
    let mut result = match result {
        Ok(result) => result,
        Err(error) => refused(x, &error),
    };
    if let Some(later) = result.later.take() {
        let read = match later {
            Later::Listing(listing) => cached::page(listing, now).await,
            Later::Named(named) => named.carry_out().await,
        };
        result = read.unwrap_or_else(|error| refused(x, &error));
    }
    if let Some(Changed::Shared { zone, shared, write }) = result.changed.take_if(is_shared) {
        match shared.write(&write).await {
            Ok(()) => result.changed = Some(Changed::Pairs(zone)),
            Err(error) => result = refused(x, &keyvals::refused(error)),
        }
    }
    match result.changed.take() {
        Some(Changed::Purged { zone, target, soft }) => {
            if let Err(failure) = carry_out(x, &zone, target, soft).await {
                result = refused(x, &purge::failed(failure));
            }
        }
        Some(changed) => save(x, changed).await,
        None => {}
    }
    x.disposition.set_status(result.status);
    if let Some(place) = result.place {
        let kept = x.request.path.get(..settings.prefix).unwrap_or_default();
        let mut location = kept.strip_suffix(b"/").unwrap_or(kept).to_vec();
        location.extend_from_slice(place.as_bytes());
        x.response.headers.set_known(Known::Location, &location);
    }
    if let Some(lines) = result.lines {
        x.response.headers.set_known(Known::ContentType, b"application/x-ndjson");
        return Step::Respond(lines);
    }
    let Some(document) = result.document else { return Step::Respond(Body::from(Bytes::new())) };
    x.response.headers.set_known(Known::ContentType, b"application/json");
    Step::Respond(document.body())
}

fn is_shared(changed: &mut Changed) -> bool {
    matches!(changed, Changed::Shared { .. })
}

/// Writes the file of what a command has changed.
async fn save(x: &mut Exchange, changed: Changed) {
    let (what, written) = match changed {
        Changed::Servers { name, group, file } => {
            (format!("upstream \"{name}\""), file.write(group).await)
        }
        Changed::Shared { zone, .. } | Changed::Pairs(zone) => {
            (format!("keyval zone \"{}\"", zone.name()), zone.save().await)
        }
        // It has no file.
        Changed::Purged { .. } => return,
    };
    if let Err(error) = written {
        x.log(Level::Error, format_args!("the state of {what} was not written: {error}"));
    }
}

/// Reads the body of a command into memory, whatever `client_body_buffer_size` is: one that is longer than
/// [`BODY_BYTES_MAX`] gets 413. (A file has only a body that another module has read before.)
async fn read(x: &mut Exchange) -> Result<Vec<u8>, Step<'static>> {
    x.request.body.lower_limit(BODY_BYTES_MAX);
    if x.request.body.is_present() {
        let options = StoreOptions {
            memory_bytes_max: BODY_BYTES_MAX as usize,
            in_file_only: false,
            clean: false,
            ..x.settings().body_store.clone()
        };
        read_body_by(x, Some(&options)).await?;
    }
    match x.request.body.stored() {
        None => Ok(Vec::new()),
        Some(stored) if stored.file.is_some() => Err(Step::Status(413)),
        Some(stored) => Ok(stored.memory.concat()),
    }
}

/// Makes the result of a command that was refused.
fn refused(x: &mut Exchange, error: &error::ApiError) -> CommandResult {
    let mut id = Vec::new();
    x.variable_named(b"request_id", &mut id);
    let value = error.value(&String::from_utf8_lossy(&id));
    CommandResult { status: error.status, ..CommandResult::of(value) }
}
