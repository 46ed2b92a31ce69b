//! The body of a response: pulled as fast as QUIC takes it.

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
use super::stream::{Place, Stream};
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
    /// Waits until QUIC has taken what was sent.
    pub(super) async fn drained(self, x: &Exchange) -> Result<(), SendError> {
        self.taken(&Pull::new(x, None)).await
    }

    /// Sends the body, and the head before it where it has waited.
    ///
    /// Dropped at an await, the response is cut off on the wire.
    pub(super) async fn run(mut self, x: &mut Exchange, body: &mut Body) -> Result<(), SendError> {
        let mut pull = Pull::new(x, self.length);
        loop {
            self.taken(&pull).await?;
            let next = pull.unless_left(self.stream, body.next()).await?;
            let Some(chunk) = next.transpose().map_err(SendError::Body)? else { break };
            let Some((chunk, _)) = pull.clip(chunk) else { continue };
            self.send_head(x)?;
            let ends = pull.is_last() && !x.delivery.expects_trailers;
            self.chunk(x, &pull, chunk, ends).await?;
            if pull.is_complete(body).await {
                if ends {
                    return self.taken(&pull).await;
                }
                break;
            }
        }
        if pull.lacks() {
            return Err(SendError::Body(BodyError::Incomplete));
        }
        self.send_head(x)?;
        self.finish(x, body)?;
        self.taken(&pull).await
    }

    fn send_head(&mut self, x: &mut Exchange) -> Result<(), SendError> {
        match std::mem::take(&mut self.with_body) {
            true => respond::head(self.place, self.stream, x, self.length, Bytes::new(), false),
            false => Ok(()),
        }
    }

    async fn chunk(
        &self,
        x: &Exchange,
        pull: &Pull,
        chunk: Chunk,
        ends: bool,
    ) -> Result<(), SendError> {
        match chunk {
            Chunk::Bytes(bytes) => self.bytes(pull, bytes, ends).await,
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
            return self.bytes(pull, bytes, ends).await;
        }
        let piece_bytes = x.settings().output_buffers.bytes as u64;
        let mut offset = range.offset;
        let end = range.offset.saturating_add(range.length);
        while offset < end {
            self.taken(pull).await?;
            let want = usize::try_from((end - offset).min(piece_bytes)).unwrap_or(usize::MAX);
            let bytes = file_read::read(&range, offset, want).await;
            let bytes = bytes.map_err(|error| SendError::Body(BodyError::Io(error)))?;
            if bytes.is_empty() {
                return Err(SendError::Body(BodyError::Incomplete));
            }
            offset += bytes.len() as u64;
            self.bytes(pull, Bytes::from(bytes), ends && offset >= end).await?;
        }
        Ok(())
    }

    /// Sends bytes as `limit_rate` allows. The last piece is not waited for.
    async fn bytes(&self, pull: &Pull, mut bytes: Bytes, ends: bool) -> Result<(), SendError> {
        while !bytes.is_empty() {
            let most = match &self.pace {
                None => bytes.len(),
                Some(pace) => {
                    let sent = {
                        let outbox = self.stream.outbox.borrow();
                        outbox.taken.saturating_sub(outbox.overhead)
                    };
                    let want = bytes.len() as u64;
                    let allowed = poll_fn(|context| pace.poll_allowance(context, sent, want));
                    pull.unless_left(self.stream, allowed).await? as usize
                }
            };
            let piece = bytes.split_to(most.min(bytes.len()));
            self.frame(piece, ends && bytes.is_empty())?;
            if !bytes.is_empty() {
                self.taken(pull).await?;
            }
        }
        Ok(())
    }

    /// Sends a DATA frame.
    fn frame(&self, bytes: Bytes, ends: bool) -> Result<(), SendError> {
        let mut out = Vec::new();
        let (place, length) = (self.place, bytes.len() as u64);
        if place.link.is_hq.get() {
            self.stream.send_all(place, [bytes, Bytes::new()], 0, ends);
            return Ok(());
        }
        let written =
            place.link.with_core(|core| core.send_data_header(place.id, length, ends, &mut out));
        if !matches!(written, Some(Ok(()))) {
            return Err(SendError::Left);
        }
        let overhead = out.len();
        self.stream.send_all(place, [Bytes::from(out), bytes], overhead, ends);
        Ok(())
    }

    /// Waits until QUIC has taken all that was sent. Each part that it takes renews the time limit.
    async fn taken(&self, pull: &Pull) -> Result<(), SendError> {
        let timeout = self.timeout;
        let mut is_timed = false;
        let taken = poll_fn(|context| {
            if self.stream.state() == StreamState::Left {
                return Poll::Ready(Err(SendError::Left));
            }
            let mut outbox = self.stream.outbox.borrow_mut();
            if outbox.is_empty() {
                return Poll::Ready(Ok(()));
            }
            remember(&mut outbox.sender, context);
            if !std::mem::replace(&mut is_timed, true) {
                outbox.progress = None;
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
        if is_timed {
            pull.deadline.clear();
        }
        taken
    }

    /// Ends the message, with a trailer section where there is one.
    fn finish(&self, x: &mut Exchange, body: &mut Body) -> Result<(), SendError> {
        let (place, id) = (self.place, self.place.id);
        if place.link.is_hq.get() {
            self.stream.end(place);
            return Ok(());
        }
        let trailers = x.delivery.expects_trailers.then(|| phases::trailers(x, body));
        let trailers = trailers.filter(|trailers| !trailers.is_empty());
        let mut out = Vec::new();
        let ended = place.link.with_core(|core| match trailers {
            Some(trailers) => {
                core.send_trailers(id, &mut out, |fields| fields.push_all(trailers)).map(drop)
            }
            None => core.send_data_header(id, 0, true, &mut out),
        });
        match ended {
            Some(Ok(())) => {}
            None => return Err(SendError::Left),
            Some(Err(error)) => return Err(SendError::Client(io::Error::other(error))),
        }
        place.link.send_own();
        let overhead = out.len();
        self.stream.send(place, Bytes::from(out), overhead);
        self.stream.end(place);
        Ok(())
    }
}
