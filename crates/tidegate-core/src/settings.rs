//! The core module's settings as they are at request time: everything decided, nothing optional.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::error_log::ErrorLog;
use crate::request_body::StoreOptions;
use crate::template::Template;

/// Settings of a server block.
#[derive(Clone)]
pub struct ServerSettings {
    pub client_header_timeout: Duration,
    pub parse: tidegate_codec::request::ParseOptions,
    pub merge_slashes: bool,
}

/// A server's settings for sessions; it is found in the extensions of its location.
#[derive(Clone, Copy, Debug)]
pub struct SessionSettings {
    /// Most bytes that are looked at before the content handler has them.
    pub preread_bytes_max: usize,
    pub preread_timeout: Duration,
    /// For the header of the PROXY protocol.
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

/// What the `Server` field and error pages say.
#[derive(Clone)]
pub enum Tokens {
    /// A fixed text.
    Fixed(Bytes),
    /// A text with variables: `off`, `on`, `build` or empty are looked at when it is made.
    Dynamic(Template),
}

/// `keepalive_disable` as bits.
pub const KEEPALIVE_DISABLE_MSIE6: u8 = 1;
/// `safari`.
pub const KEEPALIVE_DISABLE_SAFARI: u8 = 2;

/// `lingering_close`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lingering {
    Off,
    On,
    Always,
}

/// `if_modified_since`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfModifiedSince {
    Off,
    Exact,
    Before,
}

/// One `error_page` of a location.
#[derive(Clone)]
pub struct ErrorPage {
    pub code: u16,
    /// `None`: keep the code; `Some(0)`: the answer's own code; else this code.
    pub overwrite: Option<u16>,
    pub target: Template,
}

/// Media types by extension. The configuration's own, so that the hash need not resist anybody.
pub type Types = HashMap<Vec<u8>, Bytes, foldhash::fast::RandomState>;

/// Settings of a location.
#[derive(Clone)]
pub struct Settings {
    pub root: Template,
    pub alias: bool,
    /// Length of the location's name that `alias` replaces.
    pub alias_length: usize,
    pub internal: bool,
    pub types: Arc<Types>,
    pub default_type: Bytes,
    pub error_pages: Arc<[ErrorPage]>,
    pub post_action: Option<Template>,
    /// `None` for no limit.
    pub client_max_body_size: Option<u64>,
    pub client_body_timeout: Duration,
    pub body_store: StoreOptions,
    pub satisfy_any: bool,
    /// Zero for none.
    pub auth_delay: Duration,
    pub send_timeout: Duration,
    pub postpone_output: usize,
    pub output_buffer_bytes: usize,
    pub limit_rate: Option<Template>,
    pub limit_rate_after: Option<Template>,
    /// Zero: connections are not kept.
    pub keepalive_timeout: Duration,
    pub keepalive_header: Option<Duration>,
    pub keepalive_min_timeout: Duration,
    pub keepalive_requests: u64,
    pub keepalive_time: Duration,
    pub keepalive_disable: u8,
    pub lingering_close: Lingering,
    pub lingering_time: Duration,
    pub lingering_timeout: Duration,
    pub reset_timedout_connection: bool,
    pub absolute_redirect: bool,
    pub server_name_in_redirect: bool,
    pub port_in_redirect: bool,
    pub msie_padding: bool,
    pub msie_refresh: bool,
    pub log_not_found: bool,
    pub log_subrequest: bool,
    /// Longest answer of a subrequest that is read into memory.
    pub subrequest_output_bytes_max: usize,
    pub recursive_error_pages: bool,
    pub tokens: Tokens,
    pub if_modified_since: IfModifiedSince,
    /// `None` for no limit.
    pub max_ranges: Option<u64>,
    pub chunked_transfer_encoding: bool,
    pub etag: bool,
    pub tcp_nodelay: bool,
    pub sendfile: bool,
    /// Zero for no limit.
    pub sendfile_max_chunk: u64,
    pub error_log: ErrorLog,
    /// Name servers as written, for the resolver.
    pub resolver: Arc<[String]>,
    pub resolver_timeout: Duration,
}

impl Settings {
    /// The media type of a path by its extension (`types`), else `default_type`; may be empty.
    pub fn media_type(&self, path: &[u8]) -> Bytes {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        let Some(dot) = name.iter().rposition(|byte| *byte == b'.') else {
            return self.default_type.clone();
        };
        let extension = &name[dot + 1..];
        // Names of types are kept in lower case; most extensions are already.
        let found = match extension.iter().any(u8::is_ascii_uppercase) {
            false => self.types.get(extension),
            true => self.types.get(&extension.to_ascii_lowercase()),
        };
        found.unwrap_or(&self.default_type).clone()
    }
}

/// Makes a directory absolute below the prefix.
pub fn full_path(prefix: &str, path: &str) -> PathBuf {
    if tidegate_os::path::is_absolute(path.as_bytes()) {
        PathBuf::from(path)
    } else {
        PathBuf::from(format!("{prefix}{path}"))
    }
}
