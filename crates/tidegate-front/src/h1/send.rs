//! Sends a response: head and body with as few system calls as the body allows, paced by `limit_rate`, bounded by
//! `send_timeout`.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tidegate_codec::Headers;
use tidegate_core::body::{self, Body, BodyError, Chunk, FileRange};
use tidegate_core::client::Client;
use tidegate_core::settings::{Buffers, Settings};
use tidegate_core::{Exchange, file_read};
use tidegate_rt::net::{SENDFILE_CHUNK, Stream};
use tidegate_tls::DATA_BYTES_MAX;

use super::body::write_chunk_size;
use super::framing::Framing;
use crate::link::Link;
use crate::serve::deliver::{Pull, SendError, limited};
use crate::serve::pace::Pace;

/// Pieces smaller than this are copied behind the head; larger ones are sent from their own memory.
const COPY_BYTES_MAX: usize = 8 * 1024;
/// As [`COPY_BYTES_MAX`] with TLS, which has to copy the bytes once more in any case.
const TLS_COPY_BYTES_MAX: usize = 2 * 1024;
/// The most bytes read from a file at once with TLS: the bytes that one call encrypts.
const TLS_READ_BYTES_MAX: usize = 4 * DATA_BYTES_MAX;
/// Collected small pieces are sent once they have this size, bytes.
const COLLECT_BYTES: usize = 32 * 1024;
/// Sends head and body with as few system calls as possible if the body is in memory and the socket takes it, without
/// the state for slow bodies. A file is sent by calls of at most `sendfile_max` bytes. Returns the bytes sent and the
/// framing of the rest; bytes that were not taken stay in `out` and `body`.
///
/// Invariant: bytes leave in order. Of a file nothing is sent before the whole head has left, and nothing that is not
/// in the page cache: no disk stalls the event loop. It waits for nothing; an error of the socket is found again when
/// the rest is sent. Sources: `sendfile`, `sendfile_max_chunk`, `tcp_nopush`.
pub(super) fn at_once(
    context: &mut Context<'_>,
    link: &Link,
    out: &mut Vec<u8>,
    body: &mut Body,
    framing: Framing,
    sendfile_max: u64,
) -> (u64, Framing) {
    let Some(stream) = link.io.plain() else {
        return tls_at_once(context, link, out, body, framing);
    };
    match (framing, &mut *body) {
        (Framing::None, _) | (Framing::Length(0), Body::Empty) => {}
        (Framing::Length(length), Body::File(range))
            if (body::SENDFILE_ABOVE + 1..=sendfile_max).contains(&length)
                && range.length == length
                && file_read::was_cached(range) =>
        {
            // The head is announced as incomplete (MSG_MORE), so that it shares a packet with the file.
            let of_head = send_ahead(stream, out);
            let mut of_file = 0;
            if out.is_empty() {
                of_file = taken(stream.poll_sendfile(context, &range.file, range.offset, length));
            }
            range.offset += of_file as u64;
            range.length -= of_file as u64;
            return ((of_head + of_file) as u64, left(range.length));
        }
        (Framing::Length(length), Body::Bytes(bytes)) if bytes.len() as u64 == length => {
            // Large bodies are sent from their own memory, small ones are copied behind the head.
            if bytes.len() > COPY_BYTES_MAX {
                let pieces = [IoSlice::new(out), IoSlice::new(bytes)];
                let sent = taken(stream.poll_write_vectored(context, &pieces));
                let of_head = sent.min(out.len());
                let of_body = sent - of_head;
                drop(out.drain(..of_head));
                bytes.advance(of_body.min(bytes.len()));
                return (sent as u64, left(length - of_body as u64));
            }
            out.extend_from_slice(bytes);
        }
        _ => return (0, framing),
    }
    *body = Body::Empty;
    let sent = taken(stream.poll_write(context, out));
    drop(out.drain(..sent));
    (sent as u64, Framing::None)
}

