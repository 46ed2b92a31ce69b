//! The compiled settings of a location with `grpc_pass`.

use std::sync::Arc;

use tidegate_codec::Known;
use tidegate_conf::{Diagnostic, Span, Word};
use tidegate_core::Template;
use tidegate_plan::{LocationBuilder, PlanBuilder};

use super::Conf;
use crate::common::pass::{Pass, PassDestination, location_tag};
use crate::common::request_head::{FieldValue, Fields};
use crate::common::settings::{self as shared, GatewaySettings};
use crate::common::target::Scheme;
use crate::common::tls::{self, GatewayTls};
use crate::proxy::Proxy;

/// The settings of a request through `grpc_pass`.
#[derive(Debug)]
pub(crate) struct GrpcSettings {
    pub gateway: Arc<GatewaySettings>,
    pub fields: Fields,
    /// `grpc_web`
    pub web: bool,
    /// `early_hints`.
    pub early_hints: Vec<Template>,
    /// TLS for targets with `grpcs://`.
    pub tls: Option<GatewayTls>,
    pub pass: Pass,
    pub location_tag: u64,
}

/// The schemes of `grpc_pass`; an address without one is a `grpc://` too.
const SCHEMES: &[Scheme] = &[
    Scheme { prefix: "grpcs://", port: None, tls: true, has_uri: false },
    Scheme { prefix: "grpc://", port: None, tls: false, has_uri: false },
    Scheme { prefix: "", port: None, tls: false, has_uri: false },
];

/// Fields that are not sent to clients unless `grpc_pass_header` allows them.
const HIDDEN: &[&str] = &[
    "Date",
    "Server",
    "X-Accel-Expires",
    "X-Accel-Redirect",
    "X-Accel-Limit-Rate",
    "X-Accel-Buffering",
    "X-Accel-Charset",
];

/// Compiles a block's settings.
///
/// # Errors
/// An invalid address, an invalid text with variables, unusable TLS files.
pub(super) fn compile(
    word: &Word,
    conf: &Conf,
    location: &mut LocationBuilder<'_, '_>,
) -> Result<GrpcSettings, Diagnostic> {
    let pass = Pass::compile(word, SCHEMES, Ok(()), location)?;
    let proxy = location.outline.conf::<Proxy>();
    let hints = proxy.and_then(|proxy| proxy.early_hints.as_deref()).unwrap_or_default();
    let plan = &mut *location.plan;
    let mut options = conf.gateway.clone();
    options.buffering = Some(false);
    options.request_buffering = Some(false);
    options.pass_trailers = Some(true);
    let gateway = Arc::new(shared::settings(&options, HIDDEN, None, plan)?);
    let tls = match &pass.destination {
        PassDestination::Fixed(target, _) if !target.tls => None,
        _ => Some(tls::compile(&conf.gateway.tls, "grpc_", plan, word.span)?.offering(b"h2")),
    };
    Ok(GrpcSettings {
        gateway,
        fields: fields(conf, plan)?,
        web: conf.web.unwrap_or(false),
        early_hints: plan.templates(hints)?,
        tls,
        pass,
        location_tag: location_tag(&conf.pass.block.name),
    })
}

/// Compiles the written fields, then the defaults that were not written (`grpc_set_header`). `Host` becomes
/// `:authority`; its default is the name in `grpc_pass`, as in nginx. The fields of one connection never pass.
///
/// # Errors
/// An invalid text with variables.
fn fields(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<Fields, Diagnostic> {
    let mut fields = Fields::written(conf.set_header.as_deref(), true, plan)?;
    let trailers = plan.template_text(b"$grpc_internal_trailers", Span::NONE)?;
    fields.add_defaults([
        (Known::Host, Some(FieldValue::ProxyHost)),
        (Known::ContentLength, Some(FieldValue::BodyLength)),
        (Known::Te, Some(FieldValue::Template(trailers))),
        (Known::Connection, None),
        (Known::TransferEncoding, None),
        (Known::KeepAlive, None),
        (Known::Expect, None),
        (Known::Upgrade, None),
    ]);
    Ok(fields)
}
