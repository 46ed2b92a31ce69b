//! The plain directives of a server: each is one entry of the list, which [`settings!`](tidegate_conf::settings!)
//! describes.

use std::time::Duration;

use tidegate_conf::{Arity, Contexts, NoEffect, no_effect, setting, settings};

use super::Buffers;

const HTTP_SERVER: Contexts = Contexts::HTTP_SERVER;
const HTTP_STREAM: Contexts = Contexts::HTTP_STREAM;

settings! {
    /// Settings of a server that are one plain directive each.
    pub struct PlainServerSettings;
    /// The same as written in one block.
    pub struct PlainServerConf;

    /// Time for reading a request's head; a request that takes longer gets 408.
    client_header_timeout: Duration =
        setting("client_header_timeout", HTTP_SERVER, "60s", |args| args.milliseconds(0)),
    /// Bytes of the first buffer for a request's head.
    client_header_buffer_size: usize =
        setting("client_header_buffer_size", HTTP_SERVER, "1k", |args| Ok(args.size(0)? as usize)),
    /// Number and bytes of buffers for large heads; a longer request line is 414, a longer field 400.
    large_client_header_buffers: Buffers =
        setting("large_client_header_buffers", HTTP_SERVER, "4 8k", |args| {
            let (count, bytes) = (args.number(0, 1..=10_000)?, args.buffer_size(1)?);
            Ok(Buffers { count: count as usize, bytes: bytes as usize })
        })
        .arguments(Arity::TWO),
    /// Most header fields of a request; more are refused with 400.
    max_headers: usize = setting("max_headers", HTTP_SERVER, "1000", |args| {
        Ok(args.number(0, 0..=u32::MAX.into())? as usize)
    }),
    /// Drop header fields with invalid names instead of refusing the request.
    ignore_invalid_headers: bool =
        setting("ignore_invalid_headers", HTTP_SERVER, "on", |args| args.flag(0)),
    /// Whether names of header fields with underscores are valid.
    underscores_in_headers: bool =
        setting("underscores_in_headers", HTTP_SERVER, "off", |args| args.flag(0)),
    /// Whether several adjacent slashes of a path count as one.
    merge_slashes: bool = setting("merge_slashes", HTTP_SERVER, "on", |args| args.flag(0)),

    // Accepted without effect.

    /// No effect: Tidegate chooses the size of this pool itself.
    connection_pool_size: NoEffect =
        no_effect("connection_pool_size", HTTP_SERVER, "512", |args| NoEffect::of(args.size(0))),
    /// No effect: Tidegate chooses the size of this pool itself.
    request_pool_size: NoEffect =
        no_effect("request_pool_size", HTTP_SERVER, "4k", |args| NoEffect::of(args.size(0))),
    /// No effect: Tidegate chooses the size of this table itself.
    server_names_hash_max_size: NoEffect = no_effect("server_names_hash_max_size", HTTP_STREAM, "512", |args| {
        NoEffect::of(args.number(0, 0..=u64::MAX))
    }),
    /// No effect: Tidegate chooses the size of this table itself.
    server_names_hash_bucket_size: NoEffect = no_effect("server_names_hash_bucket_size", HTTP_STREAM, "64", |args| {
        NoEffect::of(args.number(0, 0..=u64::MAX))
    }),
    /// No effect: Tidegate chooses the size of this table itself.
    variables_hash_max_size: NoEffect =
        no_effect("variables_hash_max_size", HTTP_STREAM, "1024", super::filled_table),
    /// No effect: Tidegate chooses the size of this table itself.
    variables_hash_bucket_size: NoEffect =
        no_effect("variables_hash_bucket_size", HTTP_STREAM, "64", super::filled_table),
}
