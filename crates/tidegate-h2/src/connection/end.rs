//! The end of a connection: graceful, by an error, and the memory of an idle one.

use super::buffers::Lent;
use super::receive::Reading;
use super::{Connection, Role};
use crate::error::{ConnectionError, ErrorCode, Fault};
use crate::frame::{Kind, StreamId, write};

/// The step that the end of a connection has reached on our side (RFC 9113 section 6.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Streams may begin.
    Open,
    /// GOAWAY with the largest number was sent: the peer should begin no more, but what is on its way is served.
    Announced,
    /// GOAWAY with the last stream was sent: later ones are ignored.
    Final(StreamId),
}

impl Ending {
    pub(super) fn excludes(self, stream: StreamId) -> bool {
        matches!(self, Ending::Final(last) if stream > last)
    }

    pub(super) fn is_final(self) -> bool {
        matches!(self, Ending::Final(_))
    }
}

impl<R: Role> Connection<R> {
    /// Announces a graceful end: GOAWAY with the largest stream number (RFC 9113 section 6.8). The caller calls
    /// [`Connection::go_away`] once what is on its way has had time to arrive, at the latest with the reply to a PING.
    pub fn announce_end(&mut self) {
        if self.ending == Ending::Open && !self.is_failed() {
            self.ending = Ending::Announced;
            write::go_away(self.output.bytes(), StreamId::MAX, ErrorCode::NO_ERROR, b"");
        }
    }

    /// Takes no new streams from now on: GOAWAY with the newest one. Those in progress go on until
    /// [`Connection::is_drained`].
    pub fn go_away(&mut self, code: ErrorCode) {
        if !self.ending.is_final() && !self.is_failed() {
            self.ending = Ending::Final(self.last_received);
            write::go_away(self.output.bytes(), self.last_received, code, b"");
        }
    }

    /// Ends the connection at once, and all of its streams: GOAWAY with `code`. The caller sends the output and closes.
    pub fn abort(&mut self, code: ErrorCode) -> ConnectionError {
        self.fail(Fault::Aborted(code))
    }

    /// Whether no stream is left after [`Connection::go_away`] or after the peer's GOAWAY: the caller sends the output
    /// and closes.
    pub fn is_drained(&self) -> bool {
        self.streams.len() == 0 && (self.ending.is_final() || self.peer_ending.is_some())
    }

    /// Asks the peer for a sign of life; the reply is [`Event::Pong`](super::Event::Pong) with the same bytes.
    pub fn ping(&mut self, data: [u8; 8]) {
        if !self.is_failed() {
            write::ping(self.output.bytes(), data, false);
        }
    }

    /// Returns the bytes that wait to be sent.
    pub fn output(&self) -> &[u8] {
        self.output.unsent()
    }

    /// The first bytes of [`Connection::output`] were sent.
    pub fn output_sent(&mut self, bytes: usize) {
        self.output.advance(bytes);
        self.budgets.output_sent(bytes);
        if self.output.unsent().is_empty() {
            self.budgets.replies_sent();
        }
    }

    /// Moves all output to the end of `into`; without copying if that is empty. It counts as sent: the caller takes more,
    /// and receives more, only once it is.
    pub fn take_output(&mut self, into: &mut Vec<u8>) {
        self.output.take(into);
        self.budgets.replies_sent();
    }

    /// Whether so much waits to be sent that the caller neither reads nor adds bodies until it is: a peer that sends and
    /// does not read costs no more memory than that (CVE-2019-9517).
    pub fn output_is_full(&self) -> bool {
        self.output.unsent().len() >= self.config.output_bytes_max
    }

    /// Whether nothing is in progress: no stream, no part of a frame, no output.
    pub fn is_quiet(&self) -> bool {
        let between_frames = matches!(self.reading, Reading::Header) && self.block.is_none();
        let is_sent = self.output.unsent().is_empty();
        self.streams.len() == 0 && between_frames && is_sent && self.buffers.is_between_frames()
    }

    /// Whether the peer has spent more than half of a budget against floods ([`Config::control_frames_max`],
    /// [`Config::resets_max`]): the caller reads slowly then, so that a flood costs others little before it ends.
    ///
    /// [`Config::control_frames_max`]: crate::Config::control_frames_max
    /// [`Config::resets_max`]: crate::Config::resets_max
    pub fn is_suspect(&self) -> bool {
        self.budgets.are_low()
    }

    /// Whether a header block is incomplete, which `client_header_timeout` limits.
    pub fn is_in_block(&self) -> bool {
        let in_frame = match self.reading {
            Reading::Payload(header) => matches!(header.kind, Kind::Headers | Kind::Continuation),
            _ => false,
        };
        in_frame || self.block.is_some()
    }

    /// Gives up the header block that is incomplete: its stream is reset with PROTOCOL_ERROR, and the rest of the block is
    /// decoded and dropped. Returns `false` where there is none.
    pub fn give_up_block(&mut self) -> bool {
        let stream = match (self.reading, &self.block) {
            (_, Some(block)) => block.stream,
            (Reading::Payload(header), None) if header.kind == Kind::Headers => header.stream,
            _ => return false,
        };
        if !R::IS_SERVER || !stream.is_of_client() || !self.is_idle(stream) {
            return false;
        }
        self.last_received = stream;
        self.refuse(stream, ErrorCode::PROTOCOL_ERROR).is_ok()
    }

    /// Gives memory back that nothing in progress needs; for connections that become idle.
    pub fn release_memory(&mut self) {
        self.buffers.release();
        self.decoder.shrink();
        self.encoder.shrink();
        self.streams.shrink();
        self.order.shrink();
        self.early_priorities.shrink_to_fit();
        self.output.shrink();
    }

    /// Returns the bytes allocated beside the value itself.
    pub fn memory(&self) -> usize {
        self.buffers.capacity()
            + self.decoder.capacity()
            + self.encoder.capacity()
            + self.streams.capacity()
            + self.order.capacity()
            + self.early_priorities.capacity() * size_of::<(StreamId, crate::Priority)>()
            + self.output.capacity()
    }

    pub(super) fn is_failed(&self) -> bool {
        matches!(self.reading, Reading::Failed(_))
    }

    /// Ends the connection; the first error stays.
    pub(super) fn fail(&mut self, fault: Fault) -> ConnectionError {
        if let Reading::Failed(error) = self.reading {
            return error;
        }
        let error = ConnectionError(fault);
        self.reading = Reading::Failed(error);
        self.buffers = Lent::default();
        let reason = fault.to_string();
        let debug = match fault {
            Fault::Aborted(_) => "",
            _ => reason.as_str(),
        };
        // The number never grows (RFC 9113 section 6.8).
        let last = match self.ending {
            Ending::Final(last) => last,
            Ending::Open | Ending::Announced => self.last_received,
        };
        write::go_away(self.output.bytes(), last, error.code(), debug.as_bytes());
        error
    }
}
