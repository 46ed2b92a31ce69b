//! The core module's directives of one block as written; `None` is "not set in this block".

use std::time::Duration;

use tidegate_conf::{Span, Word};
use tidegate_core::error_log::Level;
use tidegate_core::settings::{IfModifiedSince, Lingering};

use super::listen::ListenConf;

/// A text whose variables are compiled when the whole configuration has been read.
pub type Text = Word;

/// One `error_page` directive.
#[derive(Clone, Debug)]
pub struct ErrorPageConf {
    /// The statuses.
    pub codes: Vec<u16>,
    /// `=code`, `=` alone (0), or neither.
    pub overwrite: Option<u16>,
    /// A path, a named location or a URL.
    pub target: Text,
}

/// A `root` or `alias` directive.
#[derive(Clone, Debug)]
pub struct RootConf {
    /// The path.
    pub text: Text,
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
    Text(Text),
}

/// The value of `client_body_in_file_only`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyInFile {
    /// A body that fits in memory has no file.
    Off,
    /// Every body has a file, which stays.
    On,
    /// Every body has a file, which is deleted with the request.
    Clean,
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
    /// Position in the configuration.
    pub span: Span,
}

/// The directives of one block.
#[derive(Default)]
pub struct Conf {
    /// Whether an `http` block was read.
    pub http_seen: Option<()>,
    /// Whether the location has a `limit_except` block.
    pub limit_except_seen: Option<()>,
    /// Names of the block's directives without effect, to detect duplicates.
    pub without_effect: Vec<Vec<u8>>,
    // server level
    /// `listen` directives.
    pub listens: Vec<ListenConf>,
    /// `server_name`s.
    pub server_names: Vec<Word>,
    /// `client_header_timeout`.
    pub client_header_timeout: Option<Duration>,
    /// `client_header_buffer_size`.
    pub client_header_buffer_size: Option<u64>,
    /// `large_client_header_buffers`: number and bytes of each.
    pub large_client_header_buffers: Option<(u64, u64)>,
    /// `max_headers`.
    pub max_headers: Option<u64>,
    /// `ignore_invalid_headers`.
    pub ignore_invalid_headers: Option<bool>,
    /// `underscores_in_headers`.
    pub underscores_in_headers: Option<bool>,
    /// `merge_slashes`.
    pub merge_slashes: Option<bool>,
    // location level
    /// `root`.
    pub root: Option<RootConf>,
    /// `internal`.
    pub internal: Option<bool>,
    /// `types`: pairs of media type and extension.
    pub types: Option<Vec<(Word, Word)>>,
    /// `default_type`.
    pub default_type: Option<Word>,
    /// `error_page` directives.
    pub error_pages: Vec<ErrorPageConf>,
    /// `post_action`.
    pub post_action: Option<Text>,
    /// `client_max_body_size`.
    pub client_max_body_size: Option<u64>,
    /// `client_body_buffer_size`.
    pub client_body_buffer_size: Option<u64>,
    /// `client_body_timeout`.
    pub client_body_timeout: Option<Duration>,
    /// `client_body_temp_path`.
    pub client_body_temp_path: Option<TempPath>,
    /// `client_body_in_file_only`.
    pub client_body_in_file_only: Option<BodyInFile>,
    /// `client_body_in_single_buffer`.
    pub client_body_in_single_buffer: Option<bool>,
    /// `satisfy any`.
    pub satisfy_any: Option<bool>,
    /// `auth_delay`.
    pub auth_delay: Option<Duration>,
    /// `send_timeout`.
    pub send_timeout: Option<Duration>,
    /// `send_lowat`.
    pub send_lowat: Option<u64>,
    /// `postpone_output`.
    pub postpone_output: Option<u64>,
    /// `output_buffers`: number and bytes of each.
    pub output_buffers: Option<(u64, u64)>,
    /// `limit_rate`.
    pub limit_rate: Option<Text>,
    /// `limit_rate_after`.
    pub limit_rate_after: Option<Text>,
    /// `keepalive_timeout`: the timeout, and the time in the field `Keep-Alive`.
    pub keepalive_timeout: Option<(Duration, Option<Duration>)>,
    /// `keepalive_min_timeout`.
    pub keepalive_min_timeout: Option<Duration>,
    /// `keepalive_requests`.
    pub keepalive_requests: Option<u64>,
    /// `keepalive_time`.
    pub keepalive_time: Option<Duration>,
    /// `keepalive_disable` as bits.
    pub keepalive_disable: Option<u8>,
    /// `lingering_close`.
    pub lingering_close: Option<Lingering>,
    /// `lingering_time`.
    pub lingering_time: Option<Duration>,
    /// `lingering_timeout`.
    pub lingering_timeout: Option<Duration>,
    /// `reset_timedout_connection`.
    pub reset_timedout_connection: Option<bool>,
    /// `absolute_redirect`.
    pub absolute_redirect: Option<bool>,
    /// `server_name_in_redirect`.
    pub server_name_in_redirect: Option<bool>,
    /// `port_in_redirect`.
    pub port_in_redirect: Option<bool>,
    /// `msie_padding`.
    pub msie_padding: Option<bool>,
    /// `msie_refresh`.
    pub msie_refresh: Option<bool>,
    /// `log_not_found`.
    pub log_not_found: Option<bool>,
    /// `log_subrequest`.
    pub log_subrequest: Option<bool>,
    /// `subrequest_output_buffer_size`.
    pub subrequest_output_buffer_size: Option<u64>,
    /// `recursive_error_pages`.
    pub recursive_error_pages: Option<bool>,
    /// `server_tokens`.
    pub server_tokens: Option<ServerTokens>,
    /// `if_modified_since`.
    pub if_modified_since: Option<IfModifiedSince>,
    /// `max_ranges`.
    pub max_ranges: Option<u64>,
    /// `chunked_transfer_encoding`.
    pub chunked_transfer_encoding: Option<bool>,
    /// `etag`.
    pub etag: Option<bool>,
    /// `tcp_nodelay`.
    pub tcp_nodelay: Option<bool>,
    /// `tcp_nopush`.
    pub tcp_nopush: Option<bool>,
    /// `sendfile`.
    pub sendfile: Option<bool>,
    /// `sendfile_max_chunk`.
    pub sendfile_max_chunk: Option<u64>,
    /// `error_log` directives.
    pub error_logs: Vec<ErrorLogConf>,
    /// `resolver`.
    pub resolver: Option<Vec<Word>>,
    /// `resolver_timeout`.
    pub resolver_timeout: Option<Duration>,
}

