//! `stream { }`: sessions of TCP and UDP.
//!
//! ```nginx
//! stream {
//!     server {
//!         listen     127.0.0.1:5432;
//!         proxy_pass 192.0.2.1:5432;
//!     }
//! }
//! ```
//! A session is an exchange without a request: it has a server, a location (the `server` block's), variables, an error
//! log and loggers, and a [`Session`](tidegate_core::session::Session) in its extensions. `listen`, `server_name`,
//! `error_log`, `resolver` and `tcp_nodelay` belong to the core module, as in `http`.

#[cfg(test)]
mod tests;
mod variables;

use std::time::Duration;

use tidegate_conf::{once, row};
use tidegate_core::settings::SessionSettings;
use tidegate_core::variables::Variable;

use crate::location_builder::LocationBuilder;
use crate::module::{Arity, BlockInfo, BlockRow, Contexts, Diagnostic, Directive, Kind, Module};

/// The part of `ngx_stream_core_module` that has no equivalent in `http`.
pub struct StreamCore;

/// The directives of one block as written; `None` is "not set".
#[derive(Default)]
pub struct Conf {
    seen: Option<()>,
    preread_buffer_size: Option<u64>,
    preread_timeout: Option<Duration>,
    proxy_protocol_timeout: Option<Duration>,
}

impl Module for StreamCore {
    type Conf = Conf;
    const NAME: &'static str = "stream";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];
    const SESSION_VARIABLES: &'static [Variable] = variables::VARIABLES;
    const BLOCKS: &'static [BlockRow] =
        &[BlockRow { name: "stream", within: Contexts::MAIN, opens: Contexts::STREAM }];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        child.preread_buffer_size = child.preread_buffer_size.or(parent.preread_buffer_size);
        child.preread_timeout = child.preread_timeout.or(parent.preread_timeout);
        child.proxy_protocol_timeout =
            child.proxy_protocol_timeout.or(parent.proxy_protocol_timeout);
    }

    fn prepare_session(
        conf: &Conf,
        server: &mut LocationBuilder<'_, '_>,
    ) -> Result<(), Diagnostic> {
        let default = SessionSettings::default();
        let bytes = conf.preread_buffer_size.and_then(|bytes| usize::try_from(bytes).ok());
        server.location.extensions.insert(SessionSettings {
            preread_bytes_max: bytes.unwrap_or(default.preread_bytes_max),
            preread_timeout: conf.preread_timeout.unwrap_or(default.preread_timeout),
            proxy_protocol_timeout: conf
                .proxy_protocol_timeout
                .unwrap_or(default.proxy_protocol_timeout),
        });
        Ok(())
    }
}

const ROWS: &[Directive<Conf>] = &[
    Directive {
        name: "stream",
        contexts: Contexts::MAIN,
        args: Arity::NONE,
        kind: Kind::Block,
        default: "",
        doc: "All of the configuration for sessions of TCP and UDP.",
        set: |conf, args| once(&mut conf.seen, (), args),
    },
    row(
        "preread_buffer_size",
        Contexts::STREAM_AND_SERVER,
        Arity::ONE,
        "16k",
        "Most bytes that are looked at before they are passed on.",
        |conf, args| once(&mut conf.preread_buffer_size, args.size(0)?, args),
    ),
    row(
        "preread_timeout",
        Contexts::STREAM_AND_SERVER,
        Arity::ONE,
        "30s",
        "Longest wait for what is looked at before it is passed on.",
        |conf, args| once(&mut conf.preread_timeout, args.milliseconds(0)?, args),
    ),
    row(
        "proxy_protocol_timeout",
        Contexts::STREAM_AND_SERVER,
        Arity::ONE,
        "30s",
        "Longest wait for the header of the PROXY protocol.",
        |conf, args| once(&mut conf.proxy_protocol_timeout, args.milliseconds(0)?, args),
    ),
];
