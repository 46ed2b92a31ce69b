//! Error codes of the protocol, and what ends a connection.

use std::fmt;

use crate::qpack::{DecodeError, DecoderStreamError, EncoderStreamError};

/// An error code of CONNECTION_CLOSE, RESET_STREAM and STOP_SENDING (RFC 9114 section 8.1, RFC 9204 section 6). Codes
/// that this crate does not name are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u64);

impl ErrorCode {
    /// A datagram of HTTP that is invalid (RFC 9297 section 5.2).
    pub const DATAGRAM_ERROR: ErrorCode = ErrorCode(0x33);
    /// No error: a graceful end, or a response that needs no more of the request.
    pub const NO_ERROR: ErrorCode = ErrorCode(0x100);
    /// A violation of the protocol for which there is no other code.
    pub const GENERAL_PROTOCOL_ERROR: ErrorCode = ErrorCode(0x101);
    /// The sender failed.
    pub const INTERNAL_ERROR: ErrorCode = ErrorCode(0x102);
    /// A stream that the peer may not begin.
    pub const STREAM_CREATION_ERROR: ErrorCode = ErrorCode(0x103);
    /// A stream that the connection needs was closed.
    pub const CLOSED_CRITICAL_STREAM: ErrorCode = ErrorCode(0x104);
    /// A frame that is not allowed in its state or on its stream.
    pub const FRAME_UNEXPECTED: ErrorCode = ErrorCode(0x105);
    /// A frame whose layout or length is invalid.
    pub const FRAME_ERROR: ErrorCode = ErrorCode(0x106);
    /// The peer causes excessive load.
    pub const EXCESSIVE_LOAD: ErrorCode = ErrorCode(0x107);
    /// An identifier of a stream or a push that is not allowed.
    pub const ID_ERROR: ErrorCode = ErrorCode(0x108);
    /// An error in the payload of SETTINGS.
    pub const SETTINGS_ERROR: ErrorCode = ErrorCode(0x109);
    /// The control stream does not begin with SETTINGS.
    pub const MISSING_SETTINGS: ErrorCode = ErrorCode(0x10a);
    /// The request was not processed; it may be sent again (RFC 9114 section 4.1.1).
    pub const REQUEST_REJECTED: ErrorCode = ErrorCode(0x10b);
    /// The request or its response is no longer needed.
    pub const REQUEST_CANCELLED: ErrorCode = ErrorCode(0x10c);
    /// The client's stream ended without a whole request.
    pub const REQUEST_INCOMPLETE: ErrorCode = ErrorCode(0x10d);
    /// A malformed message.
    pub const MESSAGE_ERROR: ErrorCode = ErrorCode(0x10e);
    /// The connection of a CONNECT request failed.
    pub const CONNECT_ERROR: ErrorCode = ErrorCode(0x10f);
    /// The request needs HTTP/1.1.
    pub const VERSION_FALLBACK: ErrorCode = ErrorCode(0x110);
    /// A field section that cannot be decoded.
    pub const QPACK_DECOMPRESSION_FAILED: ErrorCode = ErrorCode(0x200);
    /// An invalid instruction of the encoder stream.
    pub const QPACK_ENCODER_STREAM_ERROR: ErrorCode = ErrorCode(0x201);
    /// An invalid instruction of the decoder stream.
    pub const QPACK_DECODER_STREAM_ERROR: ErrorCode = ErrorCode(0x202);

    /// Returns the name in the RFC; empty for a code without one.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 17] = [
            "H3_NO_ERROR",
            "H3_GENERAL_PROTOCOL_ERROR",
            "H3_INTERNAL_ERROR",
            "H3_STREAM_CREATION_ERROR",
            "H3_CLOSED_CRITICAL_STREAM",
            "H3_FRAME_UNEXPECTED",
            "H3_FRAME_ERROR",
            "H3_EXCESSIVE_LOAD",
            "H3_ID_ERROR",
            "H3_SETTINGS_ERROR",
            "H3_MISSING_SETTINGS",
            "H3_REQUEST_REJECTED",
            "H3_REQUEST_CANCELLED",
            "H3_REQUEST_INCOMPLETE",
            "H3_MESSAGE_ERROR",
            "H3_CONNECT_ERROR",
            "H3_VERSION_FALLBACK",
        ];
        match self {
            ErrorCode::DATAGRAM_ERROR => "H3_DATAGRAM_ERROR",
            ErrorCode::QPACK_DECOMPRESSION_FAILED => "QPACK_DECOMPRESSION_FAILED",
            ErrorCode::QPACK_ENCODER_STREAM_ERROR => "QPACK_ENCODER_STREAM_ERROR",
            ErrorCode::QPACK_DECODER_STREAM_ERROR => "QPACK_DECODER_STREAM_ERROR",
            ErrorCode(code) => {
                let index = code.checked_sub(ErrorCode::NO_ERROR.0).unwrap_or(u64::MAX);
                let index = usize::try_from(index).unwrap_or(usize::MAX);
                NAMES.get(index).copied().unwrap_or("")
            }
        }
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

/// A limit that the peer exceeded; each ends the connection with H3_EXCESSIVE_LOAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flood {
    /// Frames without content: empty DATA, unknown types, PRIORITY_UPDATE, and unknown streams.
    ControlFrames,
    /// Streams that were reset or refused.
    Resets,
    /// A frame of the control stream that is too large.
    FrameBytes,
    /// Field sections in progress, of all streams.
    SectionBytes,
    /// Unidirectional streams at once.
    Streams,
    /// Instructions of the encoder stream.
    Instructions,
    /// Confirmations that the peer does not read.
    Output,
}

