//! A body as bytes, for filters that need them: file ranges are read piece by piece, on a pool thread where the
//! disk would block the event loop.

#[cfg(test)]
mod tests;

use std::task::{Context, Poll};

use bytes::Bytes;

use crate::body::{Body, BodyError, Chunk, FileRange};
use crate::future::LocalFuture;

/// Bytes of one read of a file.
const READ_BYTES: usize = 32 << 10;

/// One piece of a body without file ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Data, never empty.
    Bytes(Bytes),
    /// Pass on buffered output now.
    Flush,
}

/// A body whose pieces are bytes.
pub struct ByteBody {
    body: Body,
    /// The unread rest of the current file range.
    file: Option<FileRange>,
    reading: Option<LocalFuture<'static, std::io::Result<Vec<u8>>>>,
}

impl ByteBody {
    /// Creates a reader of `body`.
    pub fn new(body: Body) -> ByteBody {
        ByteBody { body, file: None, reading: None }
    }

    /// Returns the next piece, or `None` at the end. A file that is shorter than its range is an error.
    pub fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Piece, BodyError>>> {
        loop {
            if let Some(range) = &self.file {
                let read = self.reading.get_or_insert_with(|| read(range));
                let bytes = std::task::ready!(read.as_mut().poll(context));
                self.reading = None;
                return Poll::Ready(Some(self.advance(bytes)));
            }
            match std::task::ready!(self.body.poll_chunk(context)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(Chunk::Flush)) => return Poll::Ready(Some(Ok(Piece::Flush))),
                Some(Ok(Chunk::Bytes(bytes))) if bytes.is_empty() => {}
                Some(Ok(Chunk::Bytes(bytes))) => return Poll::Ready(Some(Ok(Piece::Bytes(bytes)))),
                Some(Ok(Chunk::File(range))) if range.length == 0 => {}
                Some(Ok(Chunk::File(range))) => match range.in_memory() {
                    Some(bytes) => return Poll::Ready(Some(Ok(Piece::Bytes(bytes)))),
                    None => self.file = Some(range),
                },
            }
        }
    }

    /// [`ByteBody::poll_piece`] as a future.
    pub async fn next(&mut self) -> Option<Result<Piece, BodyError>> {
        std::future::poll_fn(|context| self.poll_piece(context)).await
    }

    /// Returns trailer fields after the end.
    pub fn trailers(&mut self) -> Option<tidegate_codec::Headers> {
        self.body.trailers()
    }

    fn advance(&mut self, bytes: std::io::Result<Vec<u8>>) -> Result<Piece, BodyError> {
        let bytes = bytes?;
        let Some(range) = self.file.as_mut().filter(|_| !bytes.is_empty()) else {
            return Err(BodyError::Incomplete);
        };
        range.offset += bytes.len() as u64;
        range.length = range.length.saturating_sub(bytes.len() as u64);
        if range.length == 0 {
            self.file = None;
        }
        Ok(Piece::Bytes(Bytes::from(bytes)))
    }
}

fn read(range: &FileRange) -> LocalFuture<'static, std::io::Result<Vec<u8>>> {
    let range = range.clone();
    let want = usize::try_from(range.length).unwrap_or(READ_BYTES).min(READ_BYTES);
    Box::pin(async move { crate::file_read::read(&range, range.offset, want).await })
}
