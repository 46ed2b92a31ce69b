//! The plain directives of a location: each is one entry of the list, which [`settings!`](tidegate_conf::settings!)
//! describes. Directives whose values need other parts of a plan (templates, files) are in [`Settings`](super::Settings).

use std::time::Duration;

use bytes::Bytes;
use tidegate_conf::{Arity, Contexts, NoEffect, no_effect, optional, setting, settings};

const ALL: Contexts = Contexts::HTTP_SERVER_LOCATION;
const ALL_IF: Contexts = Contexts::HTTP_SERVER_LOCATION_IF;
const ALL_STREAM: Contexts = ALL.union(Contexts::STREAM_AND_SERVER);

settings! {
    /// Settings of a location that are one plain directive each.
    pub struct PlainSettings;
    /// The same as written in one block.
    pub struct PlainConf;

    // Requests and their bodies.

    /// Media type of files whose extension `types` does not name.
    default_type: Bytes = setting("default_type", ALL, "text/plain", |args| {
        Ok(Bytes::copy_from_slice(args.bytes(0)))
    }),
    /// Largest request body; a request that exceeds it gets 413. 0 for no limit.
    client_max_body_size: Option<u64> = setting("client_max_body_size", ALL, "1m", |args| {
        Ok(Some(args.offset(0)?).filter(|size| *size > 0))
    }),
    /// Bytes of a request body kept in memory; a longer body is written to a file.
    client_body_buffer_size: usize = setting("client_body_buffer_size", ALL, "16k", |args| {
        Ok(args.size(0)? as usize)
    }),
    /// Longest time between two reads of a request body; a request that exceeds it gets 408.
    client_body_timeout: Duration =
        setting("client_body_timeout", ALL, "60s", |args| args.milliseconds(0)),
    /// Whether each request body is written to a file: `on` keeps the files, `clean` removes them.
    client_body_in_file_only: BodyInFile = setting("client_body_in_file_only", ALL, "off", |args| {
        let choices =
            [("off", BodyInFile::Off), ("on", BodyInFile::On), ("clean", BodyInFile::Clean)];
        args.choice(0, &choices)
    }),
    /// Whether all or any of the access modules must allow.
    satisfy: Satisfy = setting("satisfy", ALL, "all", |args| {
        args.choice(0, &[("all", Satisfy::All), ("any", Satisfy::Any)])
    }),
    /// Delay of responses with status 401, against attacks that measure time or guess passwords.
    auth_delay: Duration = setting("auth_delay", ALL, "0s", |args| args.milliseconds(0)),
    /// How `If-Modified-Since` is compared: off, exact, before.
    if_modified_since: IfModifiedSinceSetting = setting("if_modified_since", ALL, "exact", |args| {
        let choices = [
            ("off", IfModifiedSinceSetting::Off),
            ("exact", IfModifiedSinceSetting::Exact),
            ("before", IfModifiedSinceSetting::Before),
        ];
        args.choice(0, &choices)
    }),
    /// Most ranges of a request; 0 ignores ranges.
    max_ranges: Option<u64> =
        optional("max_ranges", ALL, |args| args.number(0, 0..=u64::MAX).map(Some)),

    // Responses.

    /// Make `ETag` fields for files.
    etag: bool = setting("etag", ALL, "on", |args| args.flag(0)),
    /// Whether HTTP/1.1 responses of unknown length may be chunked.
    chunked_transfer_encoding: bool =
        setting("chunked_transfer_encoding", ALL, "on", |args| args.flag(0)),
    /// Whether an error page's own error may have an error page.
    recursive_error_pages: bool = setting("recursive_error_pages", ALL, "off", |args| args.flag(0)),
    /// Whether redirects made by the server name scheme and host.
    absolute_redirect: bool = setting("absolute_redirect", ALL, "on", |args| args.flag(0)),
    /// Use the first server name in redirects instead of the request's host.
    server_name_in_redirect: bool =
        setting("server_name_in_redirect", ALL, "off", |args| args.flag(0)),
    /// Whether redirects name a port other than the scheme's own.
    port_in_redirect: bool = setting("port_in_redirect", ALL, "on", |args| args.flag(0)),
    /// Pad error pages for old Internet Explorers.
    msie_padding: bool = setting("msie_padding", ALL, "on", |args| args.flag(0)),
    /// Refresh pages instead of redirects for Internet Explorer.
    msie_refresh: bool = setting("msie_refresh", ALL, "off", |args| args.flag(0)),
    /// Whether missing files are logged.
    log_not_found: bool = setting("log_not_found", ALL, "on", |args| args.flag(0)),
    /// Whether subrequests are written to the access log.
    log_subrequest: bool = setting("log_subrequest", ALL, "off", |args| args.flag(0)),
    /// Largest response of a subrequest that is kept in memory (SSI's `set`), in bytes.
    subrequest_output_buffer_size: usize =
        setting("subrequest_output_buffer_size", ALL, "4k", |args| Ok(args.size(0)? as usize)),

    // Sending.

    /// Longest time between two writes to the client; when it is exceeded, the connection is closed.
    send_timeout: Duration = setting("send_timeout", ALL, "60s", |args| args.milliseconds(0)),
    /// Output is delayed until this number of bytes is there, or it is flushed.
    postpone_output: usize =
        setting("postpone_output", ALL, "1460", |args| Ok(args.size(0)? as usize)),
    /// Number and bytes of buffers for reading files that are not sent by sendfile.
    output_buffers: Buffers = setting("output_buffers", ALL, "2 32k", |args| {
        Ok(Buffers { count: args.number(0, 1..=1024)? as usize, bytes: args.buffer_size(1)? as usize })
    })
    .arguments(Arity::TWO),
    /// Whether files are sent by sendfile().
    sendfile: bool = setting("sendfile", ALL_IF, "off", |args| args.flag(0)),
    /// Most bytes of one sendfile() call, so that a fast client cannot occupy the event loop; 0 for no limit.
    sendfile_max_chunk: u64 = setting("sendfile_max_chunk", ALL, "2m", |args| args.size(0)),
    /// Whether TCP_NODELAY is set on keep-alive connections.
    tcp_nodelay: bool = setting("tcp_nodelay", ALL_STREAM, "on", |args| args.flag(0)),

    // Connections.

    /// How long an idle connection is kept; 0 disables. The second value is sent in the Keep-Alive field.
    keepalive_timeout: KeepaliveTimeout = setting("keepalive_timeout", ALL, "75s", |args| {
        let field = if args.len() > 1 { Some(args.seconds(1)?) } else { None };
        Ok(KeepaliveTimeout { idle: args.milliseconds(0)?, field })
    })
    .arguments(Arity::ONE_OR_TWO),
    /// An idle connection younger than this is not closed to make room or to shut down.
    keepalive_min_timeout: Duration =
        setting("keepalive_min_timeout", ALL, "0", |args| args.milliseconds(0)),
    /// Most requests on one connection.
    keepalive_requests: u64 =
        setting("keepalive_requests", ALL, "1000", |args| args.number(0, 0..=u64::MAX)),
    /// Longest life of a connection; it is closed after the request that passes it.
    keepalive_time: Duration = setting("keepalive_time", ALL, "1h", |args| args.milliseconds(0)),
    /// Browsers whose connections are not kept: none, msie6, safari.
    keepalive_disable: u8 = setting("keepalive_disable", ALL, "msie6", |args| {
        let choices =
            [("none", 0), ("msie6", KEEPALIVE_DISABLE_MSIE6), ("safari", KEEPALIVE_DISABLE_SAFARI)];
        (0..args.len()).try_fold(0, |bits, index| Ok(bits | args.choice(index, &choices)?))
    })
    .arguments(Arity::ONE_OR_TWO)
    .adding_up(|bits, more| bits | more),
    /// Whether data of the client is read and discarded before a connection is closed, so that the client can read the
    /// response.
    lingering_close: Lingering = setting("lingering_close", ALL, "on", |args| {
        let choices =
            [("off", Lingering::Off), ("on", Lingering::On), ("always", Lingering::Always)];
        args.choice(0, &choices)
    }),
    /// Longest time to linger.
    lingering_time: Duration = setting("lingering_time", ALL, "30s", |args| args.milliseconds(0)),
    /// Longest wait for more data while lingering.
    lingering_timeout: Duration =
        setting("lingering_timeout", ALL, "5s", |args| args.milliseconds(0)),
    /// Whether timed-out connections and those of status 444 are closed with a reset.
    reset_timedout_connection: bool =
        setting("reset_timedout_connection", ALL, "off", |args| args.flag(0)),
    /// Longest time for a name lookup.
    resolver_timeout: Duration =
        setting("resolver_timeout", ALL_STREAM, "30s", |args| args.milliseconds(0)),

    // Accepted without effect.

    /// Whether a body is kept in one buffer; Tidegate always does this.
    client_body_in_single_buffer: NoEffect = no_effect("client_body_in_single_buffer", ALL, "off", |args| {
        NoEffect::of(args.flag(0))
    }),
    /// Least bytes for a write where the system supports it; without effect on Linux, as in nginx.
    send_lowat: NoEffect = no_effect("send_lowat", ALL, "0", |args| NoEffect::of(args.size(0))),
    /// Send the head with the file's begin; done in any case.
    tcp_nopush: NoEffect = no_effect("tcp_nopush", ALL, "off", |args| NoEffect::of(args.flag(0))),
    /// No effect: Tidegate chooses the size of this table itself.
    types_hash_max_size: NoEffect =
        no_effect("types_hash_max_size", ALL, "1024", super::filled_table),
    /// No effect: Tidegate chooses the size of this table itself.
    types_hash_bucket_size: NoEffect =
        no_effect("types_hash_bucket_size", ALL, "64", super::filled_table),
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

/// The value of `satisfy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Satisfy {
    /// All access modules must allow.
    All,
    /// One access module that allows is enough.
    Any,
}

/// The value of `if_modified_since`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfModifiedSinceSetting {
    /// The field is ignored.
    Off,
    /// The times must be equal for a 304.
    Exact,
    /// The response must not be newer for a 304 (RFC 9110 section 13.1.3).
    Before,
}

/// A number of buffers of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// Their number.
    pub count: usize,
    /// Bytes of each.
    pub bytes: usize,
}

/// The value of `keepalive_timeout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepaliveTimeout {
    /// How long an idle connection is kept; with zero, connections are not kept.
    pub idle: Duration,
    /// The time in the field `Keep-Alive`.
    pub field: Option<Duration>,
}

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

/// The bit of `keepalive_disable msie6`.
pub const KEEPALIVE_DISABLE_MSIE6: u8 = 1;
/// The bit of `keepalive_disable safari`.
pub const KEEPALIVE_DISABLE_SAFARI: u8 = 2;
