//! Frames (RFC 9114 section 7) and the types of unidirectional streams (section 6.2).
//!
//! A frame is a type and a length, both of variable length, and a payload. DATA and HEADERS are read by the connection
//! as they arrive; [`parse::parse`] reads the payload of the others as a whole.

pub mod parse;
#[cfg(test)]
mod tests;
pub mod write;

use crate::varint;

/// The most bytes of a frame before its payload: type and length.
pub const FRAME_HEADER_BYTES_MAX: usize = 2 * varint::BYTES_MAX;

/// The most bytes of a frame that is handled as a whole: neither DATA nor HEADERS.
pub const CONTROL_FRAME_BYTES_MAX: u64 = 4096;

/// Types of frames on the wire.
pub mod kind {
    /// DATA.
    pub const DATA: u64 = 0x0;
    /// HEADERS.
    pub const HEADERS: u64 = 0x1;
    /// CANCEL_PUSH.
    pub const CANCEL_PUSH: u64 = 0x3;
    /// SETTINGS.
    pub const SETTINGS: u64 = 0x4;
    /// PUSH_PROMISE.
    pub const PUSH_PROMISE: u64 = 0x5;
    /// GOAWAY.
    pub const GOAWAY: u64 = 0x7;
    /// MAX_PUSH_ID.
    pub const MAX_PUSH_ID: u64 = 0xd;
    /// PRIORITY_UPDATE for a request stream (RFC 9218 section 7.2).
    pub const PRIORITY_UPDATE: u64 = 0xf_0700;
    /// PRIORITY_UPDATE for a push.
    pub const PRIORITY_UPDATE_PUSH: u64 = 0xf_0701;
}

/// The type of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A piece of a body.
    Data,
    /// A field section.
    Headers,
    /// A push that is not wanted.
    CancelPush,
    /// Settings, first on the control stream.
    Settings,
    /// The request of a push.
    PushPromise,
    /// The end of the connection is near.
    GoAway,
    /// The number of pushes that a client accepts.
    MaxPushId,
    /// The priority of a response.
    PriorityUpdate,
    /// The priority of a push.
    PriorityUpdatePush,
    /// A type of HTTP/2 that has no meaning here and is an error (section 7.2.8).
    Http2(u64),
    /// Any other, which is skipped (section 9).
    Unknown(u64),
}

impl Kind {
    /// Returns the type with this number.
    pub fn of(number: u64) -> Kind {
        match number {
            kind::DATA => Kind::Data,
            kind::HEADERS => Kind::Headers,
            kind::CANCEL_PUSH => Kind::CancelPush,
            kind::SETTINGS => Kind::Settings,
            kind::PUSH_PROMISE => Kind::PushPromise,
            kind::GOAWAY => Kind::GoAway,
            kind::MAX_PUSH_ID => Kind::MaxPushId,
            kind::PRIORITY_UPDATE => Kind::PriorityUpdate,
            kind::PRIORITY_UPDATE_PUSH => Kind::PriorityUpdatePush,
            0x2 | 0x6 | 0x8 | 0x9 => Kind::Http2(number),
            _ => Kind::Unknown(number),
        }
    }
}

/// The type of a unidirectional stream, its first integer (section 6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamKind {
    /// The control stream.
    Control,
    /// A pushed response.
    Push,
    /// The insertions of QPACK (RFC 9204 section 4.2).
    Encoder,
    /// The confirmations of QPACK.
    Decoder,
    /// Any other, which is not read.
    Unknown(u64),
}

impl StreamKind {
    /// Returns the type with this number.
    pub fn of(number: u64) -> StreamKind {
        match number {
            0x0 => StreamKind::Control,
            0x1 => StreamKind::Push,
            0x2 => StreamKind::Encoder,
            0x3 => StreamKind::Decoder,
            _ => StreamKind::Unknown(number),
        }
    }
}

/// Type and length of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// The type.
    pub kind: Kind,
    /// Bytes of the payload.
    pub length: u64,
}

/// Up to two integers that arrive in any pieces: a frame's header, or the type of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct PartialHeader {
    bytes: [u8; FRAME_HEADER_BYTES_MAX],
    length: u8,
}

impl PartialHeader {
    /// Whether no byte of it is here.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Reads a frame's header from the front of `input`. `None` while it is incomplete: then all of `input` is used.
    #[inline]
    pub fn frame(&mut self, input: &mut &[u8]) -> Option<FrameHeader> {
        let mut header = |bytes: &mut &[u8]| {
            let kind = varint::decode(bytes)?;
            let length = varint::decode(bytes)?;
            Some(FrameHeader { kind: Kind::of(kind), length })
        };
        self.read(input, &mut header)
    }

    /// Reads the type of a stream in the same way.
    pub fn stream_kind(&mut self, input: &mut &[u8]) -> Option<StreamKind> {
        self.read(input, &mut |bytes| varint::decode(bytes).map(StreamKind::of))
    }

    fn read<T>(
        &mut self,
        input: &mut &[u8],
        decode: &mut impl FnMut(&mut &[u8]) -> Option<T>,
    ) -> Option<T> {
        if self.length == 0 {
            let mut ahead = *input;
            if let Some(value) = decode(&mut ahead) {
                *input = ahead;
                return Some(value);
            }
        }
        // Two integers always fit: the loop ends with the input or with a value.
        while let Some((byte, rest)) = input.split_first() {
            *self.bytes.get_mut(usize::from(self.length))? = *byte;
            *input = rest;
            self.length += 1;
            let mut kept = self.bytes.get(..usize::from(self.length)).unwrap_or(&[]);
            if let Some(value) = decode(&mut kept) {
                self.length = 0;
                return Some(value);
            }
        }
        None
    }
}
