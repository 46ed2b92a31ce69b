//! An attempt over a stream of a shared connection (HTTP/2).
//!
//! ```text
//! seat ── ready ──> begun: the head is in the output ──> sending and reading ── final head ──> AcceptedStream
//!   │ full, gone: another seat                             │ reset, lost, late, malformed
//!   └── no connection ─────────────────────────────────────┴──> AttemptFailure
//! ```
//!
//! Invariant: `retry.sent` is set before the head is in the output. Dropped at any await, the stream is reset with
//! CANCEL or the seat is given back; the connection stays.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use tidegate_codec::response::ResponseHead;
use tidegate_core::timeline::{Cause, blame};
use tidegate_rt::clock;

use super::Fetch;
use super::failure::{AttemptFailure, failure_of_connect, failure_of_send};
use crate::h1::send::{SendError, Upload};
use crate::h2::{self, HeadEvent, OriginStream, Seat, SeatError, SharedConnection, StreamEnd};
use crate::head::OriginHead;
use crate::log::TIMED_OUT;
use crate::peers::Peer;
use crate::pool::shared;
use crate::request::OriginRequest;
use crate::retry::Event;

/// Seats that an attempt takes before it fails: a connection may fill or close between the choice and its turn.
const SEATS_MAX: u32 = 8;

/// A received head, and the stream that its body is read from.
pub(super) struct AcceptedStream {
    pub stream: Box<OriginStream>,
    pub head: ResponseHead,
    /// The rest of the request, to be sent beside the body.
    pub upload: Option<Upload>,
    /// The origin takes no more of the request.
    pub refused: bool,
}

/// What ended the wait for a head.
enum Waited {
    Head(HeadEvent),
    Sending(SendError),
    TimedOut,
}

impl Fetch {
    /// Tries one server over a stream.
    pub(super) async fn attempt_stream(
        &mut self,
        peer: &Peer,
    ) -> Result<AcceptedStream, AttemptFailure> {
        let seat = self.seat(peer).await?;
        if let Some(attempt) = self.report.borrow_mut().last() {
            attempt.connected(clock::now());
        }
        // A second connection that breaks is no idle one that its origin has closed.
        let is_first = !std::mem::take(&mut self.fresh);
        let lost = match seat.has_served() && is_first {
            true => Event::ReusedLost,
            false => Event::Lost,
        };
        self.retry.sent = true;
        self.shared = Some(seat.connection().clone());
        let (mut stream, mut upload) = self.begin_stream(seat, lost)?;
        let mut refused = false;
        loop {
            let waited = self.wait_for_head(&mut stream, &mut upload, &mut refused).await;
            if let Some(attempt) = self.report.borrow_mut().last() {
                attempt.bytes_received = stream.received();
            }
            match waited {
                Waited::Head(HeadEvent::Interim(head)) => self.pass_interim(head).await,
                Waited::Head(HeadEvent::Final(head)) => {
                    self.check_size(&head)?;
                    return Ok(AcceptedStream { stream, head, upload, refused });
                }
                Waited::Head(HeadEvent::Ended(end)) => return Err(failure_of_stream(&end, lost)),
                Waited::Sending(error) => return Err(failure_of_send(error, lost)),
                Waited::TimedOut => {
                    let message = TIMED_OUT.to_owned();
                    return Err(AttemptFailure::reading(Event::TimedOut, message));
                }
            }
        }
    }

    /// Waits for a place on a connection.
    async fn seat(&mut self, peer: &Peer) -> Result<Seat, AttemptFailure> {
        let mut avoid = self.shared.take().filter(|_| self.fresh);
        for _ in 0..SEATS_MAX {
            let now = clock::now();
            let log = self.log.error_log();
            let seat = shared::take(&self.request, &self.settings, log, peer, now, avoid.as_ref());
            match blame(Cause::Connect, seat.ready()).await {
                Ok(()) => return Ok(seat),
                Err(SeatError::Connect(error)) => return Err(failure_of_connect(&error)),
                Err(SeatError::Full) => avoid = Some(seat.connection().clone()),
            }
        }
        let message = "upstream takes no more streams".to_owned();
        Err(AttemptFailure::sending(Event::Refused, message))
    }

