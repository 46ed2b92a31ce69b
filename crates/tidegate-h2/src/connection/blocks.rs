//! Header blocks: put together, decoded, and what they mean for their stream.
//!
//! Every block is decoded, even one of a stream that is refused: the table has to stay in step.

use std::ops::ControlFlow;

use super::{Connection, Event, Role};
use crate::error::{ErrorCode, Fault, Flood};
use crate::frame::parse::{Dependency, Frame};
use crate::frame::{FrameHeader, Kind, StreamId, flags};
use crate::hpack::DecodeError;
use crate::stream::Stream;
use crate::stream::state::{Closed, State, StateError};
use tidegate_fields::head::{Reader, Section};
use tidegate_fields::{DecodedField, HeadFault};

/// CONTINUATION frames that an empty one counts for.
const EMPTY_CONTINUATION: u32 = 8;
/// Bytes of a header list beyond the limit, for which a client is refused with 431. Blocks are limited before they are
/// decoded, so only references to the table make more.
const LIST_EXCESS_MAX: usize = 64 * 1024;

/// A header block that has begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenBlock {
    pub(super) stream: StreamId,
    end_stream: bool,
    /// A priority of RFC 7540.
    dependency: Option<Dependency>,
    /// CONTINUATION frames so far.
    continuations: u32,
}

/// What a block is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// A request on a new stream.
    Request,
    /// A response's head, interim or final.
    Response,
    /// A trailer section.
    Trailers,
    /// Decoded and dropped. A code resets the stream.
    Discarded(Option<ErrorCode>),
}

impl<R: Role> Connection<R> {
    /// Checks a frame of a header block against the limits before its payload is read.
    pub(super) fn check_block(&mut self, header: FrameHeader) -> Result<(), Fault> {
        let bytes = self.buffers.block_len().saturating_add(header.length as usize);
        if bytes > self.config.block_bytes_max as usize {
            return Err(Fault::Flood(Flood::BlockBytes));
        }
        // An empty HEADERS frame that is continued counts as well.
        let is_continued = !header.has(flags::END_HEADERS);
        let Some(block) = &mut self.block else {
            return match header.length == 0 && is_continued {
                true => self.budgets.control_frame(),
                false => Ok(()),
            };
        };
        block.continuations += if header.length == 0 { EMPTY_CONTINUATION } else { 1 };
        debug_assert_eq!(header.kind, Kind::Continuation);
        match block.continuations > self.config.continuations_max {
            true => Err(Fault::Flood(Flood::Continuations)),
            false => Ok(()),
        }
    }

