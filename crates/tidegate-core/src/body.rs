//! Bodies that are pulled: the driver takes a response body's next chunk when it has room. So a slow client
//! holds back the body's source without a buffer in between.

pub mod cut;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll};

use bytes::Bytes;
use tidegate_codec::range::ByteRange;
use tidegate_rt::blocking::ThreadPool;

use crate::client::ClientIo;
use crate::future::LocalFuture;

/// Up to this number of bytes, copying from memory costs no more than `sendfile`. (Both measured over loopback;
/// with a network card that reads pages directly, the threshold is lower.)
pub const SENDFILE_ABOVE: u64 = 32 << 10;

/// A part of an open file, sent by `sendfile` where the driver can.
#[derive(Clone, Debug)]
pub struct FileRange {
    /// The open file.
    pub file: Arc<File>,
    /// Offset of the first byte in the file.
    pub offset: u64,
    /// Bytes to send. A file that is shorter ends the transfer with an error that the client sees.
    pub length: u64,
    /// The pool that reads it when it is not in the page cache (`aio threads=`); `None` for the default pool.
    pub pool: Option<Arc<ThreadPool>>,
    /// Whether it was written just now: then it is in the page cache, and no check is needed.
    pub is_fresh: bool,
    /// The file's contents, where they are in memory as well.
    pub resident: Option<Arc<Resident>>,
}

impl FileRange {
    /// Creates a range that is read on the default pool.
    pub fn new(file: Arc<File>, offset: u64, length: u64) -> FileRange {
        FileRange { file, offset, length, pool: None, is_fresh: false, resident: None }
    }

    /// Returns the range's bytes where they are in memory.
    pub fn in_memory(&self) -> Option<Bytes> {
        let bytes = &self.resident.as_ref()?.bytes;
        let start = usize::try_from(self.offset).ok()?;
        let end = start.checked_add(usize::try_from(self.length).ok()?)?;
        (end <= bytes.len()).then(|| bytes.slice(start..end))
    }
}

/// The contents of a file whose descriptor is held as well: `sendfile` takes them from the page cache, and callers
/// that cannot use `sendfile` take them from here.
#[derive(Debug)]
pub struct Resident {
    /// The whole file.
    pub bytes: Bytes,
    /// Unix milliseconds of the last check that found the file in the page cache.
    pub(crate) seen_cached: AtomicU64,
}

impl Resident {
    /// Creates the contents of a file that has not been checked for in the page cache.
    pub fn new(bytes: Bytes) -> Resident {
        Resident { bytes, seen_cached: AtomicU64::new(0) }
    }
}

/// One piece of a body.
#[derive(Clone, Debug)]
pub enum Chunk {
    /// Data in memory.
    Bytes(Bytes),
    /// A part of a file, which stays a range unless a filter needs its bytes.
    File(FileRange),
    /// Send buffered data now; carries no data.
    Flush,
}

impl Chunk {
    /// Returns the bytes of data in this chunk.
    pub fn length(&self) -> u64 {
        match self {
            Chunk::Bytes(bytes) => bytes.len() as u64,
            Chunk::File(range) => range.length,
            Chunk::Flush => 0,
        }
    }
}

/// Why a body ended early. The client sees a broken transfer, never a short one that looks complete.
#[derive(Debug)]
pub enum BodyError {
    /// A read failed.
    Io(io::Error),
    /// The origin closed early or sent a wrong length; already logged where it was detected.
    Incomplete,
}

impl From<io::Error> for BodyError {
    fn from(error: io::Error) -> Self {
        BodyError::Io(error)
    }
}

/// A source of chunks. Dropping it cancels the work behind it.
pub trait BodyStream {
    /// Returns the next chunk, or `None` at the regular end.
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>>;

    /// Restricts a stream that has not been read to these bytes. Returns `false` where it cannot; then it yields
    /// everything.
    fn narrow(&mut self, _range: ByteRange) -> bool {
        false
    }

    /// Skips bytes that are not needed, where that costs less than reading them; returns how many of the next
    /// `count` bytes are skipped.
    fn skip(&mut self, count: u64) -> u64 {
        let _ = count;
        0
    }

    /// Returns whether the end is known to be reached. `false` may turn out to be wrong.
    fn is_over(&self) -> bool {
        false
    }

    /// Returns trailer fields, known once `poll_chunk` has returned `None`.
    fn trailers(&mut self) -> Option<tidegate_codec::Headers> {
        None
    }
}

/// The function that runs after a 101 response: it owns the raw connection until it returns.
pub type Tunnel = Box<dyn FnOnce(ClientIo) -> LocalFuture<'static, ()>>;

/// A response body.
#[derive(Default)]
pub enum Body {
    /// No data.
    #[default]
    Empty,
    /// Data in memory.
    Bytes(Bytes),
    /// A part of a file.
    File(FileRange),
    /// Several chunks whose total length is known.
    Chunks(VecDeque<Chunk>),
    /// Chunks that are made as they are pulled; the length is not known beforehand.
    Stream(Box<dyn BodyStream>),
    /// Bytes both ways after a 101 response.
    Tunnel(Tunnel),
}

impl Body {
    /// Creates an empty body whose length counts as unknown: for responses to HEAD.
    pub fn of_unknown_length() -> Body {
        Body::Stream(Box::new(UnknownLength))
    }

    /// Returns the total length in bytes where it is known beforehand.
    pub fn known_length(&self) -> Option<u64> {
        match self {
            Body::Empty => Some(0),
            Body::Bytes(bytes) => Some(bytes.len() as u64),
            Body::File(range) => Some(range.length),
            Body::Chunks(chunks) => Some(chunks.iter().map(Chunk::length).sum()),
            Body::Stream(_) | Body::Tunnel(_) => None,
        }
    }

    /// Returns the next chunk, or `None` at the end.
    pub fn poll_chunk(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Chunk, BodyError>>> {
        match self {
            Body::Stream(stream) => stream.poll_chunk(context),
            Body::Chunks(chunks) => Poll::Ready(chunks.pop_front().map(Ok)),
            Body::Empty | Body::Tunnel(_) => Poll::Ready(None),
            Body::Bytes(_) | Body::File(_) => Poll::Ready(match std::mem::take(self) {
                Body::Bytes(bytes) => Some(Ok(Chunk::Bytes(bytes))),
                Body::File(range) => Some(Ok(Chunk::File(range))),
                _ => None,
            }),
        }
    }

    /// [`Body::poll_chunk`] as a future.
    pub async fn next(&mut self) -> Option<Result<Chunk, BodyError>> {
        poll_fn(|context| self.poll_chunk(context)).await
    }

    /// Returns trailer fields after the end.
    pub fn trailers(&mut self) -> Option<tidegate_codec::Headers> {
        match self {
            Body::Stream(stream) => stream.trailers(),
            _ => None,
        }
    }

    /// Returns whether the body is known to have no data.
    pub fn is_empty(&self) -> bool {
        self.known_length() == Some(0)
    }
}

struct UnknownLength;

impl BodyStream for UnknownLength {
    fn poll_chunk(&mut self, _context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        Poll::Ready(None)
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        if bytes.is_empty() { Body::Empty } else { Body::Bytes(bytes) }
    }
}
