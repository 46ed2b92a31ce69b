//! Error codes of the protocol, and what ends a connection.

use std::fmt;

use crate::hpack::DecodeError;

/// An error code of RST_STREAM and GOAWAY (RFC 9113 section 7). Codes that this crate does not name are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// No error: a graceful end, or a response that needs no more of the request.
    pub const NO_ERROR: ErrorCode = ErrorCode(0x0);
    /// A violation of the protocol for which there is no other code.
    pub const PROTOCOL_ERROR: ErrorCode = ErrorCode(0x1);
    /// The sender failed.
    pub const INTERNAL_ERROR: ErrorCode = ErrorCode(0x2);
    /// More was sent than a window allows.
    pub const FLOW_CONTROL_ERROR: ErrorCode = ErrorCode(0x3);
    /// SETTINGS were not acknowledged in time.
    pub const SETTINGS_TIMEOUT: ErrorCode = ErrorCode(0x4);
    /// A frame on a stream whose sender had ended it.
    pub const STREAM_CLOSED: ErrorCode = ErrorCode(0x5);
    /// A frame of an invalid length.
    pub const FRAME_SIZE_ERROR: ErrorCode = ErrorCode(0x6);
    /// The stream was not processed; the request may be sent again (RFC 9113 section 8.7).
    pub const REFUSED_STREAM: ErrorCode = ErrorCode(0x7);
    /// The stream is no longer needed.
    pub const CANCEL: ErrorCode = ErrorCode(0x8);
    /// The state of header compression is lost.
    pub const COMPRESSION_ERROR: ErrorCode = ErrorCode(0x9);
    /// The connection of a CONNECT request failed.
    pub const CONNECT_ERROR: ErrorCode = ErrorCode(0xa);
    /// The peer causes excessive load.
    pub const ENHANCE_YOUR_CALM: ErrorCode = ErrorCode(0xb);
    /// The transport is not secure enough.
    pub const INADEQUATE_SECURITY: ErrorCode = ErrorCode(0xc);
    /// The request needs HTTP/1.1.
    pub const HTTP_1_1_REQUIRED: ErrorCode = ErrorCode(0xd);

    /// Returns the name in RFC 9113; empty for a code without one.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 14] = [
            "NO_ERROR",
            "PROTOCOL_ERROR",
            "INTERNAL_ERROR",
            "FLOW_CONTROL_ERROR",
            "SETTINGS_TIMEOUT",
            "STREAM_CLOSED",
            "FRAME_SIZE_ERROR",
            "REFUSED_STREAM",
            "CANCEL",
            "COMPRESSION_ERROR",
            "CONNECT_ERROR",
            "ENHANCE_YOUR_CALM",
            "INADEQUATE_SECURITY",
            "HTTP_1_1_REQUIRED",
        ];
        NAMES.get(self.0 as usize).copied().unwrap_or("")
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            "" => write!(f, "0x{:x}", self.0),
            name => f.write_str(name),
        }
    }
}

/// A limit that the peer exceeded; each ends the connection with ENHANCE_YOUR_CALM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flood {
    /// Frames without content: SETTINGS, PING, PRIORITY, WINDOW_UPDATE, empty DATA, unknown types
    /// ([`Config::control_frames_max`](crate::Config::control_frames_max)).
    ControlFrames,
    /// Streams that were reset, by the peer or because of it ([`Config::resets_max`](crate::Config::resets_max)).
    Resets,
    /// CONTINUATION frames of one header block ([`Config::continuations_max`](crate::Config::continuations_max)).
    Continuations,
    /// Bytes of one header block ([`Config::block_bytes_max`](crate::Config::block_bytes_max)).
    BlockBytes,
    /// Bytes of one header list: entries of the table that are named again and again (HPACK bomb).
    ListBytes,
    /// Replies that the peer does not read ([`Config::replies_max`](crate::Config::replies_max)).
    Replies,
}

/// The reason for the end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The first bytes are not the client's connection preface.
    Preface,
    /// The first frame is not SETTINGS (RFC 9113 section 3.4).
    FirstFrame,
    /// A frame is larger than announced, or has a length that its type does not allow.
    FrameSize,
    /// A frame of a stream was sent on stream 0, or a frame of the connection on a stream.
    StreamZero,
    /// Another frame was sent inside of a header block, or CONTINUATION outside of one (section 6.10).
    Continuation,
    /// PUSH_PROMISE, which is never allowed (section 6.6).
    Push,
    /// A stream identifier of the wrong parity, or below those before it (section 5.1.1).
    StreamId,
    /// A stream depends on itself (RFC 7540 section 5.3.1). The stream alone could end; nginx ends the connection.
    SelfDependency,
    /// A frame on a stream that is idle (section 5.1).
    IdleStream,
    /// A header block on a stream that has ended (section 5.1).
    ClosedStream,
    /// Padding is as long as the frame or longer (section 6.1).
    Padding,
    /// A value that a setting does not allow (section 6.5.2).
    Setting,
    /// A window is larger than 2^31-1 bytes (section 6.9.1).
    WindowOverflow,
    /// A WINDOW_UPDATE of 0 for the connection (section 6.9).
    WindowZero,
    /// More bytes were sent than the connection's window allows, or in one frame than any stream's window does.
    WindowExceeded,
    /// GOAWAY with a larger stream identifier than before, or a frame that the peer's role may not send.
    Role,
    /// A header block cannot be decoded.
    Compression(DecodeError),
    /// A limit is exceeded.
    Flood(Flood),
    /// The owner of the connection ended it with this code.
    Aborted(ErrorCode),
}

