//! A response body on its way from the origin; gives the connection back when it ended cleanly.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use tidegate_codec::Headers;
use tidegate_codec::fastcgi::RecordError;
use tidegate_core::body::{Body, BodyError, BodyStream, Chunk};
use tidegate_core::error_log::Level;
use tidegate_core::pace::{GrantInterval, Rate};
use tidegate_core::timeline::{Cause, waits_for};
use tidegate_rt::clock;

use super::framing::{Framing, Piece};
use super::scratch;
use super::send::Upload;
use crate::connection::OriginConnection;
use crate::link::Link;
use crate::log::{LogContext, TIMED_OUT, os_error};
use crate::peers::{Group, Lease};
use crate::pool::{self, fit::Fit};
use crate::report::SharedReport;
use crate::settings::FetchSettings;
use crate::wire;

/// Most bytes of trailer fields.
pub(crate) const TRAILER_BYTES_MAX: usize = 8 * 1024;

/// The data behind a response head.
pub enum OriginBody {
    /// The complete body.
    Whole(Bytes),
    /// A body that is read while it arrives.
    Stream(Box<BodyReader>),
    /// A 101 response to an upgrade: the raw connection.
    Upgraded(Box<Upgraded>),
}

/// A connection that has left HTTP.
pub struct Upgraded {
    pub(crate) connection: Box<OriginConnection>,
    /// Bytes that the origin sent behind its head.
    pub(crate) prefetched: Bytes,
    pub(crate) settings: Arc<FetchSettings>,
    pub(crate) report: SharedReport,
    pub(crate) log: LogContext,
    pub(crate) upstream: String,
    pub(crate) lease: Option<Lease>,
}

impl OriginBody {
    /// Makes it a body for a client; a tunnel has to be taken out before.
    pub fn into_body(self) -> Body {
        match self {
            OriginBody::Whole(bytes) => Body::from(bytes),
            OriginBody::Stream(reader) => Body::Stream(reader),
            OriginBody::Upgraded(_) => Body::Empty,
        }
    }

    /// Reads it to its end; returns its bytes and its trailers. `most` limits what is read behind the head's buffer.
    ///
    /// Cancelling: dropped while it waits, the rest is given up as with a dropped reader.
    ///
    /// # Errors
    /// The connection has left HTTP, or the body is incomplete or longer than `most`.
    pub async fn collect(self, most: usize) -> Result<(Vec<u8>, Option<Headers>), CollectError> {
        let mut stream = match self {
            OriginBody::Whole(bytes) => return Ok((bytes.to_vec(), None)),
            OriginBody::Stream(stream) => stream,
            OriginBody::Upgraded(_) => return Err(CollectError::Upgraded),
        };
        let mut bytes = Vec::new();
        while bytes.len() <= most {
            match poll_fn(|context| stream.poll_chunk(context)).await {
                None => return Ok((bytes, stream.trailers())),
                Some(Ok(Chunk::Bytes(more))) => bytes.extend_from_slice(&more),
                Some(Ok(_)) => {}
                Some(Err(_)) => return Err(CollectError::Broken),
            }
        }
        Err(CollectError::TooLong)
    }
}

/// The reason why a body has no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectError {
    /// The connection has left HTTP.
    Upgraded,
    /// The body breaks off.
    Broken,
    /// It is longer than the limit.
    TooLong,
}

const READING: &str = "reading upstream";

/// The parameters of a body reader.
pub(crate) struct BodyStart {
    pub framing: Framing,
    /// Bytes that arrived with the head.
    pub input: Bytes,
    /// The pool that the connection returns to in the end; `None` closes it.
    pub keep: Option<(Arc<Group>, Fit)>,
    pub lease: Option<Lease>,
    pub upload: Option<Upload>,
    /// The origin stopped reading the request: its connection was reset.
    pub refused: bool,
    /// The response is no success.
    pub is_error: bool,
    pub settings: Arc<FetchSettings>,
    pub report: SharedReport,
    pub log: LogContext,
    /// For log lines: `http://127.0.0.1:80/path`.
    pub upstream: Rc<str>,
}

