//! The head of a request to an HTTP origin: method, target, and the fields that are set or the client's.

use tidegate_codec::Known;
use tidegate_codec::headers::blank_breaks;
use tidegate_codec::request::{Method, Version};
use tidegate_codec::uri::{Escape, encode_where, escape, escaped_len};
use tidegate_conf::{Diagnostic, Word};
use tidegate_core::exchange::PathSource;
use tidegate_core::{Exchange, Template};
use tidegate_plan::PlanBuilder;
use tidegate_upstream::{FieldWriter, RequestPayload};

use super::content::RequestMode;

/// Fields that are set, in order, and the client's fields they replace.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    pub set: Vec<(Box<[u8]>, FieldValue)>,
    known: u64,
    others: Vec<Box<[u8]>>,
}

/// The value of a set field.
#[derive(Debug)]
pub(crate) enum FieldValue {
    Template(Template),
    ProxyHost,
    /// The written host, or `$proxy_host` where that is empty.
    Host(Template),
    /// Length of the body, if it has one.
    BodyLength,
    /// `chunked` for a body without a length.
    Chunked,
}

impl Fields {
    /// Returns whether the client's field of this name is not passed on.
    pub(crate) fn replaces(&self, known: Known, name: &[u8]) -> bool {
        match known {
            Known::Other => self.others.iter().any(|other| other.eq_ignore_ascii_case(name)),
            known => self.known & (1 << known as u8) != 0,
        }
    }

    /// Compiles the fields of `*_set_header`. With `needs_host` no request is without a host: an empty one is that of
    /// `*_pass`.
    ///
    /// # Errors
    /// An invalid text with variables.
    pub(crate) fn written(
        written: Option<&[(Word, Word)]>,
        needs_host: bool,
        plan: &mut PlanBuilder<'_>,
    ) -> Result<Fields, Diagnostic> {
        let mut fields = Fields::default();
        for (name, value) in written.unwrap_or_default() {
            let is_host = name.bytes.eq_ignore_ascii_case(b"Host");
            let needed = is_host && needs_host;
            let value = match value.bytes.is_empty() {
                true => needed.then_some(FieldValue::ProxyHost),
                false => Some(match &value.bytes[..] {
                    b"$proxy_host" if is_host => FieldValue::ProxyHost,
                    _ if needed => FieldValue::Host(plan.template(value)?),
                    _ => FieldValue::Template(plan.template(value)?),
                }),
            };
            fields.add(&name.bytes, value);
        }
        Ok(fields)
    }

    /// Adds the defaults of names that are not decided yet.
    pub(crate) fn add_defaults(
        &mut self,
        defaults: impl IntoIterator<Item = (Known, Option<FieldValue>)>,
    ) {
        for (known, value) in defaults {
            if !self.replaces(known, b"") {
                self.add(known.name().as_bytes(), value);
            }
        }
    }

    /// Decides a name: sets it to a value, or without one only keeps the client's field back.
    pub(crate) fn add(&mut self, name: &[u8], value: Option<FieldValue>) {
        match Known::of(name) {
            Known::Other => self.others.push(name.into()),
            known => self.known |= 1 << known as u8,
        }
        if let Some(value) = value {
            self.set.push((name.into(), value));
        }
    }
}

/// The end of a request's body, as its fields announce it.
#[derive(Clone, Copy)]
pub(crate) struct BodyFraming {
    pub length: Option<u64>,
    pub chunked: bool,
}

impl BodyFraming {
    /// Returns the framing of a body: a known length, else chunks; an absent body keeps the announced length only if
    /// `passes_body`.
    pub(crate) fn of(x: &Exchange, payload: &RequestPayload, passes_body: bool) -> BodyFraming {
        let (length, chunked) = match payload {
            RequestPayload::None => (x.request.body.length.filter(|_| passes_body), false),
            RequestPayload::Bytes(bytes) => (Some(bytes.len() as u64), false),
            RequestPayload::Stored(body) => (Some(body.length), false),
            RequestPayload::Stream { chunked, .. } => {
                (x.request.body.length.filter(|_| !chunked), *chunked)
            }
        };
        BodyFraming { length, chunked }
    }
}

