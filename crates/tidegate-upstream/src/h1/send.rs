//! Sending a request: the head and a small body with one write; larger and streamed bodies are sent while the
//! response is awaited.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tidegate_codec::chunked::{CHUNK_END, ChunkHeader, LAST_CHUNK};
use tidegate_codec::fastcgi;
use tidegate_core::body::{Chunk, FileRange};
use tidegate_core::request_body::{RequestBody, RequestBodyError, StoredBody};
use tidegate_core::{LocalFuture, file_read};
use tidegate_rt::timer::timeout;

use crate::Io;
use crate::log::{TIMED_OUT, os_error};
use crate::request::RequestPayload;
use crate::wire::Wire;

#[cfg(test)]
mod tests;

/// Bytes of a streamed body that are collected before they are sent.
pub(crate) const COLLECT_BYTES: usize = 64 * 1024;

/// Bytes of a file that are checked for being in the page cache before they are sent from there.
const SENDFILE_BYTES: u64 = 1 << 20;

/// A request body on its way.
pub(crate) type Upload = LocalFuture<'static, UploadEnd>;

/// The result of sending.
pub(crate) struct UploadEnd {
    pub result: Result<(), SendError>,
    /// The client's body, to be given back.
    pub body: Option<Box<RequestBody>>,
    /// Bytes sent.
    pub sent: u64,
}

/// The reason why a request could not be sent.
#[derive(Debug)]
pub(crate) enum SendError {
    Origin(io::Error),
    TimedOut,
    /// The client's body could not be read.
    Client(RequestBodyError),
}

impl fmt::Display for SendError {
    /// Writes the error log's text; that of the client's body is written where the body is read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::Origin(error) => write!(f, "send() failed ({})", os_error(error)),
            SendError::TimedOut => f.write_str(TIMED_OUT),
            SendError::Client(_) => f.write_str("the client's body could not be read"),
        }
    }
}

impl std::error::Error for SendError {}

/// Begins to send, with one system call and without waiting. `Ok(None)`: all is sent, which is the common case and
/// makes no future.
///
/// Head and a small body are sent together; the bytes that the socket does not take, and every body that is larger,
/// streamed, in records or encrypted, go to the [`Upload`], which starts behind the bytes counted in `sent`. The
/// upload owns its data and shares the socket with the reader. Dropped at any await, it has sent a prefix of the
/// request: the connection is unusable, and its owner closes it.
///
/// # Errors
/// The socket refuses; it is unknown how much the origin has read.
pub(crate) fn begin(
    io: &Io,
    (head, payload): (&[u8], &mut RequestPayload),
    wire: &Wire,
    limit: Duration,
    sent: &mut u64,
) -> Result<Option<Upload>, SendError> {
    let streamed = matches!(payload, RequestPayload::Stream { .. });
    let frames = match (wire, &*payload) {
        // The head is the complete request, the end of the body included.
        (_, RequestPayload::None) => UploadFraming::None,
        (Wire::FastCgi(_), _) => UploadFraming::Records,
        (_, RequestPayload::Stream { chunked: true, .. }) => UploadFraming::Chunks,
        _ => UploadFraming::None,
    };
    let small: &[u8] = match &*payload {
        // Records are sent piece by piece.
        _ if frames == UploadFraming::Records => &[],
        RequestPayload::Bytes(bytes) => bytes,
        RequestPayload::Stored(body) => match (&body.file, &body.memory[..]) {
            (None, [only]) => only,
            _ => &[],
        },
        _ => &[],
    };
    let written = match io.plain() {
        // Encrypted bytes may have to wait: the upload flushes them.
        None => Ok(0),
        Some(_) if streamed => Ok(0),
        Some(stream) if small.is_empty() => stream.try_write(head),
        Some(stream) => stream.try_write_vectored(&[IoSlice::new(head), IoSlice::new(small)]),
    };
    let written = match written {
        Ok(written) => written,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        Err(error) => return Err(SendError::Origin(error)),
    };
    *sent += written as u64;
    let rest = UnsentPart { io: io.clone(), limit, frames, sent: 0 };
    let head_left = Bytes::copy_from_slice(head.get(written..).unwrap_or_default());
    let body_sent = written.saturating_sub(head.len());
    match payload {
        RequestPayload::None if head_left.is_empty() => Ok(None),
        RequestPayload::None => Ok(Some(Box::pin(rest.pieces(head_left, Vec::new(), 0)))),
        RequestPayload::Bytes(bytes) if body_sent == bytes.len() && head_left.is_empty() => {
            Ok(None)
        }
        RequestPayload::Bytes(bytes) => {
            let pieces = vec![Chunk::Bytes(bytes.clone())];
            Ok(Some(Box::pin(rest.pieces(head_left, pieces, body_sent))))
        }
        RequestPayload::Stored(body) if is_sent(body, body_sent) && head_left.is_empty() => {
            Ok(None)
        }
        RequestPayload::Stored(body) => {
            let pieces = body.chunks().collect();
            Ok(Some(Box::pin(rest.pieces(head_left, pieces, body_sent))))
        }
        RequestPayload::Stream { .. } => match std::mem::take(payload) {
            RequestPayload::Stream { body, keep_max, .. } => {
                Ok(Some(Box::pin(rest.stream(head_left, body, keep_max))))
            }
            _ => Ok(None),
        },
    }
}

