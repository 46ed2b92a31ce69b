//! One request's side of a shared connection: a seat, then a stream.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidegate_codec::Headers;
use tidegate_codec::response::ResponseHead;
use tidegate_h2::{RequestLine, SendError, StreamId};
use tidegate_rt::clock;
use tidegate_rt::timer::Deadline;

use super::connection::SharedConnection;
use super::slot::{Slot, StreamEnd};
use crate::connection::ConnectError;
use crate::head::HeadList;

/// A place on a connection for one stream; given back when dropped.
pub(crate) struct Seat {
    connection: Rc<SharedConnection>,
    stream: Option<StreamId>,
}

/// The reason why a seat leads to no stream.
pub(crate) enum SeatError {
    /// There is no connection.
    Connect(Rc<ConnectError>),
    /// The connection takes no more streams: another one has to be found.
    Full,
}

/// What has arrived first.
pub(crate) enum HeadEvent {
    Interim(ResponseHead),
    Final(ResponseHead),
    /// The stream ended without a final head.
    Ended(StreamEnd),
}

/// A piece of a body.
pub(crate) struct BodyPiece {
    /// Empty only with the end.
    pub bytes: Bytes,
    /// Nothing follows.
    pub end: bool,
    pub trailers: Option<Headers>,
}

impl Seat {
    pub(crate) fn new(connection: Rc<SharedConnection>) -> Seat {
        connection.sit();
        Seat { connection, stream: None }
    }

    pub(crate) fn connection(&self) -> &Rc<SharedConnection> {
        &self.connection
    }

    /// Waits until a stream may begin.
    ///
    /// # Errors
    /// There is no connection, or it is full.
    pub(crate) async fn ready(&self) -> Result<(), SeatError> {
        poll_fn(|context| self.connection.poll_ready(context)).await
    }

    /// Returns whether another request has had a response on the connection.
    pub(crate) fn has_served(&self) -> bool {
        self.connection.state.borrow().has_served
    }

    /// Begins the stream; its head is sent when the driver runs. Returns the bytes of the head as well.
    ///
    /// # Errors
    /// The head cannot be sent, or the connection takes no more streams.
    pub(crate) fn begin(
        mut self,
        list: &HeadList,
        scheme: &[u8],
        end: bool,
        wants_interim: bool,
    ) -> Result<(OriginStream, u64), SendError> {
        let line = RequestLine {
            method: list.method(),
            scheme,
            authority: &list.authority,
            path: list.path(),
            protocol: None,
        };
        let mut state = self.connection.state.borrow_mut();
        let before = state.core.output().len();
        let id = state.core.request(&line, end, |fields| fields.push_all(&list.headers))?;
        let sent = state.core.output().len() - before;
        state.slots.push(Slot::new(id, wants_interim));
        state.wake_driver();
        drop(state);
        self.stream = Some(id);
        let deadline = Deadline::new();
        Ok((OriginStream { seat: self, id, deadline, waiting: None }, sent as u64))
    }
}

/// A stream of a shared connection. Dropped, it is closed: reset unless both messages are complete.
pub(crate) struct OriginStream {
    seat: Seat,
    id: StreamId,
    deadline: Deadline,
    /// Since when its task waits for the origin.
    waiting: Option<Instant>,
}

impl OriginStream {
    pub(crate) fn connection(&self) -> &Rc<SharedConnection> {
        self.seat.connection()
    }

    pub(crate) fn id(&self) -> StreamId {
        self.id
    }

    /// Returns the bytes received so far.
    pub(crate) fn received(&self) -> u64 {
        self.connection().state.borrow_mut().slot(self.id).map_or(0, |slot| slot.received)
    }

    /// Polls for the next head.
    pub(crate) fn poll_head(&mut self, context: &mut Context<'_>) -> Poll<HeadEvent> {
        let mut state = self.connection().state.borrow_mut();
        let Some(slot) = state.slot(self.id) else {
            return Poll::Ready(HeadEvent::Ended(StreamEnd::Complete));
        };
        if let Some(head) = slot.interim.pop_front() {
            return Poll::Ready(HeadEvent::Interim(head));
        }
        if let Some(head) = slot.head.take() {
            return Poll::Ready(HeadEvent::Final(head));
        }
        if let Some(end) = &slot.end {
            return Poll::Ready(HeadEvent::Ended(end.clone()));
        }
        slot.wait(context);
        Poll::Pending
    }

