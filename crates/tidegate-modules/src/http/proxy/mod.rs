//! `proxy_pass`: requests are passed to other HTTP servers.
//!
//! ```nginx
//! upstream backend { server 192.0.2.1:8080; server 192.0.2.2:8080; keepalive 32; }
//! location /app/ {
//!     proxy_pass http://backend/;
//!     proxy_set_header Host $host;
//!     proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
//! }
//! ```
//!
//! `conf` holds what is written, `settings` what runs, `request` makes the origin's request, `redirect` and
//! `cookie` change the answer; everything else is shared with the other gateways.

mod cached;
pub mod conf;
mod cookie;
mod redirect;
pub mod request;
mod rows;
pub mod settings;
pub mod target;
mod variables;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use tidegate_conf::{Contexts, Diagnostic, Directive};
use tidegate_core::builder::LocationBuilder;
use tidegate_core::module::{BlockInfo, Module};
use tidegate_core::variables::Variable;
use tidegate_core::{Exchange, Step};
use tidegate_upstream::resolve::Resolver;

use super::cache::ProxyCache;
use super::cache::conf::CacheConf;
use super::gateway::respond::{Rewriter, respond};
use super::gateway::run;
use super::static_files::StaticFiles;
pub use conf::Conf;
use settings::ProxySettings;

/// `ngx_http_proxy_module`.
pub struct Proxy;

impl Module for Proxy {
    type Conf = Conf;
    const NAME: &'static str = "proxy";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] =
        &[rows::SHARED, rows::STORE, rows::TLS, rows::OWN];
    const VARIABLES: &'static [Variable] = variables::VARIABLES;

    fn close_block(conf: &mut Conf, block: BlockInfo<'_>) -> Result<(), Diagnostic> {
        conf.note_place(block);
        Ok(())
    }

    fn inherit(child: &mut Conf, parent: &Conf, block: BlockInfo<'_>) {
        conf::inherit(child, parent, block);
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let within = Contexts::LOCATION | Contexts::LOCATION_IF | Contexts::LIMIT_EXCEPT;
        let (Some(_), true) = (&conf.pass, location.context().intersects(within)) else {
            return Ok(());
        };
        let cache = location.outline.conf::<ProxyCache>();
        let keeps_date = cache.is_some_and(CacheConf::follows_rfc9111);
        let zone = cache.and_then(|cache| cache.zone.as_ref());
        let store = conf.gateway.store.compile("proxy_", zone, location.plan)?;
        let stores = store.is_some();
        let files = location.outline.conf::<StaticFiles>();
        let in_pool = files.is_some_and(|files| files.writes_in_pool());
        let mut settings = settings::settings(conf, store, keeps_date, in_pool, location.plan)?;
        let core = &location.location.settings;
        if settings.is_variable() && !core.resolver.is_empty() {
            let resolver = Resolver::parse(&core.resolver, core.resolver_timeout);
            settings.resolver = Some(resolver.map_err(Diagnostic::emerg)?);
        }
        let settings = Arc::new(settings);
        if !stores && let Some(handler) = cached::handler(conf, &settings, location)? {
            location.gateway(handler);
            return Ok(());
        }
        location.gateway(Box::new(move |x| Step::Wait(Box::pin(serve(x, settings.clone())))));
        Ok(())
    }
}

/// Passes a request on and answers it.
async fn serve(x: &mut Exchange, settings: Arc<ProxySettings>) -> Step<'static> {
    if let Err(step) = request::read_body(x, &settings).await {
        return step;
    }
    let target = match settings.target(x).await {
        Ok(target) => target,
        Err(status) => return Step::Status(status),
    };
    let shape = request::Shape { fields: &settings.fields, get_for_head: false };
    let request = request::create(x, &settings, &target, shape);
    match run::fetch(x, request, &settings.gateway).await {
        Ok(response) => {
            let rewriter = ProxyRewriter { settings: &settings };
            respond(x, response, &settings.gateway, &rewriter)
        }
        Err(step) => step,
    }
}

/// `proxy_redirect` and `proxy_cookie_*`.
pub struct ProxyRewriter<'a> {
    pub settings: &'a ProxySettings,
}

impl Rewriter for ProxyRewriter<'_> {
    fn rewrite(&self, x: &mut Exchange) {
        redirect::apply(x, &self.settings.redirects);
        cookie::apply(x, &self.settings.cookies);
    }
}