impl BodyStart {
    /// Handles the end of the connection, closed or `reset`: the body is complete, or broken for this reason. An
    /// origin that closes before it has read all of the request resets its connection. Where the close alone ends the
    /// body, the received bytes count as complete for an error's page only.
    fn closed(&self, reset: bool) -> Result<(), &'static str> {
        let unsent = self.refused || self.upload.is_some();
        match self.framing {
            Framing::UntilClose if unsent && self.is_error => Ok(()),
            Framing::UntilClose if !(reset || self.refused) => Ok(()),
            Framing::UntilClose => Err("upstream prematurely closed connection"),
            _ if reset => Err("upstream prematurely closed connection"),
            _ => self.framing.closed(),
        }
    }

    /// Keeps the output of received records, and logs the rest; returns where the output begins.
    fn take_apart(&mut self, received: &mut Vec<u8>) -> Result<usize, RecordError> {
        let Framing::Records(records) = &mut self.framing else { return Ok(0) };
        let decoded = records.decode(received);
        if !records.decoder.stderr().is_empty() {
            wire::log_stderr(&mut records.decoder, &self.log, READING, &self.upstream);
        }
        decoded
    }
}

/// A stream of a response body.
///
/// States, by its contents: `connection` is set until the body has ended; `start.upload` while the request is still
/// being sent beside it. Each poll yields a piece of `start.input` or receives more into it.
///
/// The body ends once, in `end`: complete (the connection goes back, where `start.keep` allows and all of the request
/// was sent), given up, or broken. Then the attempt is finished and the lease ended, and every later poll is the end
/// of the stream. Dropped before that, it is given up: the connection is closed, and the failure is not counted
/// against the server.
pub struct BodyReader {
    start: BodyStart,
    /// `None` once the body has ended.
    connection: Option<Link>,
    waiting: bool,
    pace: Option<Box<RateLimit>>,
    trailers: Option<Headers>,
}

/// The rate of `proxy_limit_rate`.
struct RateLimit {
    rate: Rate,
    received: u64,
}

impl BodyReader {
    pub(crate) fn new(start: BodyStart, connection: Link) -> BodyReader {
        BodyReader {
            start,
            connection: Some(connection),
            waiting: false,
            pace: None,
            trailers: None,
        }
    }

    /// Limits reading to `rate` bytes a second from `now` on, which is exact; the bytes already received count. 0 is
    /// no limit.
    pub fn limit_rate(&mut self, rate: u64, now: Instant) {
        let received = match (&self.connection, self.start.report.borrow_mut().last()) {
            // What has arrived of a stream is not taken yet.
            (Some(Link::Stream(_)), _) | (_, None) => 0,
            (_, Some(attempt)) => attempt.bytes_received,
        };
        let rate = Rate::new(rate, GrantInterval::Seconds, now);
        self.pace = rate.map(|rate| Box::new(RateLimit { rate, received }));
    }

    /// Returns the number of bytes left, if known.
    pub fn length_left(&self) -> Option<u64> {
        self.start.framing.length_left()
    }