/// As [`at_once`] for a connection with TLS. What was taken may wait in it for a flush.
fn tls_at_once(
    context: &mut Context<'_>,
    link: &Link,
    out: &mut Vec<u8>,
    body: &mut Body,
    framing: Framing,
) -> (u64, Framing) {
    let mut bytes = match (framing, &*body) {
        (Framing::None, _) | (Framing::Length(0), Body::Empty) => Bytes::new(),
        (Framing::Length(length), Body::Bytes(bytes)) if bytes.len() as u64 == length => {
            bytes.clone()
        }
        (Framing::Length(length), Body::File(range)) if range.length == length => {
            let Some(bytes) = range.in_memory() else { return (0, framing) };
            bytes
        }
        _ => return (0, framing),
    };
    if bytes.len() <= TLS_COPY_BYTES_MAX {
        out.extend_from_slice(&bytes);
        bytes.clear();
    }
    let pieces = [IoSlice::new(out), IoSlice::new(&bytes)];
    let pieces = if bytes.is_empty() { &pieces[..1] } else { &pieces };
    let sent = taken(link.io.poll_write_vectored(context, pieces));
    let of_head = sent.min(out.len());
    drop(out.drain(..of_head));
    bytes.advance(sent - of_head);
    let framing = left(bytes.len() as u64);
    *body = if bytes.is_empty() { Body::Empty } else { Body::Bytes(bytes) };
    (sent as u64, framing)
}

/// Writes a head that waits in the socket for a file's first bytes; returns the number of bytes taken.
fn send_ahead(stream: &Stream, head: &mut Vec<u8>) -> usize {
    let sent = stream.try_write_more(head).unwrap_or(0);
    drop(head.drain(..sent));
    sent
}

/// Returns the largest length of one call to `sendfile`, bytes; 0 if it is not to be used.
pub(super) fn sendfile_max(settings: &Settings) -> u64 {
    match (settings.sendfile, settings.sendfile_max_chunk) {
        (false, _) => 0,
        (true, 0) => SENDFILE_CHUNK,
        (true, most) => most.min(SENDFILE_CHUNK),
    }
}

/// Returns how many bytes of a file are read at once for TLS: all of `output_buffers`, rounded down to full records.
fn tls_read_bytes(buffers: Buffers) -> usize {
    let most = buffers.bytes.saturating_mul(buffers.count).min(TLS_READ_BYTES_MAX);
    (most / DATA_BYTES_MAX * DATA_BYTES_MAX).max(most.min(DATA_BYTES_MAX))
}

/// Returns the framing of the rest of a body of known length.
fn left(length: u64) -> Framing {
    if length == 0 { Framing::None } else { Framing::Length(length) }
}

/// Returns the number of bytes that a socket took; an error is found again when the rest is sent.
fn taken(write: Poll<io::Result<usize>>) -> usize {
    match write {
        Poll::Ready(Ok(sent)) => sent,
        Poll::Ready(Err(_)) | Poll::Pending => 0,
    }
}

/// A response that is being sent.
pub(super) struct Sender<'a> {
    link: &'a Link,
    client: Rc<dyn Client>,
    /// Head and small pieces that are not yet sent.
    out: &'a mut Vec<u8>,
    framing: Framing,
    timeout: Duration,
    pull: Pull,
    pace: Option<Box<Pace>>,
    sendfile_max: u64,
    /// Bytes read from a file at once: one of `output_buffers`, or [`tls_read_bytes`].
    read_bytes: usize,
    /// Bytes sent, including the head.
    pub sent: u64,
}

