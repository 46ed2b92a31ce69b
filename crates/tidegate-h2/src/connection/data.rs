//! Bodies that are received: flow control, padding, `content-length`, and when windows open again.

use super::receive::{Reading, Step};
use super::{Connection, Event, Output, Role};
use crate::error::{ErrorCode, Fault};
use crate::flood::Budgets;
use crate::frame::{FRAME_BYTES_DEFAULT, FrameHeader, StreamId, flags, write};
use crate::stream::Stream;
use crate::stream::state::{Closed, StateError};
use tidegate_fields::HeadFault;

/// What is left of a DATA frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct DataFrame {
    stream: StreamId,
    /// Bytes of the body.
    data: u32,
    /// Bytes of padding behind it.
    padding: u32,
    end: bool,
}

impl<R: Role> Connection<R> {
    /// Begins a DATA frame. All of it counts against the windows, padding as well (RFC 9113 section 6.1).
    pub(super) fn begin_data<'i>(&mut self, header: FrameHeader) -> Result<Step<'i>, Fault> {
        let FrameHeader { length, stream: id, .. } = header;
        let end = header.has(flags::END_STREAM);
        if self.is_idle(id) {
            return Err(Fault::IdleStream);
        }
        // No window allows that, whatever became of the stream: none of it is waited for. Less is skipped as it arrives.
        let window_max = self.stream_window().max(self.config.stream_window_max);
        if length > window_max.max(FRAME_BYTES_DEFAULT) {
            return Err(Fault::WindowExceeded);
        }
        if length == 0 && !end {
            self.budgets.control_frame()?;
        }
        self.receive.receive(length).map_err(|_| Fault::WindowExceeded)?;
        let outcome = match self.streams.get_mut(id) {
            None => Err(match self.streams.recent(id) {
                Some(Closed::ResetSent) => None,
                _ => Some(ErrorCode::STREAM_CLOSED),
            }),
            Some(stream) => match stream.state.receive_data(end) {
                Ok(_) if !stream.head_received => Err(Some(ErrorCode::PROTOCOL_ERROR)),
                Ok(_) => {
                    stream.receive.receive(length).map_err(|_| Some(ErrorCode::FLOW_CONTROL_ERROR))
                }
                Err(StateError::Late) => Err(None),
                Err(StateError::Closed | StateError::Idle) => Err(Some(ErrorCode::STREAM_CLOSED)),
            },
        };
        let frame = DataFrame { stream: id, data: length, padding: 0, end };
        match outcome {
            Ok(()) if header.has(flags::PADDED) && length == 0 => Err(Fault::FrameSize),
            Ok(()) if header.has(flags::PADDED) => {
                self.reading = Reading::PaddingLength(frame);
                Ok(Step::Next)
            }
            Ok(()) => {
                self.reading = Reading::Data(frame);
                Ok(Step::Next)
            }
            Err(code) => {
                self.reading = Reading::Skip(length);
                self.receive.use_up(length);
                self.open_connection_window()?;
                match code {
                    Some(code) => self.stream_error(id, code).map(Step::of),
                    None => Ok(Step::Next),
                }
            }
        }
    }

