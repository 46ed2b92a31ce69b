//! `expires`, `add_header`, `add_trailer`: fields that the configuration adds to responses.
//!
//! ```nginx
//! expires    modified +1h;
//! add_header X-Served-By $hostname always;
//! ```

mod expires;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use tidegate_codec::Known;
use tidegate_codec::headers::one_line;
use tidegate_codec::request::{Method, Version};
use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Word, once, row};
use tidegate_core::{Body, Exchange, Template};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::{BlockInfo, Module};

use expires::{Expires, ExpiresConf};

/// `ngx_http_headers_module`.
pub(crate) struct AddedHeaders;

/// The directives of one block.
#[derive(Default)]
pub(crate) struct Conf {
    expires: Option<ExpiresConf>,
    headers: Vec<FieldConf>,
    trailers: Vec<FieldConf>,
    headers_inherit: Option<Inherit>,
    trailers_inherit: Option<Inherit>,
}

#[derive(Clone)]
struct FieldConf {
    name: Word,
    value: Word,
    always: bool,
}

/// `add_header_inherit`, `add_trailer_inherit`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inherit {
    /// Inherited fields apply where the block has none of its own.
    On,
    Off,
    /// Inherited fields apply too, behind the block's own.
    Merge,
}

impl Module for AddedHeaders {
    type Conf = Conf;
    const NAME: &'static str = "headers";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        if child.expires.is_none() {
            child.expires = parent.expires.clone();
        }
        child.headers_inherit = child.headers_inherit.or(parent.headers_inherit);
        child.trailers_inherit = child.trailers_inherit.or(parent.trailers_inherit);
        inherit_fields(&mut child.headers, &parent.headers, child.headers_inherit);
        inherit_fields(&mut child.trailers, &parent.trailers, child.trailers_inherit);
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let plan = &mut *location.plan;
        let expires = conf.expires.as_ref().map(|expires| expires.compile(plan)).transpose()?;
        let expires = expires.filter(|expires| !expires.is_off());
        let mut compiled = |fields: &[FieldConf]| {
            let fields = fields.iter().map(|field| {
                let value = plan.template(&field.value)?;
                let name = Bytes::copy_from_slice(&field.name.bytes);
                let kind = FieldKind::of(Known::of(&name));
                Ok(Field { name, kind, value, always: field.always })
            });
            fields.collect::<Result<Vec<Field>, Diagnostic>>()
        };
        let (mut headers, trailers) = (compiled(&conf.headers)?, compiled(&conf.trailers)?);
        headers.retain(|field| field.kind != FieldKind::Framing);
        location.plan.diagnostics.extend(conf.headers.iter().filter_map(warn_of_framing));
        if expires.is_some() || !headers.is_empty() || !trailers.is_empty() {
            let has_trailers = !trailers.is_empty();
            let always_trails = trailers.iter().any(|field| field.always);
            let added = Added { expires, headers, has_trailers, always_trails };
            location.plan.show(&(&added, &trailers));
            location.filter(Box::new(move |x, body| added.apply(x, body)));
            if has_trailers {
                location.trailer(Box::new(move |x| add_trailers(&trailers, x)));
            }
        }
        Ok(())
    }
}

const CONTEXTS: Contexts = Contexts::HTTP_SERVER_LOCATION_IF;
const INHERITS: &[(&str, Inherit)] =
    &[("on", Inherit::On), ("off", Inherit::Off), ("merge", Inherit::Merge)];

const ROWS: &[Directive<Conf>] = &[
    row(
        "expires",
        CONTEXTS,
        Arity::ONE_OR_TWO,
        "off",
        "Set Expires and Cache-Control: a time, `modified` time, `@` time of day, epoch, max, off.",
        |conf, args| once(&mut conf.expires, expires::read(args)?, args),
    ),
    row(
        "add_header",
        CONTEXTS,
        Arity::TWO_OR_THREE,
        "",
        "Adds a field to responses with a status of success or redirection, or with `always` to all.",
        |conf, args| add(&mut conf.headers, args),
    ),
    row(
        "add_header_inherit",
        CONTEXTS,
        Arity::ONE,
        "on",
        "How fields are inherited from outer blocks: on, off, merge.",
        |conf, args| once(&mut conf.headers_inherit, args.choice(0, INHERITS)?, args),
    ),
    row(
        "add_trailer",
        CONTEXTS,
        Arity::TWO_OR_THREE,
        "",
        "Adds a trailer field to chunked responses.",
        |conf, args| add(&mut conf.trailers, args),
    ),
    row(
        "add_trailer_inherit",
        CONTEXTS,
        Arity::ONE,
        "on",
        "How trailer fields are inherited from outer blocks: on, off, merge.",
        |conf, args| once(&mut conf.trailers_inherit, args.choice(0, INHERITS)?, args),
    ),
];

