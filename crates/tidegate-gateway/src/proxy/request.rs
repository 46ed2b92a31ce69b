//! The request to the origin, made of the client's.

use std::rc::Rc;

use bytes::Bytes;
use tidegate_codec::Known;
use tidegate_codec::request::{Method, Version as ClientVersion};
use tidegate_codec::uri::{Escape, escape, escaped_len};
use tidegate_core::Exchange;
use tidegate_core::client::Client;
use tidegate_core::exchange::PathSource;
use tidegate_upstream::{
    ConnectionReuse, FieldWriter, HeadList, ListFields, OriginHead, OriginRequest, RequestPayload,
    TextFields, Wire,
};

use super::conf::Version;
use super::settings::{FieldValue, Fields, ProxySettings};
use crate::common::content::{self, RequestMode};
use crate::common::hints::HintedClient;
use crate::common::pass::TargetRef;
use crate::common::state::GatewayState;
use crate::common::target::Target;

/// Makes the request. The body is taken out of the exchange where it is to be streamed.
///
/// Invariant: the head is complete when this returns (request line, fields, empty line; RFC 9112 sections 2.1 and 3),
/// its target is at `target` in it, and no byte from the client or a variable ends the line or a field
/// (`encode_breaks`, `blank_breaks`). Its framing describes the body that is sent: by `Content-Length`, by chunks
/// (RFC 9112 section 6.1), or by nothing where there is none. The order matters: `$proxy_host` and the like are set
/// first, since fields and the body's template may use them; the body comes before the fields, which contain its
/// length; the server is chosen last.
///
/// `proxy_pass`, `proxy_method`, `proxy_set_body`, `proxy_http_version`.
pub(crate) fn create(
    x: &mut Exchange,
    settings: &ProxySettings,
    target: &TargetRef<'_>,
    shape: RequestMode,
) -> OriginRequest {
    let to = target.target();
    note_target(x, target);
    let payload = payload(x, settings);
    let body = body_framing(x, settings, &payload);
    let payload = content::take_stream(x, payload);
    let mut line = Vec::with_capacity(HEAD_BYTES);
    let method = write_method(x, settings, shape, &mut line);
    line.push(b' ');
    let start = line.len();
    write_uri(x, settings, target, &mut line);
    encode_breaks(&mut line, start);
    let uri = start..line.len();
    // A fill leaves the client's conditions and ranges out.
    let fields = if shape.for_cache { &settings.cached_fields } else { &settings.fields };
    let (head, wire) = match settings.version {
        Version::H2 => {
            let mut list = HeadList::new(&line, uri.clone());
            write_fields(x, (settings, fields), &to.host, body, ListFields::new(&mut list));
            (OriginHead::List(Box::new(list)), Wire::Http2 { grpc: false })
        }
        version => {
            line.extend_from_slice(match version {
                Version::H10 => b" HTTP/1.0\r\n",
                _ => b" HTTP/1.1\r\n",
            });
            write_fields(x, (settings, fields), &to.host, body, TextFields::new(&mut line));
            line.extend_from_slice(b"\r\n");
            (OriginHead::Text(line), Wire::Http)
        }
    };
    let tls = match &settings.tls {
        Some(tls) if to.tls => Some(tls.target(x, &to.host)),
        _ => None,
    };
    OriginRequest {
        choice: content::choice(x, target),
        group: to.group.clone(),
        method,
        head,
        target: uri,
        payload,
        local: settings.gateway.local_address(x),
        paced: settings.gateway.limit_rate.is_some(),
        interim: hinted(x, settings),
        reuse: reuse(settings, to),
        wire,
        // HTTP/2 has no switch of protocols (RFC 9113 section 8.6).
        upgrade: settings.version != Version::H2
            && x.request.header(Known::Upgrade).is_some()
            && !x.is_subrequest(),
        location_tag: settings.location_tag,
        tls,
    }
}

/// Returns the client, if it is to be sent early hints. HTTP/1.0 has no interim responses.
fn hinted(x: &mut Exchange, settings: &ProxySettings) -> Option<Rc<dyn Client>> {
    if !settings.wants_early_hints(x) || x.request.version() < ClientVersion::H11 {
        return None;
    }
    let (client, settings) = (x.client.clone(), settings.gateway.clone());
    Some(Rc::new(HintedClient { client, settings }))
}

/// Returns whether the connection is kept. As in nginx, HTTP/2 keeps and shares connections to an `upstream`, and
/// opens one for each request to an address that `proxy_pass` names itself.
fn reuse(settings: &ProxySettings, to: &Target) -> ConnectionReuse {
    match settings.version == Version::H2 && !to.is_upstream {
        true => ConnectionReuse::Never,
        false => ConnectionReuse::AsGroup,
    }
}

/// The end of a request's body, as its fields announce it.
#[derive(Clone, Copy)]
struct BodyFraming {
    length: Option<u64>,
    chunked: bool,
}