    /// Receives more; `Ok(false)` is the end of the stream.
    ///
    /// Called only with nothing left in `start.input`. A wait for the pace (`*_limit_rate`) is no wait for the
    /// origin: its limit (`*_read_timeout`) begins when the socket is read. No buffer is held while there is nothing
    /// to read. A reset is the end of an error's page whose origin has not read all of the request, and else an error
    /// ([`BodyStart::closed`]). Pending leaves everything unchanged: the caller may drop the body instead of polling
    /// again.
    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<Result<bool, BodyError>> {
        let room = match &self.pace {
            Some(pace) => {
                let allowed = ready!(pace.rate.poll_allowance(context, pace.received));
                usize::try_from(allowed).unwrap_or(usize::MAX)
            }
            None => scratch::READ_BYTES,
        };
        let connection = match &self.connection {
            Some(Link::Own(connection)) => connection,
            Some(Link::Stream(_)) => return self.poll_stream(context, room),
            None => return Poll::Ready(Ok(false)),
        };
        let mut buffer = None;
        let read = connection.poll_limited(
            context,
            &mut self.waiting,
            self.start.settings.read_timeout,
            |context| {
                let _ = ready!(connection.io.poll_readable(context));
                let own = buffer.get_or_insert_with(scratch::buffer);
                if room < own.capacity() {
                    own.resize(room, 0);
                    let read = connection.io.poll_read(context, own);
                    own.truncate(match &read {
                        Poll::Ready(Ok(count)) => *count,
                        _ => 0,
                    });
                    return read;
                }
                connection.io.poll_read_append(context, own)
            },
        );
        let result = match read {
            Poll::Pending => {
                buffer.into_iter().for_each(scratch::give_buffer);
                return Poll::Pending;
            }
            Poll::Ready(None) => {
                return Poll::Ready(Err(self.broken(TIMED_OUT)));
            }
            Poll::Ready(Some(result)) => result,
        };
        match result {
            Ok(0) => Poll::Ready(Ok(false)),
            Ok(count) => {
                if let Some(attempt) = self.start.report.borrow_mut().last() {
                    attempt.bytes_received += count as u64;
                }
                if let Some(pace) = &mut self.pace {
                    pace.received += count as u64;
                }
                let mut received = buffer.unwrap_or_default();
                let begin = match self.start.take_apart(&mut received) {
                    Ok(begin) => begin,
                    Err(error) => return Poll::Ready(Err(self.broken(&error.to_string()))),
                };
                self.start.input = scratch::into_bytes(received, begin);
                Poll::Ready(Ok(true))
            }
            Err(_) if self.start.closed(true).is_ok() => Poll::Ready(Ok(false)),
            Err(error) => {
                let message = format!("recv() failed ({})", os_error(&error));
                Poll::Ready(Err(self.broken(&message)))
            }
        }
    }

    /// Takes more of a stream, at most `room` bytes; as [`BodyReader::poll_receive`].
    fn poll_stream(
        &mut self,
        context: &mut Context<'_>,
        room: usize,
    ) -> Poll<Result<bool, BodyError>> {
        let Some(Link::Stream(stream)) = &mut self.connection else {
            return Poll::Ready(Ok(false));
        };
        let limit = self.start.settings.read_timeout;
        let read =
            ready!(stream.poll_limited(context, limit, |stream, context| {
                stream.poll_body(context, room)
            }));
        let piece = match read {
            Some(Ok(piece)) => piece,
            Some(Err(end)) => return Poll::Ready(Err(self.broken(&end.to_string()))),
            None => return Poll::Ready(Err(self.broken(TIMED_OUT))),
        };
        if let Some(attempt) = self.start.report.borrow_mut().last() {
            attempt.bytes_received = stream.received();
        }
        if let Some(pace) = &mut self.pace {
            pace.received += piece.bytes.len() as u64;
        }
        self.trailers = piece.trailers.or(self.trailers.take());
        if let Framing::Frames(frames) = &mut self.start.framing {
            frames.ended = piece.end;
        }
        self.start.input = piece.bytes;
        Poll::Ready(Ok(true))
    }

    /// Logs why the body ends before its end.
    fn broken(&mut self, message: &str) -> BodyError {
        let start = &self.start;
        start.log.write(Level::Error, message, READING, &start.upstream);
        self.end(false, false);
        BodyError::Incomplete
    }

