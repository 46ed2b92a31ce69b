//! Decompression of a body.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use flate2::{Decompress, FlushDecompress, Status};
use tidegate_codec::Headers;
use tidegate_core::Body;
use tidegate_core::body::{BodyError, BodyStream, Chunk};
use tidegate_core::byte_body::{ByteBody, Piece};

/// Logarithm of gzip's largest window in bytes.
const WINDOW_BITS: u8 = 15;
/// Bytes of output per chunk, even where the configuration allows more.
const OUTPUT_BYTES_MAX: usize = 64 << 10;
/// Least bytes reserved for output, so that short input does not make tiny chunks.
const OUTPUT_BYTES_MIN: usize = 4 << 10;
/// Typical compression ratio of text: the first estimate of the room that output needs.
const USUAL_RATIO: usize = 4;

/// Makes the decompressed body, in chunks of at most `output_bytes_max`.
pub(super) fn decompressed(body: Body, output_bytes_max: usize) -> Body {
    Body::Stream(Box::new(DecompressedBody {
        source: Some(ByteBody::new(body)),
        input: Bytes::new(),
        decompress: None,
        has_more: false,
        output_bytes_max: output_bytes_max.min(OUTPUT_BYTES_MAX),
        trailers: None,
    }))
}

struct DecompressedBody {
    source: Option<ByteBody>,
    /// Rest of the current input chunk.
    input: Bytes,
    /// Present while a member of the gzip stream is open.
    decompress: Option<Box<Decompress>>,
    /// Whether the last output chunk was full: the decompressor may have more output without further input.
    has_more: bool,
    output_bytes_max: usize,
    trailers: Option<Headers>,
}

/// Invariant: the source is polled only when input and decompressor have no more output, so memory is one chunk of
/// input and one of output. Members may follow each other (RFC 1952 section 2.2); a stream that ends within one is
/// an error. Nothing is taken from the source before it is ready: a pending poll can be dropped.
impl BodyStream for DecompressedBody {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        loop {
            if !self.input.is_empty() || self.has_more {
                let out = self.decompress_chunk()?;
                if !out.is_empty() {
                    return Poll::Ready(Some(Ok(Chunk::Bytes(Bytes::from(out)))));
                }
                continue;
            }
            let Some(source) = &mut self.source else { return Poll::Ready(None) };
            match ready!(source.poll_piece(context)) {
                Some(Ok(Piece::Bytes(bytes))) => self.input = bytes,
                Some(Ok(Piece::Flush)) => return Poll::Ready(Some(Ok(Chunk::Flush))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    self.trailers = source.trailers();
                    self.source = None;
                    if self.decompress.is_some() {
                        return Poll::Ready(Some(Err(broken("gzip stream ends too early"))));
                    }
                }
            }
        }
    }

    fn trailers(&mut self) -> Option<Headers> {
        self.trailers.take()
    }
}

impl DecompressedBody {
    /// Decompresses one chunk of output, empty if the input yields none yet. Several members may follow one another
    /// (RFC 1952 section 2.2).
    fn decompress_chunk(&mut self) -> Result<Vec<u8>, BodyError> {
        let decompress =
            self.decompress.get_or_insert_with(|| Box::new(Decompress::new_gzip(WINDOW_BITS)));
        let room = self.input.len().saturating_mul(USUAL_RATIO).max(OUTPUT_BYTES_MIN);
        let mut out = Vec::with_capacity(room.min(self.output_bytes_max));
        let before = decompress.total_in();
        let status = decompress.decompress_vec(&self.input, &mut out, FlushDecompress::None);
        let status = status.map_err(|_| broken("gzip stream is damaged"))?;
        let taken = usize::try_from(decompress.total_in() - before).unwrap_or(usize::MAX);
        self.input.advance(taken.min(self.input.len()));
        self.has_more = out.len() == out.capacity();
        match status {
            Status::StreamEnd => {
                self.decompress = None;
                self.has_more = false;
            }
            Status::Ok => {}
            // No progress on this input: more calls would make none either.
            Status::BufError if taken == 0 && out.is_empty() && !self.input.is_empty() => {
                return Err(broken("gzip stream is damaged"));
            }
            Status::BufError => {}
        }
        Ok(out)
    }
}

fn broken(message: &'static str) -> BodyError {
    BodyError::Io(io::Error::new(io::ErrorKind::InvalidData, message))
}
