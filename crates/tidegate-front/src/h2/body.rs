//! The request body of a stream. It is pulled by the module that needs it, which opens the window for more.

use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tidegate_codec::Headers;
use tidegate_core::request_body::{BodySource, RequestBodyError};
use tidegate_rt::timer::Deadline;

use super::stream::{Stream, StreamState, remember};

/// Takes a request body from its stream.
pub(super) struct H2Body {
    stream: Rc<Stream>,
    /// An interim 100 has still to be sent.
    expect_continue: bool,
    /// `client_body_timeout`.
    timeout: Duration,
    deadline: Deadline,
}

impl H2Body {
    pub(super) fn new(stream: Rc<Stream>, expect_continue: bool, timeout: Duration) -> H2Body {
        H2Body { stream, expect_continue, timeout, deadline: Deadline::new() }
    }

    fn send_continue(&mut self) {
        self.expect_continue = false;
        let nothing_received = self.stream.inbox.borrow().bytes.is_empty();
        if let (true, Some(place)) = (nothing_received, self.stream.place()) {
            let _ = place.multiplexer.command(|core| core.respond_interim(place.id, 100, |_| {}));
        }
    }
}

impl BodySource for H2Body {
    fn poll_bytes(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, RequestBodyError>> {
        if self.expect_continue {
            self.send_continue();
        }
        match self.take_received() {
            Ok(None) => {}
            Ok(Some(bytes)) => {
                self.deadline.clear();
                return Poll::Ready(Ok(bytes));
            }
            Err(error) => return Poll::Ready(Err(error)),
        }
        remember(&mut self.stream.inbox.borrow_mut().reader, context);
        if self.deadline.at().is_none() {
            self.deadline.set_after(self.timeout);
        }
        ready!(self.deadline.poll_elapsed(context));
        Poll::Ready(Err(RequestBodyError::Timeout))
    }

    fn take_received(&mut self) -> Result<Option<Option<Bytes>>, RequestBodyError> {
        let mut inbox = self.stream.inbox.borrow_mut();
        if inbox.fault.is_some() {
            return Err(RequestBodyError::Malformed(
                "client sent a body that differs from its announced length",
            ));
        }
        if !inbox.bytes.is_empty() {
            let bytes = std::mem::take(&mut inbox.bytes);
            drop(inbox);
            if let Some(place) = self.stream.place() {
                place.multiplexer.command(|core| core.consumed(place.id, bytes.len() as u32));
            }
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
        let inbox = self.stream.inbox.borrow();
        inbox.ended && inbox.bytes.is_empty() && inbox.fault.is_none()
    }

    fn trailers(&mut self) -> Option<Headers> {
        self.stream.inbox.borrow_mut().trailers.take()
    }
}