fn is_sent(body: &StoredBody, sent: usize) -> bool {
    body.length == sent as u64
}

/// The framing of a body's pieces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UploadFraming {
    None,
    /// RFC 9112 section 7.1.
    Chunks,
    /// FastCGI's records.
    Records,
}

/// The part of a request that one write did not take.
struct UnsentPart {
    io: Io,
    limit: Duration,
    frames: UploadFraming,
    sent: u64,
}

impl UnsentPart {
    /// Sends the rest of the head and pieces of a kept body, whose first `skip` bytes are sent.
    async fn pieces(mut self, head: Bytes, pieces: Vec<Chunk>, mut skip: usize) -> UploadEnd {
        let mut result = self.write(&mut [IoSlice::new(&head)]).await;
        for piece in pieces {
            if result.is_err() {
                break;
            }
            result = match piece {
                Chunk::Bytes(bytes) => {
                    let start = skip.min(bytes.len());
                    skip -= start;
                    self.data(&[], &bytes[start..], false).await
                }
                Chunk::File(range) => self.file(range).await,
                Chunk::Flush => Ok(()),
            };
        }
        if result.is_ok() && self.frames == UploadFraming::Records {
            result = self.data(&[], &[], true).await;
        }
        UploadEnd { result, body: None, sent: self.sent }
    }

    /// Sends the head and the client's body as it arrives; data that is ready together is sent together.
    async fn stream(
        mut self,
        mut head: Bytes,
        mut body: Box<RequestBody>,
        keep_max: usize,
    ) -> UploadEnd {
        let mut kept = Keep::new(keep_max);
        let mut data = Vec::new();
        let result = loop {
            data.clear();
            let ended = match poll_fn(|context| gather(&mut body, &mut data, &head, context)).await
            {
                Ok(ended) => ended,
                Err(error) => break Err(SendError::Client(error)),
            };
            kept.push(&data);
            if let Err(error) = self.data(&head, &data, ended).await {
                break Err(error);
            }
            head = Bytes::new();
            if ended {
                break Ok(());
            }
        };
        if result.is_ok() {
            kept.store(&mut body);
        }
        UploadEnd { result, body: Some(body), sent: self.sent }
    }

    /// Sends data in frames, and the end of the body behind it.
    async fn data(&mut self, head: &[u8], data: &[u8], ended: bool) -> Result<(), SendError> {
        if self.frames == UploadFraming::Records {
            return self.records(head, data, ended).await;
        }
        let chunked = self.frames == UploadFraming::Chunks;
        let size = ChunkHeader::new(data.len() as u64);
        let framed = chunked && !data.is_empty();
        let mut pieces = [
            IoSlice::new(head),
            IoSlice::new(if framed { size.as_bytes() } else { &[] }),
            IoSlice::new(data),
            IoSlice::new(if framed { CHUNK_END } else { &[] }),
            IoSlice::new(if chunked && ended { LAST_CHUNK } else { &[] }),
        ];
        self.write(&mut pieces).await
    }

    async fn records(&mut self, head: &[u8], data: &[u8], ended: bool) -> Result<(), SendError> {
        let mut head = head;
        let mut pieces = data.chunks(fastcgi::CONTENT_BYTES_MAX).peekable();
        while let Some(piece) = pieces.next() {
            let header = fastcgi::stdin_header(piece.len());
            let end: &[u8] =
                if ended && pieces.peek().is_none() { &fastcgi::STDIN_END } else { &[] };
            self.write(&mut [head, &header, piece, end].map(IoSlice::new)).await?;
            head = &[];
        }
        let end: &[u8] = if ended && data.is_empty() { &fastcgi::STDIN_END } else { &[] };
        self.write(&mut [head, end].map(IoSlice::new)).await
    }

