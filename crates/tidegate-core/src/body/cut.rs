//! Cutting parts out of bodies of every kind. Files stay files, so that they can still be sent by `sendfile`.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use bytes::Bytes;
use tidegate_codec::Headers;
use tidegate_codec::range::{ByteRange, write_part_head, write_parts_end};

use super::{Body, BodyError, BodyStream, Chunk, FileRange};

/// Returns one range of a body.
pub fn single(body: Body, range: ByteRange) -> Body {
    match body {
        // A response to HEAD has no body to cut.
        Body::Empty => Body::Empty,
        Body::Bytes(bytes) => slice(&bytes, 0, range).map_or(Body::Empty, Body::Bytes),
        Body::File(file) => cut_file(&file, 0, range).map_or(Body::Empty, Body::File),
        Body::Chunks(chunks) => {
            let mut parts = VecDeque::new();
            cut_chunks(&chunks, range, &mut parts);
            Body::Chunks(parts)
        }
        Body::Stream(mut stream) => {
            if stream.narrow(range) {
                return Body::Stream(stream);
            }
            let part = CutPart { lead: Bytes::new(), range };
            Body::Stream(Box::new(CutStream::new(stream, [part].into(), Bytes::new())))
        }
        Body::Tunnel(tunnel) => Body::Tunnel(tunnel),
    }
}

/// Returns several ranges of a body as `multipart/byteranges` (RFC 9110 section 14.6). Ranges of a stream must be
/// ascending and must not overlap.
pub fn multiple(
    body: Body,
    ranges: &[ByteRange],
    size: u64,
    boundary: &[u8],
    content_type: Option<&[u8]>,
) -> Body {
    let part = |range: &ByteRange| {
        let mut lead = Vec::with_capacity(128);
        write_part_head(boundary, content_type, *range, size, &mut lead);
        CutPart { lead: Bytes::from(lead), range: *range }
    };
    let parts: VecDeque<CutPart> = ranges.iter().map(part).collect();
    let mut end = Vec::with_capacity(32);
    write_parts_end(boundary, &mut end);
    let end = Bytes::from(end);
    let chunks: VecDeque<Chunk> = match body {
        Body::Empty => return Body::Empty,
        Body::Tunnel(tunnel) => return Body::Tunnel(tunnel),
        Body::Stream(stream) => return Body::Stream(Box::new(CutStream::new(stream, parts, end))),
        Body::Bytes(bytes) => [Chunk::Bytes(bytes)].into(),
        Body::File(file) => [Chunk::File(file)].into(),
        Body::Chunks(chunks) => chunks,
    };
    let mut cut = VecDeque::with_capacity(2 * ranges.len() + 1);
    for part in parts {
        cut.push_back(Chunk::Bytes(part.lead));
        cut_chunks(&chunks, part.range, &mut cut);
    }
    cut.push_back(Chunk::Bytes(end));
    Body::Chunks(cut)
}

fn cut_chunks(chunks: &VecDeque<Chunk>, range: ByteRange, out: &mut VecDeque<Chunk>) {
    let mut position = 0;
    for chunk in chunks {
        out.extend(cut_chunk(chunk, position, range));
        position += chunk.length();
    }
}

/// Returns the part of a chunk that lies in the range; the chunk begins at `position`.
fn cut_chunk(chunk: &Chunk, position: u64, range: ByteRange) -> Option<Chunk> {
    match chunk {
        Chunk::Bytes(bytes) => slice(bytes, position, range).map(Chunk::Bytes),
        Chunk::File(file) => cut_file(file, position, range).map(Chunk::File),
        Chunk::Flush => None,
    }
}

fn slice(bytes: &Bytes, position: u64, range: ByteRange) -> Option<Bytes> {
    let (start, end) = overlap(position, bytes.len() as u64, range)?;
    Some(bytes.slice(usize::try_from(start).ok()?..usize::try_from(end).ok()?))
}

fn cut_file(file: &FileRange, position: u64, range: ByteRange) -> Option<FileRange> {
    let (start, end) = overlap(position, file.length, range)?;
    Some(FileRange { offset: file.offset + start, length: end - start, ..file.clone() })
}

/// Returns the part of `length` bytes at `position` that lies in the range, relative to `position`.
fn overlap(position: u64, length: u64, range: ByteRange) -> Option<(u64, u64)> {
    let start = range.start.saturating_sub(position);
    let end = range.end.saturating_sub(position).min(length);
    (start < end).then_some((start, end))
}

struct CutPart {
    /// The part's head, sent before its bytes.
    lead: Bytes,
    range: ByteRange,
}

/// Ranges of a stream; the stream is dropped as soon as the last part is complete.
struct CutStream {
    stream: Option<Box<dyn BodyStream>>,
    parts: VecDeque<CutPart>,
    /// The closing boundary, sent after the last part.
    end: Bytes,
    /// Bytes of the stream that have been read or skipped.
    position: u64,
    ready: VecDeque<Chunk>,
}

impl CutStream {
    fn new(stream: Box<dyn BodyStream>, parts: VecDeque<CutPart>, end: Bytes) -> CutStream {
        let mut cut =
            CutStream { stream: Some(stream), parts, end, position: 0, ready: VecDeque::new() };
        cut.skip();
        cut
    }

    /// Skips the bytes before the next part.
    fn skip(&mut self) {
        if let (Some(stream), Some(part)) = (&mut self.stream, self.parts.front()) {
            self.position += stream.skip(part.range.start.saturating_sub(self.position));
        }
    }

    /// Moves the bytes of a chunk that belong to parts to `ready`.
    fn take(&mut self, chunk: &Chunk) {
        let length = chunk.length();
        // A chunk may hold several parts, and a part may reach over several chunks.
        while let Some(part) = self.parts.front_mut() {
            if part.range.start >= self.position + length {
                break;
            }
            if !part.lead.is_empty() {
                self.ready.push_back(Chunk::Bytes(std::mem::take(&mut part.lead)));
            }
            self.ready.extend(cut_chunk(chunk, self.position, part.range));
            if part.range.end > self.position + length {
                break;
            }
            self.parts.pop_front();
        }
        self.position += length;
        self.skip();
        if self.parts.is_empty() {
            self.stream = None;
            if !self.end.is_empty() {
                self.ready.push_back(Chunk::Bytes(std::mem::take(&mut self.end)));
            }
        }
    }
}

impl BodyStream for CutStream {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(chunk)));
            }
            let Some(stream) = &mut self.stream else { return Poll::Ready(None) };
            match stream.poll_chunk(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(Chunk::Flush))) => {
                    return Poll::Ready(Some(Ok(Chunk::Flush)));
                }
                Poll::Ready(Some(Ok(chunk))) => self.take(&chunk),
                // The length was announced: an earlier end is an error.
                Poll::Ready(None) => return Poll::Ready(Some(Err(BodyError::Incomplete))),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
            }
        }
    }

    fn trailers(&mut self) -> Option<Headers> {
        // Trailer fields describe the whole representation.
        None
    }
}
