//! The body of a response of gRPC as that of gRPC-Web.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tidegate_codec::grpc_web;
use tidegate_core::Body;
use tidegate_core::body::{BodyError, BodyStream, Chunk};

use super::trailer_frame;

/// A body whose trailers become its last frame. Nothing is collected: each piece leaves as it arrives, in the form
/// `-text` with padding of its own, so that the client can decode it at once.
///
/// A body that breaks off has no such frame, by which the client sees that its call has no status.
pub(super) struct WebBody {
    source: Body,
    is_text: bool,
    ended: bool,
}

impl WebBody {
    pub(super) fn new(source: Body, is_text: bool) -> WebBody {
        WebBody { source, is_text, ended: false }
    }

    fn encode(&self, bytes: Bytes) -> Bytes {
        if !self.is_text {
            return bytes;
        }
        let mut text = Vec::new();
        grpc_web::write_base64(&bytes, &mut text);
        text.into()
    }
}

impl BodyStream for WebBody {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        Poll::Ready(match ready!(self.source.poll_chunk(context)) {
            Some(Ok(Chunk::Bytes(bytes))) => Some(Ok(Chunk::Bytes(self.encode(bytes)))),
            // Nothing is buffered behind `grpc_pass`, so that no file has a part of the body.
            Some(Ok(Chunk::File(_))) if self.is_text => Some(Err(BodyError::Incomplete)),
            None => {
                self.ended = true;
                let frame = trailer_frame(self.source.trailers().as_ref());
                frame.map(|frame| Ok(Chunk::Bytes(self.encode(frame.into()))))
            }
            other => other,
        })
    }
}
