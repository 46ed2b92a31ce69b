//! `proxy_pass`: a session's bytes or datagrams are passed to another server and back.
//!
//! ```nginx
//! stream {
//!     upstream databases { least_conn; server 192.0.2.1:5432; server 192.0.2.2:5432 backup; }
//!     server {
//!         listen 5432;
//!         proxy_pass databases;
//!         proxy_connect_timeout 1s;
//!         proxy_timeout 3h;
//!     }
//!     server { listen 53 udp reuseport; proxy_pass 192.0.2.53:53; proxy_responses 1; }
//! }
//! ```
//!
//! `conf` holds the written directives, `settings` the compiled ones, `target` finds the group of servers, `run`
//! opens the connection and relays, `datagrams` does so for UDP.

pub(crate) mod conf;
mod datagrams;
mod run;
pub(crate) mod settings;
pub(crate) mod target;

use std::sync::Arc;

use tidegate_conf::{Diagnostic, Directive};
use tidegate_core::Step;
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::{BlockInfo, Module};

use conf::Conf;

/// `ngx_stream_proxy_module`: the `proxy_*` directives of `stream`, and `proxy_pass` as the handler of a server's
/// sessions, TCP and UDP.
pub struct SessionProxy;

impl Module for SessionProxy {
    type Conf = Conf;
    const NAME: &'static str = "stream_proxy";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[conf::ROWS, conf::TLS];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        conf::inherit(child, parent);
    }

    fn prepare_session(
        conf: &Conf,
        server: &mut LocationBuilder<'_, '_>,
    ) -> Result<(), Diagnostic> {
        let Some(word) = &conf.pass else { return Ok(()) };
        let settings = Arc::new(settings::compile(conf, word, server)?);
        // Used by health checks.
        server.plan.show(&settings);
        server.location.extensions.insert(settings.clone());
        server.content(Box::new(move |x| Step::Wait(Box::pin(run::serve(x, settings.clone())))));
        Ok(())
    }
}
