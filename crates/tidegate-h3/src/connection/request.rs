//! Request streams: from bytes to frames, field sections and bodies (RFC 9114 sections 4.1 and 7).

use tidegate_fields::head::{Reader, Section};
use tidegate_fields::{HeadFault, Priority};

use super::{Connection, Event};
use crate::error::{ErrorCode, Fault, Flood};
use crate::frame::{FrameHeader, Kind};
use crate::qpack::Decoded;
use crate::stream::{Place, Reading, Sent, Stream};

/// The result of one step.
enum Step<'i> {
    /// Something is to be reported.
    Event(Event<'i>),
    /// Go on.
    Next,
    /// Nothing more can be read now.
    More,
}

impl Connection {
    pub(super) fn receive_request<'i>(
        &mut self,
        id: u64,
        input: &mut &'i [u8],
        end: bool,
    ) -> Result<Option<Event<'i>>, Fault> {
        if self.streams.get(id).is_none() {
            if !self.requests.begin(id)? {
                *input = &[];
                return Ok(None);
            }
            if let Some(code) = self.refusal(id)? {
                *input = &[];
                self.decoder.cancel(id);
                return Ok(Some(Event::Refused { stream: id, code }));
            }
            self.streams.begin(id);
        }
        loop {
            match self.step(id, input, end)? {
                Step::Event(event) => return Ok(Some(event)),
                Step::Next => {}
                Step::More => break,
            }
        }
        match end && input.is_empty() {
            true => self.ended(id),
            false => Ok(None),
        }
    }

    /// The reason for not serving a stream that begins.
    fn refusal(&mut self, id: u64) -> Result<Option<ErrorCode>, Fault> {
        if self.ending.excludes(id) {
            // GOAWAY has said that it is not processed (section 5.2).
            return Ok(Some(ErrorCode::REQUEST_REJECTED));
        }
        if self.streams.len() >= self.config.streams_max as usize {
            self.budgets.reset()?;
            return Ok(Some(ErrorCode::REQUEST_REJECTED));
        }
        Ok(None)
    }

    fn step<'i>(&mut self, id: u64, input: &mut &'i [u8], end: bool) -> Result<Step<'i>, Fault> {
        let Some(stream) = self.streams.get_mut(id) else { return Ok(Step::More) };
        if stream.is_received {
            // Its end is here already.
            *input = &[];
            return Ok(Step::More);
        }
        match stream.reading {
            Reading::Header => match stream.partial.frame(input) {
                Some(header) => self.begin_frame(id, header),
                None => Ok(Step::More),
            },
            Reading::Section(missing) => self.section(id, missing, input, end),
            Reading::Unblocked => {
                let section = std::mem::take(&mut stream.section);
                self.section_bytes = self.section_bytes.saturating_sub(section.len());
                self.decode(id, &section, end && input.is_empty())
            }
            Reading::Blocked => Ok(Step::More),
            Reading::Data(0) | Reading::Skip(0) => {
                stream.reading = Reading::Header;
                Ok(Step::Next)
            }
            Reading::Data(_) | Reading::Skip(_) if input.is_empty() => Ok(Step::More),
            Reading::Data(missing) => self.data(id, missing, input, end),
            Reading::Skip(missing) => {
                let piece = take(input, missing);
                stream.reading = Reading::Skip(missing - piece.len() as u64);
                Ok(Step::Next)
            }
            Reading::Discard => {
                *input = &[];
                Ok(Step::More)
            }
        }
    }

    /// Decides how a frame is read, and whether it may be here (sections 4.1 and 7.2).
    fn begin_frame<'i>(&mut self, id: u64, header: FrameHeader) -> Result<Step<'i>, Fault> {
        let Some(stream) = self.streams.get_mut(id) else { return Ok(Step::More) };
        let FrameHeader { kind, length } = header;
        match (kind, stream.place) {
            (Kind::Data, Place::Body) => {
                if length == 0 {
                    self.budgets.control_frame()?;
                }
                stream.reading = Reading::Data(length);
                Ok(Step::Next)
            }
            (Kind::Headers, Place::Head) => self.begin_section(id, length),
            (Kind::Headers, Place::Body) if !stream.is_tunnel => self.begin_section(id, length),
            (Kind::Unknown(_), _) => {
                self.budgets.control_frame()?;
                stream.reading = Reading::Skip(length);
                Ok(Step::Next)
            }
            _ => Err(Fault::FrameUnexpected),
        }
    }

    /// A section that is too large is not read: other than in HPACK, no table is lost by that.
    fn begin_section<'i>(&mut self, id: u64, length: u64) -> Result<Step<'i>, Fault> {
        if length > u64::from(self.config.section_bytes_max) {
            self.head.clear();
            self.decoder.cancel(id);
            return Ok(Step::Event(self.malformed(id, HeadFault::TooLarge)));
        }
        if let Some(stream) = self.streams.get_mut(id) {
            stream.reading = Reading::Section(length);
        }
        Ok(Step::Next)
    }

    /// Takes a piece of a section. One that is whole in the input is not copied.
    fn section<'i>(
        &mut self,
        id: u64,
        missing: u64,
        input: &mut &'i [u8],
        end: bool,
    ) -> Result<Step<'i>, Fault> {
        let piece = take(input, missing);
        let missing = missing - piece.len() as u64;
        let Some(stream) = self.streams.get_mut(id) else { return Ok(Step::More) };
        if missing == 0 && stream.section.is_empty() {
            return self.decode(id, piece, end && input.is_empty());
        }
        stream.section.extend_from_slice(piece);
        stream.reading = Reading::Section(missing);
        self.section_bytes += piece.len();
        if self.section_bytes > self.config.sections_bytes_max as usize {
            return Err(Fault::Flood(Flood::SectionBytes));
        }
        if missing > 0 {
            return Ok(Step::More);
        }
        stream.reading = Reading::Unblocked;
        Ok(Step::Next)
    }

    /// Decodes a whole section; `end` if the stream ends behind it.
    fn decode<'i>(&mut self, id: u64, section: &[u8], end: bool) -> Result<Step<'i>, Fault> {
        let Some(stream) = self.streams.get_mut(id) else { return Ok(Step::More) };
        let kind = match stream.place {
            Place::Head => Section::Request,
            Place::Body | Place::Trailers => Section::Trailers,
        };
        let rules = self.config.head_rules();
        let mut reader = Reader::new(&mut self.head, &mut self.scratch, &rules, kind);
        let decoded = self.decoder.decode(id, section, &mut |field| reader.field(field));
        if decoded.map_err(Fault::Decompression)? == Decoded::Blocked {
            stream.reading = Reading::Blocked;
            stream.section.extend_from_slice(section);
            self.section_bytes += section.len();
            return match self.section_bytes > self.config.sections_bytes_max as usize {
                true => Err(Fault::Flood(Flood::SectionBytes)),
                false => Ok(Step::More),
            };
        }
        let fault = reader.finish().err();
        self.head.block_bytes = section.len() as u32;
        stream.reading = Reading::Header;
        let event = match kind {
            Section::Trailers => self.trailers_received(id, fault),
            Section::Request | Section::Response => self.request_received(id, fault, end),
        };
        Ok(Step::Event(event))
    }

    fn request_received(&mut self, id: u64, fault: Option<HeadFault>, end: bool) -> Event<'static> {
        self.budgets.head();
        let early = self.early_priority(id);
        let priority = early.or(self.head.priority).unwrap_or(Priority::UNSIGNALLED);
        let is_tunnel = self.head.text(self.head.method) == b"CONNECT";
        let body_left = self.head.content_length;
        if let Some(stream) = self.streams.get_mut(id) {
            stream.place = Place::Body;
            stream.priority = priority;
            stream.is_tunnel = is_tunnel;
            stream.body_left = body_left;
            stream.is_reported = true;
            stream.is_received = end;
        }
        match fault.or_else(|| fault_of_end(end, body_left)) {
            Some(fault) => self.malformed(id, fault),
            None => Event::Head { stream: id, end },
        }
    }

    fn trailers_received(&mut self, id: u64, fault: Option<HeadFault>) -> Event<'static> {
        let left = self.streams.get_mut(id).and_then(|stream| {
            stream.place = Place::Trailers;
            stream.body_left
        });
        match fault.or_else(|| fault_of_end(true, left)) {
            Some(fault) => self.malformed(id, fault),
            None => Event::Trailers { stream: id },
        }
    }

    fn data<'i>(
        &mut self,
        id: u64,
        missing: u64,
        input: &mut &'i [u8],
        end: bool,
    ) -> Result<Step<'i>, Fault> {
        let bytes = take(input, missing);
        let Some(stream) = self.streams.get_mut(id) else { return Ok(Step::More) };
        let (length, missing) = (bytes.len() as u64, missing - bytes.len() as u64);
        stream.reading = Reading::Data(missing);
        self.budgets.body(length);
        let end = end && input.is_empty() && missing == 0;
        if let Some(left) = &mut stream.body_left {
            match left.checked_sub(length) {
                Some(rest) if rest == 0 || !end => *left = rest,
                _ => return Ok(Step::Event(self.malformed(id, HeadFault::BodyLength))),
            }
        }
        if end {
            stream.reading = Reading::Header;
            stream.is_received = true;
        }
        Ok(Step::Event(Event::Data { stream: id, bytes, end }))
    }

    /// The stream has ended, and all of it was read.
    fn ended(&mut self, id: u64) -> Result<Option<Event<'static>>, Fault> {
        let Some(stream) = self.streams.get_mut(id) else { return Ok(None) };
        match stream.reading {
            _ if stream.is_received => return Ok(None),
            Reading::Discard => {
                stream.is_received = true;
                return Ok(None);
            }
            Reading::Blocked | Reading::Unblocked => return Ok(None),
            Reading::Header if stream.partial.is_empty() => {}
            // It ends within a frame (section 7.1).
            _ => return Err(Fault::Frame),
        }
        stream.is_received = true;
        match stream.place {
            Place::Head => {
                self.streams.remove(id);
                self.budgets.reset()?;
                let code = ErrorCode::REQUEST_INCOMPLETE;
                Ok(Some(Event::Refused { stream: id, code }))
            }
            Place::Body => match fault_of_end(true, stream.body_left) {
                Some(fault) => Ok(Some(self.malformed(id, fault))),
                None => Ok(Some(Event::Data { stream: id, bytes: &[], end: true })),
            },
            Place::Trailers => Ok(None),
        }
    }

    /// What follows of the message is dropped.
    fn malformed(&mut self, id: u64, fault: HeadFault) -> Event<'static> {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.reading = Reading::Discard;
            stream.is_reported = true;
        }
        Event::Malformed { stream: id, fault }
    }

    /// A stream whose response may still be sent.
    pub(super) fn sendable(&mut self, id: u64) -> Option<&mut Stream> {
        let stream = self.streams.get_mut(id)?;
        let is_open = matches!(stream.sent, Sent::Nothing | Sent::Head);
        (stream.is_reported && is_open).then_some(stream)
    }
}

/// Takes at most `most` bytes from the front of the input.
fn take<'i>(input: &mut &'i [u8], most: u64) -> &'i [u8] {
    let length = usize::try_from(most).unwrap_or(usize::MAX).min(input.len());
    let (piece, rest) = input.split_at(length);
    *input = rest;
    piece
}

/// A message ends although a body was announced.
fn fault_of_end(end: bool, body_left: Option<u64>) -> Option<HeadFault> {
    let missing = body_left.is_some_and(|left| left > 0);
    (end && missing).then_some(HeadFault::BodyLength)
}