    pub(super) fn padding_length<'i>(
        &mut self,
        mut frame: DataFrame,
        length: u8,
    ) -> Result<Step<'i>, Fault> {
        frame.padding = u32::from(length);
        frame.data = (frame.data - 1).checked_sub(frame.padding).ok_or(Fault::Padding)?;
        if frame.data == 0 && !frame.end {
            self.budgets.control_frame()?;
        }
        self.reading = Reading::Data(frame);
        // Padding counts as read: no caller reads it.
        self.used(frame.stream, frame.padding + 1)?;
        Ok(Step::Next)
    }

    /// Takes what is there of a DATA frame.
    #[inline]
    pub(super) fn data_received<'i>(
        &mut self,
        mut frame: DataFrame,
        input: &mut &'i [u8],
    ) -> Result<Step<'i>, Fault> {
        let piece = (frame.data as usize).min(input.len());
        let (bytes, rest) = input.split_at(piece);
        *input = rest;
        frame.data -= piece as u32;
        if frame.data == 0 {
            let padding = (frame.padding as usize).min(input.len());
            *input = input.get(padding..).unwrap_or(&[]);
            frame.padding -= padding as u32;
        }
        let is_over = frame.data == 0 && frame.padding == 0;
        self.reading = if is_over { Reading::Header } else { Reading::Data(frame) };
        let end = is_over && frame.end;
        if bytes.is_empty() && !end {
            return Ok(if is_over { Step::Next } else { Step::More });
        }
        self.deliver(frame.stream, bytes, end).map(Step::of)
    }

    /// Hands a piece of a body on, unless it has become of no use since the frame began.
    fn deliver<'i>(
        &mut self,
        id: StreamId,
        bytes: &'i [u8],
        end: bool,
    ) -> Result<Option<Event<'i>>, Fault> {
        let length = bytes.len() as u32;
        self.budgets.body(length);
        let stream = self.streams.get_mut(id).filter(|stream| stream.state.may_receive());
        let Some(stream) = stream else {
            // Reset or closed by the caller meanwhile; what was unread then has been given back as a whole.
            self.used(id, length)?;
            return Ok(None);
        };
        if end && let Ok(next) = stream.state.receive_data(true) {
            stream.state = next;
        }
        if stream.discards {
            self.used(id, length)?;
            return Ok(None);
        }
        let left = stream.body_left.map(|left| left.checked_sub(u64::from(length)));
        match left {
            None => {}
            Some(Some(left)) if !end || left == 0 => stream.body_left = Some(left),
            Some(_) => {
                stream.discards = true;
                self.used(id, length)?;
                let fault = HeadFault::BodyLength;
                return Ok(Some(Event::Malformed { stream: id, fault }));
            }
        }
        Ok(Some(Event::Data { stream: id, bytes, end }))
    }

    /// The caller has used this number of bytes of a body: the windows open again, of the stream once half of it is
    /// free.
    pub fn consumed(&mut self, stream: StreamId, bytes: u32) {
        // Too many unread replies are an error of the next `receive` that adds one.
        if !self.is_failed() {
            let _ = self.used(stream, bytes);
        }
    }

    fn used(&mut self, id: StreamId, bytes: u32) -> Result<(), Fault> {
        let used = match self.streams.get_mut(id) {
            Some(stream) => stream.receive.use_up(bytes),
            None => 0,
        };
        self.receive.use_up(used);
        self.open_connection_window()?;
        if self.receive.unread() > self.config.unread_bytes_max {
            self.holds_windows = true;
            return Ok(());
        }
        if std::mem::take(&mut self.holds_windows) {
            return self.open_windows();
        }
        let Some(stream) = self.streams.get_mut(id) else { return Ok(()) };
        let most = self.config.stream_window_max;
        open(stream, most, &mut self.growth_left, &mut self.output, &mut self.budgets)
    }

    /// Opens the windows of all streams that have half of theirs free.
    pub(super) fn open_windows(&mut self) -> Result<(), Fault> {
        let most = self.config.stream_window_max;
        for stream in self.streams.iter_mut() {
            open(stream, most, &mut self.growth_left, &mut self.output, &mut self.budgets)?;
        }
        Ok(())
    }

    pub(super) fn open_connection_window(&mut self) -> Result<(), Fault> {
        if let Some(increment) = self.receive.due_update() {
            write::window_update(self.output.bytes(), StreamId::CONNECTION, increment);
            self.budgets.reply()?;
        }
        Ok(())
    }
}

/// Opens a stream's window once half of it is free. Where all that was received has been used, the window was too small for
/// the way to the peer: it doubles, up to `most` bytes and as far as `growth_left` goes.
fn open(
    stream: &mut Stream,
    most: u32,
    growth_left: &mut u32,
    output: &mut Output,
    budgets: &mut Budgets,
) -> Result<(), Fault> {
    if !stream.state.may_receive() || stream.discards {
        return Ok(());
    }
    let Some(due) = stream.receive.due_update() else { return Ok(()) };
    let room = most.saturating_sub(stream.receive.size());
    let grown = stream.receive.double(room.min(*growth_left));
    stream.grown += grown;
    *growth_left -= grown;
    write::window_update(output.bytes(), stream.id, due + grown);
    budgets.reply()
}