    /// Ends the body: `whole`, or given up; `clean` when no bytes followed it.
    fn end(&mut self, whole: bool, clean: bool) {
        // The event is the body's end, wherever it was noticed.
        let now = clock::now();
        if let Some(attempt) = self.start.report.borrow_mut().last() {
            attempt.finished(now);
        }
        let Some(connection) = self.connection.take() else { return };
        self.start.lease = None;
        if whole && !clean {
            report_excess(&self.start.log, &self.start.upstream, &self.start.framing);
            return;
        }
        let sent = self.start.upload.is_none();
        if let (Link::Own(connection), true, true, Some((group, fit))) =
            (connection, whole, sent, self.start.keep.take())
        {
            pool::give(&group, fit, connection, now);
        }
    }

    /// Continues sending the request's body.
    fn poll_upload(&mut self, context: &mut Context<'_>) {
        let Some(upload) = &mut self.start.upload else { return };
        if let Poll::Ready(end) = upload.as_mut().poll(context) {
            if let Some(attempt) = self.start.report.borrow_mut().last() {
                attempt.bytes_sent += end.sent;
            }
            self.start.upload = None;
            if end.result.is_err() {
                self.start.keep = None;
                self.start.refused = true;
            }
        }
    }
}

impl BodyStream for BodyReader {
    /// The upload is driven here as well: an origin may respond before it has read the request, and stop reading
    /// while its response is not read. Pieces come before the wait for more, so that received bytes are never held
    /// back; an end that is known with the last piece ends the body with that piece, and frees the connection a poll
    /// earlier.
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        if self.connection.is_none() {
            return Poll::Ready(None);
        }
        if self.start.upload.is_some() {
            self.poll_upload(context);
        }
        loop {
            match self.start.framing.take(&mut self.start.input, &mut self.trailers) {
                Piece::Broken(message) => return Poll::Ready(Some(Err(self.broken(message)))),
                Piece::End(clean) => {
                    self.end(true, clean);
                    return Poll::Ready(None);
                }
                Piece::Data(bytes) => {
                    if let Some(attempt) = self.start.report.borrow_mut().last() {
                        attempt.response_length += bytes.len() as u64;
                    }
                    if self.start.framing.is_over(&self.start.input) {
                        let clean = self.start.input.is_empty();
                        self.end(true, clean);
                    }
                    return Poll::Ready(Some(Ok(Chunk::Bytes(bytes))));
                }
                Piece::Excess => {
                    let start = &self.start;
                    report_excess(&start.log, &start.upstream, &Framing::Length(0));
                    continue;
                }
                Piece::More => {}
            }
            let Poll::Ready(received) = self.poll_receive(context) else {
                waits_for(Cause::OriginStream);
                return Poll::Pending;
            };
            match received {
                Err(error) => return Poll::Ready(Some(Err(error))),
                Ok(true) => {}
                Ok(false) => match self.start.closed(false) {
                    Ok(()) => {
                        self.end(false, false);
                        return Poll::Ready(None);
                    }
                    Err(message) => return Poll::Ready(Some(Err(self.broken(message)))),
                },
            }
        }
    }

    fn is_over(&self) -> bool {
        self.connection.is_none()
    }

    fn trailers(&mut self) -> Option<Headers> {
        if self.start.settings.pass_trailers { self.trailers.take() } else { None }
    }
}

impl Drop for BodyReader {
    fn drop(&mut self) {
        if self.connection.is_some() {
            self.end(false, false);
        }
    }
}

/// Logs bytes behind the end of a body: the connection cannot be used again.
pub(crate) fn report_excess(log: &LogContext, upstream: &str, framing: &Framing) {
    let message = match framing {
        Framing::Value(_) => "memcached sent invalid trailer",
        Framing::Records(_) => "upstream sent data behind the end of a FastCGI request",
        Framing::Length(_) => "upstream sent more data than specified in \"Content-Length\" header",
        _ => "upstream sent data after final chunk",
    };
    log.write(Level::Warn, message, READING, upstream);
}
