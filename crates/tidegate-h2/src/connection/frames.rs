//! Frames that are neither DATA nor a part of a header block.

use super::receive::fault_of;
use super::{Connection, Event, Role};
use crate::error::{ErrorCode, Fault};
use crate::frame::parse::{self, Frame, FrameError, SettingEntries};
use crate::frame::{FrameHeader, StreamId, write};
use crate::settings::WINDOW_DEFAULT;
use crate::settings::id::ENABLE_PUSH;
use crate::stream::state::{Closed, State, StateError};

impl<R: Role> Connection<R> {
    /// Handles a whole frame.
    pub(super) fn frame(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<Option<Event<'static>>, Fault> {
        let id = header.stream;
        let frame = match parse::parse(header, payload) {
            Ok(frame) => frame,
            Err(FrameError::StreamSize) => {
                return self.stream_error(id, ErrorCode::FRAME_SIZE_ERROR);
            }
            Err(FrameError::StreamWindowZero) => {
                return self.stream_error(id, ErrorCode::PROTOCOL_ERROR);
            }
            Err(error) => return Err(fault_of(error)),
        };
        match frame {
            Frame::Headers { .. } | Frame::Continuation { .. } => self.block_frame(id, frame),
            Frame::Settings { ack: true, .. } => self.settings_acknowledged(),
            Frame::Settings { entries, .. } => self.settings(entries),
            Frame::Ping { ack, data } => self.pinged(ack, data),
            Frame::WindowUpdate(increment) => self.window_update(id, increment),
            Frame::ResetStream(code) => self.reset_received(id, code),
            Frame::GoAway { last, code, .. } => self.go_away_received(last, code),
            Frame::PriorityUpdate { stream, value } => self.priority_update(stream, value),
            Frame::Priority(dependency) => self.priority(id, dependency),
            Frame::Data { .. } | Frame::PushPromise | Frame::Unknown => {
                self.budgets.control_frame()?;
                Ok(None)
            }
        }
    }

