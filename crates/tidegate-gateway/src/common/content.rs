//! The content handler of all gateways: the request's body, the origin, the response, with or without a cache in
//! front. The differences between protocols are behind [`Protocol`].

use std::sync::Arc;

use tidegate_codec::caching::IgnoredFields;
use tidegate_codec::response::ResponseHead;
use tidegate_conf::Diagnostic;
use tidegate_core::request_body::{RequestBodyError, StoreOptions};
use tidegate_core::{Exchange, Level, LocalFuture, Step};
use tidegate_plan::LocationBuilder;
use tidegate_rt::clock;
use tidegate_upstream::peers::Choice;
use tidegate_upstream::{
    FetchError, FetchSettings, OriginRequest, OriginResponse, RequestPayload, SharedReport,
};

use super::options;
use super::pass::{Pass, TargetRef};
use super::respond::{Rewriter, respond, respond_stored};
use super::run;
use super::settings::GatewaySettings;
use super::state::GatewayState;
use super::tls::GatewayTls;
use crate::cache::config::settings::Ignored;
use crate::cache::gateway::{FillRequestOptions, StoredResponse};
use crate::cache::ring::serve as serve_peers;
use crate::cache::{self, Cache, CacheCaller, CacheSettings, Gateway};
use tidegate_core::Refused;

/// The protocol of a gateway, with the settings of one location.
pub(crate) trait Protocol: Rewriter + std::fmt::Debug + Send + Sync + 'static {
    fn gateway(&self) -> &Arc<GatewaySettings>;

    fn pass(&self) -> &Pass;

    /// Returns the TLS settings towards origins, where the protocol has TLS.
    fn tls(&self) -> Option<&GatewayTls> {
        None
    }

    /// Returns whether requests have the client's body.
    fn sends_body(&self) -> bool {
        self.gateway().pass_request_body
    }

    /// Returns whether a request carries the length of its body, so that a body of unknown length is read before the request
    /// is sent, buffered (`*_request_buffering`) or not.
    fn needs_length(&self) -> bool {
        false
    }

    /// Makes the request. The body is taken out of the exchange where it is to be streamed.
    ///
    /// # Errors
    /// Fails where the request cannot be made; the reason was logged.
    fn create(
        &self,
        x: &mut Exchange,
        target: &TargetRef<'_>,
        shape: RequestMode,
    ) -> Result<OriginRequest, Refused>;

    /// Writes the cache's default key: the target and the origin of the request. A protocol without a default key
    /// requires `*_cache_key`.
    fn write_key(&self, _x: &mut Exchange, _out: &mut Vec<u8>) {}
}

/// The differences between a passed request and one that fills a cache.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestMode {
    /// The client's conditions and ranges are left out.
    pub for_cache: bool,
    /// Sends GET in place of HEAD.
    pub get_for_head: bool,
}

/// Makes a location pass its requests through a protocol.
pub(crate) fn install_uncached<P: Protocol>(
    protocol: Arc<P>,
    location: &mut LocationBuilder<'_, '_>,
) {
    location.plan.show(&protocol);
    location.gateway(Box::new(move |x| Step::Wait(Box::pin(serve_uncached(x, protocol.clone())))));
}

/// Makes a location pass its requests through a protocol, and through its cache if there is one.
pub(crate) fn install<P: Protocol, C: CacheCaller>(
    protocol: Arc<P>,
    location: &mut LocationBuilder<'_, '_>,
) -> Result<(), Diagnostic> {
    // A location that stores has no cache.
    let conf = location.outline.conf::<Cache<C>>();
    let cache = match conf.filter(|_| protocol.gateway().store.is_none()) {
        Some(conf) => {
            let ignored = ignored(protocol.gateway());
            CacheSettings::compile(C::PREFIX, conf, ignored, location.plan)?
        }
        None => None,
    };
    let Some(cache) = cache.map(Arc::new) else {
        install_uncached(protocol, location);
        return Ok(());
    };
    location.plan.show(&(&protocol, &cache));
    let counted = cache.clone();
    location.logger(Box::new(move |x| cache::figures::log(x, &counted)));
    let gateway: Arc<dyn Gateway> = Arc::new(Cached(protocol.clone()));
    location.gateway(Box::new(move |x| {
        if let Some(ring) = &cache.ring {
            serve_peers::enter(x, ring);
        }
        let has_body = x.request.body.is_present() && x.request.body.stored().is_none();
        if has_body && cache.serves(x) || cache.has_to_wait() {
            let (cache, gateway, protocol) = (cache.clone(), gateway.clone(), protocol.clone());
            return Step::Wait(Box::pin(serve_later(x, cache, gateway, protocol)));
        }
        match cache::handle(x, &cache, &gateway) {
            Ok(step) => step,
            Err(x) => Step::Wait(Box::pin(serve_uncached(x, protocol.clone()))),
        }
    }));
    Ok(())
}