/// Writes the client's method.
pub(crate) fn write_method(x: &Exchange, shape: RequestMode, out: &mut Vec<u8>) -> Method {
    let method = match x.request.method {
        Method::Head if shape.get_for_head => Method::Get,
        method => method,
    };
    match method {
        Method::Other => out.extend_from_slice(x.request.head.method_bytes()),
        known => out.extend_from_slice(known.name().as_bytes()),
    }
    method
}

/// Writes the client's target: its bytes as received (origin form, RFC 9112 section 3.2.1), or the path changed by
/// `rewrite`, encoded anew, and the arguments.
pub(crate) fn write_client_target(x: &Exchange, out: &mut Vec<u8>) {
    let request = &x.request;
    if request.source != PathSource::Target {
        write_escaped(&request.path, out);
        return write_args(x, out);
    }
    let target = request.head.path_and_args();
    // `http://host?args` has an empty path, which is sent as `/` (RFC 9112 section 3.2.1).
    if target.starts_with(b"?") {
        out.push(b'/');
    }
    out.extend_from_slice(target);
}

/// Writes the arguments behind a path, if there are any.
pub(crate) fn write_args(x: &Exchange, out: &mut Vec<u8>) {
    if !x.request.args.is_empty() {
        out.push(b'?');
        out.extend_from_slice(&x.request.args);
    }
}

/// Writes a path, encoded.
pub(crate) fn write_escaped(path: &[u8], out: &mut Vec<u8>) {
    if escaped_len(path, Escape::Uri) == path.len() {
        out.extend_from_slice(path);
    } else {
        escape(path, Escape::Uri, out);
    }
}

/// Encodes spaces and line ends in a target: decoded variables may contain them, and a client could write a request
/// of its own with them.
pub(crate) fn encode_breaks(head: &mut Vec<u8>, start: usize) {
    encode_where(head, start, |byte| byte <= b' ' || byte == 0x7f);
}

/// Writes the fields: first those that `proxy_set_header` and the defaults set, then the client's that none of them
/// replaces.
///
/// Invariant: a field without a value is not written at all; name and colon are removed again, so `proxy_set_header
/// NAME ""` removes a field. Variables are decoded texts and may contain line ends, which become spaces (RFC 9110
/// section 5.5). The client's fields were checked when its request was parsed, and are copied unchanged, in their
/// order, where `proxy_pass_request_headers` allows it. HTTP/0.9 has none.
pub(crate) fn write_fields(
    x: &mut Exchange,
    fields: &Fields,
    passes_client_fields: bool,
    host: &[u8],
    body: BodyFraming,
    mut writer: impl FieldWriter,
) {
    for (name, value) in &fields.set {
        let (out, start) = writer.begin(name);
        match value {
            FieldValue::Template(template) => {
                template.write(x, out);
                blank_breaks(&mut out[start..]);
            }
            FieldValue::ProxyHost => out.extend_from_slice(host),
            FieldValue::Host(template) => {
                template.write(x, out);
                blank_breaks(&mut out[start..]);
                if out.len() == start {
                    out.extend_from_slice(host);
                }
            }
            FieldValue::BodyLength => {
                if let Some(length) = body.length {
                    tidegate_codec::range::write_number(length, out);
                }
            }
            FieldValue::Chunked if body.chunked => out.extend_from_slice(b"chunked"),
            FieldValue::Chunked => {}
        }
        writer.end(name);
    }
    if !passes_client_fields || x.request.version() == Version::H09 {
        return;
    }
    for (known, name, value) in x.request.head.headers.iter() {
        if !fields.replaces(known, name) {
            writer.field(known, name, value);
        }
    }
}
