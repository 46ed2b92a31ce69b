//! The common part of FastCGI, SCGI and uwsgi: an application receives parameters and responds with a head in the
//! form of CGI.

use std::sync::Arc;

use tidegate_codec::Known;
use tidegate_codec::request::Method;
use tidegate_conf::{Diagnostic, Span};
use tidegate_core::Exchange;
use tidegate_os::layout::Layout;
use tidegate_plan::module::BlockInfo;
use tidegate_plan::{LocationBuilder, PlanBuilder};
use tidegate_upstream::{ConnectionReuse, OriginRequest, RequestPayload, Wire};

use super::content::{self, RequestMode};
use super::options::{self, GatewayConf, HasGateway};
use super::params::{Packing, ParamConf, Params};
use super::pass::{self, Pass, PassDestination, TargetRef};
use super::pass_conf::PassConf;
use super::settings::{self, GatewaySettings};
use super::target::Scheme;
use super::tls::{self, GatewayTls};
use crate::cache::{Cache, CacheCaller};

/// The directives of one block as written.
#[derive(Default)]
pub struct CgiConf {
    pub gateway: GatewayConf,
    pub pass: PassConf,
    pub params: Option<Vec<ParamConf>>,
}

/// Settings of modules that contain these.
pub(crate) trait HasCgi {
    fn cgi(&mut self) -> &mut CgiConf;
}

impl<C: HasCgi> HasGateway for C {
    fn gateway(&mut self) -> &mut GatewayConf {
        &mut self.cgi().gateway
    }
}

/// The differences between the modules.
#[derive(Clone, Copy)]
pub struct CgiProtocol {
    /// Prefix of its directives.
    pub prefix: &'static str,
    /// `*_temp_path`
    pub temp_directory: fn(&Layout) -> &'static str,
    pub schemes: &'static [Scheme],
    pub packing: Packing,
}

/// The settings of a location.
#[derive(Debug)]
pub struct CgiSettings {
    pub gateway: Arc<GatewaySettings>,
    pub pass: Pass,
    params: Params,
    /// The parameters of requests that fill a cache.
    cached_params: Params,
    location_tag: u64,
    pub tls: Option<GatewayTls>,
}

/// Fields that are not sent to clients unless `*_pass_header` allows them.
const HIDDEN: &[&str] = &[
    "Status",
    "X-Accel-Expires",
    "X-Accel-Redirect",
    "X-Accel-Limit-Rate",
    "X-Accel-Buffering",
    "X-Accel-Charset",
];

/// Makes the rows of the shared directives for a prefix and a module's settings.
macro_rules! cgi_rows {
    ($prefix:literal, $conf:ty) => {
        &[
            tidegate_conf::row::<$conf>(
                tidegate_conf::with_prefix($prefix, ["fastcgi_pass", "uwsgi_pass", "scgi_pass"]),
                tidegate_conf::Contexts::LOCATION.union(tidegate_conf::Contexts::LOCATION_IF),
                tidegate_conf::Arity::ONE,
                "",
                "Server, as an address with a port, a path behind `unix:`, or a group's name.",
                |conf, args| {
                    tidegate_conf::once(&mut conf.cgi().pass.word, args.word(0).clone(), args)
                },
            ),
            tidegate_conf::row::<$conf>(
                tidegate_conf::with_prefix($prefix, ["fastcgi_param", "uwsgi_param", "scgi_param"]),
                tidegate_conf::Contexts::HTTP_SERVER_LOCATION,
                tidegate_conf::Arity::between(2, 3),
                "",
                "Passes a parameter to the application; `if_not_empty`: only when its value is not empty.",
                |conf, args| $crate::common::params::add(&mut conf.cgi().params, args),
            ),
        ]
    };
}
pub(crate) use cgi_rows;

impl CgiConf {
    /// Inherits settings: http → server → location → `if`.
    pub fn inherit(&mut self, parent: &CgiConf, block: BlockInfo<'_>) {
        options::inherit(&mut self.gateway, &parent.gateway);
        if self.params.is_none() {
            self.params.clone_from(&parent.params);
        }
        self.pass.inherit(&parent.pass, block);
    }

