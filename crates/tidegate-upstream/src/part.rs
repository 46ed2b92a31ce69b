//! Requests for a part of an earlier request's response: the rest of one that broke off, or a range far ahead of the
//! bytes that have arrived. The request is made again with `Range` and `If-Range` (RFC 9110 section 13.1.5), so that
//! a part of another representation is never taken for one of this.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_codec::Known;
use tidegate_codec::request::Method;
use tidegate_core::request_body::StoredBody;

use crate::head::{HeadList, OriginHead};
use crate::peers::{Choice, Group, Peer};
use crate::request::{ConnectionReuse, OriginRequest, RequestPayload, url};
use crate::settings::LocalAddress;
use crate::wire::Wire;
use tidegate_tls::TlsTarget;

/// The properties of a request needed to request parts of its response.
#[derive(Clone)]
pub struct PartRequest {
    group: Arc<Group>,
    choice: Choice,
    method: Method,
    head: OriginHead,
    target: Range<usize>,
    payload: PartPayload,
    local: Option<Box<LocalAddress>>,
    location_tag: u64,
    tls: Option<TlsTarget>,
    wire: Wire,
}

/// A payload that can be sent again.
#[derive(Clone)]
enum PartPayload {
    None,
    Bytes(Bytes),
    Stored(Arc<StoredBody>),
}

impl PartRequest {
    /// Copies a request; `None` when it cannot be sent twice, or requests a part itself.
    pub fn of(request: &OriginRequest) -> Option<PartRequest> {
        let payload = match &request.payload {
            RequestPayload::None => PartPayload::None,
            RequestPayload::Bytes(bytes) => PartPayload::Bytes(bytes.clone()),
            RequestPayload::Stored(body) => PartPayload::Stored(body.clone()),
            RequestPayload::Stream { .. } => return None,
        };
        let asks_for_part = match &request.head {
            OriginHead::Text(head) => field_lines(head)
                .any(|line| is_field(line, b"range:") || is_field(line, b"if-range:")),
            OriginHead::List(list) => {
                list.headers.contains(Known::Range) || list.headers.contains(Known::IfRange)
            }
        };
        let is_http = matches!(request.wire, Wire::Http | Wire::Http2 { grpc: false });
        if !is_http || request.method != Method::Get || asks_for_part {
            return None;
        }
        Some(PartRequest {
            group: request.group.clone(),
            choice: Choice::by_key(request.choice.key.clone()),
            method: request.method,
            head: request.head.clone(),
            target: request.target.clone(),
            payload,
            local: request.local.clone(),
            location_tag: request.location_tag,
            tls: request.tls.clone(),
            wire: request.wire.clone(),
        })
    }

    /// Returns the number of servers that can be tried.
    pub fn servers(&self) -> u32 {
        self.group.attempts_max()
    }

    /// Excludes a server from further requests.
    pub fn exclude(&mut self, peer: &Peer) {
        self.choice.exclude(peer);
    }

    /// Returns the URL for log lines.
    pub fn url(&self) -> String {
        url(
            self.wire.scheme(self.tls.is_some()),
            &self.group.name,
            self.head.text().get(self.target.clone()),
        )
    }

    /// Makes the request for the bytes from `start` to `last` (included; `None`: the end), of the representation that
    /// `validator` names if there is one. Conditions of the first request are left out.
    ///
    /// The head is the first request's, line by line, with `Range` and `If-Range` behind it (RFC 9110 sections 13.1.5
    /// and 14.2): an origin whose representation has changed sends all of it with a 200, which the caller must not
    /// take for the part. It requests no upgrade and wants no interim responses.
    pub fn part(&self, start: u64, last: Option<u64>, validator: Option<&[u8]>) -> OriginRequest {
        let mut range = format!("bytes={start}-").into_bytes();
        if let Some(last) = last {
            range.extend_from_slice(last.to_string().as_bytes());
        }
        let head = match &self.head {
            OriginHead::Text(head) => OriginHead::Text(part_of_text(head, &range, validator)),
            OriginHead::List(list) => {
                OriginHead::List(Box::new(part_of_list(list, &range, validator)))
            }
        };
        OriginRequest {
            group: self.group.clone(),
            choice: self.choice.clone(),
            method: self.method,
            head,
            target: self.target.clone(),
            payload: match &self.payload {
                PartPayload::None => RequestPayload::None,
                PartPayload::Bytes(bytes) => RequestPayload::Bytes(bytes.clone()),
                PartPayload::Stored(body) => RequestPayload::Stored(body.clone()),
            },
            local: self.local.clone(),
            paced: false,
            interim: None,
            reuse: ConnectionReuse::AsGroup,
            upgrade: false,
            location_tag: self.location_tag,
            tls: self.tls.clone(),
            wire: self.wire.clone(),
        }
    }
}

/// The fields of a condition, which belong to the first request alone.
const CONDITIONS: [&[u8]; 4] =
    [b"if-none-match:", b"if-modified-since:", b"if-match:", b"if-unmodified-since:"];

fn part_of_text(whole: &[u8], range: &[u8], validator: Option<&[u8]>) -> Vec<u8> {
    let mut head = Vec::with_capacity(whole.len() + validator.map_or(0, <[u8]>::len) + 64);
    let line_end = whole.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    head.extend_from_slice(&whole[..line_end]);
    for line in field_lines(whole) {
        if !CONDITIONS.iter().any(|name| is_field(line, name)) {
            head.extend_from_slice(line);
        }
    }
    let mut add = |name: &[u8], value: &[u8]| {
        [name, b": ", value, b"\r\n"].iter().for_each(|piece| head.extend_from_slice(piece));
    };
    add(b"Range", range);
    if let Some(validator) = validator {
        add(b"If-Range", validator);
    }
    head.extend_from_slice(b"\r\n");
    head
}

fn part_of_list(whole: &HeadList, range: &[u8], validator: Option<&[u8]>) -> HeadList {
    let mut list = whole.clone();
    let conditions =
        [Known::IfNoneMatch, Known::IfModifiedSince, Known::IfMatch, Known::IfUnmodifiedSince];
    conditions.iter().for_each(|known| list.headers.remove(*known));
    list.push(Known::Range, b"range", range);
    if let Some(validator) = validator {
        list.push(Known::IfRange, b"if-range", validator);
    }
    list
}

/// Returns the field lines of a head with their line ends, without the request line and the empty line.
fn field_lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = head.split_inclusive(|byte| *byte == b'\n').skip(1);
    lines.filter(|line| !line.trim_ascii().is_empty())
}

/// Returns whether a line is of the field with this lower-case name and colon.
fn is_field(line: &[u8], name: &[u8]) -> bool {
    line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
}
