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
//! `conf` holds the written directives, `settings` the compiled ones, `request` makes the origin's request,
//! `redirect` and `cookie` change the response; everything else is shared with the other gateways.

pub(crate) mod conf;
mod cookie;
mod redirect;
pub(crate) mod request;
mod rows;
pub(crate) mod settings;
mod variables;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use tidegate_conf::{Diagnostic, Directive};
use tidegate_core::Exchange;
use tidegate_core::variables::Variable;
use tidegate_os::layout::Layout;
use tidegate_plan::http_core::conf::TempPath;
use tidegate_plan::module::{BlockInfo, Module};
use tidegate_plan::{LocationBuilder, Outline};
use tidegate_upstream::OriginRequest;

use super::cache::config::conf::CacheConf;
use super::cache::{Cache, CacheCaller, cache_rows, status};
use super::common::content::{self, Protocol, RequestMode};
use super::common::pass::{Pass, TargetRef};
use super::common::respond::Rewriter;
use super::common::settings::GatewaySettings;
use super::common::tls::GatewayTls;
pub(crate) use conf::Conf;
use settings::ProxySettings;
use tidegate_core::Refused;

/// `ngx_http_proxy_module`: the `proxy_*` directives but those of its cache ([`ProxyCache`]), `proxy_pass` as the
/// content of a location, and the variables `$proxy_*`.
pub struct Proxy;

/// The proxy's side of its cache.
pub struct ProxyCaller;

impl CacheCaller for ProxyCaller {
    const NAME: &'static str = "proxy_cache";
    const PREFIX: &'static str = "proxy_";
    const TEMPORARY: fn(&Layout) -> &'static str = |layout| layout.proxy_temp;
    const ROWS: &'static [Directive<CacheConf>] = cache_rows!("proxy_");
    const VARIABLES: &'static [Variable] = status::VARIABLES;

    fn temp_path(http: &Outline) -> Option<&TempPath> {
        http.conf::<Proxy>()?.gateway.temp_path.as_ref()
    }
}

/// The `proxy_cache…` directives, and the variables of all caches (`$upstream_cache_*`).
pub type ProxyCache = Cache<ProxyCaller>;

impl Module for Proxy {
    type Conf = Conf;
    const NAME: &'static str = "proxy";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] =
        &[rows::CONNECTION, rows::RESPONSES, rows::SHARED, rows::STORE, rows::TLS, rows::OWN];
    const VARIABLES: &'static [Variable] = variables::VARIABLES;

    fn close_block(conf: &mut Conf, block: BlockInfo<'_>) -> Result<(), Diagnostic> {
        conf.pass.note_block(block);
        Ok(())
    }

    fn inherit(child: &mut Conf, parent: &Conf, block: BlockInfo<'_>) {
        conf::inherit(child, parent, block);
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let Some(word) = conf.pass.target(location) else { return Ok(()) };
        let cache = location.outline.conf::<ProxyCache>();
        let keeps_date = cache.is_some_and(CacheConf::follows_rfc9111);
        let zone = cache.and_then(|cache| cache.zone.as_ref());
        let store = conf.gateway.store.compile("proxy_", zone, location.plan)?;
        let settings = settings::settings((word, conf), store, keeps_date, location)?;
        let settings = Arc::new(settings);
        location.location.extensions.insert(settings.clone());
        content::install::<_, ProxyCaller>(settings, location)
    }
}

impl Protocol for ProxySettings {
    fn gateway(&self) -> &Arc<GatewaySettings> {
        &self.gateway
    }

    fn pass(&self) -> &Pass {
        &self.pass
    }

    fn tls(&self) -> Option<&GatewayTls> {
        self.tls.as_ref()
    }

    fn sends_body(&self) -> bool {
        self.gateway.pass_request_body && self.set_body.is_none()
    }

    /// HTTP/1.0 has no chunks (nginx's manual, `proxy_request_buffering`).
    fn needs_length(&self) -> bool {
        self.version == conf::OriginVersion::H10 && self.sends_body()
    }

    fn create(
        &self,
        x: &mut Exchange,
        target: &TargetRef<'_>,
        shape: RequestMode,
    ) -> Result<OriginRequest, Refused> {
        Ok(request::create(x, self, target, shape))
    }

    fn write_key(&self, x: &mut Exchange, out: &mut Vec<u8>) {
        ProxySettings::write_key(self, x, out);
    }
}

/// Applies `proxy_redirect` and `proxy_cookie_*`.
impl Rewriter for ProxySettings {
    fn rewrite(&self, x: &mut Exchange) {
        redirect::apply(x, &self.redirects);
        cookie::apply(x, &self.cookies);
    }
}
