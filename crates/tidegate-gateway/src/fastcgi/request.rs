//! The records of a request.

use tidegate_codec::fastcgi::{self, ParamsWriter};
use tidegate_core::Exchange;
use tidegate_core::request_body::StoredBody;
use tidegate_upstream::{ConnectionReuse, OriginRequest, RequestPayload, Wire};

use super::Settings;
use crate::common::content::{self, RequestMode};
use crate::common::pass::TargetRef;

/// Capacity for common parameters.
const HEAD_BYTES: usize = 2048;

/// A body up to this number of bytes is sent with the parameters in one write; copying it is cheaper than another
/// system call.
const SMALL_BODY_BYTES: u64 = 16 * 1024;

/// Makes the request. The body is taken out of the exchange where it is to be streamed.
///
/// Invariant: `head` holds complete records (FastCGI 1.0, sections 3.3 and 5): `FCGI_BEGIN_REQUEST`, `FCGI_PARAMS`
/// and its empty end. Where no body follows separately it holds `FCGI_STDIN` to its empty end as well, so that one
/// write sends the complete request; else the upload frames the body and ends it. The first record carries
/// `fastcgi_keep_conn`.
pub(super) fn create(
    x: &mut Exchange,
    settings: &Settings,
    target: &TargetRef<'_>,
    shape: RequestMode,
) -> OriginRequest {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    let mut params = ParamsWriter::begin(settings.reuse != ConnectionReuse::Never, &mut head);
    params.pairs(|out| settings.cgi.write_params(x, shape, out));
    params.end();
    let payload = match content::payload(x, &settings.cgi.gateway, false) {
        RequestPayload::Stored(body) if body.file.is_none() && body.length <= SMALL_BODY_BYTES => {
            write_body(&body, &mut head);
            RequestPayload::None
        }
        RequestPayload::None => {
            head.extend_from_slice(&fastcgi::STDIN_END);
            RequestPayload::None
        }
        other => other,
    };
    let wire = Wire::FastCgi(settings.rules.clone());
    let mut request = settings.cgi.request(x, target, shape, (head, payload), wire);
    request.reuse = settings.reuse;
    request
}

fn write_body(body: &StoredBody, head: &mut Vec<u8>) {
    for piece in body.memory.iter().flat_map(|bytes| bytes.chunks(fastcgi::CONTENT_BYTES_MAX)) {
        head.extend_from_slice(&fastcgi::stdin_header(piece.len()));
        head.extend_from_slice(piece);
    }
    head.extend_from_slice(&fastcgi::STDIN_END);
}