    /// Sends the head, and a small body with it.
    fn begin_stream(
        &mut self,
        seat: Seat,
        lost: Event,
    ) -> Result<(Box<OriginStream>, Option<Upload>), AttemptFailure> {
        let OriginRequest { head, payload, tls, interim, .. } = &mut self.request;
        let OriginHead::List(list) = head else {
            let message = "a head as text has no stream".to_owned();
            return Err(AttemptFailure::sending(Event::Refused, message));
        };
        let scheme: &[u8] = if tls.is_some() { b"https" } else { b"http" };
        let end = h2::send::is_bodiless(payload);
        let begun = seat.begin(list, scheme, end, interim.is_some());
        let (stream, mut sent) = begun.map_err(|error| {
            let message = format!("request cannot be sent over HTTP/2: {error}");
            AttemptFailure::sending(lost, message)
        })?;
        let limit = self.settings.send_timeout;
        let upload = match end {
            true => None,
            false => h2::send::begin(&stream, payload, limit, &mut sent),
        };
        if let Some(attempt) = self.report.borrow_mut().last() {
            attempt.bytes_sent = sent;
        }
        Ok((Box::new(stream), upload))
    }

    /// Sends the rest of the request while waiting for a head. The limit of the wait (`*_read_timeout`) begins when
    /// all is sent; until then that of sending applies. An origin that takes no more of the request may have said why
    /// in its response, so that counts.
    async fn wait_for_head(
        &mut self,
        stream: &mut OriginStream,
        upload: &mut Option<Upload>,
        refused: &mut bool,
    ) -> Waited {
        let limit = self.settings.head_limit();
        let (report, given_back) = (&self.report, &mut self.given_back);
        let waited = poll_fn(|context| {
            if let Some(sending) = upload
                && let Poll::Ready(end) = sending.as_mut().poll(context)
            {
                *upload = None;
                if let Some(attempt) = report.borrow_mut().last() {
                    attempt.bytes_sent += end.sent;
                }
                *given_back = end.body.or(given_back.take());
                match end.result {
                    Ok(()) => {}
                    Err(SendError::Origin(_)) => *refused = true,
                    Err(error) => return Poll::Ready(Waited::Sending(error)),
                }
            }
            if upload.is_some() {
                return stream.poll_head(context).map(Waited::Head);
            }
            let read = stream.poll_limited(context, limit, OriginStream::poll_head);
            read.map(|read| read.map_or(Waited::TimedOut, Waited::Head))
        });
        blame(Cause::OriginThink, waited).await
    }

    async fn pass_interim(&self, head: ResponseHead) {
        if let Some(client) = &self.request.interim
            && head.status == 103
        {
            let _ = client.send_interim(103, &head.headers).await;
        }
        crate::h1::scratch::give_head(head);
    }

    /// Checks a head against the location's limit (`*_buffer_size`).
    fn check_size(&self, head: &ResponseHead) -> Result<(), AttemptFailure> {
        match head.headers.text().len() > self.settings.head_bytes_max {
            true => {
                let message = "upstream sent too big header".to_owned();
                Err(AttemptFailure::reading(Event::Invalid, message))
            }
            false => Ok(()),
        }
    }
}

/// A boundary: maps the end of a stream to the retry machine's event and the log line.
fn failure_of_stream(end: &StreamEnd, lost: Event) -> AttemptFailure {
    let event = match end {
        StreamEnd::Unprocessed => Event::Unprocessed,
        StreamEnd::Lost(_) => lost,
        // As nginx counts it.
        StreamEnd::Complete | StreamEnd::Malformed(_) | StreamEnd::Reset(_) => Event::Invalid,
    };
    AttemptFailure::reading(event, end.to_string())
}

/// The connection of the attempt before, which another attempt at the same server does not use.
pub(super) type LastShared = Option<Rc<SharedConnection>>;
