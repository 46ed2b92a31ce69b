//! The body of a request in gRPC-Web as that of gRPC.

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tidegate_codec::grpc_web::{RequestDecoder, WebError};
use tidegate_core::body::{Chunk, FileRange};
use tidegate_core::request_body::{BodySource, RequestBody, RequestBodyError, StoredBody};
use tidegate_core::{Exchange, Level, LocalFuture, file_read};
use tidegate_upstream::{LogContext, RequestPayload};

/// Bytes of a stored body that are read at once.
const FILE_BYTES: usize = 64 * 1024;

/// Returns a payload that decodes another one as it is sent. The length is not known beforehand, and the request is
/// sent once.
///
/// A body that is no gRPC-Web ends with 400, where the server has not responded before.
pub(in crate::grpc) fn payload(
    x: &Exchange,
    payload: RequestPayload,
    is_text: bool,
) -> RequestPayload {
    let (source, keep_max) = match payload {
        RequestPayload::Stream { body, keep_max, .. } => (Encoded::Client(body), keep_max),
        RequestPayload::Stored(body) => (Encoded::Stored(Stored::new(&body)), 0),
        other => return other,
    };
    let log = LogContext::of(x);
    let source = WebSource { source, is_text, decoder: RequestDecoder::new(is_text), log };
    let body = Box::new(RequestBody::new(None, true, Box::new(source)));
    RequestPayload::Stream { body, chunked: true, keep_max }
}

/// Decodes a body that is pulled.
struct WebSource {
    source: Encoded,
    is_text: bool,
    decoder: RequestDecoder,
    log: LogContext,
}

/// The body as the client sent it.
enum Encoded {
    Client(Box<RequestBody>),
    Stored(Stored),
}

impl BodySource for WebSource {
    fn set_timeout(&mut self, timeout: Duration) {
        if let Encoded::Client(body) = &mut self.source {
            body.set_timeout(timeout);
        }
    }

    fn poll_bytes(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, RequestBodyError>> {
        // Bounded by the source: each iteration takes a piece of it, and ends but for less than four characters.
        loop {
            let piece = match &mut self.source {
                Encoded::Client(body) => ready!(body.poll_next(context)),
                Encoded::Stored(stored) => {
                    ready!(stored.poll_next(context)).map_err(RequestBodyError::Io)
                }
            };
            let decoded = match piece {
                Err(error) => return Poll::Ready(Err(error)),
                Ok(None) => self.decoder.finish().map(|()| None),
                Ok(Some(piece)) => self.decode(piece).map(Some),
            };
            match decoded {
                Ok(Some(bytes)) if bytes.is_empty() => {}
                Ok(bytes) => return Poll::Ready(Ok(bytes)),
                Err(error) => {
                    let message = error.message();
                    self.log.write(Level::Info, message, "reading client request body", "");
                    return Poll::Ready(Err(RequestBodyError::Malformed(message)));
                }
            }
        }
    }
}

impl WebSource {
    /// Returns the bytes of a piece; those of the binary form are not copied.
    fn decode(&mut self, piece: Bytes) -> Result<Bytes, WebError> {
        if !self.is_text {
            self.decoder.check(&piece)?;
            return Ok(piece);
        }
        let mut bytes = Vec::with_capacity(piece.len() / 4 * 3 + 3);
        self.decoder.decode(&piece, &mut bytes)?;
        Ok(bytes.into())
    }
}

/// A body that was read before.
struct Stored {
    pieces: VecDeque<Chunk>,
    /// The part of a file that is being read.
    reading: Option<LocalFuture<'static, io::Result<Vec<u8>>>>,
}

impl Stored {
    fn new(body: &StoredBody) -> Stored {
        Stored { pieces: body.chunks().collect(), reading: None }
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        loop {
            if let Some(reading) = &mut self.reading {
                let bytes = ready!(reading.as_mut().poll(context));
                self.reading = None;
                return Poll::Ready(match bytes {
                    Ok(bytes) if bytes.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
                    bytes => {
                        let bytes = bytes?;
                        self.advance(bytes.len() as u64);
                        Ok(Some(bytes.into()))
                    }
                });
            }
            match self.pieces.pop_front() {
                None => return Poll::Ready(Ok(None)),
                Some(Chunk::Bytes(bytes)) => return Poll::Ready(Ok(Some(bytes))),
                Some(Chunk::File(range)) if range.length > 0 => {
                    self.reading = Some(read(range.clone()));
                    self.pieces.push_front(Chunk::File(range));
                }
                Some(Chunk::File(_) | Chunk::Flush) => {}
            }
        }
    }

    /// Takes bytes off the file that is being read.
    fn advance(&mut self, count: u64) {
        if let Some(Chunk::File(range)) = self.pieces.front_mut() {
            range.offset += count;
            range.length = range.length.saturating_sub(count);
        }
    }
}

fn read(range: FileRange) -> LocalFuture<'static, io::Result<Vec<u8>>> {
    let want = usize::try_from(range.length).unwrap_or(FILE_BYTES).min(FILE_BYTES);
    Box::pin(async move { file_read::read(&range, range.offset, want).await })
}
