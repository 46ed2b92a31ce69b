//! One response from an origin: servers are tried until one responds or the rules say to give up.

mod connecting;
mod failure;
mod response_body;
mod sending;
mod stream;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use tidegate_codec::Known;
use tidegate_codec::request::Method;
use tidegate_codec::response::{ResponseFraming, ResponseHead};
use tidegate_core::error_log::Level;
use tidegate_core::request_body::RequestBody;
use tidegate_core::timeline::{Cause, blame};
use tidegate_rt::clock;

use connecting::{AttemptConnection, ConnectionNeeds, connect};
pub use failure::READING_HEAD;
use failure::{AttemptFailure, CONNECTING, SENDING, framing_of, send_failed};
use failure::{failure_of_connect, failure_of_receive, failure_of_send};
use response_body::{BodyInput, BodyParts};
use sending::Sending;
use stream::{AcceptedStream, LastShared};

use crate::connection::OriginConnection;
use crate::h1::receive::{HeadReader, ReceiveError};
use crate::h1::scratch::Remainder;
use crate::h1::send::{self, UploadEnd};
use crate::log::{LogContext, TIMED_OUT};
use crate::peers::process_queue::QueuePlace;
use crate::peers::{Lease, Outcome, Peer};
use crate::report::SharedReport;
use crate::request::{OriginRequest, RequestPayload};
use crate::response::{FetchError, OriginResponse};
use crate::retry::{Blame, Decision, Event, Retry, UNPROCESSED_MAX};
use crate::settings::FetchSettings;
use crate::wire::{self, Codec, HeadError, Wire};

/// Sends the request to the group's servers until one responds. Owns all it needs: it can run in a detached task of
/// the thread.
///
/// Dropping it gives the attempt up: its connection is closed, the lease is returned, the failure is not counted
/// against the server, and the report's last attempt remains without a response time unless the caller finishes it.
///
/// # Errors
/// Carries the status to respond with: 502 or 504 as the last attempt ended, 400/408/413 when the client's body could
/// not be read. The reason was logged.
pub fn fetch(
    request: OriginRequest,
    settings: Arc<FetchSettings>,
    report: SharedReport,
    log: LogContext,
) -> impl Future<Output = Result<OriginResponse, FetchError>> {
    report.borrow_mut().begin_fetch();
    let now = clock::now();
    let retry = Retry {
        policy: settings.next_upstream,
        tries_left: tries(&request, &settings),
        until: match settings.next_upstream_timeout {
            time if time.is_zero() => None,
            time => now.checked_add(time),
        },
        idempotent: !matches!(request.method, Method::Post | Method::Lock | Method::Patch),
        repeatable: !matches!(request.payload, RequestPayload::Stream { .. }),
        sent: false,
        unprocessed_left: UNPROCESSED_MAX,
    };
    let given_back = None;
    let (fresh, place, shared) = (false, None, None);
    let mut fetch =
        Fetch { request, settings, report, log, retry, now, fresh, place, shared, given_back };
    // `run` borrows: passed by value, its data would be in its future twice.
    async move {
        let (accepted, lease) = fetch.run().await?;
        Ok(fetch.respond(accepted, lease))
    }
}

/// Returns whether another location may respond in the origin's place (`X-Accel-Redirect`, `error_page`).
fn may_be_replaced(head: &ResponseHead) -> bool {
    head.status >= 300 || head.headers.contains(Known::XAccelRedirect)
}

fn tries(request: &OriginRequest, settings: &FetchSettings) -> u32 {
    let most = request.group.attempts_max().max(1);
    match settings.next_upstream_tries {
        0 => most,
        tries => most.min(tries),
    }
}

struct Fetch {
    request: OriginRequest,
    settings: Arc<FetchSettings>,
    report: SharedReport,
    log: LogContext,
    retry: Retry,
    /// Time of the last event: the beginning, a server that was waited for, a head, or the end of an attempt. It is
    /// kept here, as each argument of a future takes room in it twice.
    now: Instant,
    /// Requires a new connection: a reused one has just failed.
    fresh: bool,
    /// The place in the order of those that want a process, while it is not known whether the kept connection is open.
    place: Option<QueuePlace>,
    /// The connection of the attempt before, if it was shared.
    shared: LastShared,
    given_back: Option<Box<RequestBody>>,
}

/// A response that is taken, on a connection of its own or on a stream.
enum Accepted {
    Own(AcceptedHead),
    Stream(AcceptedStream),
}

impl Accepted {
    fn head(&self) -> &ResponseHead {
        match self {
            Accepted::Own(accepted) => &accepted.head,
            Accepted::Stream(accepted) => &accepted.head,
        }
    }
}

/// A received head, and the pending work on its connection.
struct AcceptedHead {
    connection: Box<OriginConnection>,
    head: ResponseHead,
    input: Remainder,
    framing: ResponseFraming,
    codec: Codec,
    sending: Sending,
}

