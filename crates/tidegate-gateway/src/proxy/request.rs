//! The request to the origin, made of the client's.

use bytes::Bytes;
use tidegate_codec::Known;
use tidegate_codec::request::Method;
use tidegate_core::Exchange;
use tidegate_upstream::{
    ConnectionReuse, HeadList, ListFields, OriginHead, OriginRequest, RequestPayload, TextFields,
    Wire,
};

use super::conf::OriginVersion;
use super::settings::ProxySettings;
use crate::common::content::{self, RequestMode};
use crate::common::hints;
use crate::common::pass::TargetRef;
use crate::common::request_head::{
    BodyFraming, encode_breaks, write_args, write_client_target, write_escaped, write_fields,
    write_method,
};
use crate::common::state::GatewayState;

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
    let passes_body = settings.gateway.pass_request_body && settings.set_body.is_none();
    let body = BodyFraming::of(x, &payload, passes_body);
    let payload = content::take_stream(x, payload);
    let mut line = Vec::with_capacity(HEAD_BYTES);
    let method = write_chosen_method(x, settings, shape, &mut line);
    line.push(b' ');
    let start = line.len();
    write_uri(x, settings, target, &mut line);
    encode_breaks(&mut line, start);
    let uri = start..line.len();
    // A fill leaves the client's conditions and ranges out.
    let fields = if shape.for_cache { &settings.cached_fields } else { &settings.fields };
    let passes = settings.gateway.pass_request_headers;
    let (head, wire) = match settings.version {
        OriginVersion::H2 => {
            let mut list = HeadList::new(&line, uri.clone());
            write_fields(x, fields, passes, &to.host, body, ListFields::new(&mut list));
            (OriginHead::List(Box::new(list)), Wire::Http2 { grpc: false })
        }
        version => {
            line.extend_from_slice(match version {
                OriginVersion::H10 => b" HTTP/1.0\r\n",
                _ => b" HTTP/1.1\r\n",
            });
            write_fields(x, fields, passes, &to.host, body, TextFields::new(&mut line));
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
        interim: hints::client(x, &settings.early_hints, &settings.gateway),
        reuse: match settings.version {
            OriginVersion::H2 => to.shared_reuse(),
            OriginVersion::H10 | OriginVersion::H11 => ConnectionReuse::AsGroup,
        },
        wire,
        // HTTP/2 has no switch of protocols (RFC 9113 section 8.6).
        upgrade: settings.version != OriginVersion::H2
            && x.request.header(Known::Upgrade).is_some()
            && !x.is_subrequest(),
        location_tag: settings.location_tag,
        tls,
    }
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
    content::payload(x, &settings.gateway, settings.version != OriginVersion::H10)
}

/// Writes the method of `proxy_method`, else the client's.
fn write_chosen_method(
    x: &mut Exchange,
    settings: &ProxySettings,
    shape: RequestMode,
    out: &mut Vec<u8>,
) -> Method {
    let Some(template) = &settings.method else { return write_method(x, shape, out) };
    let start = out.len();
    template.write(x, out);
    let text = out.split_off(start);
    out.extend(text.into_iter().filter(u8::is_ascii_graphic));
    Method::of(&out[start..])
}

/// Writes the target: the client's as received, or the path with the location's name replaced.
///
/// | `proxy_pass` | the path | the target |
/// |---|---|---|
/// | with variables and a URI | | the URI of the directive, alone |
/// | with a URI | begins with the location's name | the URI, the path behind the location's name, encoded anew, and the arguments |
/// | without a URI | as the client sent it | the client's bytes (origin form, RFC 9112 section 3.2.1) |
/// | either | changed by `rewrite`, or the args by `set` | the changed path, encoded anew, and the arguments |
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
        None => return write_client_target(x, out),
        Some(_) => write_escaped(&request.path, out),
    }
    write_args(x, out);
}
