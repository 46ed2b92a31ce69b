//! The settings of a location with `proxy_pass` as they are at request time.

use std::sync::Arc;

use tidegate_conf::{Diagnostic, Word};
use tidegate_core::builder::PlanBuilder;
use tidegate_core::{Exchange, Level, Template};
use tidegate_http::Known;
use tidegate_upstream::resolve::{ResolveError, Resolver};

use super::conf::{Conf, Place, Version};
use super::cookie::CookieRules;
use super::redirect::{self, Redirects};
use super::target::{self, FindError, Target, UrlError};
use crate::http::gateway::settings::{GatewaySettings, settings as gateway_settings};
use crate::http::gateway::store::StoreSettings;
use crate::http::gateway::tls::{self, GatewayTls};
use crate::http::upstream::{GroupKey, Groups};

/// Everything a request through `proxy_pass` needs.
pub struct ProxySettings {
    pub gateway: Arc<GatewaySettings>,
    pub version: Version,
    pub method: Option<Template>,
    pub set_body: Option<Template>,
    pub fields: Fields,
    pub redirects: Redirects,
    pub cookies: CookieRules,
    early_hints: Vec<Template>,
    /// For targets with `https://`.
    pub tls: Option<GatewayTls>,
    /// `resolver`, for names that are known per request only.
    pub resolver: Option<Resolver>,
    pass: Pass,
    /// Bytes of the path that the URI replaces.
    pub prefix_length: usize,
    pub location_tag: u64,
}

enum Pass {
    Fixed(Target, Option<GroupKey>),
    Variable(Template, Groups),
}

/// Fields that are set, in order, and the client's fields they replace.
#[derive(Default)]
pub struct Fields {
    pub set: Vec<(Box<[u8]>, FieldValue)>,
    known: u64,
    others: Vec<Box<[u8]>>,
}

/// The value of a set field.
pub enum FieldValue {
    Template(Template),
    ProxyHost,
    /// Length of the body, if it has one.
    BodyLength,
    /// `chunked` for a body without a length.
    Chunked,
}

impl Fields {
    /// Whether the client's field of this name is not passed on.
    pub fn replaces(&self, known: Known, name: &[u8]) -> bool {
        match known {
            Known::Other => self.others.iter().any(|other| other.eq_ignore_ascii_case(name)),
            known => self.known & (1 << known as u8) != 0,
        }
    }

    fn add(&mut self, name: &[u8], value: Option<FieldValue>) {
        match Known::of(name) {
            Known::Other => self.others.push(name.into()),
            known => self.known |= 1 << known as u8,
        }
        if let Some(value) = value {
            self.set.push((name.into(), value));
        }
    }
}

/// Fields that clients do not get unless `proxy_pass_header` says so.
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

/// Compiles a block's settings. `keeps_date`: clients get the origin's `Date`; `writes_in_pool`: `aio_write`.
pub fn settings(
    conf: &Conf,
    store: Option<StoreSettings>,
    keeps_date: bool,
    writes_in_pool: bool,
    plan: &mut PlanBuilder<'_>,
) -> Result<ProxySettings, Diagnostic> {
    let hidden = HIDDEN.iter().copied().filter(|name| !(keeps_date && *name == "Date"));
    let hidden: Vec<&str> = hidden.collect();
    let mut gateway = gateway_settings(&conf.gateway, &hidden, "proxy_temp", plan)?;
    gateway.store = store;
    gateway.spool.writes_in_pool = writes_in_pool;
    let gateway = Arc::new(gateway);
    let no_word = Word { bytes: Vec::new(), span: tidegate_conf::Span::NONE, quoted: false };
    let word = conf.pass.as_ref().unwrap_or(&no_word);
    let pass = pass(word, &conf.place, plan)?;
    let tls = match &pass {
        Pass::Fixed(target, _) if !target.tls => None,
        _ => Some(tls::compile(&conf.gateway.tls, "proxy_", plan, word.span)?),
    };
    let version = conf.http_version.unwrap_or(Version::H11);
    let optional = |word: &Option<Word>, plan: &mut PlanBuilder<'_>| {
        word.as_ref().map(|word| plan.template(word)).transpose()
    };
    Ok(ProxySettings {
        version,
        method: optional(&conf.method, plan)?,
        set_body: optional(&conf.set_body, plan)?,
        fields: fields(conf, version, plan, false)?,
        redirects: redirect::compile(conf, word, plan)?,
        cookies: CookieRules::compile(conf, plan)?,
        early_hints: conf
            .early_hints
            .iter()
            .flatten()
            .map(|word| plan.template(word))
            .collect::<Result<_, _>>()?,
        tls,
        resolver: None,
        prefix_length: conf.place.name.len(),
        location_tag: tag(&conf.place.name),
        gateway,
        pass,
    })
}

