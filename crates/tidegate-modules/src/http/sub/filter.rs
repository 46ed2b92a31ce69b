//! Replacements in the body of a response.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tidegate_codec::request::Method;
use tidegate_codec::{Headers, Known};
use tidegate_core::body::{BodyError, BodyStream, Chunk};
use tidegate_core::byte_body::{ByteBody, Piece};
use tidegate_core::exchange::RangeSupport;
use tidegate_core::{Body, Exchange, Template};

use super::search::{Pair, Replacer};
use crate::http::gzip::weaken_etag;
use crate::http::media_types::MediaTypes;

/// The replacements of a location.
#[derive(Debug)]
pub(super) struct SubFilter {
    pub pairs: Vec<(Template, Template)>,
    pub types: MediaTypes,
    pub once: bool,
    pub keep_last_modified: bool,
}

impl SubFilter {
    pub(super) fn apply(&self, x: &mut Exchange, body: Body) -> Body {
        if matches!(body, Body::Tunnel(_))
            || x.disposition.status() == 304
            || body.is_empty() && x.request.head.method != Method::Head
            || x.response.content_length == Some(0)
            || x.response.headers.contains(Known::ContentEncoding)
            || !self.types.matches(x.response.headers.first(Known::ContentType))
        {
            return body;
        }
        let mut pairs = Vec::with_capacity(self.pairs.len());
        for (pattern, replacement) in &self.pairs {
            let pattern = pattern.value(x);
            if !pattern.is_empty() {
                pairs.push(Pair { pattern, replacement: replacement.value(x) });
            }
        }
        if pairs.is_empty() {
            return body;
        }
        self.change_head(x);
        Body::Stream(Box::new(ReplacedBody {
            source: Some(ByteBody::new(body)),
            replacer: Replacer::new(pairs, self.once),
            trailers: None,
        }))
    }

    fn change_head(&self, x: &mut Exchange) {
        let response = &mut x.response;
        response.content_length = None;
        response.ranges = RangeSupport::None;
        response.headers.remove(Known::ContentLength);
        response.headers.remove(Known::AcceptRanges);
        if self.keep_last_modified {
            weaken_etag(&mut response.headers);
        } else {
            response.last_modified = None;
            response.headers.remove(Known::LastModified);
            response.headers.remove(Known::Etag);
        }
    }
}

/// A body with its replacements.
struct ReplacedBody {
    source: Option<ByteBody>,
    replacer: Replacer,
    trailers: Option<Headers>,
}

/// Only an end that may begin a match is held back, shorter than the longest pattern; a flush does not release it.
/// Once each pattern was found (`sub_filter_once`) chunks are passed unchanged. Nothing is taken from the source
/// before it is ready: a pending poll can be dropped.
impl BodyStream for ReplacedBody {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let mut out = Vec::new();
        loop {
            let Some(source) = &mut self.source else { return Poll::Ready(None) };
            match ready!(source.poll_piece(context)) {
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(Piece::Flush)) => return Poll::Ready(Some(Ok(Chunk::Flush))),
                Some(Ok(Piece::Bytes(bytes))) if self.replacer.is_done() => {
                    return Poll::Ready(Some(Ok(Chunk::Bytes(bytes))));
                }
                Some(Ok(Piece::Bytes(bytes))) => {
                    out.reserve(bytes.len());
                    self.replacer.push(&bytes, &mut out);
                }
                None => {
                    self.trailers = source.trailers();
                    self.source = None;
                    self.replacer.finish(&mut out);
                }
            }
            if !out.is_empty() {
                return Poll::Ready(Some(Ok(Chunk::Bytes(Bytes::from(out)))));
            }
        }
    }

    fn trailers(&mut self) -> Option<Headers> {
        self.trailers.take()
    }
}
