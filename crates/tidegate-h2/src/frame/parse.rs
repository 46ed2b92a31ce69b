//! From a whole frame to what it says.

use super::{FrameHeader, Kind, StreamId, flags};
use crate::error::ErrorCode;

/// A frame's content, borrowed from its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// DATA without its padding.
    Data {
        /// The piece of the body.
        data: &'a [u8],
        /// The body ends.
        end_stream: bool,
    },
    /// HEADERS without padding and priority.
    Headers {
        /// A piece of the header block.
        fragment: &'a [u8],
        /// The message has no body, or this is its trailer section.
        end_stream: bool,
        /// No CONTINUATION follows.
        end_headers: bool,
        /// A priority of RFC 7540.
        dependency: Option<Dependency>,
    },
    /// PRIORITY.
    Priority(Dependency),
    /// RST_STREAM.
    ResetStream(ErrorCode),
    /// SETTINGS.
    Settings {
        /// It acknowledges ours, and has no entries.
        ack: bool,
        /// The entries in the order of the frame.
        entries: SettingEntries<'a>,
    },
    /// PUSH_PROMISE; its content is not looked at.
    PushPromise,
    /// PING.
    Ping {
        /// It is a reply.
        ack: bool,
        /// Opaque bytes, which the reply repeats.
        data: [u8; 8],
    },
    /// GOAWAY.
    GoAway {
        /// The last stream that the sender may have processed.
        last: StreamId,
        /// Why.
        code: ErrorCode,
        /// Text for logs.
        debug: &'a [u8],
    },
    /// WINDOW_UPDATE with an increment of 1 to 2^31-1 bytes.
    WindowUpdate(u32),
    /// CONTINUATION.
    Continuation {
        /// A piece of the header block.
        fragment: &'a [u8],
        /// It is the last one.
        end_headers: bool,
    },
    /// PRIORITY_UPDATE (RFC 9218 section 7.1).
    PriorityUpdate {
        /// The stream that is meant.
        stream: StreamId,
        /// The value, as of a `priority` field.
        value: &'a [u8],
    },
    /// A type without a meaning here.
    Unknown,
}

/// A priority of RFC 7540 section 5.3, which RFC 9113 deprecates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// No other stream shares the parent.
    pub exclusive: bool,
    /// The parent.
    pub parent: StreamId,
    /// Weight minus 1.
    pub weight: u8,
}

impl Dependency {
    /// Bytes on the wire.
    pub const BYTES: usize = 5;

    const fn parse(bytes: [u8; Dependency::BYTES]) -> Dependency {
        let [a, b, c, d, weight] = bytes;
        let parent = u32::from_be_bytes([a, b, c, d]);
        Dependency { exclusive: parent >> 31 == 1, parent: StreamId::new(parent), weight }
    }
}

/// The entries of a SETTINGS frame: identifier and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingEntries<'a>(&'a [[u8; 6]]);

impl Iterator for SettingEntries<'_> {
    type Item = (u16, u32);

    fn next(&mut self) -> Option<(u16, u32)> {
        let ([a, b, value @ ..], rest) = self.0.split_first()?;
        self.0 = rest;
        Some((u16::from_be_bytes([*a, *b]), u32::from_be_bytes(*value)))
    }
}

/// What is wrong with a frame by itself. [`FrameError::StreamSize`] and [`FrameError::StreamWindowZero`] concern its
/// stream, the others the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// A length that the type does not allow.
    Size,
    /// The same where it ends only the stream: PRIORITY (RFC 9113 section 6.3).
    StreamSize,
    /// Stream 0 where a stream is needed, or a stream where 0 is.
    StreamZero,
    /// Padding does not fit the payload.
    Padding,
    /// WINDOW_UPDATE of 0 for the connection.
    WindowZero,
    /// WINDOW_UPDATE of 0 for a stream.
    StreamWindowZero,
    /// A stream depends on itself (RFC 7540 section 5.3.1).
    SelfDependency,
}

