//! The end of streams and of the connection, and the memory of an idle one.

use std::time::Duration;

use super::{Connection, Event, OwnStream};
use crate::error::{ConnectionError, ErrorCode, Fault};
use crate::frame::write;
use crate::stream::{Reading, Sent};
use crate::varint;

/// The largest request stream (RFC 9000 section 2.1).
const STREAM_MAX: u64 = varint::MAX - 3;

/// The step that the end of a connection has reached on our side (RFC 9114 section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Streams may begin.
    Open,
    /// GOAWAY with the largest stream was sent: the client should begin no more, but what is on its way is served.
    Announced,
    /// GOAWAY with the first stream that is not served was sent.
    Final(u64),
}

impl Ending {
    pub(super) fn excludes(self, stream: u64) -> bool {
        matches!(self, Ending::Final(first) if stream >= first)
    }
}

/// What the caller does with the QUIC stream of an exchange that is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Closing {
    /// STOP_SENDING with this code: the rest of the request is not read.
    pub stop: Option<ErrorCode>,
    /// RESET_STREAM with this code: the response is incomplete.
    pub reset: Option<ErrorCode>,
}

impl Connection {
    /// The client has reset its side of a stream (RESET_STREAM).
    ///
    /// # Errors
    /// The connection is over: it was a stream that the connection needs.
    pub fn reset_received(
        &mut self,
        stream: u64,
        code: ErrorCode,
        now: Duration,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.budgets.now(now);
        let received = match stream & 3 {
            0 => self.request_reset(stream, code),
            2 => self.unidirectional_reset(stream).map(|()| None),
            _ => Err(Fault::StreamCreation),
        };
        let event = received.and_then(|event| self.confirm().map(|()| event));
        event.map_err(|fault| self.fail(fault))
    }

    /// The client does not want what is sent on a stream (STOP_SENDING).
    ///
    /// # Errors
    /// The connection is over: it was a stream of this end that the connection needs.
    pub fn stop_received(
        &mut self,
        stream: u64,
        code: ErrorCode,
        now: Duration,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.budgets.now(now);
        let event = match stream & 3 {
            0 => self.request_stopped(stream, code),
            _ => Err(Fault::ClosedCriticalStream),
        };
        event.map_err(|fault| self.fail(fault))
    }

    /// Ends an exchange: the stream no longer counts and is forgotten; what arrives of it is dropped. Where
    /// the message of either side is not complete, the result says with which code it is to be given up: `code`, and
    /// H3_NO_ERROR for the rest of a request that was responded to in full (RFC 9114 section 4.1).
    pub fn close(&mut self, stream: u64, code: ErrorCode) -> Closing {
        let Some(found) = self.streams.remove(stream) else { return Closing::default() };
        self.section_bytes = self.section_bytes.saturating_sub(found.section.len());
        let mut closing = Closing::default();
        if !found.is_received {
            self.decoder.cancel(stream);
            closing.stop = Some(match found.sent {
                Sent::Ended => ErrorCode::NO_ERROR,
                _ => code,
            });
        }
        if found.sent != Sent::Ended {
            closing.reset = Some(code);
        }
        if let Err(fault) = self.confirm() {
            self.fail(fault);
        }
        closing
    }

