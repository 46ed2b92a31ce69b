//! The core module's directives of one block as written; `None` is "not set in this block".

use std::sync::Arc;

use tidegate_conf::{Span, Word};
use tidegate_core::error_log::{Level, LineForm, LogFilter};
use tidegate_core::settings::{PlainConf, PlainServerConf, Types};

use super::listen::ListenConf;

/// A text whose variables are compiled when the whole configuration has been read.
pub type UncompiledText = Word;

/// One `error_page` directive.
#[derive(Clone, Debug)]
pub struct ErrorPageConf {
    /// The statuses.
    pub codes: Vec<u16>,
    /// `=code`, `=` alone (0), or neither.
    pub overwrite: Option<u16>,
    /// A path, a named location or a URL.
    pub target: UncompiledText,
}

/// A `root` or `alias` directive.
#[derive(Clone, Debug)]
pub struct RootConf {
    /// The path.
    pub text: UncompiledText,
    /// Whether it is an `alias`.
    pub alias: bool,
    /// For an `alias`: bytes of its location's name.
    pub alias_length: usize,
    /// For an `alias`: whether its location is a regular expression.
    pub alias_regex: bool,
}

/// The value of `server_tokens`.
#[derive(Clone, Debug)]
pub enum ServerTokens {
    /// The product name alone.
    Off,
    /// With the version.
    On,
    /// With the version and the build name.
    Build,
    /// This text.
    Text(UncompiledText),
}

/// A `*_temp_path` directive.
#[derive(Clone, Debug)]
pub struct TempPath {
    /// The directory, relative to the prefix.
    pub path: String,
    /// Digits of each level of directories.
    pub levels: Vec<usize>,
}

/// One `error_log` directive.
#[derive(Clone, Debug)]
pub struct ErrorLogConf {
    /// A file, `stderr` or `syslog:…`.
    pub target: String,
    /// The least severe level that is written.
    pub level: Level,
    /// The form of the lines.
    pub form: LineForm,
    /// What must hold for a line.
    pub filters: Arc<[LogFilter]>,
    /// Position in the configuration.
    pub span: Span,
}

/// The directives of one block. Plain ones are declared in lists, which
/// [`settings!`](tidegate_conf::settings!) describes.
#[derive(Default)]
pub struct Conf {
    /// The plain directives of locations.
    pub plain: PlainConf,
    /// The plain directives of servers.
    pub plain_server: PlainServerConf,
    /// Whether an `http` block was read.
    pub http_seen: Option<()>,
    /// Whether the location has a `limit_except` block.
    pub limit_except_seen: Option<()>,
    /// `listen` directives.
    pub listens: Vec<ListenConf>,
    /// `server_name`s.
    pub server_names: Vec<Word>,
    /// `root`.
    pub root: Option<RootConf>,
    /// `internal`.
    pub internal: Option<bool>,
    /// `types`: blocks that inherit the table share it.
    pub types: Option<Arc<Types>>,
    /// `error_page` directives.
    pub error_pages: Vec<ErrorPageConf>,
    /// `post_action`.
    pub post_action: Option<UncompiledText>,
    /// `client_body_temp_path`.
    pub client_body_temp_path: Option<TempPath>,
    /// `limit_rate`.
    pub limit_rate: Option<UncompiledText>,
    /// `limit_rate_after`.
    pub limit_rate_after: Option<UncompiledText>,
    /// `server_tokens`.
    pub server_tokens: Option<ServerTokens>,
    /// `error_log` directives.
    pub error_logs: Vec<ErrorLogConf>,
    /// `error_log_user_tag` directives.
    pub error_log_words: Vec<Word>,
    /// `error_log_tag` directives: names and values.
    pub error_log_pairs: Vec<(Arc<str>, Word)>,
    /// `resolver`.
    pub resolver: Option<Vec<Word>>,
}

impl AsMut<PlainConf> for Conf {
    fn as_mut(&mut self) -> &mut PlainConf {
        &mut self.plain
    }
}

impl AsMut<PlainServerConf> for Conf {
    fn as_mut(&mut self) -> &mut PlainServerConf {
        &mut self.plain_server
    }
}

/// Copies each field that the inner block does not set.
macro_rules! inherit {
    ($child:ident, $parent:ident; $($field:ident),* $(,)?) => {
        $(if $child.$field.is_none() { $child.$field = $parent.$field.clone(); })*
    };
}

/// Copies the outer block's settings that the inner block does not set: http → server → location.
pub fn inherit(child: &mut Conf, parent: &Conf) {
    child.plain.inherit(&parent.plain);
    child.plain_server.inherit(&parent.plain_server);
    inherit!(child, parent;
        internal, root, types, post_action, client_body_temp_path, limit_rate, limit_rate_after, server_tokens, resolver,
    );
    if child.error_pages.is_empty() {
        child.error_pages = parent.error_pages.clone();
    }
    if child.error_logs.is_empty() {
        child.error_logs = parent.error_logs.clone();
    }
    if child.error_log_words.is_empty() {
        child.error_log_words = parent.error_log_words.clone();
    }
    if child.error_log_pairs.is_empty() {
        child.error_log_pairs = parent.error_log_pairs.clone();
    }
}
