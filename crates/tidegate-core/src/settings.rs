//! The core module's settings at request time, with defaults and inheritance applied.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::error_log::ErrorLog;
use crate::request_body::StoreOptions;
use crate::template::Template;

/// Settings of a server block.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// `client_header_timeout`.
    pub client_header_timeout: Duration,
    /// Rules and limits for request heads (`large_client_header_buffers` and others).
    pub parse: tidegate_codec::request::ParseOptions,
    /// `merge_slashes`.
    pub merge_slashes: bool,
}

/// A server's settings for sessions, stored in the extensions of its location.
#[derive(Clone, Copy, Debug)]
pub struct SessionSettings {
    /// `preread_buffer_size` in bytes.
    pub preread_bytes_max: usize,
    /// `preread_timeout`.
    pub preread_timeout: Duration,
    /// `proxy_protocol_timeout`: for the PROXY protocol header.
    pub proxy_protocol_timeout: Duration,
}

impl Default for SessionSettings {
    fn default() -> SessionSettings {
        SessionSettings {
            preread_bytes_max: 16 * 1024,
            preread_timeout: Duration::from_secs(30),
            proxy_protocol_timeout: Duration::from_secs(30),
        }
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

/// The bit of `keepalive_disable msie6`.
pub const KEEPALIVE_DISABLE_MSIE6: u8 = 1;
/// The bit of `keepalive_disable safari`.
pub const KEEPALIVE_DISABLE_SAFARI: u8 = 2;

/// The value of `lingering_close`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lingering {
    /// The connection is closed at once.
    Off,
    /// The rest of a request's data is read before the close, if more is expected.
    On,
    /// The rest is always waited for.
    Always,
}

/// The value of `if_modified_since`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfModifiedSince {
    /// The field is ignored.
    Off,
    /// The times must be equal for a 304.
    Exact,
    /// The response must not be newer for a 304 (RFC 9110 section 13.1.3).
    Before,
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

/// Media types by lower-case extension. The keys come from the configuration, so the hash need not resist attacks.
pub type Types = HashMap<Vec<u8>, Bytes, foldhash::fast::RandomState>;

/// Settings of a location. A field without a description is the directive of its name.
#[derive(Clone, Debug)]
pub struct Settings {
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
    /// `default_type`.
    pub default_type: Bytes,
    /// `error_page`s.
    pub error_pages: Arc<[ErrorPage]>,
    /// `post_action`.
    pub post_action: Option<Template>,
    /// `client_max_body_size` in bytes; `None` for no limit.
    pub client_max_body_size: Option<u64>,
    /// `client_body_timeout`.
    pub client_body_timeout: Duration,
    /// How a request's body is stored (`client_body_*`).
    pub body_store: StoreOptions,
    /// `satisfy any`.
    pub satisfy_any: bool,
    /// `auth_delay`; zero for none.
    pub auth_delay: Duration,
    /// `send_timeout`.
    pub send_timeout: Duration,
    /// `postpone_output` in bytes.
    pub postpone_output: usize,
    /// Size of one of the `output_buffers` in bytes.
    pub output_buffer_bytes: usize,
    /// `limit_rate` in bytes a second.
    pub limit_rate: Option<Template>,
    /// `limit_rate_after` in bytes.
    pub limit_rate_after: Option<Template>,
    /// `keepalive_timeout`; with zero, connections are not kept.
    pub keepalive_timeout: Duration,
    /// The second parameter of `keepalive_timeout`: the time in the field `Keep-Alive`.
    pub keepalive_header: Option<Duration>,
    /// `keepalive_min_timeout`.
    pub keepalive_min_timeout: Duration,
    /// `keepalive_requests`.
    pub keepalive_requests: u64,
    /// `keepalive_time`.
    pub keepalive_time: Duration,
    /// `keepalive_disable` as bits.
    pub keepalive_disable: u8,
    /// `lingering_close`.
    pub lingering_close: Lingering,
    /// `lingering_time`.
    pub lingering_time: Duration,
    /// `lingering_timeout`.
    pub lingering_timeout: Duration,
    /// `reset_timedout_connection`.
    pub reset_timedout_connection: bool,
    /// `absolute_redirect`.
    pub absolute_redirect: bool,
    /// `server_name_in_redirect`.
    pub server_name_in_redirect: bool,
    /// `port_in_redirect`.
    pub port_in_redirect: bool,
    /// `msie_padding`.
    pub msie_padding: bool,
    /// `msie_refresh`.
    pub msie_refresh: bool,
    /// `log_not_found`.
    pub log_not_found: bool,
    /// `log_subrequest`.
    pub log_subrequest: bool,
    /// `subrequest_output_buffer_size`: longest response of a subrequest that is read into memory, in bytes.
    pub subrequest_output_bytes_max: usize,
    /// `recursive_error_pages`.
    pub recursive_error_pages: bool,
    /// `server_tokens`.
    pub tokens: Tokens,
    /// `if_modified_since`.
    pub if_modified_since: IfModifiedSince,
    /// `max_ranges`; `None` for no limit.
    pub max_ranges: Option<u64>,
    /// `chunked_transfer_encoding`.
    pub chunked_transfer_encoding: bool,
    /// `etag`.
    pub etag: bool,
    /// `tcp_nodelay`.
    pub tcp_nodelay: bool,
    /// `sendfile`.
    pub sendfile: bool,
    /// `sendfile_max_chunk` in bytes; zero for no limit.
    pub sendfile_max_chunk: u64,
    /// `error_log`.
    pub error_log: ErrorLog,
    /// The parameters of `resolver` as written.
    pub resolver: Arc<[String]>,
    /// `resolver_timeout`.
    pub resolver_timeout: Duration,
}

impl Settings {
    /// Returns the media type of a path by its extension (`types`), else `default_type`; may be empty.
    pub fn media_type(&self, path: &[u8]) -> Bytes {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        let Some(dot) = name.iter().rposition(|byte| *byte == b'.') else {
            return self.default_type.clone();
        };
        let extension = &name[dot + 1..];
        // The table's extensions are in lower case; most of the paths' are already.
        let found = match extension.iter().any(u8::is_ascii_uppercase) {
            false => self.types.get(extension),
            true => self.types.get(&extension.to_ascii_lowercase()),
        };
        found.unwrap_or(&self.default_type).clone()
    }
}

/// Returns the absolute path of a path below the prefix.
pub fn full_path(prefix: &str, path: &str) -> PathBuf {
    if tidegate_os::path::is_absolute(path.as_bytes()) {
        PathBuf::from(path)
    } else {
        PathBuf::from(format!("{prefix}{path}"))
    }
}