/// Takes a payload of `header.length` bytes apart.
///
/// # Errors
/// The frame is none by section 6 of RFC 9113.
pub fn parse<'a>(header: FrameHeader, payload: &'a [u8]) -> Result<Frame<'a>, FrameError> {
    check_stream(header)?;
    match header.kind {
        Kind::Data => Ok(Frame::Data {
            data: unpadded(header, payload)?,
            end_stream: header.has(flags::END_STREAM),
        }),
        Kind::Headers => headers(header, payload),
        Kind::Priority => {
            let bytes = payload.try_into().map_err(|_| FrameError::StreamSize)?;
            Ok(Frame::Priority(not_itself(header, Dependency::parse(bytes))?))
        }
        Kind::ResetStream => {
            let code = payload.try_into().map_err(|_| FrameError::Size)?;
            Ok(Frame::ResetStream(ErrorCode(u32::from_be_bytes(code))))
        }
        Kind::Settings => settings(header, payload),
        Kind::PushPromise => Ok(Frame::PushPromise),
        Kind::Ping => {
            let data = payload.try_into().map_err(|_| FrameError::Size)?;
            Ok(Frame::Ping { ack: header.has(flags::ACK), data })
        }
        Kind::GoAway => {
            let (last, rest) = payload.split_first_chunk().ok_or(FrameError::Size)?;
            let (code, debug) = rest.split_first_chunk().ok_or(FrameError::Size)?;
            let last = StreamId::new(u32::from_be_bytes(*last));
            Ok(Frame::GoAway { last, code: ErrorCode(u32::from_be_bytes(*code)), debug })
        }
        Kind::WindowUpdate => window_update(header, payload),
        Kind::Continuation => Ok(Frame::Continuation {
            fragment: payload,
            end_headers: header.has(flags::END_HEADERS),
        }),
        Kind::PriorityUpdate => {
            let (stream, value) = payload.split_first_chunk().ok_or(FrameError::Size)?;
            Ok(Frame::PriorityUpdate { stream: StreamId::new(u32::from_be_bytes(*stream)), value })
        }
        Kind::Unknown(_) => Ok(Frame::Unknown),
    }
}

/// Checks that a frame is on a stream, or on none, as its type demands.
pub(crate) fn check_stream(header: FrameHeader) -> Result<(), FrameError> {
    let right = match header.kind {
        Kind::Settings | Kind::Ping | Kind::GoAway | Kind::PriorityUpdate => {
            header.stream.is_connection()
        }
        Kind::WindowUpdate | Kind::Unknown(_) => true,
        _ => !header.stream.is_connection(),
    };
    if right { Ok(()) } else { Err(FrameError::StreamZero) }
}

/// Cuts the padding off, and the byte with its length.
fn unpadded(header: FrameHeader, payload: &[u8]) -> Result<&[u8], FrameError> {
    if !header.has(flags::PADDED) {
        return Ok(payload);
    }
    let (padding, rest) = payload.split_first().ok_or(FrameError::Size)?;
    let length = rest.len().checked_sub(usize::from(*padding)).ok_or(FrameError::Padding)?;
    rest.get(..length).ok_or(FrameError::Padding)
}

fn headers(header: FrameHeader, payload: &[u8]) -> Result<Frame<'_>, FrameError> {
    let mut fragment = unpadded(header, payload)?;
    let mut dependency = None;
    if header.has(flags::PRIORITY) {
        let (bytes, rest) = fragment.split_first_chunk().ok_or(FrameError::Size)?;
        dependency = Some(not_itself(header, Dependency::parse(*bytes))?);
        fragment = rest;
    }
    Ok(Frame::Headers {
        fragment,
        end_stream: header.has(flags::END_STREAM),
        end_headers: header.has(flags::END_HEADERS),
        dependency,
    })
}

fn not_itself(header: FrameHeader, dependency: Dependency) -> Result<Dependency, FrameError> {
    if dependency.parent == header.stream {
        return Err(FrameError::SelfDependency);
    }
    Ok(dependency)
}

fn settings(header: FrameHeader, payload: &[u8]) -> Result<Frame<'_>, FrameError> {
    let ack = header.has(flags::ACK);
    let (entries, rest) = payload.as_chunks();
    if !rest.is_empty() || (ack && !payload.is_empty()) {
        return Err(FrameError::Size);
    }
    Ok(Frame::Settings { ack, entries: SettingEntries(entries) })
}

fn window_update(header: FrameHeader, payload: &[u8]) -> Result<Frame<'_>, FrameError> {
    let bytes = payload.try_into().map_err(|_| FrameError::Size)?;
    match u32::from_be_bytes(bytes) & 0x7fff_ffff {
        0 if header.stream.is_connection() => Err(FrameError::WindowZero),
        0 => Err(FrameError::StreamWindowZero),
        increment => Ok(Frame::WindowUpdate(increment)),
    }
}
