//! The request body of a stream. It is pulled by the module that needs it, which gives the client room for more.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tidegate_codec::Headers;
use tidegate_core::Exchange;
use tidegate_core::request_body::{BodySource, RequestBody, RequestBodyError};
use tidegate_rt::timer::Deadline;

use super::begin::BodyFraming;
use super::streams::{Inbox, StreamState, remember};

/// The receiving side of a stream.
pub(crate) trait Incoming {
    /// Returns what has been received and not yet taken.
    fn inbox(&self) -> &RefCell<Inbox>;
    /// Returns the stream's state.
    fn state(&self) -> StreamState;
    /// Moves more of what has arrived to the inbox.
    fn fill(&self);
    /// This number of bytes was taken out of the inbox.
    fn taken(&self, bytes: usize);
    /// Sends an interim 100.
    fn send_continue(&self);
}

/// Takes a request body from its stream.
struct StreamBody<S> {
    stream: Rc<S>,
    /// An interim 100 has still to be sent.
    expect_continue: bool,
    /// `client_body_timeout`.
    timeout: Duration,
    deadline: Deadline,
}

impl<S: Incoming> StreamBody<S> {
    fn new(stream: Rc<S>, expect_continue: bool, timeout: Duration) -> StreamBody<S> {
        StreamBody { stream, expect_continue, timeout, deadline: Deadline::new() }
    }
}

/// Gives a request the body that its stream brings; none of it follows if `ends` is set.
pub(crate) fn attach<S: Incoming + 'static>(
    x: &mut Exchange,
    stream: &Rc<S>,
    framing: BodyFraming,
    ends: bool,
) {
    if ends {
        x.request.body.length = framing.length;
        return;
    }
    let timeout = x.settings().client_body_timeout;
    let source = StreamBody::new(stream.clone(), x.request.expects_continue, timeout);
    let is_open_ended = framing.length.is_none();
    let body = RequestBody::new(framing.length, is_open_ended, Box::new(source));
    x.request.body = body.until_end();
}

impl<S: Incoming> BodySource for StreamBody<S> {
    fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    fn poll_bytes(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, RequestBodyError>> {
        if std::mem::take(&mut self.expect_continue) {
            let nothing_received = self.stream.inbox().borrow().bytes.is_empty();
            if nothing_received {
                self.stream.send_continue();
            }
        }
        match self.take_received() {
            Ok(None) => {}
            Ok(Some(bytes)) => {
                self.deadline.clear();
                return Poll::Ready(Ok(bytes));
            }
            Err(error) => return Poll::Ready(Err(error)),
        }
        remember(&mut self.stream.inbox().borrow_mut().reader, context);
        if self.deadline.at().is_none() {
            self.deadline.set_after(self.timeout);
        }
        ready!(self.deadline.poll_elapsed(context));
        Poll::Ready(Err(RequestBodyError::Timeout))
    }

    fn take_received(&mut self) -> Result<Option<Option<Bytes>>, RequestBodyError> {
        self.stream.fill();
        let mut inbox = self.stream.inbox().borrow_mut();
        if inbox.fault.is_some() {
            return Err(RequestBodyError::Malformed(
                "client sent a body that differs from its announced length",
            ));
        }
        if !inbox.bytes.is_empty() {
            let bytes = std::mem::take(&mut inbox.bytes);
            drop(inbox);
            self.stream.taken(bytes.len());
            return Ok(Some(Some(Bytes::from(bytes))));
        }
        if inbox.ended {
            return Ok(Some(None));
        }
        match self.stream.state() {
            StreamState::Left => Err(RequestBodyError::Closed),
            StreamState::Open | StreamState::Cancelled(_) => Ok(None),
        }
    }

    fn is_at_end(&self) -> bool {
        let inbox = self.stream.inbox().borrow();
        inbox.ended && inbox.bytes.is_empty() && inbox.fault.is_none()
    }

    fn trailers(&mut self) -> Option<Headers> {
        self.stream.inbox().borrow_mut().trailers.take()
    }
}