/// Copies each field that the inner block does not set.
macro_rules! inherit {
    ($child:ident, $parent:ident; $($field:ident),* $(,)?) => {
        $(if $child.$field.is_none() { $child.$field = $parent.$field.clone(); })*
    };
}

/// Copies the outer block's settings that the inner block does not set: http → server → location.
pub fn inherit(child: &mut Conf, parent: &Conf) {
    inherit!(child, parent;
        client_header_timeout, client_header_buffer_size, large_client_header_buffers, max_headers,
        ignore_invalid_headers, underscores_in_headers, merge_slashes, root, types,
        default_type, post_action, client_max_body_size, client_body_buffer_size, client_body_timeout,
        client_body_temp_path, client_body_in_file_only, client_body_in_single_buffer, satisfy_any, auth_delay,
        send_timeout, send_lowat, postpone_output, output_buffers, limit_rate, limit_rate_after,
        keepalive_timeout, keepalive_min_timeout, keepalive_requests, keepalive_time, keepalive_disable,
        lingering_close, lingering_time, lingering_timeout, reset_timedout_connection, absolute_redirect,
        server_name_in_redirect, port_in_redirect, msie_padding, msie_refresh, log_not_found,
        log_subrequest, subrequest_output_buffer_size, recursive_error_pages, server_tokens, if_modified_since, max_ranges,
        chunked_transfer_encoding, etag, tcp_nodelay, tcp_nopush, sendfile, sendfile_max_chunk,
        resolver, resolver_timeout,
    );
    if child.error_pages.is_empty() {
        child.error_pages = parent.error_pages.clone();
    }
    if child.error_logs.is_empty() {
        child.error_logs = parent.error_logs.clone();
    }
}