    fn request_reset(&mut self, id: u64, code: ErrorCode) -> Result<Option<Event<'static>>, Fault> {
        let Some(stream) = self.streams.get_mut(id).filter(|stream| !stream.is_received) else {
            self.budgets.control_frame()?;
            // All of it may be here, or nothing: then nothing of it follows, and a section of it may be lost. Our side of such a
            // stream has to end as well: else it counts for ever.
            if !self.requests.begin(id)? {
                return Ok(None);
            }
            self.decoder.cancel(id);
            return Ok(Some(Event::Refused { stream: id, code: ErrorCode::REQUEST_CANCELLED }));
        };
        self.decoder.cancel(id);
        let counted = std::mem::replace(&mut stream.is_reset, true);
        stream.is_received = true;
        stream.reading = Reading::Discard;
        self.section_bytes = self.section_bytes.saturating_sub(stream.section.len());
        stream.section = Vec::new();
        if !stream.is_reported {
            self.streams.remove(id);
            self.budgets.reset()?;
            let code = ErrorCode::REQUEST_CANCELLED;
            return Ok(Some(Event::Refused { stream: id, code }));
        }
        if counted {
            return Ok(None);
        }
        self.budgets.reset()?;
        Ok(Some(Event::Reset { stream: id, code }))
    }

    fn request_stopped(
        &mut self,
        id: u64,
        code: ErrorCode,
    ) -> Result<Option<Event<'static>>, Fault> {
        let Some(stream) = self.sendable(id) else {
            self.budgets.control_frame()?;
            return Ok(None);
        };
        stream.sent = Sent::Stopped;
        if std::mem::replace(&mut stream.is_reset, true) {
            return Ok(None);
        }
        self.budgets.reset()?;
        Ok(Some(Event::Reset { stream: id, code }))
    }

    /// Announces a graceful end: GOAWAY with the largest stream (RFC 9114 section 5.2). The caller calls
    /// [`Connection::go_away`] once what is on its way has had time to arrive.
    pub fn announce_end(&mut self) {
        if self.ending == Ending::Open && self.failed.is_none() {
            self.ending = Ending::Announced;
            write::go_away(
                self.output_of(OwnStream::Control).bytes(OwnStream::Control),
                STREAM_MAX,
            );
        }
    }

    /// Takes no new streams from now on: GOAWAY with the first one above all that were received. Those in progress go
    /// on until [`Connection::is_drained`].
    pub fn go_away(&mut self) {
        if !matches!(self.ending, Ending::Final(_)) && self.failed.is_none() {
            let first = self.requests.next().min(STREAM_MAX);
            self.ending = Ending::Final(first);
            write::go_away(self.output_of(OwnStream::Control).bytes(OwnStream::Control), first);
        }
    }

    /// Ends the connection at once, and all of its streams. The caller closes it with `code`.
    pub fn abort(&mut self, code: ErrorCode) -> ConnectionError {
        self.fail(Fault::Aborted(code))
    }

    /// Whether no stream is left after [`Connection::go_away`]: the caller sends the output and closes with H3_NO_ERROR.
    pub fn is_drained(&self) -> bool {
        self.streams.len() == 0 && matches!(self.ending, Ending::Final(_))
    }

    /// Whether nothing is in progress: no stream, no part of a frame, no output.
    pub fn is_quiet(&self) -> bool {
        let has_output = OwnStream::ALL.iter().any(|stream| !self.output(*stream).is_empty());
        self.streams.len() == 0 && self.control.is_quiet() && !has_output
    }

    /// Gives memory back that nothing in progress needs; for connections that become idle.
    pub fn release_memory(&mut self) {
        self.encoded = (Vec::new(), Vec::new());
        self.scratch = Default::default();
        self.head.clear();
        self.head.headers.shrink_to(0, 0);
        self.head.ignored = Vec::new();
        self.decoder.shrink();
        self.encoder.shrink();
        self.streams.shrink();
        self.requests.shrink();
        self.others.shrink();
        self.unidirectional.shrink_to_fit();
        self.control.shrink();
        self.early_priorities.shrink_to_fit();
        self.outputs.iter_mut().for_each(super::Output::shrink);
    }

    /// Returns the bytes allocated beside the value itself.
    pub fn memory(&self) -> usize {
        let (lines, prefix) = &self.encoded;
        lines.capacity()
            + prefix.capacity()
            + self.scratch.capacity()
            + self.head.headers.capacity()
            + self.head.ignored.capacity() * size_of::<tidegate_codec::Span>()
            + self.decoder.capacity()
            + self.encoder.capacity()
            + self.streams.capacity()
            + self.requests.capacity()
            + self.others.capacity()
            + self.unidirectional.capacity() * size_of::<super::Unidirectional>()
            + self.control.capacity()
            + self.early_priorities.capacity() * size_of::<(u64, crate::Priority)>()
            + self.outputs.iter().map(super::Output::capacity).sum::<usize>()
    }

    /// Ends the connection; the first error stays.
    pub(super) fn fail(&mut self, fault: Fault) -> ConnectionError {
        *self.failed.get_or_insert(ConnectionError(fault))
    }
}