    /// Polls for a piece of the body, at most `most` bytes. Taking it opens the stream's window.
    pub(crate) fn poll_body(
        &mut self,
        context: &mut Context<'_>,
        most: usize,
    ) -> Poll<Result<BodyPiece, StreamEnd>> {
        let mut state = self.seat.connection.state.borrow_mut();
        let state = &mut *state;
        let Ok(at) = state.find(self.id) else {
            return Poll::Ready(Err(StreamEnd::Complete));
        };
        let slot = &mut state.slots[at];
        if let Some(first) = slot.body.front_mut() {
            let bytes = match first.len() > most {
                true => first.split_to(most),
                false => gather(&mut slot.body, most),
            };
            let end = slot.body.is_empty() && slot.is_complete();
            let trailers = if end { slot.trailers.take() } else { None };
            let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            let before = state.core.output().len();
            state.core.consumed(self.id, length);
            if state.core.output().len() > before {
                state.wake_driver();
            }
            return Poll::Ready(Ok(BodyPiece { bytes, end, trailers }));
        }
        match &slot.end {
            Some(StreamEnd::Complete) => {
                let trailers = slot.trailers.take();
                Poll::Ready(Ok(BodyPiece { bytes: Bytes::new(), end: true, trailers }))
            }
            Some(end) => Poll::Ready(Err(end.clone())),
            None => {
                slot.wait(context);
                Poll::Pending
            }
        }
    }

    /// Returns the whole body if it has arrived and is no larger than `most` bytes. Trailers may be lost only where
    /// that is allowed.
    pub(crate) fn whole_body(&mut self, most: usize, without_trailers: bool) -> Option<Bytes> {
        let mut state = self.seat.connection.state.borrow_mut();
        let slot = state.slot(self.id)?;
        let length = slot.body.iter().map(Bytes::len).sum::<usize>();
        if !slot.is_complete() || length > most || !(without_trailers || slot.trailers.is_none()) {
            return None;
        }
        Some(match slot.body.len() {
            0 => Bytes::new(),
            1 => slot.body.pop_front().unwrap_or_default(),
            _ => {
                let mut all = Vec::with_capacity(length);
                slot.body.drain(..).for_each(|piece| all.extend_from_slice(&piece));
                Bytes::from(all)
            }
        })
    }

    /// Polls with a limit on the wait; `None` when it has passed. A connection on which nothing was received meanwhile
    /// takes no new streams.
    pub(crate) fn poll_limited<T>(
        &mut self,
        context: &mut Context<'_>,
        limit: Duration,
        poll: impl FnOnce(&mut OriginStream, &mut Context<'_>) -> Poll<T>,
    ) -> Poll<Option<T>> {
        if let Poll::Ready(value) = poll(self, context) {
            self.waiting = None;
            return Poll::Ready(Some(value));
        }
        if self.waiting.is_none() {
            self.waiting = Some(clock::now());
            self.deadline.set_after(limit);
        }
        ready!(self.deadline.poll_elapsed(context));
        if let Some(since) = self.waiting {
            self.connection().suspect(since);
        }
        Poll::Ready(None)
    }
}

/// Takes the first piece, with those behind it if they are small: each costs as much as some hundred bytes.
fn gather(body: &mut VecDeque<Bytes>, most: usize) -> Bytes {
    let first = body.pop_front().unwrap_or_default();
    let fits = |body: &VecDeque<Bytes>, length: usize| {
        let next = body.front().filter(|next| next.len() < GATHERED_BELOW);
        next.is_some_and(|next| length + next.len() <= most.min(GATHERED_MAX))
    };
    if first.len() >= GATHERED_BELOW || !fits(body, first.len()) {
        return first;
    }
    let mut all = first.to_vec();
    while fits(body, all.len()) {
        all.extend_from_slice(&body.pop_front().unwrap_or_default());
    }
    Bytes::from(all)
}

/// Smaller pieces are put together, up to this size.
const GATHERED_BELOW: usize = 1024;
const GATHERED_MAX: usize = 16 * 1024;

impl Drop for Seat {
    fn drop(&mut self) {
        self.connection.leave(self.stream);
    }
}