/// Returns the framing of a body: a known length, else chunks; an absent body keeps the announced length only if it is
/// passed.
fn body_framing(x: &Exchange, settings: &ProxySettings, payload: &RequestPayload) -> BodyFraming {
    let (length, chunked) = match payload {
        RequestPayload::None => {
            let sent = settings.gateway.pass_request_body && settings.set_body.is_none();
            (x.request.body.length.filter(|_| sent), false)
        }
        RequestPayload::Bytes(bytes) => (Some(bytes.len() as u64), false),
        RequestPayload::Stored(body) => (Some(body.length), false),
        RequestPayload::Stream { chunked, .. } => {
            (x.request.body.length.filter(|_| !chunked), *chunked)
        }
    };
    BodyFraming { length, chunked }
}

/// Capacity for a common head.
const HEAD_BYTES: usize = 1024;

fn note_target(x: &mut Exchange, target: &TargetRef<'_>) {
    let to = target.target();
    let state = GatewayState::of(x);
    state.host.clear();
    state.host.extend_from_slice(&to.host);
    state.port.clear();
    state.port.extend_from_slice(&to.port);
}

/// Returns the payload behind the head; a streamed body remains in the exchange.
fn payload(x: &mut Exchange, settings: &ProxySettings) -> RequestPayload {
    if let Some(template) = &settings.set_body {
        return RequestPayload::Bytes(Bytes::from(template.value(x)));
    }
    content::payload(x, &settings.gateway, settings.version != Version::H10)
}

fn write_method(
    x: &mut Exchange,
    settings: &ProxySettings,
    shape: RequestMode,
    out: &mut Vec<u8>,
) -> Method {
    if let Some(template) = &settings.method {
        let start = out.len();
        template.write(x, out);
        let text = out.split_off(start);
        out.extend(text.into_iter().filter(u8::is_ascii_graphic));
        return Method::of(&out[start..]);
    }
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

/// Writes the target: the client's as received, or the path with the location's name replaced.
///
/// | `proxy_pass` | the path | the target |
/// |---|---|---|
/// | with variables and a URI | | the URI of the directive, alone |
/// | with a URI | begins with the location's name | the URI, the path behind the location's name, encoded anew, and the arguments |
/// | without a URI | as the client sent it | the client's bytes (origin form, RFC 9112 section 3.2.1) |
/// | either | changed by `rewrite` | the changed path, encoded anew, and the arguments |
pub(super) fn write_uri(
    x: &Exchange,
    settings: &ProxySettings,
    target: &TargetRef<'_>,
    out: &mut Vec<u8>,
) {
    let request = &x.request;
    match &target.target().uri {
        Some(uri) if target.is_made() => {
            if uri.starts_with(b"?") {
                out.push(b'/');
            }
            return out.extend_from_slice(uri);
        }
        Some(uri) if !x.routing.path_was_replaced() => {
            if uri.starts_with(b"?") {
                out.push(b'/');
            }
            out.extend_from_slice(uri);
            let rest = request.path.get(settings.prefix_length..).unwrap_or_default();
            write_escaped(rest, out);
        }
        None if request.source == PathSource::Target => {
            let target = request.head.path_and_args();
            // `http://host?args` has an empty path, which is sent as `/` (RFC 9112 section 3.2.1).
            if target.starts_with(b"?") {
                out.push(b'/');
            }
            return out.extend_from_slice(target);
        }
        _ => write_escaped(&request.path, out),
    }
    if !request.args.is_empty() {
        out.push(b'?');
        out.extend_from_slice(&request.args);
    }
}

/// Encodes spaces and line ends in a target: decoded variables may contain them, and a client could write a request
/// of its own with them.
fn encode_breaks(head: &mut Vec<u8>, start: usize) {
    let breaks = |byte: &u8| *byte <= b' ' || *byte == 0x7f;
    if !head[start..].iter().any(breaks) {
        return;
    }
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in head.split_off(start) {
        match breaks(&byte) {
            true => {
                let digits = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
                head.extend_from_slice(&[b'%', digits[0], digits[1]]);
            }
            false => head.push(byte),
        }
    }
}

/// Replaces line ends and zero bytes of decoded variables by spaces, so that they do not end a field (RFC 9110
/// section 5.5).
fn blank_breaks(value: &mut [u8]) {
    value.iter_mut().filter(|byte| matches!(byte, b'\r' | b'\n' | 0)).for_each(|byte| *byte = b' ');
}

fn write_escaped(path: &[u8], out: &mut Vec<u8>) {
    if escaped_len(path, Escape::Uri) == path.len() {
        out.extend_from_slice(path);
    } else {
        escape(path, Escape::Uri, out);
    }
}

/// Writes the fields: first those that `proxy_set_header` and the defaults set, then the client's that none of them
/// replaces.
///
/// Invariant: a field without a value is not written at all; name and colon are removed again, so `proxy_set_header
/// NAME ""` removes a field. Variables are decoded texts and may contain line ends, which become spaces (RFC 9110
/// section 5.5). The client's fields were checked when its request was parsed, and are copied unchanged, in their
/// order, where `proxy_pass_request_headers` allows it. HTTP/0.9 has none.
fn write_fields(
    x: &mut Exchange,
    (settings, fields): (&ProxySettings, &Fields),
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
    if !settings.gateway.pass_request_headers || x.request.version() == ClientVersion::H09 {
        return;
    }
    for (known, name, value) in x.request.head.headers.iter() {
        if !fields.replaces(known, name) {
            writer.field(known, name, value);
        }
    }
}
