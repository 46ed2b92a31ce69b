//! The request to a gRPC server, made of the client's.

use tidegate_core::Exchange;
use tidegate_upstream::{HeadList, ListFields, OriginHead, OriginRequest, Wire};

use super::settings::GrpcSettings;
use super::web::{self, WebFields};
use crate::common::content::{self, RequestMode};
use crate::common::hints;
use crate::common::pass::TargetRef;
use crate::common::request_head::{
    BodyFraming, encode_breaks, write_client_target, write_fields, write_method,
};

/// Capacity for a common method and target.
const LINE_BYTES: usize = 256;

/// Makes the request. The body is taken out of the exchange and sent as it arrives.
///
/// Invariant: the order matters. The length of the body is read before the body is taken; the server is chosen last.
pub(super) fn create(
    x: &mut Exchange,
    settings: &GrpcSettings,
    target: &TargetRef<'_>,
    mode: RequestMode,
) -> OriginRequest {
    let to = target.target();
    let payload = content::payload(x, &settings.gateway, true);
    let web = web::request_type(x, settings).map(|sent| (sent.is_text, sent.grpc()));
    let mut body = BodyFraming::of(x, &payload, true);
    let mut payload = content::take_stream(x, payload);
    if let Some((is_text, _)) = web {
        payload = web::payload(x, payload, is_text);
        body.length = body.length.filter(|_| !is_text);
    }
    let mut line = Vec::with_capacity(LINE_BYTES);
    let method = write_method(x, mode, &mut line);
    line.push(b' ');
    let start = line.len();
    write_client_target(x, &mut line);
    encode_breaks(&mut line, start);
    let path = start..line.len();
    let mut list = HeadList::new(&line, path.clone());
    let passes = settings.gateway.pass_request_headers;
    let writer = ListFields::new(&mut list);
    match web {
        None => write_fields(x, &settings.fields, passes, &to.host, body, writer),
        Some((_, content_type)) => {
            let writer = WebFields { writer, content_type };
            write_fields(x, &settings.fields, passes, &to.host, body, writer);
        }
    }
    let tls = match &settings.tls {
        Some(tls) if to.tls => Some(tls.target(x, &to.host)),
        _ => None,
    };
    OriginRequest {
        choice: content::choice(x, target),
        group: to.group.clone(),
        method,
        head: OriginHead::List(Box::new(list)),
        target: path,
        payload,
        local: settings.gateway.local_address(x),
        paced: false,
        interim: hints::client(x, &settings.early_hints, &settings.gateway),
        reuse: to.shared_reuse(),
        wire: Wire::Http2 { grpc: true },
        upgrade: false,
        location_tag: settings.location_tag,
        tls,
    }
}
