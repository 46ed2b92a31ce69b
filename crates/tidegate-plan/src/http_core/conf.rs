//! What the core module's directives of one block say, as written; `None` means not said here.

use std::time::Duration;

use tidegate_conf::{Span, Word};
use tidegate_core::error_log::Level;
use tidegate_core::settings::{IfModifiedSince, Lingering};

use super::listen::ListenConf;

/// A text whose variables are compiled when the whole configuration is read.
pub type Text = Word;

/// One `error_page` directive.
#[derive(Clone, Debug)]
pub struct ErrorPageConf {
    pub codes: Vec<u16>,
    /// `=code`, `=` alone (0) or nothing.
    pub overwrite: Option<u16>,
    pub target: Text,
}

/// `root` or `alias`.
#[derive(Clone, Debug)]
pub struct RootConf {
    pub text: Text,
    pub alias: bool,
    /// Of the location that `alias` stands in: bytes of its name, or a regular expression.
    pub alias_length: usize,
    pub alias_regex: bool,
}

/// `server_tokens`.
#[derive(Clone, Debug)]
pub enum ServerTokens {
    Off,
    On,
    Build,
    Text(Text),
}

/// `client_body_in_file_only`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyInFile {
    Off,
    On,
    Clean,
}

/// A `*_temp_path`: directory and levels.
#[derive(Clone, Debug)]
pub struct TempPath {
    pub path: String,
    pub levels: Vec<usize>,
}

/// One `error_log` directive.
#[derive(Clone, Debug)]
pub struct ErrorLogConf {
    pub target: String,
    pub level: Level,
    pub span: Span,
}

/// The directives of one block.
#[derive(Default)]
pub struct Conf {
    pub http_seen: Option<()>,
    pub limit_except_seen: Option<()>,
    /// Names of directives that were read and change nothing.
    pub without_effect: Vec<Vec<u8>>,
    // server level
    pub listens: Vec<ListenConf>,
    pub server_names: Vec<Word>,
    pub client_header_timeout: Option<Duration>,
    pub client_header_buffer_size: Option<u64>,
    pub large_client_header_buffers: Option<(u64, u64)>,
    pub max_headers: Option<u64>,
    pub ignore_invalid_headers: Option<bool>,
    pub underscores_in_headers: Option<bool>,
    pub merge_slashes: Option<bool>,
    // location level
    pub root: Option<RootConf>,
    pub internal: Option<bool>,
    pub types: Option<Vec<(Word, Word)>>,
    pub default_type: Option<Word>,
    pub error_pages: Vec<ErrorPageConf>,
    pub post_action: Option<Text>,
    pub client_max_body_size: Option<u64>,
    pub client_body_buffer_size: Option<u64>,
    pub client_body_timeout: Option<Duration>,
    pub client_body_temp_path: Option<TempPath>,
    pub client_body_in_file_only: Option<BodyInFile>,
    pub client_body_in_single_buffer: Option<bool>,
    pub satisfy_any: Option<bool>,
    pub auth_delay: Option<Duration>,
    pub send_timeout: Option<Duration>,
    pub send_lowat: Option<u64>,
    pub postpone_output: Option<u64>,
    pub output_buffers: Option<(u64, u64)>,
    pub limit_rate: Option<Text>,
    pub limit_rate_after: Option<Text>,
    pub keepalive_timeout: Option<(Duration, Option<Duration>)>,
    pub keepalive_min_timeout: Option<Duration>,
    pub keepalive_requests: Option<u64>,
    pub keepalive_time: Option<Duration>,
    pub keepalive_disable: Option<u8>,
    pub lingering_close: Option<Lingering>,
    pub lingering_time: Option<Duration>,
    pub lingering_timeout: Option<Duration>,
    pub reset_timedout_connection: Option<bool>,
    pub absolute_redirect: Option<bool>,
    pub server_name_in_redirect: Option<bool>,
    pub port_in_redirect: Option<bool>,
    pub msie_padding: Option<bool>,
    pub msie_refresh: Option<bool>,
    pub log_not_found: Option<bool>,
    pub log_subrequest: Option<bool>,
    pub subrequest_output_buffer_size: Option<u64>,
    pub recursive_error_pages: Option<bool>,
    pub server_tokens: Option<ServerTokens>,
    pub if_modified_since: Option<IfModifiedSince>,
    pub max_ranges: Option<u64>,
    pub chunked_transfer_encoding: Option<bool>,
    pub etag: Option<bool>,
    pub tcp_nodelay: Option<bool>,
    pub tcp_nopush: Option<bool>,
    pub sendfile: Option<bool>,
    pub sendfile_max_chunk: Option<u64>,
    pub error_logs: Vec<ErrorLogConf>,
    pub resolver: Option<Vec<Word>>,
    pub resolver_timeout: Option<Duration>,
}

/// Takes over each field that the inner block does not set.
macro_rules! inherit {
    ($child:ident, $parent:ident; $($field:ident),* $(,)?) => {
        $(if $child.$field.is_none() { $child.$field = $parent.$field.clone(); })*
    };
}

/// http → server → location.
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
