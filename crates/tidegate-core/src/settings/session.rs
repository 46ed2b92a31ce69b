//! The plain directives of sessions (`stream`): each is one entry of the list, which
//! [`settings!`](tidegate_conf::settings!) describes.

use std::time::Duration;

use tidegate_conf::{Contexts, setting, settings};

const STREAM: Contexts = Contexts::STREAM_AND_SERVER;

settings! {
    /// A server's settings for sessions, stored in the extensions of its location.
    #[derive(Copy)]
    pub struct SessionSettings;
    /// The same as written in one block.
    pub struct SessionConf;

    /// Most bytes that are looked at before they are passed on.
    preread_buffer_size: usize =
        setting("preread_buffer_size", STREAM, "16k", |args| Ok(args.size(0)? as usize)),
    /// Longest wait for what is looked at before it is passed on.
    preread_timeout: Duration =
        setting("preread_timeout", STREAM, "30s", |args| args.milliseconds(0)),
    /// Longest wait for the header of the PROXY protocol.
    proxy_protocol_timeout: Duration =
        setting("proxy_protocol_timeout", STREAM, "30s", |args| args.milliseconds(0)),
}
