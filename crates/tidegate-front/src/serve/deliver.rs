//! The delivery of a response's body to the client: its pieces are pulled here, and written by the protocol's driver.

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use tidegate_codec::Headers;
use tidegate_core::Exchange;
use tidegate_core::body::{Body, BodyError, Chunk, Tunnel};
use tidegate_core::client::{Client, ClientIo};
use tidegate_core::exchange::{ClientAbort, HeadSending, PieceSending};
use tidegate_core::phases;
use tidegate_core::timeline::{Cause, blame};
use tidegate_rt::timer::Deadline;

/// The longest time that collected pieces wait for more: an application writes its page in a few pieces, and each piece
/// that leaves by itself wakes the client for few bytes.
const GATHERING_MAX: Duration = Duration::from_millis(1);

/// Why a response was not sent completely.
#[derive(Debug)]
pub(crate) enum SendError {
    /// The client has closed or does not read: nothing more can be sent.
    Client(io::Error),
    /// The client closed while there was nothing to send.
    Left,
    /// `send_timeout`.
    Timeout,
    /// The body broke off: the client is made to notice.
    Body(BodyError),
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::Client(error) => write!(f, "the client cannot be written to ({error})"),
            SendError::Left => f.write_str("the client left"),
            SendError::Timeout => f.write_str("the client does not read"),
            SendError::Body(_) => f.write_str("the body broke off"),
        }
    }
}

impl std::error::Error for SendError {}

/// The pieces of one body, pulled as its source and the response's head require it.
///
/// Invariant: it gives no more bytes than were announced, and ends in an error with fewer. Every wait may be cancelled:
/// nothing is taken from the body before it is returned.
pub(crate) struct Pull {
    /// `send_timeout`, and the time that pieces wait for more; one of them at a time.
    pub deadline: Deadline,
    watch_client: bool,
    /// Nothing leaves before the body's first bytes.
    waits_for_body: bool,
    /// Collected bytes wait a moment for more.
    gathers: bool,
    /// Bytes still to come, where the length was announced.
    left: Option<u64>,
}

/// A piece, or how the body ended.
type NextChunk = Option<Result<Chunk, BodyError>>;

impl Pull {
    /// Makes the pull of the exchange's response, whose body has `length` bytes where that is known.
    pub(crate) fn new(x: &Exchange, length: Option<u64>) -> Pull {
        Pull {
            deadline: Deadline::new(),
            watch_client: x.delivery.client_abort == ClientAbort::Ends,
            waits_for_body: x.delivery.head == HeadSending::WithBody,
            gathers: x.delivery.pieces == PieceSending::Gathered,
            left: length,
        }
    }

    /// Returns the next piece if it is there at once; if pieces were `collected` that may wait for more, also if it
    /// arrives soon.
    pub(crate) async fn soon(&self, body: &mut Body, collected: bool) -> Option<NextChunk> {
        if !(self.gathers && collected) {
            return self.now(body).await;
        }
        // A tick of the cheap clock may be longer than that.
        let end = || tidegate_rt::clock::exact_now() + GATHERING_MAX;
        until(&self.deadline, |deadline| deadline.set(end()), body.next()).await
    }