fn add(fields: &mut Vec<FieldConf>, args: &Args<'_>) -> Result<(), Diagnostic> {
    if args.len() == 3 && args.bytes(2) != b"always" {
        return Err(args.invalid_parameter(2));
    }
    let (name, value) = (args.word(0).clone(), args.word(1).clone());
    fields.push(FieldConf { name, value, always: args.len() == 3 });
    Ok(())
}

fn inherit_fields(child: &mut Vec<FieldConf>, parent: &[FieldConf], how: Option<Inherit>) {
    match how.unwrap_or(Inherit::On) {
        Inherit::Off => {}
        Inherit::On if !child.is_empty() => {}
        Inherit::On | Inherit::Merge => child.extend_from_slice(parent),
    }
}

/// How an added field is combined with those of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldKind {
    /// Appended to them; later filters treat it like them.
    Plain,
    /// A validator: replaces the existing one, and an empty value removes it.
    Validator(Known),
    /// Sent beside the server's own field, by which the response is still processed.
    Beside,
    /// Determines the framing of the body, which a configuration must not: left out.
    Framing,
}

impl FieldKind {
    fn of(known: Known) -> FieldKind {
        match known {
            Known::LastModified | Known::Etag => FieldKind::Validator(known),
            Known::ContentType
            | Known::Connection
            | Known::Date
            | Known::Server
            | Known::AcceptRanges => FieldKind::Beside,
            Known::ContentLength | Known::TransferEncoding => FieldKind::Framing,
            _ => FieldKind::Plain,
        }
    }
}

/// Warns of a field that determines the framing. A second `Content-Length` or `Transfer-Encoding` would make
/// clients and proxies disagree on where the response ends (RFC 9112 section 6.3).
fn warn_of_framing(field: &FieldConf) -> Option<Diagnostic> {
    if FieldKind::of(Known::of(&field.name.bytes)) != FieldKind::Framing {
        return None;
    }
    let message = format!("\"add_header {}\" is not sent", field.name.display());
    let warning = Diagnostic::warn(message).at(field.name.span);
    Some(warning.help("the server itself says where a body ends"))
}

#[derive(Debug)]
struct Field {
    name: Bytes,
    kind: FieldKind,
    value: Template,
    always: bool,
}

#[derive(Debug)]
struct Added {
    expires: Option<Expires>,
    headers: Vec<Field>,
    has_trailers: bool,
    /// Whether a trailer applies to every status.
    always_trails: bool,
}

/// Returns whether fields without `always` are added to a status, as nginx documents.
fn is_plain_status(status: u16) -> bool {
    matches!(status, 200 | 201 | 204 | 206 | 301 | 302 | 303 | 304 | 307 | 308)
}

impl Added {
    fn apply(&self, x: &mut Exchange, body: Body) -> Body {
        if x.is_subrequest() {
            return body;
        }
        let plain = is_plain_status(x.disposition.status());
        if let Some(expires) = self.expires.as_ref().filter(|_| plain) {
            expires.apply(x);
        }
        // For `$sent_http_content_length` in the values.
        if x.response.content_length.is_none() && !matches!(x.disposition.status(), 204 | 304) {
            x.response.content_length = body.known_length();
        }
        for field in self.headers.iter().filter(|field| plain || field.always) {
            let value = one_line(field.value.value(x));
            add_field(x, field, &value);
        }
        if self.has_trailers && carries_trailers(x) {
            x.delivery.expects_trailers |= self.always_trails || plain;
        }
        body
    }
}

/// Adds the trailers of `add_trailer`. Values are computed at the end of the body.
fn add_trailers(fields: &[Field], x: &mut Exchange) {
    if x.is_subrequest() {
        return;
    }
    let plain = is_plain_status(x.disposition.status());
    for field in fields.iter().filter(|field| plain || field.always) {
        let value = one_line(field.value.value(x));
        if !value.is_empty() {
            x.response.trailers.push(&field.name, &value);
        }
    }
}

/// Returns whether the response is chunked, which trailers need.
fn carries_trailers(x: &Exchange) -> bool {
    x.request.version() >= Version::H11
        && x.request.method != Method::Head
        && !matches!(x.disposition.status(), 204 | 304)
        && x.settings().chunked_transfer_encoding
}

fn add_field(x: &mut Exchange, field: &Field, value: &[u8]) {
    let headers = &mut x.response.headers;
    match field.kind {
        FieldKind::Validator(known) => {
            headers.remove(known);
            if known == Known::LastModified {
                x.response.last_modified = tidegate_codec::date::parse_http(value);
            }
            if !value.is_empty() {
                headers.push_known(known, value);
            }
        }
        _ if value.is_empty() => {}
        FieldKind::Beside => headers.push_opaque(&field.name, value),
        FieldKind::Plain | FieldKind::Framing => headers.push(&field.name, value),
    }
}
