//! The compiled settings of a location with `proxy_pass`.

use std::sync::Arc;

use tidegate_codec::Known;
use tidegate_conf::{Diagnostic, Word};
use tidegate_core::{Exchange, Template};
use tidegate_plan::{LocationBuilder, PlanBuilder};

use super::conf::{Conf, OriginVersion};
use super::cookie::CookieRules;
use super::redirect::{self, Redirects};
use crate::common::pass::{Pass, PassDestination, TargetRef, location_tag};
use crate::common::pass_conf::PassBlock;
use crate::common::request_head::{FieldValue, Fields};
use crate::common::settings::{GatewaySettings, settings as gateway_settings};
use crate::common::store::StoreSettings;
use crate::common::target;
use crate::common::tls::{self, GatewayTls};

/// The settings of a request through `proxy_pass`.
#[derive(Debug)]
pub(crate) struct ProxySettings {
    pub gateway: Arc<GatewaySettings>,
    pub version: OriginVersion,
    pub method: Option<Template>,
    pub set_body: Option<Template>,
    pub fields: Fields,
    /// Fields of requests that fill a cache: without the client's conditions and ranges.
    pub cached_fields: Fields,
    pub redirects: Redirects,
    pub cookies: CookieRules,
    /// `early_hints`.
    pub early_hints: Vec<Template>,
    /// TLS for targets with `https://`.
    pub tls: Option<GatewayTls>,
    pub pass: Pass,
    /// Bytes of the path that the URI replaces.
    pub prefix_length: usize,
    pub location_tag: u64,
}

/// Fields that are not sent to clients unless `proxy_pass_header` allows them.
const HIDDEN: &[&str] = &[
    "Date",
    "Server",
    "X-Pad",
    "X-Accel-Expires",
    "X-Accel-Redirect",
    "X-Accel-Limit-Rate",
    "X-Accel-Buffering",
    "X-Accel-Charset",
];

/// Compiles a block's settings. `keeps_date`: clients get the origin's `Date`.
///
/// # Errors
/// An invalid URL, a path where none is allowed, an invalid text with variables, unusable TLS files.
pub(crate) fn settings(
    (word, conf): (&Word, &Conf),
    store: Option<StoreSettings>,
    keeps_date: bool,
    location: &mut LocationBuilder<'_, '_>,
) -> Result<ProxySettings, Diagnostic> {
    let hidden = HIDDEN.iter().copied().filter(|name| !(keeps_date && *name == "Date"));
    let hidden: Vec<&str> = hidden.collect();
    let pass = Pass::compile(word, target::HTTP, may_have_uri(&conf.pass.block), location)?;
    let plan = &mut *location.plan;
    let mut gateway =
        gateway_settings(&conf.gateway, &hidden, Some(|layout| layout.proxy_temp), plan)?;
    gateway.store = store;
    let gateway = Arc::new(gateway);
    let version = conf.http_version.unwrap_or(OriginVersion::H11);
    let tls = match &pass.destination {
        PassDestination::Fixed(target, _) if !target.tls => None,
        _ => Some(tls::compile(&conf.gateway.tls, "proxy_", plan, word.span)?),
    };
    let tls = match version {
        OriginVersion::H2 => tls.map(|tls| tls.offering(b"h2")),
        OriginVersion::H10 | OriginVersion::H11 => tls,
    };
    let optional = |word: &Option<Word>, plan: &mut PlanBuilder<'_>| {
        word.as_ref().map(|word| plan.template(word)).transpose()
    };
    Ok(ProxySettings {
        version,
        method: optional(&conf.method, plan)?,
        set_body: optional(&conf.set_body, plan)?,
        fields: fields(conf, version, plan, false)?,
        cached_fields: fields(conf, version, plan, true)?,
        redirects: redirect::compile(conf, word, plan)?,
        cookies: CookieRules::compile(conf, plan)?,
        early_hints: plan.templates(conf.early_hints.as_deref().unwrap_or_default())?,
        tls,
        prefix_length: conf.pass.block.name.len(),
        location_tag: location_tag(&conf.pass.block.name),
        gateway,
        pass,
    })
}

