//! From bytes to frames: any piece of them, however it is cut.

use std::time::Duration;

use super::data::DataFrame;
use super::{Connection, Event, Role};
use crate::error::{ConnectionError, Fault};
use crate::frame::parse::{FrameError, check_stream};
use crate::frame::{FRAME_BYTES_DEFAULT, FRAME_HEADER_BYTES, FrameHeader, Kind, PREFACE, flags};

/// What the next bytes are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reading {
    /// The client's preface, of which this much has been received.
    Preface { seen: usize },
    /// A frame's header.
    Header,
    /// The payload of a frame that is handled as a whole.
    Payload(FrameHeader),
    /// The length of the padding of a DATA frame.
    PaddingLength(DataFrame),
    /// Data or padding of a DATA frame.
    Data(DataFrame),
    /// Bytes of no use.
    Skip(u32),
    /// Nothing: the connection is over.
    Failed(ConnectionError),
}

/// The result of one step.
pub(super) enum Step<'i> {
    /// Something is to be reported.
    Event(Event<'i>),
    /// Go on.
    Next,
    /// The input is used up.
    More,
}

impl<'i> Step<'i> {
    pub(super) fn of(event: Option<Event<'i>>) -> Step<'i> {
        event.map_or(Step::Next, Step::Event)
    }
}

/// A piece of the input that is complete.
enum Whole<'i> {
    /// It is in the input.
    Input(&'i [u8]),
    /// It was put together in `partial`.
    Kept,
}

impl<R: Role> Connection<R> {
    /// Takes bytes from the front of `input` up to the next event; `None` once all of them are used. What is
    /// incomplete is kept: frames that are no DATA, at most
    /// [`Config::block_bytes_max`](crate::Config::block_bytes_max) and one frame. Bodies are handed on as they arrive.
    ///
    /// `now` is the time since the connection began; it only refills the budgets against floods.
    ///
    /// # Errors
    /// The connection is over. GOAWAY is in the output, and all further calls return the same.
    pub fn receive<'i>(
        &mut self,
        input: &mut &'i [u8],
        now: Duration,
    ) -> Result<Option<Event<'i>>, ConnectionError> {
        self.budgets.now(now);
        loop {
            match self.step(input) {
                Ok(Step::Event(event)) => return Ok(Some(event)),
                Ok(Step::Next) => {}
                Ok(Step::More) => return Ok(None),
                Err(fault) => return Err(self.fail(fault)),
            }
        }
    }

    fn step<'i>(&mut self, input: &mut &'i [u8]) -> Result<Step<'i>, Fault> {
        match self.reading {
            Reading::Header => match self.whole(input, FRAME_HEADER_BYTES) {
                None => Ok(Step::More),
                Some(Whole::Input(bytes)) => self.begin(bytes),
                Some(Whole::Kept) => {
                    let kept = std::mem::take(&mut self.buffers.get().partial);
                    let step = self.begin(&kept);
                    self.reuse_partial(kept);
                    step
                }
            },
            Reading::Payload(header) => match self.whole(input, header.length as usize) {
                None => Ok(Step::More),
                Some(Whole::Input(bytes)) => self.payload(header, bytes),
                Some(Whole::Kept) => {
                    let kept = std::mem::take(&mut self.buffers.get().partial);
                    let step = self.payload(header, &kept);
                    self.reuse_partial(kept);
                    step
                }
            },
            Reading::Data(frame) => self.data_received(frame, input),
            Reading::PaddingLength(frame) => {
                let Some((length, rest)) = input.split_first() else { return Ok(Step::More) };
                *input = rest;
                self.padding_length(frame, *length)
            }
            Reading::Skip(left) => Ok(self.skip(left, input)),
            Reading::Preface { seen } => self.preface(seen, input),
            Reading::Failed(error) => Err(error.0),
        }
    }

    /// Takes a piece of `length` bytes, or keeps what is there of it.
    #[inline]
    fn whole<'i>(&mut self, input: &mut &'i [u8], length: usize) -> Option<Whole<'i>> {
        if self.buffers.partial_len() == 0
            && let Some((piece, rest)) = input.split_at_checked(length)
        {
            *input = rest;
            return Some(Whole::Input(piece));
        }
        let partial = &mut self.buffers.get().partial;
        let missing = length.saturating_sub(partial.len()).min(input.len());
        let (piece, rest) = input.split_at(missing);
        partial.extend_from_slice(piece);
        *input = rest;
        (partial.len() == length).then_some(Whole::Kept)
    }

    fn reuse_partial(&mut self, mut kept: Vec<u8>) {
        kept.clear();
        self.buffers.get().partial = kept;
    }

    fn preface<'i>(&mut self, seen: usize, input: &mut &'i [u8]) -> Result<Step<'i>, Fault> {
        let wanted = PREFACE.get(seen..).unwrap_or(&[]);
        let (piece, rest) = input.split_at(wanted.len().min(input.len()));
        *input = rest;
        if !wanted.starts_with(piece) {
            return Err(Fault::Preface);
        }
        if piece.len() == wanted.len() {
            self.reading = Reading::Header;
            return Ok(Step::Next);
        }
        self.reading = Reading::Preface { seen: seen + piece.len() };
        Ok(Step::More)
    }

    fn skip<'i>(&mut self, left: u32, input: &mut &'i [u8]) -> Step<'i> {
        let piece = (left as usize).min(input.len());
        *input = input.get(piece..).unwrap_or(&[]);
        let left = left - piece as u32;
        if left == 0 {
            self.reading = Reading::Header;
            return Step::Next;
        }
        self.reading = Reading::Skip(left);
        Step::More
    }

    /// A frame's header is there: decides how its payload is read.
    #[inline]
    fn begin<'i>(&mut self, bytes: &[u8]) -> Result<Step<'i>, Fault> {
        let bytes = bytes.first_chunk().ok_or(Fault::FrameSize)?;
        let header = FrameHeader::parse(bytes);
        self.check_place(header)?;
        if header.length > self.config.frame_bytes_max {
            return Err(Fault::FrameSize);
        }
        check_stream(header).map_err(|_| Fault::StreamZero)?;
        match header.kind {
            Kind::Data => return self.begin_data(header),
            Kind::PushPromise => return Err(Fault::Push),
            Kind::Headers | Kind::Continuation => self.check_block(header)?,
            // Whatever size DATA may have: a known one is kept until it is whole, and nothing in it needs more. Of an
            // unknown one all streams wait for the end, and text of another protocol looks like a very long one.
            _ if header.length > FRAME_BYTES_DEFAULT => return Err(Fault::FrameSize),
            Kind::Unknown(_) => {
                self.budgets.control_frame()?;
                self.reading = Reading::Skip(header.length);
                return Ok(Step::Next);
            }
            _ => {}
        }
        self.reading = Reading::Payload(header);
        Ok(Step::Next)
    }

    /// Checks that such a frame may be sent now: SETTINGS first, and nothing within a header block.
    fn check_place(&mut self, header: FrameHeader) -> Result<(), Fault> {
        if !self.has_settings {
            let is_first = header.kind == Kind::Settings && !header.has(flags::ACK);
            if !is_first && self.config.requires_settings {
                return Err(Fault::FirstFrame);
            }
            self.has_settings = true;
        }
        let continues = header.kind == Kind::Continuation;
        match &self.block {
            Some(block) if !continues || block.stream != header.stream => Err(Fault::Continuation),
            None if continues => Err(Fault::Continuation),
            _ => Ok(()),
        }
    }

    fn payload<'i>(&mut self, header: FrameHeader, payload: &[u8]) -> Result<Step<'i>, Fault> {
        self.reading = Reading::Header;
        self.frame(header, payload).map(Step::of)
    }
}

/// What a frame error that concerns the connection is.
pub(super) fn fault_of(error: FrameError) -> Fault {
    match error {
        FrameError::Size | FrameError::StreamSize => Fault::FrameSize,
        FrameError::StreamZero => Fault::StreamZero,
        FrameError::Padding => Fault::Padding,
        FrameError::WindowZero | FrameError::StreamWindowZero => Fault::WindowZero,
        FrameError::SelfDependency => Fault::SelfDependency,
    }
}
