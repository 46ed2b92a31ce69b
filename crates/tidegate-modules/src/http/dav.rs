//! `dav`: files and directories written by WebDAV's PUT, DELETE, MKCOL, COPY and MOVE.
//!
//! ```nginx
//! location /files/ {
//!     root                  /data/www;
//!     client_body_temp_path /data/client_temp;
//!     dav_methods           PUT DELETE MKCOL COPY MOVE;
//!     dav_access            group:rw all:r;
//!     create_full_put_path  on;
//!     limit_except GET { allow 192.168.1.0/32; deny all; }
//! }
//! ```
//! Statuses are nginx's, except as listed in the differences. All file operations run on pool threads. An uploaded
//! body is written to a temporary file as it arrives, which is renamed to its target when it is complete
//! (`put.rs`); a copied directory is also made beside its target first (`tree.rs`). DELETE never follows a symbolic
//! link. Under `disable_symlinks` a path with a link in it is refused.

mod fields;
mod put;
#[cfg(test)]
mod tests;
mod tree;

use std::io;
use std::path::{Path, PathBuf};

use tidegate_codec::Known;
use tidegate_codec::request::Method;
use tidegate_codec::uri::{Escape, escape};
use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, once, row};
use tidegate_core::{Body, Exchange, Level, Phase, Step, blocking, error_page, file_path};
use tidegate_os::os_error;
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::{BlockInfo, Module};

use super::static_files::{LinkRule, Links, link_rule, query_path};
use fields::{Depth, Destination};
use tree::{Failure, MappedPath, Transfer};

/// `ngx_http_dav_module`.
pub(crate) struct Dav;

/// The directives of one block as written.
#[derive(Default)]
pub(crate) struct Conf {
    methods: Option<u32>,
    access: Option<u32>,
    full_path: Option<bool>,
    depth_min: Option<u64>,
}

/// The settings of a location.
#[derive(Debug, Clone, Copy)]
struct Options {
    /// Bits of the methods that are served.
    methods: u32,
    /// Mode of new files.
    file_mode: u32,
    /// `create_full_put_path`.
    full_path: bool,
    /// Least number of path elements for DELETE (`min_delete_depth`).
    depth_min: u64,
}

/// Default of `dav_access`: `user:rw`.
const FILE_MODE: u32 = 0o600;

impl Module for Dav {
    type Conf = Conf;
    const NAME: &'static str = "dav";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        child.methods = child.methods.or(parent.methods);
        child.access = child.access.or(parent.access);
        child.full_path = child.full_path.or(parent.full_path);
        child.depth_min = child.depth_min.or(parent.depth_min);
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let options = Options {
            methods: conf.methods.unwrap_or(0),
            file_mode: conf.access.unwrap_or(FILE_MODE),
            full_path: conf.full_path.unwrap_or(false),
            depth_min: conf.depth_min.unwrap_or(0),
        };
        if options.methods != 0 {
            location.plan.show(&options);
            location.handler(Phase::Content, Box::new(move |x| respond(x, options)));
        }
        Ok(())
    }
}

const ALL: Contexts = Contexts::HTTP_SERVER_LOCATION;

const ROWS: &[Directive<Conf>] = &[
    row(
        "dav_methods",
        ALL,
        Arity::AT_LEAST_ONE,
        "off",
        "Methods that are served: off, or any of PUT, DELETE, MKCOL, COPY and MOVE.",
        set_methods,
    ),
    row(
        "dav_access",
        ALL,
        Arity::ONE_TO_THREE,
        "user:rw",
        "Rights of new files and directories: user:, group:, all: with r or rw.",
        set_access,
    ),
    row(
        "create_full_put_path",
        ALL,
        Arity::FLAG,
        "off",
        "Whether PUT creates the directories of its file.",
        |conf, args| once(&mut conf.full_path, args.flag(0)?, args),
    ),
    row(
        "min_delete_depth",
        ALL,
        Arity::ONE,
        "0",
        "How many elements a path must have for DELETE.",
        |conf, args| once(&mut conf.depth_min, args.number(0, 0..=u64::MAX)?, args),
    ),
];

fn set_methods(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let methods = [
        ("off", 0),
        ("put", Method::Put.bit()),
        ("delete", Method::Delete.bit()),
        ("mkcol", Method::Mkcol.bit()),
        ("copy", Method::Copy.bit()),
        ("move", Method::Move.bit()),
    ];
    // Several lines are combined, as in nginx.
    let mut bits = conf.methods.unwrap_or(0);
    for index in 0..args.len() {
        bits |= args.choice(index, &methods)?;
    }
    conf.methods = Some(bits);
    Ok(())
}