/// Checks whether a fixed URL of a `proxy_pass` in this place may have a path.
fn may_have_uri(block: &PassBlock) -> Result<(), &'static str> {
    match block.is_regex || block.is_named || block.is_unnamed_block {
        false => Ok(()),
        true => {
            Err("\"proxy_pass\" cannot have URI part in location given by regular expression, \
                     or inside named location, or inside \"if\" statement, or inside \
                     \"limit_except\" block")
        }
    }
}

/// Compiles the written fields, then the defaults that were not written (`proxy_set_header`). Requests that fill a
/// cache have other defaults: none of the client's ranges and conditions, but those of the stored object (RFC 9111
/// section 4.3.1).
///
/// Invariant: each name is decided once, by the first of these: the written fields, the defaults of every request,
/// those of fills. A name with a value is set; a name without one is listed too, so that the client's field does not
/// pass. The fields of one connection (RFC 9110 section 7.6.1) are among the defaults and never pass by themselves.
///
/// # Errors
/// An invalid text with variables.
fn fields(
    conf: &Conf,
    version: OriginVersion,
    plan: &mut PlanBuilder<'_>,
    for_cache: bool,
) -> Result<Fields, Diagnostic> {
    // HTTP/1.1 has no request without a host (RFC 9112 section 3.2).
    let needs_host = version != OriginVersion::H10;
    let mut fields = Fields::written(conf.set_header.as_deref(), needs_host, plan)?;
    let connection = match version {
        OriginVersion::H10 => Some(FieldValue::Template(Template::constant(b"close"))),
        OriginVersion::H11 | OriginVersion::H2 => None,
    };
    fields.add_defaults([
        (Known::Host, Some(FieldValue::ProxyHost)),
        (Known::Connection, connection),
        (Known::ContentLength, Some(FieldValue::BodyLength)),
        (Known::TransferEncoding, Some(FieldValue::Chunked)),
        (Known::Te, None),
        (Known::KeepAlive, None),
        (Known::Expect, None),
        (Known::Upgrade, None),
    ]);
    if for_cache {
        let defaults = [
            (Known::IfModifiedSince, "$upstream_cache_last_modified"),
            (Known::IfNoneMatch, "$upstream_cache_etag"),
            (Known::IfUnmodifiedSince, ""),
            (Known::IfMatch, ""),
            (Known::Range, ""),
            (Known::IfRange, ""),
        ];
        for (known, text) in defaults {
            if fields.replaces(known, b"") {
                continue;
            }
            let value = match text {
                "" => None,
                text => {
                    let template =
                        plan.template_text(text.as_bytes(), tidegate_conf::Span::NONE)?;
                    Some(FieldValue::Template(template))
                }
            };
            fields.add(known.name().as_bytes(), value);
        }
    }
    Ok(fields)
}

impl ProxySettings {
    /// Writes the default key of a cache: the URL that the request is passed to.
    pub(crate) fn write_key(&self, x: &mut Exchange, out: &mut Vec<u8>) {
        match &self.pass.destination {
            PassDestination::Fixed(target, key) => {
                out.extend_from_slice(if target.tls { b"https://" } else { b"http://" });
                out.extend_from_slice(&target.host);
                let target = TargetRef::Fixed(target, key.as_ref());
                super::request::write_uri(x, self, &target, out);
            }
            PassDestination::Variable(template, _) => {
                let start = out.len();
                template.write(x, out);
                let has_uri =
                    target::split(&out[start..], target::HTTP).is_ok_and(|url| url.uri.is_some());
                if !has_uri {
                    out.extend_from_slice(x.request.head.path_and_args());
                }
            }
        }
    }
}