    /// Resets a stream for a mistake of the peer, and reports that if the stream was reported.
    pub(super) fn stream_error(
        &mut self,
        id: StreamId,
        code: ErrorCode,
    ) -> Result<Option<Event<'static>>, Fault> {
        if self.is_idle(id) {
            return Err(Fault::IdleStream);
        }
        self.budgets.reset()?;
        let Some(stream) = self.streams.get_mut(id) else {
            self.refuse(id, code)?;
            return Ok(None);
        };
        let reported = match stream.state.send_reset() {
            Ok(next) => {
                stream.state = next;
                true
            }
            // The peer ended or reset the stream and sends on, while its exchange is not over: RST_STREAM, once
            // (RFC 9113 section 5.1).
            Err(StateError::Closed) if stream.state != State::Closed(Closed::ResetSent) => {
                stream.state = State::Closed(Closed::ResetSent);
                false
            }
            Err(_) => return Ok(None),
        };
        stream.wants = false;
        self.order.remove(id);
        write::reset_stream(self.output.bytes(), id, code);
        self.budgets.reply()?;
        Ok(reported.then_some(Event::Reset { stream: id, code, by_peer: false }))
    }

    /// Resets a stream that was not reported to the caller.
    pub(super) fn refuse(&mut self, id: StreamId, code: ErrorCode) -> Result<(), Fault> {
        self.streams.remember(id, Closed::ResetSent);
        write::reset_stream(self.output.bytes(), id, code);
        self.budgets.reply()
    }

    fn settings(&mut self, entries: SettingEntries<'_>) -> Result<Option<Event<'static>>, Fault> {
        self.budgets.control_frame()?;
        let before = self.peer;
        for (id, value) in entries {
            // A server cannot be pushed to (RFC 9113 section 6.5.2).
            if !R::IS_SERVER && id == ENABLE_PUSH && value != 0 {
                return Err(Fault::Setting);
            }
            self.peer.apply(id, value)?;
        }
        if before.header_table_bytes != self.peer.header_table_bytes {
            self.encoder.limit(self.peer.header_table_bytes);
        }
        let change = i64::from(self.peer.window) - i64::from(before.window);
        if change != 0 {
            for stream in self.streams.iter_mut() {
                stream.send.shift(change).map_err(|_| Fault::WindowOverflow)?;
            }
            self.reorder();
        }
        write::settings_ack(self.output.bytes());
        self.budgets.reply()?;
        Ok(Some(Event::Settings))
    }

    fn settings_acknowledged(&mut self) -> Result<Option<Event<'static>>, Fault> {
        self.budgets.control_frame()?;
        if self.acknowledged {
            // Our settings are sent once.
            return Ok(None);
        }
        self.acknowledged = true;
        self.decoder.announce(self.config.decoder_table_bytes);
        self.shrink_windows()?;
        Ok(Some(Event::Acknowledged))
    }

    /// Moves the windows of streams that began before our settings were known, as the peer does now.
    fn shrink_windows(&mut self) -> Result<(), Fault> {
        let surplus = WINDOW_DEFAULT.saturating_sub(self.config.stream_window);
        if surplus == 0 {
            return Ok(());
        }
        self.streams.iter_mut().for_each(|stream| stream.receive.shrink(surplus));
        if self.holds_windows { Ok(()) } else { self.open_windows() }
    }

    fn pinged(&mut self, ack: bool, data: [u8; 8]) -> Result<Option<Event<'static>>, Fault> {
        self.budgets.control_frame()?;
        if ack {
            return Ok(Some(Event::Pong { data }));
        }
        write::ping(self.output.bytes(), data, true);
        self.budgets.reply()?;
        Ok(None)
    }

    fn window_update(
        &mut self,
        id: StreamId,
        increment: u32,
    ) -> Result<Option<Event<'static>>, Fault> {
        self.budgets.control_frame()?;
        let was_open = if id.is_connection() {
            let was_open = self.send.available() > 0;
            self.send.open(increment).map_err(|_| Fault::WindowOverflow)?;
            was_open
        } else {
            if self.is_idle(id) {
                return Err(Fault::IdleStream);
            }
            let Some(stream) = self.streams.get_mut(id) else { return Ok(None) };
            if !stream.state.may_send() {
                return Ok(None);
            }
            let was_open = stream.send.available() > 0;
            if stream.send.open(increment).is_err() {
                return self.stream_error(id, ErrorCode::FLOW_CONTROL_ERROR);
            }
            if stream.wants && stream.send.available() > 0 {
                self.order.insert(id, stream.priority);
            }
            was_open || stream.send.available() == 0
        };
        Ok((!was_open).then_some(Event::Window { stream: id }))
    }

    fn reset_received(
        &mut self,
        id: StreamId,
        code: ErrorCode,
    ) -> Result<Option<Event<'static>>, Fault> {
        if self.is_idle(id) {
            return Err(Fault::IdleStream);
        }
        let Some(stream) = self.streams.get_mut(id).filter(|stream| !stream.state.is_closed())
        else {
            self.budgets.control_frame()?;
            return Ok(None);
        };
        self.budgets.reset()?;
        match stream.state.receive_reset() {
            Ok(next) => stream.state = next,
            Err(StateError::Idle) => return Err(Fault::IdleStream),
            Err(StateError::Closed | StateError::Late) => return Ok(None),
        }
        stream.wants = false;
        self.order.remove(id);
        Ok(Some(Event::Reset { stream: id, code, by_peer: true }))
    }

    fn go_away_received(
        &mut self,
        last: StreamId,
        code: ErrorCode,
    ) -> Result<Option<Event<'static>>, Fault> {
        self.budgets.control_frame()?;
        if self.peer_ending.is_some_and(|(before, _)| before < last) {
            return Err(Fault::Role);
        }
        self.peer_ending = Some((last, code));
        Ok(Some(Event::GoAway { last, code }))
    }
}
