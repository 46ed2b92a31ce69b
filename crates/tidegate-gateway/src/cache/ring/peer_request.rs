//! The request to a peer: the client's own, so that the peer finds the same server, location and key.

use std::ops::Range;

use tidegate_codec::Known;
use tidegate_core::Exchange;

use super::Ring;
use super::field::{self, PeerClaim};

/// The head of a request, and where its target is.
#[derive(Clone)]
pub(super) struct PeerHead {
    pub text: Vec<u8>,
    pub target: Range<usize>,
}

/// Fields of the client that do not belong into a request for the whole response over another connection.
const LEFT_OUT: [Known; 18] = [
    Known::Host,
    Known::ContentLength,
    Known::TransferEncoding,
    Known::Connection,
    Known::ProxyConnection,
    Known::KeepAlive,
    Known::Expect,
    Known::Upgrade,
    Known::Http2Settings,
    Known::Te,
    Known::Trailer,
    Known::Range,
    Known::IfRange,
    Known::IfModifiedSince,
    Known::IfUnmodifiedSince,
    Known::IfMatch,
    Known::IfNoneMatch,
    Known::ContentEncoding,
];

/// Makes the head: GET, the target and the fields as received, without ranges and conditions; `None` for a target that
/// HTTP/1 has no form of.
pub(super) fn head(x: &Exchange, ring: &Ring, claim: &PeerClaim) -> Option<PeerHead> {
    let mut text = Vec::with_capacity(1024);
    text.extend_from_slice(b"GET ");
    let start = text.len();
    let target = x.request.target();
    if !target.starts_with(b"/") {
        text.push(b'/');
    }
    text.extend_from_slice(target);
    if text[start..].iter().any(|byte| *byte <= b' ' || *byte == 0x7f) {
        return None;
    }
    let target = start..text.len();
    text.extend_from_slice(b" HTTP/1.1\r\n");
    let mut field = |name: &[u8], value: &[u8]| {
        text.extend_from_slice(name);
        text.extend_from_slice(b": ");
        text.extend_from_slice(value);
        text.extend_from_slice(b"\r\n");
    };
    field(b"Host", x.request.head.host_text().unwrap_or_else(|| x.host()));
    field(field::NAME, claim.text(&ring.own).as_bytes());
    for (known, name, value) in x.request.head.headers.iter() {
        if !LEFT_OUT.contains(&known) && !name.eq_ignore_ascii_case(field::NAME) {
            field(name, value);
        }
    }
    text.extend_from_slice(b"\r\n");
    Some(PeerHead { text, target })
}
