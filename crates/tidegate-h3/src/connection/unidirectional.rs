//! Unidirectional streams of the client (RFC 9114 section 6.2): their types, and the frames of the control stream.

use tidegate_fields::Priority;

use super::{Connection, Event};
use crate::error::{ErrorCode, Fault, Flood};
use crate::frame::parse::{self, Frame, SettingEntries};
use crate::frame::{CONTROL_FRAME_BYTES_MAX, FrameHeader, Kind, PartialHeader, StreamKind};
use crate::stream::Reading;

/// Unidirectional streams at once: three with a type, and three whose type is incomplete.
const STREAMS_MAX: usize = 6;

/// Priorities that are kept for streams that have not begun (RFC 9218 section 7.2 demands a limit).
const EARLY_PRIORITIES_MAX: usize = 16;

/// A unidirectional stream that is read.
#[derive(Debug)]
pub(super) struct Unidirectional {
    pub(super) id: u64,
    kind: Reader,
}

/// The reader of a stream's bytes.
#[derive(Clone, Copy, Debug)]
enum Reader {
    /// The type is incomplete.
    Untyped(PartialHeader),
    Control,
    /// The decoder, which reads the peer's encoder stream.
    Decoder,
    /// The encoder, which reads the peer's decoder stream.
    Encoder,
}

/// The state of the client's control stream.
#[derive(Debug, Default)]
pub(super) struct Control {
    has_settings: bool,
    partial: PartialHeader,
    state: ControlReading,
    /// A frame that is not complete.
    payload: Vec<u8>,
    /// The largest push that the client allows.
    push_max: Option<u64>,
    /// The push of its last GOAWAY.
    goaway: Option<u64>,
}

/// What the next bytes of the control stream are.
#[derive(Clone, Copy, Debug, Default)]
enum ControlReading {
    #[default]
    Header,
    /// The payload of a frame that is handled as a whole.
    Payload(FrameHeader),
    /// The rest of a frame that is skipped.
    Skip(u64),
}

impl Control {
    /// Bytes allocated.
    pub(super) fn capacity(&self) -> usize {
        self.payload.capacity()
    }

    pub(super) fn shrink(&mut self) {
        self.payload.shrink_to_fit();
    }

    /// Whether no frame is incomplete.
    pub(super) fn is_quiet(&self) -> bool {
        matches!(self.state, ControlReading::Header) && self.partial.is_empty()
    }
}

