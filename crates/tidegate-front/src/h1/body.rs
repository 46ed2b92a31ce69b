//! The request body of HTTP/1, by length or in chunks. It is pulled by the module that needs it.

use std::io::Write as _;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tidegate_codec::Headers;
use tidegate_codec::chunked::ChunkedDecoder;
use tidegate_core::request_body::{BodySource, RequestBody, RequestBodyError};
use tidegate_rt::share;
use tidegate_rt::timer::{Deadline, timeout};

use crate::action::Linger;
use crate::client::ClientStream;
use crate::link::Link;

/// Bytes read from the socket at once.
const READ_BYTES: usize = 16 * 1024;
/// Largest trailer section, bytes.
const TRAILER_BYTES_MAX: usize = 8 * 1024;

/// What is still to be received of a body: bytes, or chunks.
enum RemainingBody {
    Length(u64),
    Chunked(Box<ChunkedDecoder>),
}

/// Reads a request body from a connection.
pub(super) struct H1Body {
    link: Rc<Link>,
    /// Counts the bytes.
    client: Rc<ClientStream>,
    remaining: RemainingBody,
    /// `100 Continue` has still to be sent.
    expect_continue: bool,
    timeout: Duration,
    deadline: Deadline,
    trailers: Option<Headers>,
}

impl H1Body {
    pub(super) fn with_length(
        link: Rc<Link>,
        client: Rc<ClientStream>,
        length: u64,
        expect: bool,
        timeout: Duration,
    ) -> H1Body {
        H1Body::new(link, client, RemainingBody::Length(length), expect, timeout)
    }

    pub(super) fn chunked(
        link: Rc<Link>,
        client: Rc<ClientStream>,
        expect: bool,
        timeout: Duration,
    ) -> H1Body {
        let decoder = Box::new(ChunkedDecoder::new(TRAILER_BYTES_MAX));
        H1Body::new(link, client, RemainingBody::Chunked(decoder), expect, timeout)
    }

    fn new(
        link: Rc<Link>,
        client: Rc<ClientStream>,
        remaining: RemainingBody,
        expect_continue: bool,
        timeout: Duration,
    ) -> H1Body {
        let deadline = Deadline::new();
        H1Body { link, client, remaining, expect_continue, timeout, deadline, trailers: None }
    }

    /// Takes the bytes of the body that have arrived; `None` when more must be received first.
    fn take(&mut self) -> Result<Option<Option<Bytes>>, RequestBodyError> {
        let mut input = self.link.received.borrow_mut();
        match &mut self.remaining {
            RemainingBody::Length(0) => Ok(Some(None)),
            RemainingBody::Length(_) if input.is_empty() => Ok(None),
            RemainingBody::Length(left) => {
                let count = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= count as u64;
                Ok(Some(Some(take_front(&mut input, count))))
            }
            RemainingBody::Chunked(decoder) => {
                let count = decoder
                    .gather(&mut input)
                    .map_err(|_| RequestBodyError::Malformed("client sent invalid chunked body"))?;
                // Thousands of small chunks are work that no system call accounts for.
                share::is_over();
                if count > 0 {
                    return Ok(Some(Some(take_front(&mut input, count))));
                }
                if !decoder.is_done() {
                    return Ok(None);
                }
                let mut trailers = Headers::new();
                decoder.trailers(&mut trailers);
                self.trailers = (!trailers.is_empty()).then_some(trailers);
                Ok(Some(None))
            }
        }
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<Result<(), RequestBodyError>> {
        let mut input = self.link.received.borrow_mut();
        input.reserve(READ_BYTES);
        match self.link.io.poll_read_append(context, &mut input) {
            Poll::Ready(Ok(0)) => Poll::Ready(Err(RequestBodyError::Closed)),
            Poll::Ready(Ok(_)) => {
                self.deadline.clear();
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(_)) => Poll::Ready(Err(RequestBodyError::Closed)),
            Poll::Pending => {
                if self.deadline.at().is_none() {
                    self.deadline.set_after(self.timeout);
                }
                ready!(self.deadline.poll_elapsed(context));
                Poll::Ready(Err(RequestBodyError::Timeout))
            }
        }
    }

    /// As [`H1Body::take`], with the number of bytes. A client that has sent a part of the body waits for no `100 Continue`.
    fn take_and_count(&mut self) -> (Result<Option<Option<Bytes>>, RequestBodyError>, usize) {
        let before = self.link.received.borrow().len();
        let taken = self.take();
        let count = before - self.link.received.borrow().len();
        self.expect_continue &= count == 0;
        (taken, count)
    }

    /// Sends `100 Continue`. It fits into the empty send buffer of a connection whose response has not begun; where it
    /// does not, the client sends the body after its own timeout (RFC 9110 section 10.1.1).
    fn send_continue(&mut self, context: &mut Context<'_>) {
        self.expect_continue = false;
        if self.link.received.borrow().is_empty() {
            let _ = self.link.io.poll_write(context, b"HTTP/1.1 100 Continue\r\n\r\n");
        }
    }
}

impl BodySource for H1Body {
    fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    fn poll_bytes(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, RequestBodyError>> {
        if self.expect_continue {
            // With the share used up the write would be put off, and forgotten.
            ready!(tidegate_rt::share::poll(context));
            self.send_continue(context);
        }
        loop {
            let (taken, count) = self.take_and_count();
            self.client.body_bytes.set(self.client.body_bytes.get() + count as u64);
            if let Some(bytes) = taken? {
                return Poll::Ready(Ok(bytes));
            }
            ready!(self.poll_receive(context))?;
        }
    }

    fn take_received(&mut self) -> Result<Option<Option<Bytes>>, RequestBodyError> {
        self.take_and_count().0
    }

    fn trailers(&mut self) -> Option<Headers> {
        self.trailers.take()
    }
}

/// Reads the rest of a body and drops it; returns `false` when it does not end in time. The size of the body does not
/// matter: the response has announced that the connection stays.
///
/// Dropped at its await it leaves the body where it is; the connection closes. Sources: `lingering_time`,
/// `lingering_timeout`.
pub(super) async fn discard(body: &mut RequestBody, limits: Linger) -> bool {
    body.set_limit(None);
    let drain = async {
        loop {
            match timeout(limits.wait, body.next()).await {
                Ok(Ok(Some(_))) => {}
                Ok(Ok(None)) => return true,
                Ok(Err(_)) | Err(_) => return false,
            }
        }
    };
    timeout(limits.time, drain).await.unwrap_or(false)
}

/// Removes the first `count` bytes. It does not copy when they are all of the input and fill at least half of the
/// buffer: few bytes must not hold a large buffer.
fn take_front(input: &mut Vec<u8>, count: usize) -> Bytes {
    if count == input.len() && 2 * count >= input.capacity() {
        return Bytes::from(std::mem::take(input));
    }
    let bytes = Bytes::copy_from_slice(&input[..count]);
    input.drain(..count);
    bytes
}

/// Writes the head of a chunk: its length in hexadecimal digits.
pub(super) fn write_chunk_size(length: u64, out: &mut Vec<u8>) {
    let _ = write!(out, "{length:x}\r\n");
}