    async fn now(&self, body: &mut Body) -> Option<NextChunk> {
        poll_fn(|context| match body.poll_chunk(context) {
            Poll::Ready(next) => Poll::Ready(Some(next)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    /// Whether collected bytes, including the head, leave before the wait for the next piece.
    pub(crate) fn may_flush(&self) -> bool {
        !self.waits_for_body
    }

    /// Cuts a piece to what was announced; returns it with its length in bytes, or `None` when it has no bytes.
    pub(crate) fn clip(&mut self, chunk: Chunk) -> Option<(Chunk, u64)> {
        let mut length = chunk.length();
        let chunk = match (self.left, chunk) {
            (Some(left), Chunk::Bytes(bytes)) if length > left => {
                length = left;
                Chunk::Bytes(bytes.slice(..usize::try_from(left).unwrap_or(0)))
            }
            (_, chunk) => chunk,
        };
        if length == 0 {
            return None;
        }
        self.waits_for_body = false;
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(length);
        }
        Some((chunk, length))
    }

    /// Whether all announced bytes are there. A source that takes long to end is not waited for then.
    pub(crate) async fn is_complete(&self, body: &mut Body) -> bool {
        if self.left != Some(0) {
            return false;
        }
        let _ = self.now(body).await;
        true
    }

    /// Whether all announced bytes were given.
    pub(crate) fn is_last(&self) -> bool {
        self.left == Some(0)
    }

    /// Whether announced bytes are missing.
    pub(crate) fn lacks(&self) -> bool {
        self.left.is_some_and(|left| left > 0)
    }

    /// Waits for something other than the client, and gives up when the client closes meanwhile.
    ///
    /// The source is polled first: a piece that is there is not lost to a client that has just closed. Dropped at its
    /// await, `wait` is dropped with it. Source: `proxy_ignore_client_abort` and its like.
    pub(crate) async fn unless_left<T>(
        &self,
        client: &dyn Client,
        wait: impl Future<Output = T>,
    ) -> Result<T, SendError> {
        let mut wait = std::pin::pin!(wait);
        poll_fn(|context| {
            if let Poll::Ready(value) = wait.as_mut().poll(context) {
                return Poll::Ready(Ok(value));
            }
            if self.watch_client && client.poll_closed(context).is_ready() {
                return Poll::Ready(Err(SendError::Left));
            }
            Poll::Pending
        })
        .await
    }
}

/// Runs one write under `send_timeout`; no timer is touched when it need not wait.
pub(crate) async fn limited(
    deadline: &Deadline,
    timeout: Duration,
    write: impl Future<Output = io::Result<usize>>,
) -> Result<usize, SendError> {
    let limited = until(deadline, |deadline| deadline.set_after(timeout), write);
    match blame(Cause::ClientSlowRead, limited).await {
        None => Err(SendError::Timeout),
        Some(Err(error)) => Err(SendError::Client(error)),
        Some(Ok(written)) => Ok(written),
    }
}

/// Runs a future until the deadline that is set when it has to wait.
///
/// `set` runs once, at the first poll that has to wait: a future that is ready at once touches no timer. Dropped at its
/// await it leaves the deadline set; the next user sets it anew.
async fn until<T>(
    deadline: &Deadline,
    set: impl Fn(&Deadline),
    future: impl Future<Output = T>,
) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let mut waited = false;
    let result = poll_fn(|context| {
        if let Poll::Ready(result) = future.as_mut().poll(context) {
            return Poll::Ready(Some(result));
        }
        if !waited {
            waited = true;
            set(deadline);
        }
        deadline.poll_elapsed(context).map(|()| None)
    })
    .await;
    if waited {
        deadline.clear();
    }
    result
}

/// Returns the trailer fields of a body that has ended; `None` when they were not promised, or cannot be `carried`.
pub(crate) fn trailers<'x>(
    x: &'x mut Exchange,
    body: &mut Body,
    carried: bool,
) -> Option<&'x Headers> {
    (carried && x.delivery.expects_trailers).then(|| phases::trailers(x, body))
}

/// Stores for the log the bytes sent: all of them, and those of the head.
pub(crate) fn count(x: &mut Exchange, bytes: u64, head_bytes: u64) {
    x.outcome.bytes_sent = bytes;
    x.outcome.body_bytes_sent = bytes.saturating_sub(head_bytes);
}

/// Gives the client's bytes to a tunnel (101, CONNECT) until it ends; `sent` is the counter of `io`.
///
/// Dropped at its await, the tunnel ends in the middle of its bytes (RFC 9110 section 7.8), and counts nothing.
pub(crate) async fn tunnel(x: &mut Exchange, tunnel: Tunnel, io: ClientIo, sent: Rc<Cell<u64>>) {
    tunnel(io).await;
    x.outcome.bytes_sent += sent.get();
    x.outcome.body_bytes_sent = sent.get();
    x.outcome.complete = true;
}
