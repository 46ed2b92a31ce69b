//! gRPC-Web: the form of gRPC for browsers, which can neither send `TE` nor read trailers.
//!
//! A body is a sequence of frames as in gRPC: a byte of flags, the length in four bytes, the message. The trailers of
//! a response are a last frame with the flag 0x80. In the form `-text` a body is base64, in pieces that each may end
//! with padding. The definition is `PROTOCOL-WEB.md` of gRPC.
//!
//! ```
//! use tidegate_codec::grpc_web::{ContentType, RequestDecoder};
//!
//! let sent = ContentType::parse(b"application/grpc-web-text+proto").expect("gRPC-Web");
//! assert!(sent.is_text && sent.grpc() == b"application/grpc+proto");
//! let mut decoder = RequestDecoder::new(sent.is_text);
//! let mut body = Vec::new();
//! decoder.decode(b"AAAAAAJo", &mut body).expect("a frame begins");
//! decoder.decode(b"aQ==", &mut body).expect("a frame ends");
//! decoder.finish().expect("complete");
//! assert_eq!(body, b"\0\0\0\0\x02hi");
//! ```

#[cfg(test)]
mod tests;

use std::fmt;

use crate::headers::Headers;

/// The `Content-Type` of a request in gRPC-Web.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentType<'a> {
    /// Whether the body is base64.
    pub is_text: bool,
    /// The format of the messages with parameters: `+proto`, `+json`, or nothing.
    pub format: &'a [u8],
}

const GRPC: &[u8] = b"application/grpc";
const WEB: &[u8] = b"application/grpc-web";
const TEXT: &[u8] = b"application/grpc-web-text";

impl<'a> ContentType<'a> {
    /// Parses a field's value; `None`: it is none of gRPC-Web's.
    pub fn parse(value: &'a [u8]) -> Option<ContentType<'a>> {
        let text = format_of(value, TEXT).map(|format| ContentType { is_text: true, format });
        text.or_else(|| Some(ContentType { is_text: false, format: format_of(value, WEB)? }))
    }

    /// Returns the type of the same request in gRPC.
    pub fn grpc(&self) -> Vec<u8> {
        [GRPC, self.format].concat()
    }
}

/// Returns the `Content-Type` of a response in gRPC-Web for that of one in gRPC; `None`: the response is not gRPC's.
pub fn response_type(value: &[u8], is_text: bool) -> Option<Vec<u8>> {
    let format = format_of(value, GRPC)?;
    Some([if is_text { TEXT } else { WEB }, format].concat())
}

/// Returns whether a response is to be base64: `Accept` decides where it names a form, else the form of the request.
pub fn wants_text(accept: Option<&[u8]>, request: ContentType<'_>) -> bool {
    let ranges = accept.unwrap_or_default().split(|byte| *byte == b',');
    let mut forms = ranges.filter_map(|range| ContentType::parse(range.trim_ascii()));
    forms.next().map_or(request.is_text, |form| form.is_text)
}

/// Returns what follows a media type: a format, parameters, or nothing.
fn format_of<'a>(value: &'a [u8], media_type: &[u8]) -> Option<&'a [u8]> {
    let (start, format) = value.split_at_checked(media_type.len())?;
    let ends = matches!(format.first(), None | Some(b'+' | b';' | b' ' | b'\t'));
    (ends && start.eq_ignore_ascii_case(media_type)).then_some(format)
}

/// The reason why a request's body is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebError {
    /// A byte that is no base64, or padding in the middle of four characters.
    Base64,
    /// A frame with flags that no message has: trailers belong to responses.
    Flags(u8),
    /// The body ends within a frame, or within four characters of base64.
    Incomplete,
}

impl WebError {
    /// Returns the text for the log.
    pub fn message(self) -> &'static str {
        match self {
            WebError::Base64 => "client sent invalid base64 in a gRPC-Web body",
            WebError::Flags(_) => "client sent invalid flags in a gRPC-Web frame",
            WebError::Incomplete => "client sent an incomplete gRPC-Web body",
        }
    }
}

impl fmt::Display for WebError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for WebError {}

/// Decodes a request's body piece by piece. It keeps at most the rest of four characters; the frames are not changed,
/// only checked.
#[derive(Debug, Default)]
pub struct RequestDecoder {
    /// Characters of base64 that have no bytes yet; `None`: the body is binary.
    base64: Option<Quantum>,
    frames: Frames,
}

impl RequestDecoder {
    /// Makes a decoder for the binary form or that of base64.
    pub fn new(is_text: bool) -> RequestDecoder {
        RequestDecoder { base64: is_text.then(Quantum::default), frames: Frames::Start }
    }

    /// Appends the bytes of a piece to `out`. On an error the bytes up to it were appended.
    ///
    /// # Errors
    /// The body is not gRPC-Web.
    pub fn decode(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), WebError> {
        let start = out.len();
        let decoded = match &mut self.base64 {
            None => {
                out.extend_from_slice(piece);
                Ok(())
            }
            Some(quantum) => quantum.decode(piece, out),
        };
        self.frames.check(out.get(start..).unwrap_or_default())?;
        decoded
    }

