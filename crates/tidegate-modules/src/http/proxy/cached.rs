//! `proxy_pass` as the cache sees it.

use std::sync::Arc;

use tidegate_conf::Diagnostic;
use tidegate_core::builder::LocationBuilder;
use tidegate_core::phases::Handler;
use tidegate_core::{Exchange, LocalFuture, Step};
use tidegate_http::caching::IgnoredFields;
use tidegate_http::response::ResponseHead;
use tidegate_upstream::{FetchError, FetchSettings, OriginRequest, OriginResponse, SharedReport};

use super::conf::Conf;
use super::settings::{Fields, ProxySettings, fields};
use super::{ProxyRewriter, request};
use crate::http::cache::seam::{StoredAnswer, Whole};
use crate::http::cache::settings::Ignored;
use crate::http::cache::{self, CacheSettings, Gateway, ProxyCache};
use crate::http::gateway::options;
use crate::http::gateway::respond::{respond, respond_stored};
use crate::http::gateway::run;
use crate::http::gateway::state::GatewayState;

/// A location with `proxy_pass` and `proxy_cache`.
pub struct CachedProxy {
    pub settings: Arc<ProxySettings>,
    /// Fields of requests that are to be cached: the client's conditions and ranges stay behind.
    pub fields: Fields,
}

impl Gateway for CachedProxy {
    fn request<'a>(
        &'a self,
        x: &'a mut Exchange,
        whole: Whole,
    ) -> LocalFuture<'a, Result<OriginRequest, Step<'static>>> {
        Box::pin(async move {
            // A fill outlives the client, so it cannot read from him.
            request::read_body_now(x).await?;
            let target = self.settings.target(x).await.map_err(Step::Status)?;
            let shape = request::Shape { fields: &self.fields, get_for_head: whole.convert_head };
            let mut request = request::create(x, &self.settings, &target, shape);
            request.upgrade = false;
            if !whole.client_waits {
                request.interim = None;
            }
            Ok(request)
        })
    }

    fn fetch_settings(&self) -> Arc<FetchSettings> {
        self.settings.gateway.fetch.clone()
    }

    fn report(&self, x: &mut Exchange) -> SharedReport {
        GatewayState::of(x).report.clone()
    }

    fn write_key(&self, x: &mut Exchange, out: &mut Vec<u8>) {
        self.settings.write_key(x, out);
    }

    fn show_head(&self, x: &mut Exchange, head: &ResponseHead) {
        GatewayState::of(x).head = Some(head.clone());
    }

    fn respond(&self, x: &mut Exchange, response: OriginResponse) -> Step<'static> {
        let rewriter = ProxyRewriter { settings: &self.settings };
        respond(x, response, &self.settings.gateway, &rewriter)
    }

    fn respond_stored(&self, x: &mut Exchange, stored: StoredAnswer<'_>) -> Step<'static> {
        let rewriter = ProxyRewriter { settings: &self.settings };
        respond_stored(x, stored, &self.settings.gateway, &rewriter)
    }

    fn fail(&self, x: &mut Exchange, error: FetchError) -> Step<'static> {
        match error.status {
            499 => run::client_left(x),
            status => Step::Status(status),
        }
    }

    fn client_left(&self, x: &mut Exchange) -> Step<'static> {
        run::client_left(x)
    }

    fn pass<'a>(&'a self, x: &'a mut Exchange) -> LocalFuture<'a, Step<'static>> {
        Box::pin(super::serve(x, self.settings.clone()))
    }
}

/// The content handler of a location that caches; `None` when it does not.
pub fn handler(
    conf: &Conf,
    settings: &Arc<ProxySettings>,
    location: &mut LocationBuilder<'_, '_>,
) -> Result<Option<Handler>, Diagnostic> {
    let Some(written) = location.outline.conf::<ProxyCache>() else { return Ok(None) };
    let ignored = ignored(settings.gateway.ignore);
    let Some(cache) = CacheSettings::compile(cache::PROXY, written, ignored, location.plan)? else {
        return Ok(None);
    };
    let fields = fields(conf, settings.version, location.plan, true)?;
    let cache = Arc::new(cache);
    let gateway: Arc<dyn Gateway> = Arc::new(CachedProxy { settings: settings.clone(), fields });
    let settings = settings.clone();
    Ok(Some(Box::new(move |x| match cache::handle(x, &cache, &gateway) {
        Ok(step) => step,
        Err(x) => Step::Wait(Box::pin(super::serve(x, settings.clone()))),
    })))
}

/// The cache's part of `proxy_ignore_headers`.
fn ignored(bits: u16) -> Ignored {
    Ignored {
        fields: IgnoredFields {
            x_accel_expires: bits & options::IGNORE_ACCEL_EXPIRES != 0,
            expires: bits & options::IGNORE_EXPIRES != 0,
            cache_control: bits & options::IGNORE_CACHE_CONTROL != 0,
            set_cookie: bits & options::IGNORE_SET_COOKIE != 0,
            vary: bits & options::IGNORE_VARY != 0,
        },
        redirect: bits & options::IGNORE_REDIRECT != 0,
    }
}