/// Reads `dav_access`. The user's rights are `rw` unless they are given.
fn set_access(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let mut mode = 0;
    let mut user = FILE_MODE;
    for index in 0..args.len() {
        let (class, rights) = args.text(index)?.split_once(':').unwrap_or_default();
        let shift = match class {
            "user" => 6,
            "group" => 3,
            "all" => 0,
            _ => return Err(args.error(index, invalid(args, index))),
        };
        let rights = match rights {
            "r" => 0o4,
            "rw" => 0o6,
            _ => return Err(args.error(index, invalid(args, index))),
        };
        if class == "user" {
            user = 0;
        }
        mode |= rights << shift;
    }
    once(&mut conf.access, mode | user, args)
}

fn invalid(args: &Args<'_>, index: usize) -> String {
    format!("invalid value \"{}\"", args.word(index).display())
}

impl Options {
    /// Returns the mode of new directories: read permission implies search permission.
    fn directory_mode(self) -> u32 {
        self.file_mode | (self.file_mode & 0o444) >> 2
    }
}

fn respond(x: &mut Exchange, options: Options) -> Step<'_> {
    let method = x.request.method;
    if method.bit() & options.methods == 0 {
        return Step::Decline;
    }
    if method != Method::Put && x.request.body.is_present() {
        let name = String::from_utf8_lossy(x.request.head.method_bytes());
        x.log(Level::Error, format_args!("{name} with body is unsupported"));
        return Step::Status(415);
    }
    let Some(path) = file_path::map(x) else { return Step::Status(500) };
    let place = MappedPath::of(&path, &x.request.path);
    let rule = link_rule(x, &path);
    match method {
        // A file with this name would replace the aliased directory.
        Method::Put if path.ends_with(b"/") => put::refuse_directory(x),
        Method::Put => Step::Wait(Box::pin(put::put(x, place, rule, options))),
        Method::Delete => delete(x, place, rule, options),
        Method::Mkcol => make_directory(x, place, rule, options),
        Method::Copy | Method::Move => transfer(x, place, rule, options),
        _ => Step::Decline,
    }
}

fn delete(x: &mut Exchange, place: MappedPath, rule: LinkRule, options: Options) -> Step<'_> {
    let elements = x.request.path.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
    let elements = elements.count() as u64;
    if elements < options.depth_min {
        let least = options.depth_min;
        x.log(
            Level::Error,
            format_args!(
                "insufficient URI depth:{elements} to DELETE, at least {least} are needed"
            ),
        );
        return Step::Status(409);
    }
    let Some(depth) = depth(x) else { return Step::Status(400) };
    work(x, move || {
        check_links(&place.path, rule)?;
        tree::delete(&place, depth).map(|()| 204)
    })
}

fn make_directory(
    x: &mut Exchange,
    place: MappedPath,
    rule: LinkRule,
    options: Options,
) -> Step<'_> {
    if !place.is_directory {
        x.log(Level::Error, format_args!("MKCOL can create a collection only"));
        return Step::Status(409);
    }
    work(x, move || {
        check_parent_links(&place.path, rule)?;
        tree::make_directory(&place.path, options.directory_mode()).map(|()| 201)
    })
}

/// Serves COPY and MOVE (RFC 4918 sections 9.8 and 9.9). The header fields are checked here, without file access;
/// the operation and its checks of links are one job on a pool thread.
///
/// Invariant: source and target are below the location's root, and are both directories or both files. `Depth` is
/// `infinity`, or zero for a copy; `Overwrite` is on unless it is `F`. If the request is dropped, a waiting job is
/// not begun; a running job completes, and its target is replaced as a whole (`tree.rs`).
fn transfer(x: &mut Exchange, from: MappedPath, rule: LinkRule, options: Options) -> Step<'_> {
    let is_move = x.request.method == Method::Move;
    let target = match fields::destination(x) {
        Destination::Path(target) => target,
        Destination::Missing => {
            x.log(Level::Error, format_args!("client sent no \"Destination\" header"));
            return Step::Status(400);
        }
        Destination::Invalid => return invalid_destination(x),
    };
    let settings = x.settings();
    let prefix = if settings.alias { settings.alias_length } else { 0 };
    // A target outside of an aliased location, or in a location by regular expression, does not map to its
    // directory.
    if prefix > 0 && x.request.path.get(..prefix).is_none_or(|name| !target.starts_with(name)) {
        return invalid_destination(x);
    }
    let Some(path) = file_path::map_path(x, &target) else { return Step::Status(500) };
    let to = MappedPath::of(&path, &target);
    let to_rule = link_rule(x, &path);
    if from.is_directory != to.is_directory {
        let uri = String::from_utf8_lossy(&target);
        x.log(
            Level::Error,
            format_args!("both URI and \"Destination\" URI \"{uri}\" should be either collections or non-collections"),
        );
        return Step::Status(409);
    }
    let depth = depth(x).filter(|depth| match is_move {
        true => *depth == Depth::Infinity,
        false => *depth != Depth::One,
    });
    let overwrite = fields::overwrite(x.request.header(Known::Overwrite));
    let (Some(depth), Some(overwrite)) = (depth, overwrite) else {
        x.log(Level::Error, format_args!("client sent invalid \"Depth\" or \"Overwrite\" header"));
        return Step::Status(400);
    };
    work(x, move || {
        check_links(&from.path, rule)?;
        check_parent_links(&to.path, to_rule)?;
        let directory_mode = options.directory_mode();
        let refuse_links = rule.links != Links::Follow;
        let transfer =
            Transfer { from, to, is_move, depth, overwrite, refuse_links, directory_mode };
        transfer.run()
    })
}