impl Fetch {
    /// Tries servers; returns the accepted head, and its server.
    ///
    /// Invariant: at the head of the loop no attempt is in progress, and `held` is the lease of a server that is to
    /// be tried again over a new connection (`retry` draws the states). Each iteration begins one attempt in the
    /// report, and ends it in the report and in the group before the next one begins.
    ///
    /// Dropped while it waits in the queue, it gives its place back. Dropped in an attempt, the lease and the
    /// connection go with it; neither retry nor group counts that attempt, as its outcome is unknown.
    async fn run(&mut self) -> Result<(Accepted, Lease), FetchError> {
        let mut held = None;
        loop {
            let chosen = match held.take() {
                // The same server once more, over a new connection: its lease continues.
                Some(same) => Some(same),
                None => {
                    match self.request.group.choose_in_order(&mut self.request.choice, self.now) {
                        // Full or unavailable servers: the request waits where the group has a queue.
                        None if self.request.group.options().queue.is_some() => {
                            let had = self.queue().await;
                            self.now = had.as_ref().map_or_else(clock::now, |(_, now)| *now);
                            had.map(|(lease, _)| lease)
                        }
                        chosen => chosen,
                    }
                }
            };
            let Some(lease) = chosen else { return Err(self.no_peer()) };
            self.report.borrow_mut().begin(&self.request.group, Some(lease.peer()), self.now);
            self.retry.sent = false;
            let result = match self.request.wire {
                // Boxed: requests over HTTP/1 have no room for it.
                Wire::Http2 { .. } => {
                    Box::pin(self.attempt_stream(lease.peer())).await.map(Accepted::Stream)
                }
                _ => self.attempt(lease.peer()).await.map(Accepted::Own),
            };
            // The event: a head has arrived, or the attempt has failed.
            self.now = clock::now();
            let event = match &result {
                Ok(accepted) => Event::Head(accepted.head().status),
                Err(failure) => failure.event,
            };
            let (decision, blame) = match &result {
                // The client caused the failure: no other server is tried, none is blamed.
                Err(AttemptFailure { client_status: Some(status), .. }) => {
                    (Decision::GiveUp(*status), Blame::None)
                }
                _ => self.retry.decide(event, self.now),
            };
            self.settle(lease.peer(), blame, decision, event);
            if let Err(failure) = &result {
                self.log_failure(lease.peer(), failure, decision);
            }
            if decision != Decision::Accept
                && let Some(attempt) = self.report.borrow_mut().last()
            {
                attempt.finished(self.now);
            }
            match decision {
                Decision::Accept => {
                    let Ok(accepted) = result else { return Err(self.failed(502)) };
                    if may_be_replaced(accepted.head()) {
                        self.record_request();
                    }
                    return Ok((accepted, lease));
                }
                Decision::SamePeer => held = Some(self.again(lease)),
                Decision::NextPeer => self.place = None,
                Decision::GiveUp(status) => {
                    let invalid_header = event == Event::Invalid;
                    return Err(FetchError { invalid_header, ..self.failed(status) });
                }
            }
        }
    }

    /// Prepares another try at the same server.
    fn again(&mut self, lease: Lease) -> Lease {
        self.fresh = true;
        self.place = self.place.take().map(QueuePlace::send_again);
        lease
    }

    fn failed(&mut self, status: u16) -> FetchError {
        self.record_request();
        let request_body = match std::mem::take(&mut self.request.payload) {
            RequestPayload::Stream { body, .. } => Some(body),
            _ => self.given_back.take(),
        };
        FetchError { status, invalid_header: false, request_body }
    }

    /// Waits for a server (`queue`). Boxed: few groups have a queue.
    fn queue(&mut self) -> impl Future<Output = Option<(Lease, Instant)>> {
        let OriginRequest { group, choice, .. } = &mut self.request;
        blame(Cause::Queue, Box::pin(group.wait(choice)))
    }

    /// Returns the error when all servers were tried, are failing, busy or down.
    fn no_peer(&mut self) -> FetchError {
        let mut report = self.report.borrow_mut();
        report.begin(&self.request.group, None, self.now);
        if let Some(attempt) = report.last() {
            attempt.status = 502;
            attempt.finished(self.now);
        }
        drop(report);
        let upstream = self.request.url(&self.request.group.name);
        self.log.write(Level::Error, "no live upstreams", CONNECTING, &upstream);
        self.failed(502)
    }

    /// Records the request for log lines of another location that responds in the origin's place.
    #[cold]
    fn record_request(&self) {
        let mut report = self.report.borrow_mut();
        let asked = report.last().map(|attempt| self.request.url(attempt.address()));
        report.request_url = asked.unwrap_or_default();
    }