impl<'a> Sender<'a> {
    pub(super) fn new(
        link: &'a Link,
        out: &'a mut Vec<u8>,
        framing: Framing,
        pace: Option<Box<Pace>>,
        x: &Exchange,
    ) -> Sender<'a> {
        let settings = x.settings();
        let left = if let Framing::Length(length) = framing { Some(length) } else { None };
        Sender {
            link,
            client: x.client.clone(),
            out,
            framing,
            timeout: settings.send_timeout,
            pull: Pull::new(x, left),
            pace,
            sendfile_max: sendfile_max(settings),
            read_bytes: match link.io.plain() {
                Some(_) => settings.output_buffers.bytes,
                None => tls_read_bytes(settings.output_buffers),
            },
            sent: 0,
        }
    }

    /// Sends head and body; the end of the response is left to [`Sender::finish`].
    ///
    /// Invariant: bytes collected in `out` leave before a piece that is larger than [`COPY_BYTES_MAX`], so bytes keep
    /// their order. The head waits for the body's first bytes only where [`Pull::may_flush`] says no. A body that
    /// breaks off is sent as far as it arrived. Dropped at an await, the collected bytes are lost with the response.
    pub(super) async fn run(&mut self, body: &mut Body) -> Result<(), SendError> {
        if self.framing == Framing::None {
            return self.flush().await;
        }
        loop {
            let next = match self.pull.soon(body, !self.out.is_empty()).await {
                Some(next) => next,
                None => {
                    if self.pull.may_flush() {
                        self.flush().await?;
                    }
                    self.pull.unless_left(&*self.client, body.next()).await?
                }
            };
            match next {
                None => break,
                Some(Err(error)) => {
                    if self.pull.may_flush() {
                        let _ = self.flush().await;
                    }
                    return Err(SendError::Body(error));
                }
                Some(Ok(chunk)) => self.chunk(chunk).await?,
            }
            if self.pull.is_complete(body).await {
                break;
            }
        }
        if self.pull.lacks() {
            let _ = self.flush().await;
            return Err(SendError::Body(BodyError::Incomplete));
        }
        Ok(())
    }

    async fn chunk(&mut self, chunk: Chunk) -> Result<(), SendError> {
        if matches!(chunk, Chunk::Flush) {
            return self.flush().await;
        }
        let Some((chunk, length)) = self.pull.clip(chunk) else { return Ok(()) };
        if self.framing == Framing::Chunked {
            write_chunk_size(length, self.out);
        }
        match chunk {
            Chunk::Bytes(bytes) => self.bytes(bytes).await?,
            Chunk::File(range) => self.file(range).await?,
            Chunk::Flush => {}
        }
        if self.framing == Framing::Chunked {
            self.out.extend_from_slice(b"\r\n");
        }
        if self.out.len() >= COLLECT_BYTES {
            self.flush().await?;
        }
        Ok(())
    }

    async fn bytes(&mut self, bytes: Bytes) -> Result<(), SendError> {
        if bytes.len() <= COPY_BYTES_MAX {
            self.out.extend_from_slice(&bytes);
            return Ok(());
        }
        if self.pace.is_some() {
            self.flush().await?;
            return self.write(&bytes).await;
        }
        let head = std::mem::take(self.out);
        let mut pieces = [IoSlice::new(&head), IoSlice::new(&bytes)];
        let result = self.write_vectored(&mut pieces).await;
        *self.out = head;
        self.out.clear();
        result
    }

    async fn file(&mut self, range: FileRange) -> Result<(), SendError> {
        let by_sendfile = self.link.io.plain().is_some() && self.sendfile_max > 0;
        if (!by_sendfile || range.length <= body::SENDFILE_ABOVE)
            && let Some(bytes) = range.in_memory()
        {
            return self.bytes(bytes).await;
        }
        if by_sendfile {
            self.send_head_before_file().await?;
            return self.sendfile(range).await;
        }
        let mut offset = range.offset;
        let end = range.offset.saturating_add(range.length);
        while offset < end {
            let want = usize::try_from((end - offset).min(self.read_bytes as u64)).unwrap_or(0);
            let bytes = file_read::read(&range, offset, want).await;
            let bytes = bytes.map_err(|error| SendError::Body(BodyError::Io(error)))?;
            if bytes.is_empty() {
                return Err(SendError::Body(BodyError::Incomplete));
            }
            offset += bytes.len() as u64;
            self.bytes(Bytes::from(bytes)).await?;
            if self.out.len() >= COLLECT_BYTES {
                self.flush().await?;
            }
        }
        Ok(())
    }

    /// Keeps the head in the kernel until the file's first bytes, as `tcp_nopush` promises, at the cost of no further
    /// system call.
    async fn send_head_before_file(&mut self) -> Result<(), SendError> {
        if self.out.is_empty() {
            return Ok(());
        }
        if let Some(stream) = self.link.io.plain() {
            self.sent += send_ahead(stream, self.out) as u64;
        }
        self.flush().await
    }

    /// Sends a range without copying it. The range is looked up in the page cache, where it stays for the moment, but
    /// not while the client is slow.
    ///
    /// Invariant: `offset <= warm_to <= end`; the bytes before `warm_to` were in the page cache at the last lookup. A
    /// wait for the socket sets it back, as the pages may have been dropped meanwhile. Dropped at an await, a part of
    /// the range has left; `sent` has its bytes. Sources: `sendfile`, `sendfile_max_chunk`, `limit_rate`.
    async fn sendfile(&mut self, range: FileRange) -> Result<(), SendError> {
        let Some(stream) = self.link.io.plain() else { return Ok(()) };
        let mut offset = range.offset;
        let end = range.offset.saturating_add(range.length);
        let mut warm_to = if range.is_fresh && self.pace.is_none() { end } else { offset };
        while offset < end {
            let mut want = self.paced((end - offset).min(self.sendfile_max)).await?;
            if offset >= warm_to {
                let warmed = file_read::warm(&range, offset, want).await;
                warm_to = offset + warmed.map_err(|error| SendError::Body(BodyError::Io(error)))?;
            }
            want = want.min(warm_to - offset);
            let sent = poll_fn(|context| {
                Poll::Ready(stream.poll_sendfile(context, &range.file, offset, want))
            });
            let sent = match sent.await {
                Poll::Ready(sent) => sent.map_err(SendError::Client)?,
                Poll::Pending => {
                    let writable = async { stream.writable().await.map(|()| 0) };
                    limited(&self.pull.deadline, self.timeout, writable).await?;
                    // The pages may be dropped while the client is slow.
                    warm_to = offset;
                    continue;
                }
            };
            if sent == 0 {
                return Err(SendError::Body(BodyError::Incomplete));
            }
            offset += sent as u64;
            self.sent += sent as u64;
        }
        Ok(())
    }

    /// Sends the collected bytes, and what TLS buffers of pieces that it took before.
    pub(super) async fn flush(&mut self) -> Result<(), SendError> {
        if !self.out.is_empty() {
            let bytes = std::mem::take(self.out);
            let result = self.write(&bytes).await;
            *self.out = bytes;
            self.out.clear();
            result?;
        }
        if self.link.io.plain().is_some() {
            return Ok(());
        }
        let flush = poll_fn(|context| self.link.io.poll_flush(context).map_ok(|()| 0));
        limited(&self.pull.deadline, self.timeout, flush).await.map(drop)
    }

    async fn write(&mut self, mut bytes: &[u8]) -> Result<(), SendError> {
        let link = self.link;
        while !bytes.is_empty() {
            let want = self.paced(bytes.len() as u64).await? as usize;
            let piece = &bytes[..want.min(bytes.len())];
            let written = limited(
                &self.pull.deadline,
                self.timeout,
                poll_fn(|context| link.io.poll_write(context, piece)),
            )
            .await?;
            self.sent += written as u64;
            bytes = bytes.get(written..).unwrap_or_default();
        }
        Ok(())
    }

    async fn write_vectored(&mut self, mut pieces: &mut [IoSlice<'_>]) -> Result<(), SendError> {
        let link = self.link;
        IoSlice::advance_slices(&mut pieces, 0);
        while !pieces.is_empty() {
            let written = limited(
                &self.pull.deadline,
                self.timeout,
                poll_fn(|context| link.io.poll_write_vectored(context, pieces)),
            )
            .await?;
            if written == 0 {
                return Err(SendError::Client(io::ErrorKind::WriteZero.into()));
            }
            self.sent += written as u64;
            IoSlice::advance_slices(&mut pieces, written);
        }
        Ok(())
    }

    /// Waits until at least one byte may be sent; returns how many may, at most `want`.
    async fn paced(&self, want: u64) -> Result<u64, SendError> {
        let Some(pace) = &self.pace else { return Ok(want) };
        let allowed = poll_fn(|context| pace.poll_allowance(context, self.sent, want));
        self.pull.unless_left(&*self.client, allowed).await
    }

    /// Sends the end; `Ok` means that the complete response has left.
    pub(super) async fn finish(&mut self, trailers: Option<&Headers>) -> Result<(), SendError> {
        if self.framing == Framing::Chunked {
            match trailers {
                Some(trailers) => tidegate_codec::chunked::write_last_chunk(trailers, self.out),
                None => self.out.extend_from_slice(tidegate_codec::chunked::LAST_CHUNK),
            }
        }
        self.flush().await
    }
}