impl Connection {
    pub(super) fn receive_unidirectional<'i>(
        &mut self,
        id: u64,
        input: &mut &'i [u8],
        end: bool,
    ) -> Result<Option<Event<'i>>, Fault> {
        let at = match self.unidirectional.iter().position(|stream| stream.id == id) {
            Some(at) => at,
            None if !self.others.begin(id)? => {
                *input = &[];
                return Ok(None);
            }
            None if self.unidirectional.len() >= STREAMS_MAX => {
                return Err(Fault::Flood(Flood::Streams));
            }
            None => {
                let kind = Reader::Untyped(PartialHeader::default());
                self.unidirectional.push(Unidirectional { id, kind });
                self.unidirectional.len() - 1
            }
        };
        let Some(stream) = self.unidirectional.get_mut(at) else { return Ok(None) };
        if let Reader::Untyped(partial) = &mut stream.kind {
            let Some(kind) = partial.stream_kind(input) else {
                // A stream may end before its type is known (section 6.2).
                if end {
                    self.unidirectional.swap_remove(at);
                    self.budgets.control_frame()?;
                }
                return Ok(None);
            };
            return self.typed(at, id, kind, input, end);
        }
        let reader = stream.kind;
        self.receive_typed(reader, input, end)
    }

    /// The type of a stream is known.
    fn typed<'i>(
        &mut self,
        at: usize,
        id: u64,
        kind: StreamKind,
        input: &mut &'i [u8],
        end: bool,
    ) -> Result<Option<Event<'i>>, Fault> {
        let reader = match kind {
            StreamKind::Control => Reader::Control,
            StreamKind::Encoder => Reader::Decoder,
            StreamKind::Decoder => Reader::Encoder,
            // Only servers push.
            StreamKind::Push => return Err(Fault::StreamCreation),
            StreamKind::Unknown(_) => {
                self.budgets.control_frame()?;
                self.unidirectional.swap_remove(at);
                *input = &[];
                let code = ErrorCode::STREAM_CREATION_ERROR;
                return Ok((!end).then_some(Event::Stop { stream: id, code }));
            }
        };
        let is_same = |stream: &Unidirectional| {
            std::mem::discriminant(&stream.kind) == std::mem::discriminant(&reader)
        };
        if self.unidirectional.iter().any(is_same) {
            return Err(Fault::StreamCreation);
        }
        if let Some(stream) = self.unidirectional.get_mut(at) {
            stream.kind = reader;
        }
        self.receive_typed(reader, input, end)
    }

    fn receive_typed<'i>(
        &mut self,
        reader: Reader,
        input: &mut &'i [u8],
        end: bool,
    ) -> Result<Option<Event<'i>>, Fault> {
        let event = match reader {
            Reader::Control => self.receive_control(input)?,
            Reader::Decoder => {
                self.decoder.receive(std::mem::take(input), &mut self.budgets.instructions)?;
                self.unblocked()
            }
            Reader::Encoder => {
                let received = self.encoder.receive(std::mem::take(input));
                received.map_err(Fault::DecoderStream)?;
                None
            }
            Reader::Untyped(_) => None,
        };
        match event {
            None if end => Err(Fault::ClosedCriticalStream),
            event => Ok(event),
        }
    }

    /// The next stream whose field section can be decoded.
    fn unblocked(&mut self) -> Option<Event<'static>> {
        while let Some(id) = self.decoder.unblocked() {
            if let Some(stream) = self.streams.get_mut(id)
                && stream.reading == Reading::Blocked
            {
                stream.reading = Reading::Unblocked;
                return Some(Event::Unblocked { stream: id });
            }
        }
        None
    }

    /// A stream of the client was reset: not one that the connection needs.
    pub(super) fn unidirectional_reset(&mut self, id: u64) -> Result<(), Fault> {
        let Some(at) = self.unidirectional.iter().position(|stream| stream.id == id) else {
            self.others.begin(id)?;
            return self.budgets.control_frame();
        };
        match self.unidirectional.get(at).map(|stream| stream.kind) {
            Some(Reader::Untyped(_)) | None => {
                self.unidirectional.swap_remove(at);
                self.budgets.control_frame()
            }
            Some(_) => Err(Fault::ClosedCriticalStream),
        }
    }

    fn receive_control<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<Event<'i>>, Fault> {
        loop {
            match self.control.state {
                ControlReading::Header => {
                    let Some(header) = self.control.partial.frame(input) else { return Ok(None) };
                    self.begin_control(header)?;
                }
                ControlReading::Skip(left) => {
                    let piece = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                    *input = input.get(piece..).unwrap_or(&[]);
                    match left - piece as u64 {
                        0 => self.control.state = ControlReading::Header,
                        left => {
                            self.control.state = ControlReading::Skip(left);
                            return Ok(None);
                        }
                    }
                }
                ControlReading::Payload(header) => {
                    let mut kept = std::mem::take(&mut self.control.payload);
                    // At most CONTROL_FRAME_BYTES_MAX.
                    let missing = (header.length as usize - kept.len()).min(input.len());
                    let (piece, rest) = input.split_at(missing);
                    *input = rest;
                    kept.extend_from_slice(piece);
                    if (kept.len() as u64) < header.length {
                        self.control.payload = kept;
                        return Ok(None);
                    }
                    self.control.state = ControlReading::Header;
                    let event = self.control_frame(header, &kept)?;
                    kept.clear();
                    self.control.payload = kept;
                    if event.is_some() {
                        return Ok(event);
                    }
                }
            }
        }
    }

    /// Decides how a frame of the control stream is read (section 7.2).
    fn begin_control(&mut self, header: FrameHeader) -> Result<(), Fault> {
        match header.kind {
            Kind::Settings if !self.control.has_settings => self.control.has_settings = true,
            _ if !self.control.has_settings => return Err(Fault::MissingSettings),
            Kind::Settings | Kind::Data | Kind::Headers | Kind::PushPromise | Kind::Http2(_) => {
                return Err(Fault::FrameUnexpected);
            }
            Kind::Unknown(_) => {
                self.budgets.control_frame()?;
                self.control.state = ControlReading::Skip(header.length);
                return Ok(());
            }
            Kind::CancelPush
            | Kind::GoAway
            | Kind::MaxPushId
            | Kind::PriorityUpdate
            | Kind::PriorityUpdatePush => self.budgets.control_frame()?,
        }
        if header.length > CONTROL_FRAME_BYTES_MAX {
            return Err(Fault::Flood(Flood::FrameBytes));
        }
        self.control.state = ControlReading::Payload(header);
        Ok(())
    }

    fn control_frame(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<Option<Event<'static>>, Fault> {
        match parse::parse(header, payload).map_err(|_| Fault::Frame)? {
            Frame::Settings(entries) => self.settings(entries).map(Some),
            Frame::MaxPushId(id) => {
                // It never shrinks (section 7.2.7). Nothing is pushed.
                if self.control.push_max.is_some_and(|before| id < before) {
                    return Err(Fault::Id);
                }
                self.control.push_max = Some(id);
                Ok(None)
            }
            Frame::GoAway(push) => {
                // It never grows (section 5.2).
                if self.control.goaway.is_some_and(|before| push > before) {
                    return Err(Fault::Id);
                }
                self.control.goaway = Some(push);
                Ok(Some(Event::GoAway { push }))
            }
            // No push was promised (section 7.2.3, RFC 9218 section 7.2).
            Frame::CancelPush(_) | Frame::PriorityUpdatePush(_) => Err(Fault::Id),
            Frame::PriorityUpdate { stream, value } => self.priority_update(stream, value),
            Frame::Other => Ok(None),
        }
    }

    fn settings(&mut self, entries: SettingEntries<'_>) -> Result<Event<'static>, Fault> {
        for (id, value) in entries {
            self.peer.apply(id, value)?;
        }
        self.encoder.limit(self.peer.qpack_table_bytes, self.peer.qpack_blocked_streams);
        Ok(Event::Settings)
    }

    fn priority_update(&mut self, id: u64, value: &[u8]) -> Result<Option<Event<'static>>, Fault> {
        if id & 3 != 0 {
            return Err(Fault::Id);
        }
        let priority = Priority::parse(value);
        if let Some(stream) = self.streams.get_mut(id) {
            stream.priority = priority;
            if stream.is_reported {
                return Ok(Some(Event::Priority { stream: id, priority }));
            }
        }
        // Kept for the head, whose `priority` field counts less (RFC 9218 section 7).
        self.early_priorities.retain(|(early, _)| *early != id);
        if self.early_priorities.len() >= EARLY_PRIORITIES_MAX {
            self.early_priorities.pop_front();
        }
        self.early_priorities.push_back((id, priority));
        Ok(None)
    }

    /// The priority that PRIORITY_UPDATE gave a stream before its head.
    pub(super) fn early_priority(&mut self, id: u64) -> Option<Priority> {
        let at = self.early_priorities.iter().position(|(early, _)| *early == id)?;
        self.early_priorities.remove(at).map(|(_, priority)| priority)
    }
}
