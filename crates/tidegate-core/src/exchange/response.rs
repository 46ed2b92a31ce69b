//! The response's head as handlers and filters build it, and how it is to be sent.

use bytes::Bytes;
use tidegate_codec::Headers;

use super::recycle::recycled;

/// Head of a response without its status, which is in [`Disposition`](super::Disposition). The driver adds
/// `Content-Length`, `Connection` and `Date`.
#[derive(Default)]
pub struct Response {
    /// Reason phrase of an origin, when it is not the standard one.
    pub reason: Option<Bytes>,
    /// The fields.
    pub headers: Headers,
    /// Length to announce for a body that is not sent or not known (HEAD of an origin); else the body's own is used.
    pub content_length: Option<u64>,
    /// Seconds since 1970 of `Last-Modified`, for conditions and `expires modified`.
    pub last_modified: Option<i64>,
    /// Which ranges of the body may be served.
    pub ranges: RangeSupport,
    /// Charset that the origin requests (`X-Accel-Charset`), for the charset module.
    pub charset: Option<Bytes>,
    /// The server that evaluates the client's conditions.
    pub conditions: Conditions,
    /// Trailer fields as sent, known at the body's end: `$sent_trailer_*`.
    pub trailers: Headers,
}

/// Which byte ranges may be served from a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RangeSupport {
    /// None.
    #[default]
    None,
    /// The number that `max_ranges` allows.
    Many,
    /// One: the body is assembled of parts, each of which is available once.
    One,
}

/// The server that evaluates the client's conditions (`If-Match` and others, RFC 9110 section 13).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conditions {
    /// This server.
    #[default]
    Server,
    /// The origin: it received the conditions and has evaluated them.
    Origin,
}

recycled!(Response:
    keeps { headers, trailers }
    renews { reason, content_length, last_modified, ranges, charset, conditions }
);

impl Response {
    /// Copies what variables show of the head, for another exchange.
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

/// How the driver sends a response.
#[derive(Default)]
pub struct DeliveryHints {
    /// When the head is sent.
    pub head: HeadSending,
    /// When small chunks of the body are sent.
    pub pieces: PieceSending,
    /// What the client's leaving does to the body's source.
    pub client_abort: ClientAbort,
    /// The server that sets the field `Date`.
    pub date: FieldOwner,
    /// The server that sets the field `Server`.
    pub server: FieldOwner,
    /// Whether trailer fields may follow, for which the body is sent in chunks. A boolean: the fields are known at the
    /// body's end.
    pub expects_trailers: bool,
    /// Whether filters change the response.
    pub filtering: Filtering,
}

/// When the head is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeadSending {
    /// As soon as the body's first bytes have to be waited for.
    #[default]
    AtOnce,
    /// With the body's first bytes; if these do not arrive, there is no response.
    WithBody,
}

/// Whether the location's filters change a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filtering {
    /// They do.
    #[default]
    Filtered,
    /// Another server with the same configuration gets it as the origin sent it.
    Unchanged,
}

/// When small chunks of a streamed body are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PieceSending {
    /// At once.
    #[default]
    AtOnce,
    /// They may wait a moment for more, so that they are sent together (`*_buffering`).
    Gathered,
}

/// What happens to the body's source when the client closes the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAbort {
    /// The source is dropped.
    #[default]
    Ends,
    /// The source is read to its end (`proxy_ignore_client_abort`).
    Ignored,
}

/// The server that sets a field that most responses have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldOwner {
    /// This server, unless the response has the field already.
    #[default]
    Server,
    /// The origin, even when it does not send the field (`proxy_pass_header Date`).
    Origin,
}

recycled!(DeliveryHints:
    keeps { }
    renews { head, pieces, client_abort, date, server, expects_trailers, filtering }
);
