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

use tidegate_conf::once;
use tidegate_core::settings::SessionConf;
use tidegate_core::variables::Variable;

use crate::location_builder::LocationBuilder;
use crate::module::{Arity, BlockInfo, BlockRow, Contexts, Diagnostic, Directive, Kind, Module};

/// The part of `ngx_stream_core_module` that has no equivalent in `http`.
pub struct StreamCore;

/// The directives of one block as written; `None` is "not set".
#[derive(Default)]
pub struct Conf {
    seen: Option<()>,
    plain: SessionConf,
}

impl AsMut<SessionConf> for Conf {
    fn as_mut(&mut self) -> &mut SessionConf {
        &mut self.plain
    }
}

impl Module for StreamCore {
    type Conf = Conf;
    const NAME: &'static str = "stream";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[BLOCK_ROWS, &SessionConf::rows()];
    const SESSION_VARIABLES: &'static [Variable] = variables::VARIABLES;
    const BLOCKS: &'static [BlockRow] =
        &[BlockRow { name: "stream", within: Contexts::MAIN, opens: Contexts::STREAM }];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        child.plain.inherit(&parent.plain);
    }

    fn prepare_session(
        conf: &Conf,
        server: &mut LocationBuilder<'_, '_>,
    ) -> Result<(), Diagnostic> {
        server.location.extensions.insert(conf.plain.settings());
        Ok(())
    }
}

const BLOCK_ROWS: &[Directive<Conf>] = &[Directive {
    name: "stream",
    contexts: Contexts::MAIN,
    args: Arity::NONE,
    kind: Kind::Block,
    default: "",
    doc: "All of the configuration for sessions of TCP and UDP.",
    has_effect: true,
    set: |conf, args| once(&mut conf.seen, (), args),
}];