    /// Checks a piece of the binary form, which is not changed.
    ///
    /// # Errors
    /// The body is not gRPC-Web.
    pub fn check(&mut self, piece: &[u8]) -> Result<(), WebError> {
        self.frames.check(piece)
    }

    /// Ends the body.
    ///
    /// # Errors
    /// It is incomplete.
    pub fn finish(&self) -> Result<(), WebError> {
        let at_end = self.base64.as_ref().is_none_or(|quantum| quantum.characters == 0);
        match at_end && matches!(self.frames, Frames::Start) {
            true => Ok(()),
            false => Err(WebError::Incomplete),
        }
    }
}

/// Up to four characters of base64 (RFC 4648 section 4).
#[derive(Debug, Default)]
struct Quantum {
    /// The bits of the characters, the last one lowest.
    bits: u32,
    characters: u8,
    padding: u8,
}

impl Quantum {
    /// Decodes characters. Padding ends a piece, behind which another may begin.
    fn decode(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), WebError> {
        for byte in piece {
            let value = match byte {
                b'=' if self.characters >= 2 => {
                    self.padding += 1;
                    0
                }
                _ if self.padding > 0 => return Err(WebError::Base64),
                byte => value_of(*byte).ok_or(WebError::Base64)?,
            };
            self.bits = self.bits << 6 | u32::from(value);
            self.characters += 1;
            if self.characters == 4 {
                let [_, bytes @ ..] = self.bits.to_be_bytes();
                let count = bytes.len() - usize::from(self.padding);
                out.extend_from_slice(bytes.get(..count).unwrap_or_default());
                *self = Quantum::default();
            }
        }
        Ok(())
    }
}

fn value_of(character: u8) -> Option<u8> {
    Some(match character {
        b'A'..=b'Z' => character - b'A',
        b'a'..=b'z' => character - b'a' + 26,
        b'0'..=b'9' => character - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

/// A position among frames.
#[derive(Debug, Default)]
enum Frames {
    /// In front of a frame.
    #[default]
    Start,
    /// Within the length: the bytes that have arrived, and the number that they make.
    Length { bytes: u8, length: u32 },
    /// Within a message.
    Message { left: u32 },
}

/// Bits of a frame's first byte: the message is compressed, and the frame holds trailers.
const COMPRESSED: u8 = 0x01;
const TRAILERS: u8 = 0x80;

/// Bytes of the length in front of a message.
const LENGTH_BYTES: u8 = 4;

impl Frames {
    /// Checks further bytes.
    fn check(&mut self, mut bytes: &[u8]) -> Result<(), WebError> {
        while let [first, rest @ ..] = bytes {
            (*self, bytes) = match *self {
                Frames::Start if first & !COMPRESSED != 0 => {
                    return Err(WebError::Flags(*first));
                }
                Frames::Start => (Frames::Length { bytes: 0, length: 0 }, rest),
                Frames::Length { bytes, length } => {
                    let length = length << 8 | u32::from(*first);
                    let next = match (bytes + 1 == LENGTH_BYTES, length) {
                        (false, _) => Frames::Length { bytes: bytes + 1, length },
                        (true, 0) => Frames::Start,
                        (true, left) => Frames::Message { left },
                    };
                    (next, rest)
                }
                Frames::Message { left } => {
                    let taken = bytes.len().min(left as usize);
                    // cannot fail: at most `left`, which is a u32
                    let left = left - u32::try_from(taken).unwrap_or(left);
                    let next = match left {
                        0 => Frames::Start,
                        left => Frames::Message { left },
                    };
                    (next, bytes.get(taken..).unwrap_or_default())
                }
            };
        }
        Ok(())
    }
}

/// Appends a piece of a response as base64, padded, so that the client can decode it at once.
pub fn write_base64(piece: &[u8], out: &mut Vec<u8>) {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    out.reserve(piece.len().div_ceil(3) * 4);
    for group in piece.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let index = bits >> (18 - 6 * at) & 63;
            out.push(if at as usize > group.len() { b'=' } else { ALPHABET[index as usize] });
        }
    }
}

/// Appends the frame of a response's trailers: lines of HTTP/1 with names in lower case.
pub fn write_trailers(trailers: &Headers, out: &mut Vec<u8>) {
    out.push(TRAILERS);
    let length_at = out.len();
    out.extend_from_slice(&[0; LENGTH_BYTES as usize]);
    let start = out.len();
    for (_, name, value) in trailers.iter() {
        out.extend(name.iter().map(u8::to_ascii_lowercase));
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
    // cannot fail: trailers are limited to kilobytes
    let length = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(length_at..start) {
        place.copy_from_slice(&length.to_be_bytes());
    }
}
