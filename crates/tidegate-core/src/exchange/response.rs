//! The response's head as handlers and filters build it, and what its sender is to know beside it.

use bytes::Bytes;
use tidegate_codec::Headers;

use super::recycle::recycled;

/// Head of a response but its status, which [`Disposition`](super::Disposition) has. Length, connection and date are
/// the driver's.
#[derive(Default)]
pub struct Response {
    /// Reason phrase of an origin, when it is not the standard one.
    pub reason: Option<Bytes>,
    pub headers: Headers,
    /// Length to announce for a body that is not sent or not known (HEAD of an origin); else the body tells.
    pub content_length: Option<u64>,
    /// Seconds since 1970 of `Last-Modified`, for conditions and `expires modified`.
    pub last_modified: Option<i64>,
    pub ranges: RangeSupport,
    /// Charset that the origin asks for (`X-Accel-Charset`), for the charset module.
    pub charset: Option<Bytes>,
    pub conditions: Conditions,
    /// Trailer fields as sent, known at the body's end: `$sent_trailer_*`.
    pub trailers: Headers,
}

/// Which byte ranges may be served from a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RangeSupport {
    #[default]
    None,
    /// As many as `max_ranges` allows.
    Many,
    /// One: the body is put together of parts, each of which is given once.
    One,
}

/// Who judges the client's conditions (`If-Match` and the like).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conditions {
    #[default]
    Server,
    /// They were sent to the origin, which has judged them.
    Origin,
}

recycled!(Response:
    keeps { headers, trailers }
    renews { reason, content_length, last_modified, ranges, charset, conditions }
);

impl Response {
    /// The head as far as variables show it, for another exchange.
    pub(crate) fn fork(&self) -> Response {
        let Response {
            reason: _,
            headers,
            content_length,
            last_modified,
            ranges: _,
            charset: _,
            conditions: _,
            trailers: _,
        } = self;
        Response {
            headers: headers.clone(),
            content_length: *content_length,
            last_modified: *last_modified,
            ..Response::default()
        }
    }
}

/// What the sender is to know of a response beside its head and body.
#[derive(Default)]
pub struct DeliveryHints {
    pub head: HeadSending,
    pub pieces: PieceSending,
    pub client_abort: ClientAbort,
    /// Who gives the field `Date`.
    pub date: FieldOwner,
    /// Who gives the field `Server`.
    pub server: FieldOwner,
    /// Trailer fields may follow, for which the body goes in chunks. A boolean: what they are is known behind the body.
    pub expects_trailers: bool,
}

/// When the head leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeadSending {
    /// As soon as the body lets wait for its first bytes.
    #[default]
    AtOnce,
    /// With the body's first bytes; if these do not come there is no response.
    WithBody,
}

/// When pieces of the body leave that come as others write them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PieceSending {
    #[default]
    AtOnce,
    /// Small ones may wait a moment for more, so that they leave together (`*_buffering`).
    Gathered,
}

/// What a client that leaves does to the body's source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAbort {
    #[default]
    Ends,
    /// The source does its work to the end (`proxy_ignore_client_abort`).
    Ignored,
}

/// Who gives a field that most responses have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldOwner {
    /// This server, where the response has none of its own.
    #[default]
    Server,
    /// The origin, even when it sends none (`proxy_pass_header Date`).
    Origin,
}

recycled!(DeliveryHints:
    keeps { }
    renews { head, pieces, client_abort, date, server, expects_trailers }
);
