//! Frames (RFC 9113 sections 4 and 6): their 9-byte header, their types, [`parse`] and [`write`](mod@write).

pub mod parse;
#[cfg(test)]
mod tests;
pub mod write;

use std::fmt;

/// Bytes in front of each payload.
pub const FRAME_HEADER_BYTES: usize = 9;

/// What a client sends first (RFC 9113 section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The largest payload that every peer accepts, and the default of SETTINGS_MAX_FRAME_SIZE, bytes.
pub const FRAME_BYTES_DEFAULT: u32 = 16_384;

/// The largest value of SETTINGS_MAX_FRAME_SIZE, bytes.
pub const FRAME_BYTES_LIMIT: u32 = (1 << 24) - 1;

/// The number of a stream; 0 is the connection itself. 31 bits: the reserved bit is ignored (RFC 9113 section 4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(u32);

impl StreamId {
    /// Stream 0.
    pub const CONNECTION: StreamId = StreamId(0);
    /// The largest identifier, 2^31-1.
    pub const MAX: StreamId = StreamId(0x7fff_ffff);

    /// Drops the reserved bit.
    pub const fn new(value: u32) -> StreamId {
        StreamId(value & 0x7fff_ffff)
    }

    /// Returns the number.
    pub const fn value(self) -> u32 {
        self.0
    }

    /// Whether it means the connection.
    pub const fn is_connection(self) -> bool {
        self.0 == 0
    }

    /// Whether a client begins streams with such a number: it is odd.
    pub const fn is_of_client(self) -> bool {
        self.0 & 1 == 1
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The type of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A piece of a body.
    Data,
    /// The begin of a header block.
    Headers,
    /// A priority of RFC 7540.
    Priority,
    /// The end of a stream by an error code.
    ResetStream,
    /// Parameters of the sender, or the acknowledgement of ours.
    Settings,
    /// A pushed request: refused.
    PushPromise,
    /// Measures the way there and back.
    Ping,
    /// The sender takes no new streams.
    GoAway,
    /// Opens a flow-control window.
    WindowUpdate,
    /// More of a header block.
    Continuation,
    /// A priority of RFC 9218 (its section 7.1).
    PriorityUpdate,
    /// A type without a meaning here: ignored (RFC 9113 section 4.1).
    Unknown(u8),
}

impl Kind {
    /// Returns the type for a number.
    pub const fn of(number: u8) -> Kind {
        match number {
            0x0 => Kind::Data,
            0x1 => Kind::Headers,
            0x2 => Kind::Priority,
            0x3 => Kind::ResetStream,
            0x4 => Kind::Settings,
            0x5 => Kind::PushPromise,
            0x6 => Kind::Ping,
            0x7 => Kind::GoAway,
            0x8 => Kind::WindowUpdate,
            0x9 => Kind::Continuation,
            0x10 => Kind::PriorityUpdate,
            other => Kind::Unknown(other),
        }
    }

    /// Returns the number on the wire.
    pub const fn number(self) -> u8 {
        match self {
            Kind::Data => 0x0,
            Kind::Headers => 0x1,
            Kind::Priority => 0x2,
            Kind::ResetStream => 0x3,
            Kind::Settings => 0x4,
            Kind::PushPromise => 0x5,
            Kind::Ping => 0x6,
            Kind::GoAway => 0x7,
            Kind::WindowUpdate => 0x8,
            Kind::Continuation => 0x9,
            Kind::PriorityUpdate => 0x10,
            Kind::Unknown(number) => number,
        }
    }
}

/// The flags of a frame; their meaning depends on its type.
pub mod flags {
    /// DATA, HEADERS: the sender's side of the stream ends.
    pub const END_STREAM: u8 = 0x1;
    /// SETTINGS, PING: a reply.
    pub const ACK: u8 = 0x1;
    /// HEADERS, CONTINUATION: the header block ends.
    pub const END_HEADERS: u8 = 0x4;
    /// DATA, HEADERS: padding follows, with its length in front.
    pub const PADDED: u8 = 0x8;
    /// HEADERS: a priority of RFC 7540 is in front.
    pub const PRIORITY: u8 = 0x20;
}

/// The first 9 bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Bytes of the payload, 24 bits.
    pub length: u32,
    /// Type of the frame.
    pub kind: Kind,
    /// [`flags`].
    pub flags: u8,
    /// Where it belongs.
    pub stream: StreamId,
}

impl FrameHeader {
    /// Reads a frame's header.
    pub const fn parse(bytes: &[u8; FRAME_HEADER_BYTES]) -> FrameHeader {
        let [a, b, c, kind, flags, stream @ ..] = *bytes;
        FrameHeader {
            length: u32::from_be_bytes([0, a, b, c]),
            kind: Kind::of(kind),
            flags,
            stream: StreamId::new(u32::from_be_bytes(stream)),
        }
    }

    /// Writes a frame's header. A length above 24 bits loses its upper ones: frames are limited to far less.
    pub const fn to_bytes(self) -> [u8; FRAME_HEADER_BYTES] {
        let [_, a, b, c] = self.length.to_be_bytes();
        let [d, e, f, g] = self.stream.value().to_be_bytes();
        [a, b, c, self.kind.number(), self.flags, d, e, f, g]
    }

    /// Whether a flag is set.
    pub const fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}