fn invalid_destination(x: &Exchange) -> Step<'static> {
    let value = x.request.header(Known::Destination).unwrap_or_default();
    let value = String::from_utf8_lossy(value);
    x.log(Level::Error, format_args!("client sent invalid \"Destination\" header: \"{value}\""));
    Step::Status(400)
}

fn depth(x: &Exchange) -> Option<Depth> {
    let field = x.request.header(Known::Depth);
    let depth = fields::depth(field);
    if depth.is_none() {
        let value = String::from_utf8_lossy(field.unwrap_or_default());
        x.log(Level::Error, format_args!("client sent invalid \"Depth\" header: \"{value}\""));
    }
    depth
}

/// Runs a job on a pool thread and responds with its status.
fn work(
    x: &mut Exchange,
    work: impl FnOnce() -> Result<u16, Failure> + Send + 'static,
) -> Step<'_> {
    Step::Wait(Box::pin(async move {
        match run(work).await {
            Ok(status) => done(x, status),
            Err(failure) => failed(x, &failure),
        }
    }))
}

/// Runs a job on a pool thread.
async fn run<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    match blocking::run(move || Ok(work())).await {
        Ok(result) => result,
        Err(error) => Err(Failure::of("thread pool", Path::new(""), error)),
    }
}

/// Makes the response of a success. For what PUT and MKCOL have created it has a `Location`.
fn done(x: &mut Exchange, status: u16) -> Step<'static> {
    x.clear_response();
    if status == 201 && matches!(x.request.method, Method::Put | Method::Mkcol) {
        let mut place = Vec::with_capacity(x.request.path.len());
        escape(&x.request.path, Escape::Uri, &mut place);
        error_page::redirect_headers(x, &place);
    }
    x.disposition.set_status(status);
    Step::Respond(Body::Empty)
}

fn failed(x: &mut Exchange, failure: &Failure) -> Step<'static> {
    let level = if failure.status >= 500 { Level::Crit } else { Level::Error };
    let (call, path) = (failure.call, failure.path.display());
    match &failure.error {
        Some(error) => {
            let error = os_error(error);
            x.log(level, format_args!("{call} \"{path}\" failed ({error})"));
        }
        None => x.log(level, format_args!("\"{path}\" {call}")),
    }
    Step::Status(failure.status)
}

/// Refuses a path with a link that must not be followed, its last element included.
fn check_links(path: &Path, rule: LinkRule) -> Result<(), Failure> {
    check_name(path, rule)?;
    if rule.links == Links::Follow {
        return Ok(());
    }
    let queried = query_path(path.as_os_str().as_encoded_bytes(), rule);
    queried.map(drop).map_err(|error| Failure::of("openat()", path, error))
}

/// Does the same for a path that need not exist.
fn check_parent_links(path: &Path, rule: LinkRule) -> Result<(), Failure> {
    check_name(path, rule)?;
    if rule.links == Links::Follow {
        return Ok(());
    }
    let mut parent = path.parent();
    // The part of the path in which links are not checked is skipped.
    while let Some(directory) = parent.filter(|directory| directory.as_os_str().len() > rule.from) {
        match check_links(directory, rule) {
            // Directories that do not exist yet contain no links.
            Err(Failure { error: Some(error), .. }) if error.kind() == io::ErrorKind::NotFound => {
                parent = directory.parent();
            }
            other => return other,
        }
    }
    Ok(())
}

/// Refuses a path that would change a file with another name.
fn check_name(path: &Path, rule: LinkRule) -> Result<(), Failure> {
    let checked = tidegate_os::path::check(path, rule.from);
    checked.map_err(|error| Failure::of("checking the name", path, error))
}

/// Converts bytes to a path.
fn path_of(bytes: &[u8]) -> PathBuf {
    tidegate_os::path::of(bytes).to_path_buf()
}