impl Fault {
    /// Returns the code that GOAWAY carries.
    pub fn code(self) -> ErrorCode {
        match self {
            Fault::FrameSize => ErrorCode::FRAME_SIZE_ERROR,
            Fault::ClosedStream => ErrorCode::STREAM_CLOSED,
            Fault::WindowOverflow | Fault::WindowExceeded => ErrorCode::FLOW_CONTROL_ERROR,
            Fault::Compression(_) => ErrorCode::COMPRESSION_ERROR,
            Fault::Flood(_) => ErrorCode::ENHANCE_YOUR_CALM,
            Fault::Aborted(code) => code,
            Fault::Preface
            | Fault::FirstFrame
            | Fault::StreamZero
            | Fault::Continuation
            | Fault::Push
            | Fault::StreamId
            | Fault::SelfDependency
            | Fault::IdleStream
            | Fault::Padding
            | Fault::Setting
            | Fault::WindowZero
            | Fault::Role => ErrorCode::PROTOCOL_ERROR,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Fault::Preface => "invalid connection preface",
            Fault::FirstFrame => "the first frame is not SETTINGS",
            Fault::FrameSize => "invalid frame length",
            Fault::StreamZero => "frame on the wrong stream: 0, or not 0",
            Fault::Continuation => "header block interrupted, or CONTINUATION outside of one",
            Fault::Push => "PUSH_PROMISE",
            Fault::StreamId => "invalid stream identifier",
            Fault::SelfDependency => "stream that depends on itself",
            Fault::IdleStream => "frame on an idle stream",
            Fault::ClosedStream => "header block on a closed stream",
            Fault::Padding => "invalid padding",
            Fault::Setting => "invalid value of a setting",
            Fault::WindowOverflow => "flow-control window above 2^31-1 bytes",
            Fault::WindowZero => "WINDOW_UPDATE of 0",
            Fault::WindowExceeded => "more bytes than a window allows",
            Fault::Role => "frame that this peer may not send",
            Fault::Compression(error) => return write!(f, "invalid header block: {error}"),
            Fault::Flood(flood) => return write!(f, "flood: {flood}"),
            Fault::Aborted(code) => return write!(f, "ended with {code}"),
        };
        f.write_str(text)
    }
}

impl fmt::Display for Flood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Flood::ControlFrames => "too many frames without content",
            Flood::Resets => "too many streams were reset",
            Flood::Continuations => "too many CONTINUATION frames",
            Flood::BlockBytes => "header block too large",
            Flood::ListBytes => "header block that becomes too large when decoded",
            Flood::Replies => "too many replies are waiting to be read",
        })
    }
}

/// The end of a connection. GOAWAY with [`ConnectionError::code`] is in the output already: the caller sends it and
/// closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionError(pub Fault);

impl ConnectionError {
    /// Returns the code that GOAWAY carries.
    pub fn code(self) -> ErrorCode {
        self.0.code()
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code(), self.0)
    }
}

impl std::error::Error for ConnectionError {}

/// Why a command of the caller was not carried out. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SendError {
    /// The stream is closed: reset by either side, ended, or unknown. The caller drops the message.
    Closed,
    /// The part of a message cannot be sent now: data before the head, a second head, anything behind the end.
    Order,
    /// Not sendable as it is: a status outside of its range, a method or a target that is empty or has a byte that
    /// a head may not hold.
    Invalid,
    /// The windows do not allow this number of bytes now.
    Window,
    /// The connection has failed, or takes no new streams after GOAWAY.
    GoingAway,
    /// The peer's SETTINGS_MAX_CONCURRENT_STREAMS is reached.
    StreamsMax,
    /// The identifiers of streams are used up; another connection has to be made (RFC 9113 section 5.1.1).
    IdsExhausted,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendError::Closed => "the stream is closed",
            SendError::Order => "the part of the message is out of order",
            SendError::Invalid => "the head has an invalid part",
            SendError::Window => "the flow-control window is too small",
            SendError::GoingAway => "the connection takes no new streams",
            SendError::StreamsMax => "the peer allows no more streams at once",
            SendError::IdsExhausted => "the stream identifiers are used up",
        })
    }
}

impl std::error::Error for SendError {}
