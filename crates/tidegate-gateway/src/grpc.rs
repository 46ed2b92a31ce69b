//! `grpc_pass`: requests are passed to gRPC servers, over HTTP/2.
//!
//! ```nginx
//! upstream greeters { server 192.0.2.1:50051; server 192.0.2.2:50051; keepalive 16; }
//! server {
//!     listen 443 ssl;
//!     http2  on;
//!     location /greet.Greeter/ { grpc_pass grpc://greeters; }
//! }
//! ```
//!
//! A call is one request and one response with trailers (`grpc-status`). Both bodies are passed on as they arrive, in
//! both directions at once, so that calls which stream work: nothing is buffered and nothing is cached. Errors of our
//! own have the statuses of HTTP, as in nginx; `error_page` can make `grpc-status` of them.
//!
//! With `grpc_web on` browsers are clients too: their requests are translated (`web`).
//!
//! `rows` has the directives, `settings` the compiled ones, `request` makes the origin's request; everything else is
//! shared with the other gateways.

pub mod call;
mod request;
mod rows;
pub(crate) mod settings;
#[cfg(test)]
mod tests;
mod web;

use std::sync::Arc;

use tidegate_codec::Known;
use tidegate_conf::{Diagnostic, Directive, Word};
use tidegate_core::variables::Variable;
use tidegate_core::{Body, Exchange, Refused};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::{BlockInfo, Module};
use tidegate_upstream::OriginRequest;

use super::common::content::{self, Protocol, RequestMode};
use super::common::options::{self, GatewayConf, HasGateway};
use super::common::pass::{Pass, TargetRef};
use super::common::pass_conf::PassConf;
use super::common::respond::Rewriter;
use super::common::settings::GatewaySettings;
use super::common::tls::GatewayTls;
use settings::GrpcSettings;

/// `ngx_http_grpc_module`: the `grpc_*` directives, and `grpc_pass` as the content of a location.
pub struct Grpc;

/// The directives of one block as written.
#[derive(Default)]
pub struct Conf {
    gateway: GatewayConf,
    pass: PassConf,
    set_header: Option<Vec<(Word, Word)>>,
    /// `grpc_web`
    web: Option<bool>,
}

impl HasGateway for Conf {
    fn gateway(&mut self) -> &mut GatewayConf {
        &mut self.gateway
    }
}

const VARIABLES: &[Variable] = &[Variable::fixed(
    "grpc_internal_trailers",
    "Value for the `TE` field of a request to a gRPC server: `trailers` if the client accepts trailers, in gRPC-Web as a \
         frame.",
    |x, out| {
        let accepts = accepts_trailers(x) || web::is_translated(x);
        if accepts {
            out.extend_from_slice(b"trailers");
        }
        accepts
    },
)];

/// Whether the client's `TE` has `trailers` (RFC 9110 section 10.1.4).
fn accepts_trailers(x: &Exchange) -> bool {
    let mut codings = x.request.head.headers.all(Known::Te).flat_map(|te| te.split(|b| *b == b','));
    codings.any(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"trailers"))
}

impl Module for Grpc {
    type Conf = Conf;
    const NAME: &'static str = "grpc";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] =
        &[rows::CONNECTION, rows::RESPONSES, rows::TLS, rows::OWN];
    const VARIABLES: &'static [Variable] = VARIABLES;

    fn close_block(conf: &mut Conf, block: BlockInfo<'_>) -> Result<(), Diagnostic> {
        conf.pass.note_block(block);
        Ok(())
    }

    fn inherit(child: &mut Conf, parent: &Conf, block: BlockInfo<'_>) {
        options::inherit(&mut child.gateway, &parent.gateway);
        child.pass.inherit(&parent.pass, block);
        if child.set_header.is_none() {
            child.set_header.clone_from(&parent.set_header);
        }
        child.web = child.web.or(parent.web);
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let Some(word) = conf.pass.target(location) else { return Ok(()) };
        let settings = Arc::new(settings::compile(word, conf, location)?);
        location.location.extensions.insert(settings.clone());
        content::install_uncached(settings, location);
        Ok(())
    }
}

impl Protocol for GrpcSettings {
    fn gateway(&self) -> &Arc<GatewaySettings> {
        &self.gateway
    }

    fn pass(&self) -> &Pass {
        &self.pass
    }

    fn tls(&self) -> Option<&GatewayTls> {
        self.tls.as_ref()
    }

    fn create(
        &self,
        x: &mut Exchange,
        target: &TargetRef<'_>,
        mode: RequestMode,
    ) -> Result<OriginRequest, Refused> {
        Ok(request::create(x, self, target, mode))
    }
}

/// A response is passed on as it is, except to a client that speaks gRPC-Web.
impl Rewriter for GrpcSettings {
    fn body(&self, x: &mut Exchange, body: Body) -> Body {
        web::respond(x, self, body)
    }
}