    /// Compiles the settings, with the cache, of a block that passes requests.
    ///
    /// # Errors
    /// An invalid address, an invalid text with variables, cache and store in one block.
    pub fn compile<C: CacheCaller>(
        &self,
        kind: CgiProtocol,
        location: &mut LocationBuilder<'_, '_>,
    ) -> Result<Option<CgiSettings>, Diagnostic> {
        let Some(word) = self.pass.target(location) else { return Ok(None) };
        let pass = Pass::compile(word, kind.schemes, Ok(()), location)?;
        let outline = location.outline;
        let cache = outline.conf::<Cache<C>>();
        let zone = cache.and_then(|cache| cache.zone.as_ref());
        let plan = &mut *location.plan;
        if let Some(name) = zone.and_then(|zone| zone.word.as_ref())
            && cache.is_some_and(|cache| cache.key.is_none())
        {
            warn_of_key(kind.prefix, name.span, plan);
        }
        let mut gateway =
            settings::settings(&self.gateway, HIDDEN, Some(kind.temp_directory), plan)?;
        gateway.store = self.gateway.store.compile(kind.prefix, zone, plan)?;
        // An application's `Date` and `Server` are passed on; missing ones are added.
        gateway.completes_head = true;
        let tls = match &pass.destination {
            PassDestination::Fixed(target, _) if !target.tls => None,
            PassDestination::Variable(..) if !kind.schemes.iter().any(|scheme| scheme.tls) => None,
            _ => Some(tls::compile(&self.gateway.tls, kind.prefix, plan, word.span)?),
        };
        let mut params = |for_cache| {
            let conf = self.params.as_deref();
            Params::compile(conf, kind.packing, gateway.pass_request_headers, for_cache, plan)
        };
        Ok(Some(CgiSettings {
            params: params(false)?,
            cached_params: params(true)?,
            location_tag: pass::location_tag(&self.pass.block.name),
            gateway: Arc::new(gateway),
            pass,
            tls,
        }))
    }
}

/// Warns that there is no default key: all requests would be served the same response.
fn warn_of_key(prefix: &str, span: Span, plan: &mut PlanBuilder<'_>) {
    let message = format!("no \"{prefix}cache_key\" for \"{prefix}cache\"");
    plan.diagnostics.push(Diagnostic::warn(message).at(span));
}

impl CgiSettings {
    /// Appends the parameters of a request.
    pub fn write_params(&self, x: &mut Exchange, shape: RequestMode, out: &mut Vec<u8>) {
        let method = x.request.method;
        // `$request_method` is the method sent to the application.
        if shape.get_for_head && method == Method::Head {
            x.request.method = Method::Get;
        }
        match shape.for_cache {
            true => self.cached_params.write(x, out),
            false => self.params.write(x, out),
        }
        x.request.method = method;
    }

    /// Makes the origin request of these bytes.
    pub fn request(
        &self,
        x: &mut Exchange,
        target: &TargetRef<'_>,
        shape: RequestMode,
        (head, payload): (Vec<u8>, RequestPayload),
        wire: Wire,
    ) -> OriginRequest {
        let to = target.target();
        let tls = self.tls.as_ref().filter(|_| to.tls).map(|tls| tls.target(x, &to.host));
        OriginRequest {
            choice: content::choice(x, target),
            group: to.group.clone(),
            method: match x.request.method {
                Method::Head if shape.get_for_head => Method::Get,
                method => method,
            },
            target: 0..0,
            head: head.into(),
            payload: content::take_stream(x, payload),
            local: self.gateway.local_address(x),
            paced: self.gateway.limit_rate.is_some(),
            interim: None,
            reuse: ConnectionReuse::Never,
            upgrade: matches!(wire, Wire::Cgi(_))
                && x.request.header(Known::Upgrade).is_some()
                && !x.is_subrequest(),
            location_tag: self.location_tag,
            tls,
            wire,
        }
    }
}
