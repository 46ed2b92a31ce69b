//! Bodies that are pulled: a response body is a value the driver asks for its next piece, so that a slow
//! client holds its source back without any buffer in between.

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

/// Up to so many bytes, copying them from memory costs a server no more than `sendfile`. (Both as measured over
/// loopback; a network card that takes bytes from where they are moves it down.)
pub const SENDFILE_ABOVE: u64 = 32 << 10;

/// A part of an open file, sent by `sendfile` where the driver can.
#[derive(Clone, Debug)]
pub struct FileRange {
    pub file: Arc<File>,
    /// First byte, from the start of the file.
    pub offset: u64,
    /// Bytes to send. A file that turns out shorter ends the transfer visibly.
    pub length: u64,
    /// Where it is read when the page cache does not have it (`aio threads=`); `None` for the default pool.
    pub pool: Option<Arc<ThreadPool>>,
    /// Written a moment ago: the page cache has it, and need not be asked.
    pub is_fresh: bool,
    /// The file's bytes, where they are in memory too.
    pub resident: Option<Arc<Resident>>,
}

impl FileRange {
    /// A part that is read on the default pool.
    pub fn new(file: Arc<File>, offset: u64, length: u64) -> FileRange {
        FileRange { file, offset, length, pool: None, is_fresh: false, resident: None }
    }

    /// These bytes, from memory.
    pub fn in_memory(&self) -> Option<Bytes> {
        let bytes = &self.resident.as_ref()?.bytes;
        let start = usize::try_from(self.offset).ok()?;
        let end = start.checked_add(usize::try_from(self.length).ok()?)?;
        (end <= bytes.len()).then(|| bytes.slice(start..end))
    }
}

/// The contents of a file of which a descriptor is held as well: `sendfile` takes them from the page cache, and
/// whoever cannot use that takes them from here.
#[derive(Debug)]
pub struct Resident {
    pub bytes: Bytes,
    /// Unix milliseconds of the last look at the page cache that found the file there.
    pub(crate) seen_cached: AtomicU64,
}

impl Resident {
    pub fn new(bytes: Bytes) -> Resident {
        Resident { bytes, seen_cached: AtomicU64::new(0) }
    }
}

/// One piece of a body on its way to the client.
#[derive(Clone, Debug)]
pub enum Chunk {
    Bytes(Bytes),
    File(FileRange),
    /// Send what is buffered now; carries no data.
    Flush,
}

impl Chunk {
    /// Bytes of data in this piece.
    pub fn length(&self) -> u64 {
        match self {
            Chunk::Bytes(bytes) => bytes.len() as u64,
            Chunk::File(range) => range.length,
            Chunk::Flush => 0,
        }
    }
}

/// Why a body ended before its end. The client sees a broken transfer, never a short one that looks whole.
#[derive(Debug)]
pub enum BodyError {
    Io(io::Error),
    /// The origin broke off or lied about its length; already logged by whoever noticed.
    Incomplete,
}

impl From<io::Error> for BodyError {
    fn from(error: io::Error) -> Self {
        BodyError::Io(error)
    }
}

/// A source of pieces. Dropping it gives up whatever feeds it.
pub trait BodyStream {
    /// The next piece, or `None` at the regular end.
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>>;

    /// For a stream that nobody has read from: makes these bytes all that it gives. `false`: it cannot,
    /// and gives everything.
    fn narrow(&mut self, _range: ByteRange) -> bool {
        false
    }

    /// Leaves out bytes that nobody wants, where that costs less than reading them; returns how many
    /// of the next `count` bytes will not come.
    fn skip(&mut self, count: u64) -> u64 {
        let _ = count;
        0
    }

    /// Whether it is known already that nothing will come any more. `false` may turn out to be wrong.
    fn is_over(&self) -> bool {
        false
    }

    /// Trailer fields, known once `poll_chunk` has answered `None`.
    fn trailers(&mut self) -> Option<tidegate_codec::Headers> {
        None
    }
}

/// What follows a 101 response: the handler owns the raw connection until it returns.
pub type Tunnel = Box<dyn FnOnce(ClientIo) -> LocalFuture<'static, ()>>;

/// A response body.
#[derive(Default)]
pub enum Body {
    #[default]
    Empty,
    Bytes(Bytes),
    File(FileRange),
    /// Several pieces whose total length is known.
    Chunks(VecDeque<Chunk>),
    Stream(Box<dyn BodyStream>),
    Tunnel(Tunnel),
}

impl Body {
    /// Nothing, which says nothing of the length: for responses to HEAD.
    pub fn of_unknown_length() -> Body {
        Body::Stream(Box::new(Nothing))
    }

    /// Total bytes where that is known beforehand.
    pub fn known_length(&self) -> Option<u64> {
        match self {
            Body::Empty => Some(0),
            Body::Bytes(bytes) => Some(bytes.len() as u64),
            Body::File(range) => Some(range.length),
            Body::Chunks(chunks) => Some(chunks.iter().map(Chunk::length).sum()),
            Body::Stream(_) | Body::Tunnel(_) => None,
        }
    }

    /// The next piece, or `None` at the end.
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

    /// `poll_chunk` as a future.
    pub async fn next(&mut self) -> Option<Result<Chunk, BodyError>> {
        poll_fn(|context| self.poll_chunk(context)).await
    }

    /// Trailer fields after the end.
    pub fn trailers(&mut self) -> Option<tidegate_codec::Headers> {
        match self {
            Body::Stream(stream) => stream.trailers(),
            _ => None,
        }
    }

    /// True for a body without a byte of data.
    pub fn is_empty(&self) -> bool {
        self.known_length() == Some(0)
    }
}

struct Nothing;

impl BodyStream for Nothing {
    fn poll_chunk(&mut self, _context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        Poll::Ready(None)
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        if bytes.is_empty() { Body::Empty } else { Body::Bytes(bytes) }
    }
}