    /// Takes HEADERS or CONTINUATION.
    pub(super) fn block_frame(
        &mut self,
        stream: StreamId,
        frame: Frame<'_>,
    ) -> Result<Option<Event<'static>>, Fault> {
        let (block, fragment, end_headers) = match (frame, self.block) {
            (Frame::Headers { fragment, end_stream, end_headers, dependency }, _) => {
                let block = OpenBlock { stream, end_stream, dependency, continuations: 0 };
                (block, fragment, end_headers)
            }
            (Frame::Continuation { fragment, end_headers }, Some(block)) => {
                (block, fragment, end_headers)
            }
            _ => return Err(Fault::Continuation),
        };
        if end_headers && self.buffers.block_len() == 0 {
            self.block = None;
            return self.end_block(block, fragment);
        }
        self.buffers.get().block.extend_from_slice(fragment);
        if !end_headers {
            self.block = Some(block);
            return Ok(None);
        }
        self.block = None;
        let mut bytes = std::mem::take(&mut self.buffers.get().block);
        let event = self.end_block(block, &bytes);
        bytes.clear();
        self.buffers.get().block = bytes;
        event
    }

    fn end_block(
        &mut self,
        block: OpenBlock,
        bytes: &[u8],
    ) -> Result<Option<Event<'static>>, Fault> {
        let target = self.target_of(block)?;
        let list_bytes_max = self.config.list_bytes_max as usize + LIST_EXCESS_MAX;
        let section = match target {
            Target::Request => Section::Request,
            Target::Response => Section::Response,
            Target::Trailers => Section::Trailers,
            Target::Discarded(code) => {
                let mut list_bytes = 0usize;
                let mut count = |field: DecodedField<'_>| {
                    list_bytes = list_bytes.saturating_add(field.name.len() + field.value.len());
                    within(list_bytes, list_bytes_max)
                };
                complete(self.decoder.decode_until(bytes, &mut count))?;
                return match code {
                    // The client has not read our settings, and so not the limit.
                    Some(code @ ErrorCode::REFUSED_STREAM) if !self.acknowledged => {
                        self.budgets.control_frame()?;
                        self.refuse(block.stream, code)?;
                        Ok(None)
                    }
                    Some(code) => self.stream_error(block.stream, code),
                    None => Ok(None),
                };
            }
        };
        let rules = self.config.head_rules();
        let buffers = self.buffers.get();
        let mut reader = Reader::new(&mut buffers.head, &mut buffers.scratch, &rules, section);
        let mut read = |field: DecodedField<'_>| {
            reader.field(field);
            within(reader.list_bytes(), list_bytes_max)
        };
        complete(self.decoder.decode_until(bytes, &mut read))?;
        let fault = reader.finish().err();
        buffers.head.block_bytes = bytes.len() as u32;
        match target {
            Target::Request => Ok(Some(self.request_received(block, fault))),
            Target::Response => self.response_received(block, fault),
            Target::Trailers | Target::Discarded(_) => self.trailers_received(block, fault),
        }
    }

    fn target_of(&mut self, block: OpenBlock) -> Result<Target, Fault> {
        let id = block.stream;
        if !id.is_of_client() {
            return Err(Fault::StreamId);
        }
        if let Some(stream) = self.streams.get_mut(id) {
            return target_on(stream, block, R::IS_SERVER);
        }
        if !R::IS_SERVER {
            return match (self.is_idle(id), self.streams.recent(id)) {
                (true, _) => Err(Fault::IdleStream),
                (false, Some(Closed::ResetSent)) => Ok(Target::Discarded(None)),
                (false, _) => Ok(Target::Discarded(Some(ErrorCode::STREAM_CLOSED))),
            };
        }
        if !self.is_idle(id) {
            return match self.streams.recent(id) {
                Some(Closed::ResetSent) => Ok(Target::Discarded(None)),
                Some(_) => Err(Fault::ClosedStream),
                None => Err(Fault::StreamId),
            };
        }
        if self.ending.excludes(id) {
            // GOAWAY has said that it is not processed (RFC 9113 section 6.8).
            self.last_received = id;
            self.streams.remember(id, Closed::ResetSent);
            return Ok(Target::Discarded(None));
        }
        self.last_received = id;
        if self.streams.len() >= self.config.streams_max as usize {
            return Ok(Target::Discarded(Some(ErrorCode::REFUSED_STREAM)));
        }
        Ok(Target::Request)
    }

    /// Begins the stream of a request.
    fn request_received(&mut self, block: OpenBlock, fault: Option<HeadFault>) -> Event<'static> {
        let id = block.stream;
        self.budgets.head();
        let mut stream = Stream::new(id, self.peer.window, self.stream_window());
        stream.priority = self.first_priority(id, block.dependency);
        let content_length = self.buffers.get().head.content_length;
        stream.state = match block.end_stream {
            true => State::HalfClosedRemote,
            false => State::Open,
        };
        stream.head_received = true;
        stream.body_left = content_length;
        let fault = fault.or_else(|| fault_of_end(block.end_stream, stream.body_left));
        stream.discards = fault.is_some();
        self.streams.push(stream);
        match fault {
            Some(fault) => Event::Malformed { stream: id, fault },
            None => Event::Head { stream: id, end: block.end_stream },
        }
    }

    fn response_received(
        &mut self,
        block: OpenBlock,
        fault: Option<HeadFault>,
    ) -> Result<Option<Event<'static>>, Fault> {
        let (id, end) = (block.stream, block.end_stream);
        let head = self.head();
        let (status, length) = (head.status, head.content_length);
        let Some(stream) = self.streams.get_mut(id) else { return Ok(None) };
        let interim = fault.is_none() && (100..200).contains(&status);
        // A message that ends with an interim head is none.
        let fault = fault.or((interim && end).then_some(HeadFault::PseudoValue));
        if let Ok(next) = stream.state.receive_head(end) {
            stream.state = next;
        }
        let bodiless = stream.is_head_request || matches!(status, 204 | 304);
        let body_left = if bodiless { None } else { length };
        let fault = fault.or_else(|| fault_of_end(end, body_left));
        if let Some(fault) = fault {
            stream.discards = true;
            return Ok(Some(Event::Malformed { stream: id, fault }));
        }
        if interim {
            self.budgets.control_frame()?;
            return Ok(Some(Event::Interim { stream: id }));
        }
        stream.head_received = true;
        stream.body_left = body_left;
        self.budgets.head();
        Ok(Some(Event::Head { stream: id, end }))
    }

    fn trailers_received(
        &mut self,
        block: OpenBlock,
        fault: Option<HeadFault>,
    ) -> Result<Option<Event<'static>>, Fault> {
        let id = block.stream;
        let Some(stream) = self.streams.get_mut(id) else { return Ok(None) };
        if let Ok(next) = stream.state.receive_head(true) {
            stream.state = next;
        }
        if stream.discards {
            return Ok(None);
        }
        match fault.or_else(|| fault_of_end(true, stream.body_left)) {
            Some(fault) => {
                stream.discards = true;
                Ok(Some(Event::Malformed { stream: id, fault }))
            }
            None => Ok(Some(Event::Trailers { stream: id })),
        }
    }
}

/// What a block means on a stream that has begun.
fn target_on(stream: &Stream, block: OpenBlock, is_server: bool) -> Result<Target, Fault> {
    match stream.state.receive_head(block.end_stream) {
        Ok(_) if !is_server && !stream.head_received && !stream.discards => Ok(Target::Response),
        Ok(_) if block.end_stream => Ok(Target::Trailers),
        // A second head that is no trailer section (RFC 9113 section 8.1).
        Ok(_) => Ok(Target::Discarded(Some(ErrorCode::PROTOCOL_ERROR))),
        Err(StateError::Late) => Ok(Target::Discarded(None)),
        Err(_) if stream.state == State::HalfClosedRemote => {
            Ok(Target::Discarded(Some(ErrorCode::STREAM_CLOSED)))
        }
        Err(_) if is_server => Err(Fault::ClosedStream),
        Err(_) => Ok(Target::Discarded(Some(ErrorCode::STREAM_CLOSED))),
    }
}

/// A message ends although a body was announced.
fn fault_of_end(end: bool, body_left: Option<u64>) -> Option<HeadFault> {
    let missing = body_left.is_some_and(|left| left > 0);
    (end && missing).then_some(HeadFault::BodyLength)
}

/// Breaks off where a header list becomes so large that the connection ends.
fn within(list_bytes: usize, most: usize) -> ControlFlow<()> {
    match list_bytes > most {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}

fn complete(decoded: Result<ControlFlow<()>, DecodeError>) -> Result<(), Fault> {
    match decoded.map_err(Fault::Compression)? {
        ControlFlow::Break(()) => Err(Fault::Flood(Flood::ListBytes)),
        ControlFlow::Continue(()) => Ok(()),
    }
}
