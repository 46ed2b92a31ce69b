//! The body of a request on a stream, as far as the origin's windows allow.
//!
//! A small body that is in memory goes with the head. Everything else is an [`Upload`], which is polled beside the
//! response: an origin may respond before it has read the request, or stop reading it with RST_STREAM and NO_ERROR
//! (RFC 9113 section 8.1). A wait for a window, or for room in the output, ends after `*_send_timeout`. Dropped, it
//! has sent a prefix of the body; the stream's owner resets it.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate_core::body::{Chunk, FileRange};
use tidegate_core::request_body::{RequestBody, StoredBody};
use tidegate_h2::StreamId;
use tidegate_rt::timer::timeout;

use super::connection::SharedConnection;
use super::stream::OriginStream;
use crate::h1::send::{COLLECT_BYTES, Keep, SendError, Upload, UploadEnd, file_piece, gather};
use crate::request::RequestPayload;

/// Returns whether the head ends the request.
pub(crate) fn is_bodiless(payload: &RequestPayload) -> bool {
    match payload {
        RequestPayload::None => true,
        RequestPayload::Bytes(bytes) => bytes.is_empty(),
        RequestPayload::Stored(body) => body.length == 0,
        RequestPayload::Stream { .. } => false,
    }
}

/// Begins to send a body behind a head that did not end the request; `None`: all of it is in the output.
pub(crate) fn begin(
    stream: &OriginStream,
    payload: &mut RequestPayload,
    limit: Duration,
    sent: &mut u64,
) -> Option<Upload> {
    let sender =
        Sender { connection: stream.connection().clone(), id: stream.id(), limit, sent: 0 };
    match payload {
        RequestPayload::None => None,
        RequestPayload::Bytes(bytes) => {
            let body = StoredBody {
                length: bytes.len() as u64,
                memory: vec![bytes.clone()],
                ..StoredBody::default()
            };
            sender.stored(body.chunks().collect(), body.length, sent)
        }
        RequestPayload::Stored(body) => sender.stored(body.chunks().collect(), body.length, sent),
        RequestPayload::Stream { .. } => match std::mem::take(payload) {
            RequestPayload::Stream { body, keep_max, .. } => {
                Some(Box::pin(sender.stream(body, keep_max)))
            }
            _ => None,
        },
    }
}

/// The sending side of a stream.
struct Sender {
    connection: Rc<SharedConnection>,
    id: StreamId,
    limit: Duration,
    sent: u64,
}

impl Sender {
    fn stored(mut self, mut pieces: Vec<Chunk>, length: u64, sent: &mut u64) -> Option<Upload> {
        // A small body goes with the head.
        if let [Chunk::Bytes(only)] = &mut pieces[..]
            && only.len() as u64 == length
            && let Ok(count) = self.send_now(only, true)
        {
            *sent += count as u64;
            if count == only.len() {
                return None;
            }
            let _ = only.split_to(count);
        }
        Some(Box::pin(self.pieces(pieces)))
    }

    async fn pieces(mut self, pieces: Vec<Chunk>) -> UploadEnd {
        let mut result = Ok(());
        let count = pieces.len();
        for (index, piece) in pieces.into_iter().enumerate() {
            let end = index + 1 == count;
            result = match piece {
                Chunk::Bytes(bytes) => self.send(&bytes, end).await,
                Chunk::File(range) => self.file(range, end).await,
                Chunk::Flush => Ok(()),
            };
            if result.is_err() {
                break;
            }
        }
        UploadEnd { result, body: None, sent: self.sent }
    }

    /// Sends the client's body as it arrives.
    async fn stream(mut self, mut body: Box<RequestBody>, keep_max: usize) -> UploadEnd {
        let mut kept = Keep::new(keep_max);
        let mut data = Vec::new();
        let result = loop {
            data.clear();
            let ended = match poll_fn(|context| gather(&mut body, &mut data, &[], context)).await {
                Ok(ended) => ended,
                Err(error) => break Err(SendError::Client(error)),
            };
            kept.push(&data);
            if let Err(error) = self.send(&data, ended).await {
                break Err(error);
            }
            if ended {
                break Ok(());
            }
        };
        if result.is_ok() {
            kept.store(&mut body);
        }
        UploadEnd { result, body: Some(body), sent: self.sent }
    }

    async fn file(&mut self, range: FileRange, ends: bool) -> Result<(), SendError> {
        let (mut offset, end) = (range.offset, range.offset.saturating_add(range.length));
        while offset < end {
            let piece = file_piece(&range, offset, end).await?;
            offset += piece.len() as u64;
            self.send(&piece, ends && offset >= end).await?;
        }
        Ok(())
    }

    /// Sends bytes; each part of the wait is limited.
    async fn send(&mut self, mut bytes: &[u8], end: bool) -> Result<(), SendError> {
        loop {
            let limit = self.limit;
            let sending = poll_fn(|context| self.poll_send(context, bytes, end));
            let count = timeout(limit, sending).await.map_err(|_| SendError::TimedOut)??;
            self.sent += count as u64;
            bytes = &bytes[count..];
            if bytes.is_empty() {
                return Ok(());
            }
        }
    }

    /// Puts bytes into the output; ready when some, or the end alone, are there.
    fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
        end: bool,
    ) -> Poll<Result<usize, SendError>> {
        if bytes.is_empty() && !end {
            return Poll::Ready(Ok(0));
        }
        let mut state = self.connection.state.borrow_mut();
        if state.slot(self.id).is_none_or(|slot| slot.end.is_some()) {
            return Poll::Ready(Err(stopped()));
        }
        if state.core.output_is_full() {
            state.senders.push(context.waker().clone());
            return Poll::Pending;
        }
        let piece = &bytes[..bytes.len().min(COLLECT_BYTES)];
        let ends = end && piece.len() == bytes.len();
        let count = state.core.send_data(self.id, piece, ends).map_err(|_| stopped())?;
        if count > 0 || piece.is_empty() {
            state.wake_driver();
            return Poll::Ready(Ok(count));
        }
        if let Some(slot) = state.slot(self.id) {
            slot.wait(context);
        }
        Poll::Pending
    }

    /// Puts as many bytes as there is room for into the output, without waiting.
    fn send_now(&mut self, bytes: &[u8], end: bool) -> Result<usize, SendError> {
        let mut state = self.connection.state.borrow_mut();
        if state.core.output_is_full() {
            return Ok(0);
        }
        let piece = &bytes[..bytes.len().min(COLLECT_BYTES)];
        let ends = end && piece.len() == bytes.len();
        let count = state.core.send_data(self.id, piece, ends).map_err(|_| stopped())?;
        state.wake_driver();
        Ok(count)
    }
}

/// Makes the error of a stream that takes no more bytes; the response says why.
fn stopped() -> SendError {
    SendError::Origin(io::ErrorKind::BrokenPipe.into())
}