    async fn write(&mut self, mut pieces: &mut [IoSlice<'_>]) -> Result<(), SendError> {
        IoSlice::advance_slices(&mut pieces, 0);
        while !pieces.is_empty() {
            let write = poll_fn(|context| self.io.poll_write_vectored(context, pieces));
            let written = timeout(self.limit, write).await.map_err(|_| SendError::TimedOut)?;
            let written = written.map_err(SendError::Origin)?;
            self.sent += written as u64;
            IoSlice::advance_slices(&mut pieces, written);
        }
        if self.io.plain().is_some() {
            return Ok(());
        }
        let flush = poll_fn(|context| self.io.poll_flush(context));
        let flushed = timeout(self.limit, flush).await.map_err(|_| SendError::TimedOut)?;
        flushed.map_err(SendError::Origin)
    }

    async fn file(&mut self, range: FileRange) -> Result<(), SendError> {
        if self.frames == UploadFraming::Records {
            return self.file_by_pieces(range).await;
        }
        let Some(stream) = self.io.plain() else { return self.file_by_pieces(range).await };
        let (mut offset, end) = (range.offset, range.offset.saturating_add(range.length));
        while offset < end {
            let warmed = file_read::warm(&range, offset, (end - offset).min(SENDFILE_BYTES));
            let (at, left) = (offset, warmed.await.map_err(unreadable)?);
            let write = poll_fn(|context| stream.poll_sendfile(context, &range.file, at, left));
            let written = timeout(self.limit, write).await.map_err(|_| SendError::TimedOut)?;
            match written.map_err(SendError::Origin)? {
                0 => return Err(cut_short()),
                written => {
                    self.sent += written as u64;
                    offset += written as u64;
                }
            }
        }
        Ok(())
    }

    /// Sends a file that has to be encrypted or framed.
    async fn file_by_pieces(&mut self, range: FileRange) -> Result<(), SendError> {
        let (mut offset, end) = (range.offset, range.offset.saturating_add(range.length));
        while offset < end {
            let piece = file_piece(&range, offset, end).await?;
            self.data(&[], &piece, false).await?;
            offset += piece.len() as u64;
        }
        Ok(())
    }
}

/// Reads the next piece of a file, from `offset` on and in front of `end`.
///
/// # Errors
/// The file cannot be read, or is shorter than the body.
pub(crate) async fn file_piece(
    range: &FileRange,
    offset: u64,
    end: u64,
) -> Result<Vec<u8>, SendError> {
    let room = usize::try_from(end - offset).unwrap_or(usize::MAX).min(COLLECT_BYTES);
    let piece = file_read::read(range, offset, room).await.map_err(unreadable)?;
    if piece.is_empty() { Err(cut_short()) } else { Ok(piece) }
}

/// Makes the error of a file that is shorter than the body.
fn cut_short() -> SendError {
    unreadable(io::ErrorKind::UnexpectedEof.into())
}

fn unreadable(error: io::Error) -> SendError {
    SendError::Client(RequestBodyError::Io(error))
}

/// Collects the client's data. Ready with data, with the end (`true`), or at once while a head waits to be sent.
pub(crate) fn gather(
    body: &mut RequestBody,
    data: &mut Vec<u8>,
    head: &[u8],
    context: &mut Context<'_>,
) -> Poll<Result<bool, RequestBodyError>> {
    while data.len() < COLLECT_BYTES {
        match body.poll_next(context) {
            Poll::Ready(Ok(Some(bytes))) => data.extend_from_slice(&bytes),
            Poll::Ready(Ok(None)) => return Poll::Ready(Ok(true)),
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending if data.is_empty() && head.is_empty() => return Poll::Pending,
            Poll::Pending => return Poll::Ready(Ok(false)),
        }
    }
    Poll::Ready(Ok(body.is_finished()))
}

/// A copy of a small streamed body for `$request_body`.
pub(crate) struct Keep {
    bytes: Option<Vec<u8>>,
    most: usize,
}

impl Keep {
    pub(crate) fn new(most: usize) -> Keep {
        Keep { bytes: Some(Vec::new()), most }
    }

    pub(crate) fn push(&mut self, data: &[u8]) {
        match &mut self.bytes {
            Some(bytes) if bytes.len() + data.len() <= self.most => bytes.extend_from_slice(data),
            _ => self.bytes = None,
        }
    }

    pub(crate) fn store(self, body: &mut RequestBody) {
        let Some(bytes) = self.bytes.filter(|bytes| !bytes.is_empty()) else { return };
        let length = bytes.len() as u64;
        let memory = vec![Bytes::from(bytes)];
        let stored = StoredBody { memory, length, ..StoredBody::default() };
        body.set_stored(std::sync::Arc::new(stored));
    }
}