/// Handles a request in a cached location that has to wait before the cache is looked at: for its body, which the cache's
/// key and conditions may use (`$request_body`), and for purges of other servers (`purge_sync`).
///
/// Cancelling: dropped at an await, nothing was looked up yet.
async fn serve_later<P: Protocol>(
    x: &mut Exchange,
    cache: Arc<CacheSettings>,
    gateway: Arc<dyn Gateway>,
    protocol: Arc<P>,
) -> Step<'static> {
    if lacks_body(x, &*protocol) {
        return Step::Status(500);
    }
    let has_body = x.request.body.is_present() && x.request.body.stored().is_none();
    if has_body
        && cache.serves(x)
        && let Err(step) = read_body(x).await
    {
        return step;
    }
    if cache.has_to_wait() && !cache.purge.wants(x) && !cache.is_usable().await {
        return serve_uncached(x, protocol).await;
    }
    match cache::handle(x, &cache, &gateway) {
        Ok(Step::Wait(waiting)) => waiting.await,
        Ok(step) => step.settled(),
        Err(x) => serve_uncached(x, protocol).await,
    }
}

/// Passes a request that no cache is in front of: what one has noted at an earlier location is not about this response.
fn serve_uncached<P: Protocol>(
    x: &mut Exchange,
    protocol: Arc<P>,
) -> impl Future<Output = Step<'static>> {
    cache::forget(x);
    serve(x, protocol)
}

/// Passes a request and responds to it: body (`*_request_buffering`), target (`*_pass`), request, origin, response.
///
/// Invariant: each step that fails is the last, with its own step for the client; the reason was logged there.
///
/// Cancelling: dropped at an await it drops what it awaits: the rest of the client's body remains unread, a query of
/// the resolver ends, and the origin's connection is closed and not kept.
async fn serve<P: Protocol>(x: &mut Exchange, protocol: Arc<P>) -> Step<'static> {
    if lacks_body(x, &*protocol) {
        return Step::Status(500);
    }
    let reads_first =
        protocol.gateway().request_buffering || (protocol.needs_length() && x.request.body.chunked);
    if reads_first && let Err(step) = read_body(x).await {
        return step;
    }
    let target = match target(x, &*protocol).await {
        Ok(target) => target,
        Err(refused) => return refused.into(),
    };
    let request = match protocol.create(x, &target, RequestMode::default()) {
        Ok(request) => request,
        Err(refused) => return refused.into(),
    };
    match run::fetch(x, request, protocol.gateway()).await {
        Ok(response) => respond(x, response, protocol.gateway(), &*protocol),
        Err(step) => step,
    }
}

/// Returns whether the client's body is to be sent, but is no longer there: it would be announced without its bytes. Logs it.
fn lacks_body<P: Protocol>(x: &Exchange, protocol: &P) -> bool {
    let lacks = protocol.sends_body() && x.request.body.is_spent();
    if lacks {
        x.log(Level::Error, format_args!("the request's body was sent to another server already"));
    }
    lacks
}

/// Returns the target of a request, with all that is needed to create the request.
async fn target<'p, P: Protocol>(
    x: &mut Exchange,
    protocol: &'p P,
) -> Result<TargetRef<'p>, Refused> {
    let target = protocol.pass().target(x).await?;
    if let Some(tls) = protocol.tls().filter(|_| target.target().tls) {
        tls.choose_certificate(x).await?;
    }
    if let Some(key) = target.key() {
        key.prepare(x).await;
    }
    Ok(target)
}

/// Reads the client's body to its end.
///
/// # Errors
/// The step that ends the request: the body is too large, broken or late, or the disk fails; the reason was logged.
pub async fn read_body(x: &mut Exchange) -> Result<(), Step<'static>> {
    if !x.request.body.is_present() {
        return Ok(());
    }
    read_body_by(x, None).await
}

