//! The body of a response: pulled where the stream has room, and sent in the order of the streams' priorities.

use std::future::poll_fn;
use std::io;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::body::{Body, BodyError, Chunk, FileRange};
use tidegate_core::timeline::{Cause, waits_for};
use tidegate_core::{Exchange, file_read, phases};
use tidegate_rt::clock;

use super::respond;
use super::stream::{Piece, Place, Stream};
use crate::serve::deliver::{Pull, SendError};
use crate::serve::pace::Pace;
use crate::serve::streams::{StreamState, remember};

/// A response whose body did not leave at once.
pub(super) struct Sending<'a> {
    pub(super) place: &'a Place,
    pub(super) stream: &'a Stream,
    /// Bytes of the body as announced.
    pub(super) length: Option<u64>,
    /// The head is written with the body's first bytes.
    pub(super) with_body: bool,
    /// `send_timeout`.
    pub(super) timeout: Duration,
    pub(super) pace: Option<Box<Pace>>,
}

impl Sending<'_> {
    /// Sends the body, and the head before it where it has waited. Returns the bytes of the head.
    ///
    /// Dropped at an await, the response is cut off on the wire.
    pub(super) async fn run(
        mut self,
        x: &mut Exchange,
        body: &mut Body,
    ) -> (u64, Result<(), SendError>) {
        let (mut head_bytes, mut result) = (0, Ok(()));
        // What `at_once` has sent is no longer in the body.
        let left = self.length.and_then(|length| body.known_length().map(|left| left.min(length)));
        let mut pull = Pull::new(x, left.or(self.length));
        while result.is_ok() {
            let next = match self.next(&pull, body).await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            };
            let Some((chunk, _)) = pull.clip(next) else { continue };
            if std::mem::take(&mut self.with_body) {
                match respond::head(self.place, x, self.length, false) {
                    Ok(bytes) => head_bytes = bytes,
                    Err(error) => return (0, Err(error)),
                }
            }
            let ends = pull.is_last() && !x.delivery.expects_trailers;
            result = self.chunk(x, &pull, chunk, ends).await;
            if pull.is_complete(body).await {
                if ends && result.is_ok() {
                    return (head_bytes, Ok(()));
                }
                break;
            }
        }
        if result.is_ok() && pull.lacks() {
            result = Err(SendError::Body(BodyError::Incomplete));
        }
        if result.is_ok() && self.with_body {
            match respond::head(self.place, x, self.length, false) {
                Ok(bytes) => head_bytes = bytes,
                Err(error) => result = Err(error),
            }
        }
        match result {
            Ok(()) => (head_bytes, self.finish(x, body)),
            Err(error) => (head_bytes, Err(error)),
        }
    }

    /// Returns the next piece of the body, once there is room for it.
    async fn next(&self, pull: &Pull, body: &mut Body) -> Result<Option<Chunk>, SendError> {
        self.room(pull).await?;
        let next = pull.unless_left(self.stream, body.next()).await?;
        next.transpose().map_err(SendError::Body)
    }

    async fn chunk(
        &self,
        x: &Exchange,
        pull: &Pull,
        chunk: Chunk,
        ends: bool,
    ) -> Result<(), SendError> {
        match chunk {
            Chunk::Bytes(bytes) => self.bytes(x, pull, bytes, ends).await,
            Chunk::File(range) => self.file(x, pull, range, ends).await,
            // Nothing is held back.
            Chunk::Flush => Ok(()),
        }
    }

    async fn file(
        &self,
        x: &Exchange,
        pull: &Pull,
        range: FileRange,
        ends: bool,
    ) -> Result<(), SendError> {
        if let Some(bytes) = range.in_memory() {
            return self.bytes(x, pull, bytes, ends).await;
        }
        let piece_bytes = x.settings().output_buffers.bytes as u64;
        let mut offset = range.offset;
        let end = range.offset.saturating_add(range.length);
        while offset < end {
            // No more than can leave, so that no piece of a few bytes is left over for the next window.
            let room = u64::from(self.room(pull).await?);
            let want = usize::try_from((end - offset).min(piece_bytes).min(room)).unwrap_or(0);
            let bytes = file_read::read(&range, offset, want).await;
            let bytes = bytes.map_err(|error| SendError::Body(BodyError::Io(error)))?;
            if bytes.is_empty() {
                return Err(SendError::Body(BodyError::Incomplete));
            }
            offset += bytes.len() as u64;
            self.bytes(x, pull, Bytes::from(bytes), ends && offset >= end).await?;
        }
        Ok(())
    }

    /// Sends bytes as `limit_rate` allows.
    async fn bytes(
        &self,
        x: &Exchange,
        pull: &Pull,
        mut bytes: Bytes,
        ends: bool,
    ) -> Result<(), SendError> {
        self.stream.outbox.borrow_mut().chunk_bytes = x.settings().http2_chunk_bytes;
        while !bytes.is_empty() {
            let most = match &self.pace {
                None => bytes.len(),
                Some(pace) => {
                    let sent = self.stream.outbox.borrow().sent;
                    let want = bytes.len() as u64;
                    let allowed = poll_fn(|context| pace.poll_allowance(context, sent, want));
                    pull.unless_left(self.stream, allowed).await? as usize
                }
            };
            let piece = bytes.split_to(most.min(bytes.len()));
            let ends = ends && bytes.is_empty();
            self.piece(pull, Piece::Bytes(piece, ends)).await?;
        }
        Ok(())
    }

    /// Waits for room in the windows, so that nothing is pulled that cannot leave. Returns the bytes that can, more than 0.
    async fn room(&self, pull: &Pull) -> Result<u32, SendError> {
        loop {
            if self.with_body {
                return Ok(u32::MAX);
            }
            // Other streams may use up the connection's window first.
            let room = self.place.multiplexer.core().window(self.place.id);
            if room > 0 {
                return Ok(room);
            }
            self.piece(pull, Piece::Hungry).await?;
        }
    }

    /// Puts a piece into the outbox and waits until all of it has left. Each part that leaves renews the time limit.
    async fn piece(&self, pull: &Pull, piece: Piece) -> Result<(), SendError> {
        let timeout = self.timeout;
        let id = self.place.id;
        self.stream.put(piece);
        self.place.multiplexer.command(|core| core.want(id, true));
        let mut is_timed = false;
        let sent = poll_fn(|context| {
            let mut outbox = self.stream.outbox.borrow_mut();
            if matches!(outbox.piece, Piece::None) {
                return Poll::Ready(Ok(()));
            }
            if self.stream.state() == StreamState::Left {
                return Poll::Ready(Err(SendError::Left));
            }
            remember(&mut outbox.sender, context);
            if !std::mem::replace(&mut is_timed, true) {
                pull.deadline.set_after(timeout);
            }
            loop {
                if pull.deadline.poll_elapsed(context).is_pending() {
                    waits_for(Cause::ClientSlowRead);
                    return Poll::Pending;
                }
                match outbox.progress.take().map(|progress| progress + timeout) {
                    Some(later) if later > clock::now() => pull.deadline.set(later),
                    _ => return Poll::Ready(Err(SendError::Timeout)),
                }
            }
        })
        .await;
        pull.deadline.clear();
        if sent.is_err() {
            self.stream.outbox.borrow_mut().piece = Piece::None;
            self.place.multiplexer.command(|core| core.want(id, false));
        }
        sent
    }

    /// Ends the message, with a trailer section where there is one.
    fn finish(&self, x: &mut Exchange, body: &mut Body) -> Result<(), SendError> {
        let id = self.place.id;
        let trailers = x.delivery.expects_trailers.then(|| phases::trailers(x, body));
        let trailers = trailers.filter(|trailers| !trailers.is_empty());
        let ended = self.place.multiplexer.command(|core| match trailers {
            Some(trailers) => core.send_trailers(id, |fields| fields.push_all(trailers)).map(drop),
            None => core.send_data(id, b"", true).map(drop),
        });
        ended.map_err(|error| SendError::Client(io::Error::other(error)))
    }
}
