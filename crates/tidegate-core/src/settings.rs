//! The core module's settings at request time, with defaults and inheritance applied.

mod location;
mod server;
mod session;

use std::collections::HashMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_conf::{Args, Diagnostic, NoEffect};

use crate::error_log::ErrorLog;
use crate::request_body::StoreOptions;
use crate::template::Template;

pub use location::{
    BodyInFile, Buffers, IfModifiedSinceSetting, KEEPALIVE_DISABLE_MSIE6, KEEPALIVE_DISABLE_SAFARI,
    KeepaliveTimeout, Lingering, PlainConf, PlainSettings, Satisfy,
};
pub use server::{PlainServerConf, PlainServerSettings};
pub use session::{SessionConf, SessionSettings};

/// Settings of a server block.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// The plain directives, also reached through `ServerSettings` itself.
    pub plain: PlainServerSettings,
    /// Rules and limits for request heads, made of the plain directives.
    pub parse: tidegate_codec::request::ParseOptions,
}

impl Deref for ServerSettings {
    type Target = PlainServerSettings;

    #[inline]
    fn deref(&self) -> &PlainServerSettings {
        &self.plain
    }
}

/// The product name in the `Server` field and on error pages (`server_tokens`).
#[derive(Clone, Debug)]
pub enum Tokens {
    /// A fixed text.
    Fixed(Bytes),
    /// A text with variables; the values `off`, `on`, `build` and empty keep their meaning.
    Dynamic(Template),
}

/// One status of an `error_page` directive.
#[derive(Clone, Debug)]
pub struct ErrorPage {
    /// The status that the page is for.
    pub code: u16,
    /// `None`: the status is kept; `Some(0)`: the page's own status (`=`); else this status (`=code`).
    pub overwrite: Option<u16>,
    /// A path, a named location or a URL.
    pub target: Template,
}

/// What `error_log` lines of a location have in addition.
#[derive(Debug, Default)]
pub struct TagTemplates {
    /// `error_log_user_tag`s.
    pub words: Vec<Template>,
    /// `error_log_tag`s: names and values.
    pub pairs: Vec<(Arc<str>, Template)>,
}

/// Media types by lower-case extension. The keys come from the configuration, so the hash need not resist attacks.
pub type Types = HashMap<Vec<u8>, Bytes, foldhash::fast::RandomState>;

/// Settings of a location. Plain directives are in a list of their own; the fields here are made with other parts of the
/// plan. A field without a description is the directive of its name.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The plain directives, also reached through `Settings` itself.
    pub plain: PlainSettings,
    /// `root` or `alias`.
    pub root: Template,
    /// Whether `root` is an `alias`.
    pub alias: bool,
    /// Bytes of the location's name, which `alias` replaces; `usize::MAX` where nothing of the path is appended.
    pub alias_length: usize,
    /// `internal`.
    pub internal: bool,
    /// `types`.
    pub types: Arc<Types>,
    /// `error_page`s.
    pub error_pages: Arc<[ErrorPage]>,
    /// `post_action`.
    pub post_action: Option<Template>,
    /// How a request's body is stored (`client_body_*`).
    pub body_store: StoreOptions,
    /// `limit_rate` in bytes a second.
    pub limit_rate: Option<Template>,
    /// `limit_rate_after` in bytes.
    pub limit_rate_after: Option<Template>,
    /// `server_tokens`.
    pub tokens: Tokens,
    /// `http2_chunk_size`: the most bytes of a body in one frame.
    pub http2_chunk_bytes: u32,
    /// `error_log`.
    pub error_log: ErrorLog,
    /// `error_log_tag` and `error_log_user_tag`; `None` without any.
    pub error_log_tags: Option<Arc<TagTemplates>>,
    /// The parameters of `resolver` as written.
    pub resolver: Arc<[String]>,
}

impl Deref for Settings {
    type Target = PlainSettings;

    #[inline]
    fn deref(&self) -> &PlainSettings {
        &self.plain
    }
}

impl Settings {
    /// Returns the media type of a path by its extension (`types`), else `default_type`; may be empty.
    pub fn media_type(&self, path: &[u8]) -> &Bytes {
        let dot = memchr::memrchr2(b'.', b'/', path).filter(|at| path.get(*at) == Some(&b'.'));
        // A dot that begins the name begins no extension.
        let dot = dot.filter(|at| *at > 0 && path.get(at - 1) != Some(&b'/'));
        let Some(dot) = dot else { return &self.default_type };
        let extension = path.get(dot + 1..).unwrap_or_default();
        let mut lower = [0; EXTENSION_MAX];
        let found = match lower.get_mut(..extension.len()) {
            Some(lower) => {
                lower.copy_from_slice(extension);
                lower.make_ascii_lowercase();
                self.types.get(&*lower)
            }
            None => self.types.get(&extension.to_ascii_lowercase()),
        };
        found.unwrap_or(&self.default_type)
    }
}

/// Bytes of the longest extension that is compared without allocating.
const EXTENSION_MAX: usize = 32;

/// Returns the absolute path of a path below the prefix.
pub fn full_path(prefix: &str, path: &str) -> PathBuf {
    if tidegate_os::path::is_absolute(path.as_bytes()) {
        PathBuf::from(path)
    } else {
        PathBuf::from(format!("{prefix}{path}"))
    }
}

/// Checks the size of a table that is never empty. It has no effect, but 0 is a mistake, as in nginx.
fn filled_table(args: &Args<'_>) -> Result<NoEffect, Diagnostic> {
    if args.number(0, 0..=u64::MAX)? > 0 {
        return Ok(NoEffect);
    }
    let name = args.statement.name.display();
    let table = name.split("_hash").next().unwrap_or_default();
    let message = format!("could not build {table}_hash, you should increase {name}: 0");
    Err(args.error(0, message))
}