/// Reads the client's body, if there is one, with other options than the location's, if given.
///
/// # Errors
/// As [`read_body`].
pub async fn read_body_by(
    x: &mut Exchange,
    other: Option<&StoreOptions>,
) -> Result<(), Step<'static>> {
    let known = x.request.body.stored().is_some();
    let own = &x.plan.location(x.routing.location).settings.body_store;
    let options = other.unwrap_or(own);
    let in_file_only = options.in_file_only;
    match x.request.body.store(options).await {
        Ok(stored) => {
            if let Some(path) = stored.path.as_ref().filter(|_| !known && !in_file_only) {
                let path = path.display();
                let text = "a client request body is buffered to a temporary file";
                x.log(Level::Warn, format_args!("{text} {path}"));
            }
            Ok(())
        }
        Err(RequestBodyError::Closed) => {
            x.disposition.end_without_response(400);
            Err(Step::Close)
        }
        Err(error) => Err(Step::Status(error.status())),
    }
}

/// Returns the client's body as it is passed on; a streamed body remains in the exchange.
pub(crate) fn payload(x: &Exchange, gateway: &GatewaySettings, chunks: bool) -> RequestPayload {
    if !gateway.pass_request_body || !x.request.body.is_present() {
        return RequestPayload::None;
    }
    if let Some(stored) = x.request.body.stored() {
        return RequestPayload::Stored(stored.clone());
    }
    let keep_max = x.settings().body_store.memory_bytes_max;
    let chunked = x.request.body.chunked && chunks;
    RequestPayload::Stream { body: Box::default(), chunked, keep_max }
}

/// Puts a streamed body into the payload.
pub(crate) fn take_stream(x: &mut Exchange, payload: RequestPayload) -> RequestPayload {
    match payload {
        RequestPayload::Stream { chunked, keep_max, .. } => {
            let body = Box::new(std::mem::take(&mut x.request.body));
            RequestPayload::Stream { body, chunked, keep_max }
        }
        other => other,
    }
}

/// Returns the inputs of a server's choice.
pub(crate) fn choice(x: &mut Exchange, target: &TargetRef<'_>) -> Choice {
    match target.key() {
        Some(key) => key.choice(x, &target.target().group, clock::now()),
        None => Choice::default(),
    }
}

/// A protocol as a gateway of the cache.
struct Cached<P>(Arc<P>);

impl<P: Protocol> Gateway for Cached<P> {
    fn request<'a>(
        &'a self,
        x: &'a mut Exchange,
        options: FillRequestOptions,
    ) -> LocalFuture<'a, Result<OriginRequest, Step<'static>>> {
        Box::pin(async move {
            // A fill outlives the client, so it cannot read from it.
            read_body(x).await?;
            let target = target(x, &*self.0).await?;
            let shape = RequestMode { for_cache: true, get_for_head: options.convert_head };
            let mut request = self.0.create(x, &target, shape)?;
            request.upgrade = false;
            if !options.client_waits {
                request.interim = None;
            }
            Ok(request)
        })
    }

    fn fetch_settings(&self) -> Arc<FetchSettings> {
        self.0.gateway().fetch.clone()
    }

    fn report(&self, x: &mut Exchange) -> SharedReport {
        GatewayState::of(x).report.clone()
    }

    fn write_key(&self, x: &mut Exchange, out: &mut Vec<u8>) {
        self.0.write_key(x, out);
    }

    fn show_head(&self, x: &mut Exchange, head: ResponseHead) {
        GatewayState::of(x).head = Some(head);
    }

    fn respond(&self, x: &mut Exchange, response: OriginResponse) -> Step<'static> {
        respond(x, response, self.0.gateway(), &*self.0)
    }

    fn respond_stored(&self, x: &mut Exchange, stored: StoredResponse<'_>) -> Step<'static> {
        respond_stored(x, stored, self.0.gateway(), &*self.0)
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
        Box::pin(serve(x, self.0.clone()))
    }
}

/// Returns the cache's part of `*_ignore_headers`.
fn ignored(gateway: &GatewaySettings) -> Ignored {
    let bits = gateway.ignore;
    Ignored {
        fields: IgnoredFields {
            x_accel_expires: bits & options::IGNORE_ACCEL_EXPIRES != 0,
            expires: bits & options::IGNORE_EXPIRES != 0,
            cache_control: bits & options::IGNORE_CACHE_CONTROL != 0,
            set_cookie: bits & options::IGNORE_SET_COOKIE != 0,
            vary: bits & options::IGNORE_VARY != 0,
        },
        redirect: bits & options::IGNORE_REDIRECT != 0,
        buffering: gateway.buffering,
    }
}
