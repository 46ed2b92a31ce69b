//! Commands: heads, bodies and trailer sections to be sent, and the order of streams.

use super::{Client, Connection, Role, Server};
use crate::error::{ErrorCode, SendError};
use crate::frame::{FRAME_HEADER_BYTES, StreamId, write};
use crate::priority::Priority;
use crate::stream::Stream;
use crate::stream::state::{Closed, State};
use crate::{Fields, RequestLine};

impl Connection<Server> {
    /// Sends the final head of a response; `end` if neither body nor trailer section follows. `list` names the
    /// fields. Returns how many of them were left out as invalid ([`Fields`]).
    ///
    /// # Errors
    /// Nothing is sent, and `list` is not called: the stream is closed, has a head, or `status` is not 200 to 999.
    pub fn respond(
        &mut self,
        stream: StreamId,
        status: u16,
        end: bool,
        list: impl FnOnce(&mut Fields<'_>),
    ) -> Result<u32, SendError> {
        if !(200..=999).contains(&status) {
            return Err(SendError::Invalid);
        }
        let found = self.sendable_stream(stream)?;
        if found.head_sent {
            return Err(SendError::Order);
        }
        found.head_sent = true;
        Ok(self.send_block(stream, end, |fields| {
            fields.status(status);
            list(fields);
        }))
    }

    /// Sends an interim head, 100 to 199 but 101 (RFC 9113 section 8.6). Returns as [`Connection::respond`].
    ///
    /// # Errors
    /// Nothing is sent: the stream is closed, has a final head, or the status is another.
    pub fn respond_interim(
        &mut self,
        stream: StreamId,
        status: u16,
        list: impl FnOnce(&mut Fields<'_>),
    ) -> Result<u32, SendError> {
        if !matches!(status, 100 | 102..=199) {
            return Err(SendError::Invalid);
        }
        if self.sendable_stream(stream)?.head_sent {
            return Err(SendError::Order);
        }
        Ok(self.send_block(stream, false, |fields| {
            fields.status(status);
            list(fields);
        }))
    }
}

impl Connection<Client> {
    /// Sends the head of a request on a new stream; `end` if neither body nor trailer section follows.
    ///
    /// # Errors
    /// Nothing is sent: see [`SendError`]. Before the peer's settings are received, streams are limited by
    /// [`Config::streams_max`](crate::Config::streams_max) alone.
    pub fn request(
        &mut self,
        line: &RequestLine<'_>,
        end: bool,
        list: impl FnOnce(&mut Fields<'_>),
    ) -> Result<StreamId, SendError> {
        if !line.is_valid() {
            return Err(SendError::Invalid);
        }
        self.may_request()?;
        if line.protocol.is_some() && !self.peer.connect_protocol {
            return Err(SendError::Invalid);
        }
        let id = StreamId::new(self.next_own);
        self.next_own += 2;
        let mut stream = Stream::new(id, self.peer.window, self.stream_window());
        stream.head_sent = true;
        stream.is_head_request = line.method == b"HEAD";
        self.streams.push(stream);
        self.send_block(id, end, |fields| {
            fields.request(line);
            list(fields);
        });
        Ok(id)
    }

    /// Whether a new stream may begin now.
    ///
    /// # Errors
    /// Why not.
    pub fn may_request(&self) -> Result<(), SendError> {
        let allowed = self.peer.streams_max.unwrap_or(u32::MAX).min(self.config.streams_max);
        // A stream that is closed on the wire no longer counts for the peer, but the caller still has it.
        if self.is_failed() || self.peer_ending.is_some() || self.ending.is_final() {
            return Err(SendError::GoingAway);
        }
        if self.next_own > StreamId::MAX.value() {
            return Err(SendError::IdsExhausted);
        }
        match self.streams.len() >= allowed as usize {
            true => Err(SendError::StreamsMax),
            false => Ok(()),
        }
    }

    /// Whether the peer has said by GOAWAY that it did not process this stream: the request may be sent again on
    /// another connection, even if its method is not idempotent (RFC 9113 section 8.7). So may one that was reset with
    /// [`ErrorCode::REFUSED_STREAM`].
    pub fn is_unprocessed(&self, stream: StreamId) -> bool {
        self.peer_ending.is_some_and(|(last, _)| stream > last)
    }
}

impl<R: Role> Connection<R> {
    /// Sends a trailer section, which ends the message. Returns as [`Connection::respond`].
    ///
    /// # Errors
    /// Nothing is sent: the stream is closed or has no head yet.
    pub fn send_trailers(
        &mut self,
        stream: StreamId,
        list: impl FnOnce(&mut Fields<'_>),
    ) -> Result<u32, SendError> {
        if !self.sendable_stream(stream)?.head_sent {
            return Err(SendError::Order);
        }
        Ok(self.send_block(stream, true, list))
    }

    /// Returns the bytes of a body that one DATA frame of the stream may have now: what both windows and the peer's
    /// frames allow. 0 if nothing may be sent.
    #[inline]
    pub fn sendable(&self, stream: StreamId) -> u32 {
        self.window(stream).min(self.peer.frame_bytes_max)
    }

    /// Returns the bytes of a body that both windows allow the stream now, in any number of frames. 0 if nothing may be
    /// sent.
    #[inline]
    pub fn window(&self, stream: StreamId) -> u32 {
        let Some(stream) = self.streams.get(stream) else { return 0 };
        if !stream.head_sent || !stream.state.may_send() {
            return 0;
        }
        self.send.available().min(stream.send.available())
    }

    /// Copies a piece of a body into the output, as many DATA frames as it needs and the windows allow, and returns
    /// the bytes taken. The last frame ends the message if `end` is set and all was taken; without bytes it needs no
    /// window.
    ///
    /// # Errors
    /// Nothing is sent: the stream is closed or has no head yet.
    pub fn send_data(
        &mut self,
        stream: StreamId,
        bytes: &[u8],
        end: bool,
    ) -> Result<usize, SendError> {
        if !self.sendable_stream(stream)?.head_sent {
            return Err(SendError::Order);
        }
        let mut rest = bytes;
        loop {
            let most = self.sendable(stream) as usize;
            let (piece, behind) = rest.split_at(rest.len().min(most));
            let ends = end && behind.is_empty();
            if piece.is_empty() && !(ends && rest.is_empty()) {
                break;
            }
            write::data(self.output.bytes(), stream, piece, ends);
            self.data_sent(stream, piece.len() as u32, ends);
            rest = behind;
            if rest.is_empty() {
                break;
            }
        }
        Ok(bytes.len() - rest.len())
    }

    /// Returns the 9 bytes of a DATA frame whose `length` bytes the caller sends from where they are. Both follow what
    /// is in the output now, so that the caller takes that first.
    ///
    /// # Errors
    /// Nothing is to be sent: the stream is closed or has no head yet, or `length` is above
    /// [`Connection::sendable`].
    pub fn send_data_header(
        &mut self,
        stream: StreamId,
        length: u32,
        end: bool,
    ) -> Result<[u8; FRAME_HEADER_BYTES], SendError> {
        if !self.sendable_stream(stream)?.head_sent {
            return Err(SendError::Order);
        }
        if length > self.sendable(stream) {
            return Err(SendError::Window);
        }
        self.data_sent(stream, length, end);
        Ok(write::data_header(stream, length, end))
    }

    /// As [`Connection::send_data_header`], but the header is in the output. Returns the place in the output, behind that
    /// header, where the caller sends the `length` bytes from where they are.
    ///
    /// # Errors
    /// As [`Connection::send_data_header`].
    pub fn send_data_apart(
        &mut self,
        stream: StreamId,
        length: u32,
        end: bool,
    ) -> Result<usize, SendError> {
        let header = self.send_data_header(stream, length, end)?;
        self.output.bytes().extend_from_slice(&header);
        Ok(self.output.unsent().len())
    }

    /// Says whether the caller has something of a body to send on a stream; [`Connection::next_to_send`] returns those that
    /// have, in the order of their priorities.
    pub fn want(&mut self, stream: StreamId, wants: bool) {
        let Some(found) = self.streams.get_mut(stream) else { return };
        found.wants = wants && found.state.may_send();
        match found.wants && found.send.available() > 0 {
            true => self.order.insert(stream, found.priority),
            false => self.order.remove(stream),
        }
    }

    /// Returns the stream to send data of next, `None` while no stream wants to or no window is open.
    pub fn next_to_send(&self) -> Option<StreamId> {
        match self.send.available() {
            0 => None,
            _ => self.order.next(),
        }
    }

    /// Gives a stream another priority, as a `priority` field of a response does (RFC 9218 section 8). Without effect while
    /// the client sends priorities of RFC 7540 alone.
    pub fn prioritise(&mut self, stream: StreamId, priority: Priority) {
        if let Some(found) = self.streams.get_mut(stream) {
            found.priority = priority;
            self.order.update(stream, priority);
        }
    }

    /// Resets a stream, unless it is closed. It counts until [`Connection::close`].
    pub fn reset(&mut self, stream: StreamId, code: ErrorCode) {
        if self.is_failed() {
            return;
        }
        let Some(found) = self.streams.get_mut(stream) else { return };
        if let Ok(next) = found.state.send_reset() {
            found.state = next;
            found.wants = false;
            self.order.remove(stream);
            write::reset_stream(self.output.bytes(), stream, code);
        }
    }

    /// Ends an exchange: the stream no longer counts and is forgotten. Where the message of either side is not
    /// complete the stream is reset with `code`; a server's that has responded in full and needs no more of the
    /// request with NO_ERROR (RFC 9113 section 8.1).
    pub fn close(&mut self, stream: StreamId, code: ErrorCode) {
        let code = match self.streams.get(stream) {
            Some(found) if R::IS_SERVER && found.state == State::HalfClosedLocal => {
                ErrorCode::NO_ERROR
            }
            _ => code,
        };
        self.reset(stream, code);
        self.order.close(stream);
        // What was not read is given back, which may open windows of other streams.
        self.consumed(stream, u32::MAX);
        let Some(found) = self.streams.remove(stream) else { return };
        self.growth_left = self.growth_left.saturating_add(found.grown);
        let how = match found.state {
            State::Closed(how) => how,
            _ => Closed::ResetSent,
        };
        self.streams.remember(stream, how);
    }

    fn sendable_stream(&mut self, stream: StreamId) -> Result<&mut Stream, SendError> {
        if self.is_failed() {
            return Err(SendError::Closed);
        }
        let found = self.streams.get_mut(stream).ok_or(SendError::Closed)?;
        match found.state.may_send() {
            true => Ok(found),
            false => Err(SendError::Closed),
        }
    }

    /// Encodes a header block and appends it. The caller has checked that the stream may send.
    fn send_block(
        &mut self,
        stream: StreamId,
        end: bool,
        list: impl FnOnce(&mut Fields<'_>),
    ) -> u32 {
        let encoded = &mut self.buffers.get().encoded;
        encoded.clear();
        self.encoder.begin(encoded);
        let mut fields = Fields::new(&mut self.encoder, encoded);
        list(&mut fields);
        let invalid = fields.invalid();
        let frame_bytes_max = self.peer.frame_bytes_max;
        write::header_block(self.output.bytes(), stream, encoded, end, frame_bytes_max);
        if let Some(found) = self.streams.get_mut(stream)
            && let Ok(next) = found.state.send_head(end)
        {
            found.state = next;
        }
        if end {
            self.message_sent(stream);
        }
        invalid
    }

    fn data_sent(&mut self, stream: StreamId, length: u32, end: bool) {
        let Some(found) = self.streams.get_mut(stream) else { return };
        found.send.take(length);
        self.send.take(length);
        self.budgets.body(length);
        self.order.sent(stream, length, found.send.available() > 0);
        if end {
            if let Ok(next) = found.state.send_data(true) {
                found.state = next;
            }
            self.message_sent(stream);
        }
    }

    fn message_sent(&mut self, stream: StreamId) {
        self.want(stream, false);
        self.budgets.message_sent();
    }
}