    /// Reports the end of an attempt to the report and the group.
    fn settle(&self, peer: &Peer, blame: Blame, decision: Decision, event: Event) {
        let mut report = self.report.borrow_mut();
        if let (Event::Head(status), Some(attempt)) = (event, report.last()) {
            attempt.header_received(status, self.now);
        }
        drop(report);
        let outcome = match (blame, decision) {
            (Blame::Failed, _) => Outcome::Failure,
            // A closed idle connection says nothing about the server.
            (Blame::None, Decision::SamePeer) => return,
            (Blame::None, Decision::NextPeer) => Outcome::Neutral,
            (Blame::None, _) => Outcome::Success,
        };
        if let Some(attempt) = self.report.borrow_mut().last() {
            attempt.status = match event {
                Event::Head(status) => status,
                Event::TimedOut | Event::ConnectTimedOut => 504,
                _ => 502,
            };
        }
        self.request.group.report(peer, outcome, self.now);
    }

    fn log_failure(&self, peer: &Peer, failure: &AttemptFailure, decision: Decision) {
        // An origin may close an idle connection at any time: that is no error.
        if decision == Decision::SamePeer || failure.message.is_empty() {
            return;
        }
        let upstream = self.request.url(&peer.text);
        self.log.write(Level::Error, &failure.message, failure.action, &upstream);
    }

    /// Tries one server: connection, request, final head (RFC 9110 section 15.2 has the interim ones, which are
    /// passed on or skipped).
    ///
    /// Invariant: `retry.sent` is set as soon as there is a connection, before the first byte is written, so that a
    /// request that may have been read counts as sent. A connection that breaks before any byte of a response is
    /// `ReusedLost` where it had served before: origins close idle connections at any time (RFC 9112 section 9.3.1).
    ///
    /// The connection is a local of this future until the head is complete: dropped at any await it is closed, and
    /// not given back, as a response may still arrive on it. A body that the client streams goes back to `given_back`
    /// as soon as it is sent; until then it is lost with the future.
    async fn attempt(&mut self, peer: &Peer) -> Result<AcceptedHead, AttemptFailure> {
        self.log
            .debug(|| format!("upstream: chosen {} of \"{}\"", peer.text, self.request.group.name));
        let wanted = ConnectionNeeds {
            careful: !self.retry.idempotent || !self.retry.repeatable,
            fresh: std::mem::take(&mut self.fresh),
            place: self.place.take(),
        };
        // Taken apart at once: a name for the complete value would have room in this future across all of its waits.
        let (mut connection, reused, at) =
            match connect(&self.request, &self.settings, wanted, peer, self.now) {
                Ok(AttemptConnection { connection, reused, at }) => (connection, reused, at),
                Err(waiting) => match waiting.await {
                    Ok(AttemptConnection { connection, reused, at }) => (connection, reused, at),
                    Err(error) => return Err(failure_of_connect(&error)),
                },
            };
        self.log.debug(|| {
            let how = if reused { "kept connection to" } else { "connected to" };
            format!("upstream: {how} {}", peer.text)
        });
        connection.enter_order(!reused);
        if reused {
            self.place = connection.place.take();
        }
        if let Some(attempt) = self.report.borrow_mut().last() {
            attempt.connected(at);
        }
        connection.requests += 1;
        self.retry.sent = true;
        let lost = if reused { Event::ReusedLost } else { Event::Lost };
        let mut sent = 0;
        let limit = self.settings.send_timeout;
        let OriginRequest { head, payload, wire, .. } = &mut self.request;
        let begun = send::begin(&connection.io, (head.text(), payload), wire, limit, &mut sent);
        if let Some(attempt) = self.report.borrow_mut().last() {
            attempt.bytes_sent = sent;
        }
        let mut sending =
            Sending::begun(begun, reused).map_err(|error| failure_of_send(error, lost))?;
        let paced = self.request.paced;
        let mut reader =
            HeadReader::new(self.settings.head_bytes_max, paced, self.request.wire.codec());
        loop {
            let result = self.exchange(&connection, &mut sending, &mut reader, lost).await;
            if let Some(attempt) = self.report.borrow_mut().last() {
                attempt.bytes_received = reader.received;
            }
            self.log_error_stream(peer, &mut reader);
            if let Err(failure) = result {
                connection.note_failure(failure.event);
                return Err(failure);
            }
            if !reader.head().is_interim() {
                break;
            }
            Box::pin(self.interim(&mut reader, lost)).await?;
        }
        match &mut connection.place {
            Some(place) => place.responded(),
            None => connection.place = self.place.take(),
        }
        let (head, input, codec) = reader.finish();
        let framing = framing_of(&head, &codec, &self.request)?;
        if let Some(error) = sending.failure() {
            let upstream = self.request.url(&peer.text);
            self.log.write(Level::Info, &send_failed(error), SENDING, &upstream);
        }
        Ok(AcceptedHead { connection, head, input, framing, codec, sending })
    }