/// A number for a location that is the same after a reload (FNV-1a of its name).
fn tag(name: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    name.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

fn pass(word: &Word, place: &Place, plan: &mut PlanBuilder<'_>) -> Result<Pass, Diagnostic> {
    let error = |message: String| Diagnostic::emerg(message).at(word.span);
    if word.bytes.contains(&b'$') {
        let groups = plan.shared::<Groups>().clone();
        return Ok(Pass::Variable(plan.template(word)?, groups));
    }
    let url = target::split(&word.bytes).map_err(|wrong| match wrong {
        UrlError::Prefix => error("invalid URL prefix".to_owned()),
        UrlError::Invalid(what) => error(format!("{what} in \"{}\"", word.display())),
    })?;
    if url.uri.is_some() && (place.is_regex || place.is_named || place.is_nameless) {
        return Err(error(
            "\"proxy_pass\" cannot have URI part in location given by regular expression, or inside \
             named location, or inside \"if\" statement, or inside \"limit_except\" block"
                .to_owned(),
        ));
    }
    let groups = plan.shared::<Groups>().clone();
    let authority = url.authority.clone();
    let target = url.resolve_now(&groups, plan.environment.survivors).map_err(|wrong| {
        let what = match wrong {
            UrlError::Invalid(what) => what,
            _ => "invalid host",
        };
        error(format!("{what} in upstream \"{authority}\""))
    })?;
    let key = groups.key(&authority);
    Ok(Pass::Fixed(target, key))
}

/// Fields as written, then the defaults that were not written. Requests for the cache have defaults of
/// their own: none of the client's ranges and conditions, but those of the stored object.
pub(super) fn fields(
    conf: &Conf,
    version: Version,
    plan: &mut PlanBuilder<'_>,
    for_cache: bool,
) -> Result<Fields, Diagnostic> {
    let mut fields = Fields::default();
    for (name, value) in conf.set_header.iter().flatten() {
        let value = match value.bytes.is_empty() {
            true => None,
            false => Some(match (&value.bytes[..], name.bytes.eq_ignore_ascii_case(b"Host")) {
                (b"$proxy_host", true) => FieldValue::ProxyHost,
                _ => FieldValue::Template(plan.template(value)?),
            }),
        };
        fields.add(&name.bytes, value);
    }
    let connection = match version {
        Version::H10 => Some(FieldValue::Template(Template::constant(b"close"))),
        Version::H11 => None,
    };
    let defaults: [(Known, Option<FieldValue>); 8] = [
        (Known::Host, Some(FieldValue::ProxyHost)),
        (Known::Connection, connection),
        (Known::ContentLength, Some(FieldValue::BodyLength)),
        (Known::TransferEncoding, Some(FieldValue::Chunked)),
        (Known::Te, None),
        (Known::KeepAlive, None),
        (Known::Expect, None),
        (Known::Upgrade, None),
    ];
    for (known, value) in defaults {
        if !fields.replaces(known, b"") {
            fields.add(known.name().as_bytes(), value);
        }
    }
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
    /// `proxy_pass` holds variables: its server is known per request.
    pub fn is_variable(&self) -> bool {
        matches!(self.pass, Pass::Variable(..))
    }

    /// Whether this request's client gets 103 answers.
    pub fn wants_early_hints(&self, x: &mut Exchange) -> bool {
        let wanted = |value: Vec<u8>| !value.is_empty() && value != b"0";
        self.early_hints.iter().any(|template| wanted(template.value(x)))
    }

    /// Writes what is asked and of whom, the default key of a cache: the URL that is passed to.
    pub fn write_key(&self, x: &mut Exchange, out: &mut Vec<u8>) {
        match &self.pass {
            Pass::Fixed(target, key) => {
                out.extend_from_slice(if target.tls { b"https://" } else { b"http://" });
                out.extend_from_slice(&target.host);
                let target = TargetRef::Fixed(target, key.as_ref());
                super::request::write_uri(x, self, &target, out);
            }
            Pass::Variable(template, _) => {
                let start = out.len();
                template.write(x, out);
                let has_uri = target::split(&out[start..]).is_ok_and(|url| url.uri.is_some());
                if !has_uri {
                    out.extend_from_slice(x.request.head.path_and_args());
                }
            }
        }
    }

    /// The server of this request.
    ///
    /// # Errors
    /// 500 for a URL that is none, 502 for a name that cannot be resolved.
    pub async fn target<'s>(&'s self, x: &mut Exchange) -> Result<TargetRef<'s>, u16> {
        let (template, groups) = match &self.pass {
            Pass::Fixed(target, key) => return Ok(TargetRef::Fixed(target, key.as_ref())),
            Pass::Variable(template, groups) => (template, groups),
        };
        let text = template.value(x);
        let shown = String::from_utf8_lossy(&text).into_owned();
        let Ok(url) = target::split(&text) else {
            x.log(Level::Error, format_args!("invalid URL prefix in \"{shown}\""));
            return Err(500);
        };
        let key = groups.key(&url.authority);
        let name = match url.clone().find(groups) {
            Ok(target) => return Ok(TargetRef::Made(Box::new(target), key)),
            Err(FindError::Name(name)) => name,
            Err(FindError::Invalid) => {
                x.log(Level::Error, format_args!("invalid URL \"{shown}\""));
                return Err(500);
            }
        };
        let Some(resolver) = &self.resolver else {
            x.log(Level::Error, format_args!("no resolver defined to resolve {name}"));
            return Err(502);
        };
        // Boxed: the state of a query is large, and most targets need none.
        match Box::pin(resolver.resolve(&name)).await {
            Ok(addresses) => {
                let target = url.with_addresses(addresses).map_err(|_| 500_u16)?;
                Ok(TargetRef::Made(Box::new(target), None))
            }
            Err(ResolveError(code, text)) => {
                x.log(Level::Error, format_args!("{name} could not be resolved ({code}: {text})"));
                Err(502)
            }
        }
    }
}

/// A target that the settings hold, or one made for the request.
pub enum TargetRef<'s> {
    Fixed(&'s Target, Option<&'s GroupKey>),
    Made(Box<Target>, Option<GroupKey>),
}

impl TargetRef<'_> {
    pub fn target(&self) -> &Target {
        match self {
            TargetRef::Fixed(target, _) => target,
            TargetRef::Made(target, _) => target,
        }
    }

    /// What the group's choice depends on.
    pub fn key(&self) -> Option<&GroupKey> {
        match self {
            TargetRef::Fixed(_, key) => *key,
            TargetRef::Made(_, key) => key.as_ref(),
        }
    }

    /// The URI was made of variables: it is sent as it is.
    pub fn is_made(&self) -> bool {
        matches!(self, TargetRef::Made(..))
    }
}