impl fmt::Display for Flood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Flood::ControlFrames => "too many frames without content",
            Flood::Resets => "too many streams were reset",
            Flood::FrameBytes => "control frame too large",
            Flood::SectionBytes => "too many bytes of incomplete field sections",
            Flood::Streams => "too many unidirectional streams",
            Flood::Instructions => "too many instructions of the encoder stream",
            Flood::Output => "too many bytes are waiting to be read",
        })
    }
}

/// The reason for the end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// A second control stream, encoder stream or decoder stream, a push stream, or a stream that only this end may
    /// begin (RFC 9114 section 6.2).
    StreamCreation,
    /// The control stream, the encoder stream or the decoder stream was closed (section 6.2.1).
    ClosedCriticalStream,
    /// A frame that may not be sent on its stream, or not now (section 7.2).
    FrameUnexpected,
    /// A frame whose length does not fit its content, or a stream that ends within a frame (section 7.1).
    Frame,
    /// The first frame of the control stream is not SETTINGS (section 6.2.1).
    MissingSettings,
    /// A value that a setting does not allow, or a setting twice (section 7.2.4).
    Setting,
    /// A push that was not promised, or an identifier that went the wrong way (sections 5.2, 7.2.3, 7.2.7).
    Id,
    /// A field section cannot be decoded.
    Decompression(DecodeError),
    /// The peer's encoder stream is invalid.
    EncoderStream(EncoderStreamError),
    /// The peer's decoder stream is invalid.
    DecoderStream(DecoderStreamError),
    /// A limit is exceeded.
    Flood(Flood),
    /// The owner of the connection ended it with this code.
    Aborted(ErrorCode),
}

impl Fault {
    /// Returns the code that CONNECTION_CLOSE carries.
    pub fn code(self) -> ErrorCode {
        match self {
            Fault::StreamCreation => ErrorCode::STREAM_CREATION_ERROR,
            Fault::ClosedCriticalStream => ErrorCode::CLOSED_CRITICAL_STREAM,
            Fault::FrameUnexpected => ErrorCode::FRAME_UNEXPECTED,
            Fault::Frame => ErrorCode::FRAME_ERROR,
            Fault::MissingSettings => ErrorCode::MISSING_SETTINGS,
            Fault::Setting => ErrorCode::SETTINGS_ERROR,
            Fault::Id => ErrorCode::ID_ERROR,
            Fault::Decompression(_) => ErrorCode::QPACK_DECOMPRESSION_FAILED,
            Fault::EncoderStream(_) => ErrorCode::QPACK_ENCODER_STREAM_ERROR,
            Fault::DecoderStream(_) => ErrorCode::QPACK_DECODER_STREAM_ERROR,
            Fault::Flood(_) => ErrorCode::EXCESSIVE_LOAD,
            Fault::Aborted(code) => code,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::StreamCreation => "stream that the peer may not begin",
            Fault::ClosedCriticalStream => "critical stream closed",
            Fault::FrameUnexpected => "frame out of place",
            Fault::Frame => "invalid frame length",
            Fault::MissingSettings => "the first frame is not SETTINGS",
            Fault::Setting => "invalid value of a setting",
            Fault::Id => "invalid identifier",
            Fault::Decompression(error) => return write!(f, "invalid field section: {error}"),
            Fault::EncoderStream(error) => return write!(f, "invalid encoder stream: {error}"),
            Fault::DecoderStream(error) => return write!(f, "invalid decoder stream: {error}"),
            Fault::Flood(flood) => return write!(f, "flood: {flood}"),
            Fault::Aborted(code) => return write!(f, "ended with {code}"),
        })
    }
}

impl From<EncoderStreamError> for Fault {
    fn from(error: EncoderStreamError) -> Fault {
        match error {
            EncoderStreamError::TooMany => Fault::Flood(Flood::Instructions),
            error => Fault::EncoderStream(error),
        }
    }
}

/// The end of a connection. The caller closes it with [`ConnectionError::code`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionError(pub Fault);

impl ConnectionError {
    /// Returns the code that CONNECTION_CLOSE carries.
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
    /// Not sendable as it is: a status outside of its range, or a body above 2^62-1 bytes.
    Invalid,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendError::Closed => "the stream is closed",
            SendError::Order => "the part of the message is out of order",
            SendError::Invalid => "the head has an invalid part",
        })
    }
}

impl std::error::Error for SendError {}

#[cfg(test)]
mod tests {
    use super::ErrorCode;

    #[test]
    fn codes_have_names() {
        for (code, name) in [
            (ErrorCode::NO_ERROR, "H3_NO_ERROR"),
            (ErrorCode::EXCESSIVE_LOAD, "H3_EXCESSIVE_LOAD"),
            (ErrorCode::VERSION_FALLBACK, "H3_VERSION_FALLBACK"),
            (ErrorCode::DATAGRAM_ERROR, "H3_DATAGRAM_ERROR"),
            (ErrorCode::QPACK_DECODER_STREAM_ERROR, "QPACK_DECODER_STREAM_ERROR"),
            (ErrorCode(0x111), "0x111"),
            (ErrorCode(0), "0x0"),
        ] {
            assert_eq!(code.to_string(), name);
        }
    }
}