    /// Logs the origin's error output, which is sent beside its head.
    fn log_error_stream(&self, peer: &Peer, reader: &mut HeadReader) {
        if let (Wire::Memcached(ask), 404) = (&self.request.wire, reader.head().status) {
            let key = String::from_utf8_lossy(&ask.key);
            let message = format!("key: \"{key}\" was not found by memcached");
            self.log.write(Level::Info, &message, READING_HEAD, &self.request.url(&peer.text));
        }
        if let Codec::FastCgi(decoder, _) = reader.codec()
            && !decoder.stderr().is_empty()
        {
            wire::log_stderr(decoder, &self.log, READING_HEAD, &self.request.url(&peer.text));
        }
    }

    /// Sends the rest of the request while reading until a head is complete. An origin that reads no more of the
    /// request may have sent the reason: its bytes are read before the failure counts (RFC 9112 section 9.5).
    ///
    /// One wait over two things: the upload is polled first, then the reader. While the upload is in progress its own
    /// limit applies (`*_send_timeout`); the time to respond (`*_read_timeout`) begins when all is sent. The inner
    /// values are: `None`, the upload failed and its error is in `ended`; `Some(None)`, the time limit has passed;
    /// `Some(Some(read))`, the reader's. Dropped, it leaves upload and reader unchanged; `attempt` owns them.
    async fn exchange(
        &mut self,
        connection: &OriginConnection,
        sending: &mut Sending,
        reader: &mut HeadReader,
        lost: Event,
    ) -> Result<(), AttemptFailure> {
        let mut waiting = false;
        let limit = self.settings.head_limit();
        let mut ended = None;
        let read = poll_fn(|context| {
            if let Poll::Ready(end) = sending.poll(context) {
                let failed = end.result.is_err();
                ended = Some(end);
                if failed {
                    return Poll::Ready(None);
                }
            }
            if sending.is_under_way() {
                // The time to respond begins when the request is sent.
                return reader.poll_head(connection, context).map(|read| Some(Some(read)));
            }
            let read = connection.poll_limited(context, &mut waiting, limit, |context| {
                reader.poll_head(connection, context)
            });
            read.map(Some)
        });
        let read = blame(Cause::OriginThink, read).await;
        if let Some(UploadEnd { result, body, sent }) = ended {
            if let Some(attempt) = self.report.borrow_mut().last() {
                attempt.bytes_sent += sent;
            }
            self.given_back = body.or(self.given_back.take());
            result.map_err(|error| failure_of_send(error, lost))?;
        }
        if let (Some(Some(Err(ReceiveError::Closed | ReceiveError::Io(_)))), Some(error)) =
            (&read, sending.failure())
        {
            return Err(AttemptFailure::sending(lost, send_failed(error)));
        }
        let lost = if reader.received > 0 { Event::Lost } else { lost };
        match read {
            Some(Some(Ok(()))) => Ok(()),
            Some(Some(Err(error))) => Err(failure_of_receive(&error, lost)),
            Some(None) | None => {
                Err(AttemptFailure::reading(Event::TimedOut, TIMED_OUT.to_owned()))
            }
        }
    }

    /// Passes an interim head on and continues with the next one.
    async fn interim(
        &mut self,
        reader: &mut HeadReader,
        lost: Event,
    ) -> Result<(), AttemptFailure> {
        if let Some(client) = &self.request.interim
            && reader.head().status == 103
        {
            let _ = client.send_interim(103, &reader.head().headers).await;
        }
        reader.skip().map_err(|error| match error {
            ReceiveError::Head(HeadError::Invalid(message)) => {
                AttemptFailure::reading(Event::Invalid, message)
            }
            _ => AttemptFailure::reading(lost, String::new()),
        })
    }

    /// Makes the response of a head: the body is complete if it has arrived, else a stream.
    fn respond(self, accepted: Accepted, lease: Lease) -> OriginResponse {
        let request_body = self.given_back;
        let fetch = BodyParts {
            fit: self.request.fit(lease.peer()),
            request: self.request,
            settings: self.settings,
            report: self.report,
            log: self.log,
        };
        match accepted {
            Accepted::Own(accepted) => {
                let AcceptedHead { connection, head, input, framing, codec, sending } = accepted;
                let received = BodyInput { input, framing, codec, at: self.now };
                let body = fetch.body(connection, &head, received, sending, lease);
                OriginResponse { head, body, request_body }
            }
            Accepted::Stream(accepted) => {
                let AcceptedStream { stream, head, upload, refused } = accepted;
                let body = fetch.stream(stream, &head, (upload, refused), self.now, lease);
                OriginResponse { head, body, request_body }
            }
        }
    }
}
