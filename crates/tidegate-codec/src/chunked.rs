//! The chunked coding (RFC 9112 section 7.1): a strict incremental decoder, and an encoder.

#[cfg(test)]
mod tests;

use std::fmt;

use crate::headers::Headers;
use crate::lines::{FieldRules, Line, read_field};
use crate::uri::hex_digit;
use std::ops::Range;

/// The most bytes of the extensions of a chunk. They are ignored, so there is no need for long ones.
const EXTENSION_BYTES_MAX: usize = 1024;
/// The most bytes of the extensions of a body, against bodies that are mostly extensions.
const EXTENSION_BYTES_TOTAL: usize = 64 * 1024;
/// The most digits of a size: sixteen hexadecimal digits hold any 64-bit length.
const SIZE_DIGITS_MAX: u8 = 16;

/// The reason why a chunked body is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkError {
    /// There is no hexadecimal size, or one beyond 63 bits.
    Size,
    /// An extension contains control characters, or is too long.
    Extension,
    /// A line or a chunk does not end with CRLF.
    LineEnd,
    /// A trailer line is no field.
    Trailer,
    /// The trailer section is larger than the limit.
    TrailerTooLarge,
}

impl fmt::Display for ChunkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ChunkError::Size => "invalid size of a chunk",
            ChunkError::Extension => "invalid or too long extension of a chunk",
            ChunkError::LineEnd => "no line end where a chunk's line or data ends",
            ChunkError::Trailer => "invalid trailer field",
            ChunkError::TrailerTooLarge => "too large trailer section",
        })
    }
}

impl std::error::Error for ChunkError {}

/// The result of one call of `decode`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The number of input bytes that were processed.
    pub consumed: usize,
    /// The range of the body bytes among them; empty when there are none yet.
    pub data: Range<usize>,
    /// Whether the body is complete; the rest of the input belongs to the next message.
    pub done: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    Trailer,
    Done,
}

/// A decoder of a chunked body, piece by piece. It keeps no data but the trailer section.
#[derive(Clone, Debug)]
pub struct ChunkedDecoder {
    state: State,
    /// The size that is being read, then the bytes of the chunk that are left.
    size: u64,
    digits: u8,
    extension: usize,
    extension_total: usize,
    trailer: Vec<u8>,
    trailer_bytes_max: usize,
    /// The offset in `trailer` of the current line.
    trailer_line: usize,
    /// An error behind data that was returned before.
    failed: Option<ChunkError>,
}

impl ChunkedDecoder {
    /// Makes a decoder. `trailer_bytes_max` bounds the trailer section in bytes, its last empty line
    /// included.
    pub fn new(trailer_bytes_max: usize) -> ChunkedDecoder {
        ChunkedDecoder {
            state: State::Size,
            size: 0,
            digits: 0,
            extension: 0,
            extension_total: 0,
            trailer: Vec::new(),
            trailer_bytes_max,
            trailer_line: 0,
            failed: None,
        }
    }

    /// Returns whether the body is complete.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Returns whether an error was found behind data that was returned: the next call returns it.
    pub fn is_broken(&self) -> bool {
        self.failed.is_some()
    }

    /// Decodes until there is data, the end of the body or the end of `input`. The next call takes the bytes
    /// behind `consumed`.
    pub fn decode(&mut self, input: &[u8]) -> Result<Decoded, ChunkError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let mut at = 0;
        while let Some(byte) = input.get(at) {
            match self.state {
                State::Data => {
                    let left = usize::try_from(self.size).unwrap_or(usize::MAX);
                    let take = left.min(input.len() - at);
                    self.size -= take as u64;
                    if self.size == 0 {
                        self.state = State::DataCr;
                    }
                    return Ok(Decoded { consumed: at + take, data: at..at + take, done: false });
                }
                State::Done => break,
                State::Trailer => self.trailer_byte(*byte)?,
                _ => self.line_byte(*byte)?,
            }
            at += 1;
        }
        Ok(Decoded { consumed: at, data: at..at, done: self.is_done() })
    }

    /// Decodes all of `buffer` in place: its first bytes are then the data of the body, and their number is
    /// returned. Bytes behind the end of the body follow them. Many small chunks cost no more than a large
    /// one. An error behind data is returned by the next call.
    pub fn gather(&mut self, buffer: &mut Vec<u8>) -> Result<usize, ChunkError> {
        let (mut read, mut length) = (0, 0);
        while self.failed.is_none() && read < buffer.len() && !self.is_done() {
            match self.decode(&buffer[read..]) {
                Ok(Decoded { consumed, data, .. }) => {
                    buffer.copy_within(read + data.start..read + data.end, length);
                    length += data.len();
                    read += consumed;
                }
                Err(error) => {
                    self.failed = Some(error);
                    read = buffer.len();
                }
            }
        }
        drop(buffer.drain(length..read));
        match self.failed {
            Some(error) if length == 0 => Err(error),
            _ => Ok(length),
        }
    }

    /// Appends the trailer fields of a complete body to `headers`. The caller decides which of them count
    /// (RFC 9110 section 6.5.1).
    pub fn trailers(&self, headers: &mut Headers) {
        let mut at = 0;
        while let Line::Field(field, next) = read_field(&self.trailer, at, TRAILER_RULES) {
            let name =
                field.name_start as usize..field.name_start as usize + field.name_len as usize;
            let value_start = field.value_start as usize;
            let value = value_start..value_start + field.value_len as usize;
            headers.push(&self.trailer[name], &self.trailer[value]);
            at = next;
        }
    }

    /// Decodes one byte that is neither data nor trailer (RFC 9112 section 7.1).
    ///
    /// `Size` → (`Extension`) → `SizeLf` → `Data`, or `Trailer` behind size 0; behind the data `DataCr` →
    /// `DataLf` → `Size`. Each line must end with CR LF: a bare LF is refused, as another reader may see
    /// another end (request smuggling). A size has at most 63 bits and sixteen digits, leading zeros
    /// included. Extensions are bounded per chunk and per body.
    fn line_byte(&mut self, byte: u8) -> Result<(), ChunkError> {
        match (self.state, byte) {
            (State::Size, b'\r') if self.digits > 0 => self.state = State::SizeLf,
            (State::Size, b';' | b' ' | b'\t') if self.digits > 0 => {
                self.state = State::Extension;
                self.extension = 0;
            }
            // A bare LF: another reader may see another end of the line.
            (State::Size, b'\n') if self.digits > 0 => return Err(ChunkError::LineEnd),
            (State::Size, _) => {
                let digit = hex_digit(byte).ok_or(ChunkError::Size)?;
                self.digits += 1;
                let larger = self.size.checked_mul(16).map(|size| size | u64::from(digit));
                self.size =
                    larger.filter(|size| *size <= i64::MAX as u64).ok_or(ChunkError::Size)?;
                // Leading zeros count, so that no size is endless.
                if self.digits > SIZE_DIGITS_MAX {
                    return Err(ChunkError::Size);
                }
            }
            (State::Extension, b'\r') => self.state = State::SizeLf,
            (State::Extension, b'\n') => return Err(ChunkError::LineEnd),
            (State::Extension, _) => {
                self.extension += 1;
                self.extension_total += 1;
                let too_long = self.extension > EXTENSION_BYTES_MAX
                    || self.extension_total > EXTENSION_BYTES_TOTAL;
                if too_long || (byte < b' ' && byte != b'\t') || byte == 0x7f {
                    return Err(ChunkError::Extension);
                }
            }
            (State::SizeLf, b'\n') => {
                self.state = if self.size == 0 { State::Trailer } else { State::Data };
            }
            (State::DataCr, b'\r') => self.state = State::DataLf,
            (State::DataLf, b'\n') => {
                self.state = State::Size;
                self.size = 0;
                self.digits = 0;
            }
            _ => return Err(ChunkError::LineEnd),
        }
        Ok(())
    }

    fn trailer_byte(&mut self, byte: u8) -> Result<(), ChunkError> {
        if self.trailer.len() >= self.trailer_bytes_max {
            return Err(ChunkError::TrailerTooLarge);
        }
        self.trailer.push(byte);
        if byte != b'\n' {
            return Ok(());
        }
        if !self.trailer.ends_with(b"\r\n") {
            return Err(ChunkError::LineEnd);
        }
        match read_field(&self.trailer, self.trailer_line, TRAILER_RULES) {
            Line::Field(_, next) => self.trailer_line = next,
            Line::End(_) => self.state = State::Done,
            _ => return Err(ChunkError::Trailer),
        }
        Ok(())
    }
}

const TRAILER_RULES: FieldRules =
    FieldRules { ignore_odd_names: false, underscores: true, controls: false };

/// The line before a chunk's data. It has a buffer of its own, so that it can be one part of a vectored
/// write.
#[derive(Clone, Copy, Debug)]
pub struct ChunkHeader {
    bytes: [u8; 18],
    start: u8,
}

impl ChunkHeader {
    /// Makes the line for a chunk of this number of bytes. Size 0 would end the body: `LAST_CHUNK` is for
    /// that.
    pub fn new(size: u64) -> ChunkHeader {
        let mut bytes = *b"0000000000000000\r\n";
        let mut start = 16;
        let mut left = size;
        loop {
            start -= 1;
            bytes[start] = b"0123456789abcdef"[(left & 15) as usize];
            left >>= 4;
            if left == 0 {
                break;
            }
        }
        ChunkHeader { bytes, start: start as u8 }
    }

    /// Returns the size in hexadecimal and CRLF.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[usize::from(self.start)..]
    }
}

/// The bytes behind a chunk's data.
pub const CHUNK_END: &[u8] = b"\r\n";
/// The end of a body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Appends the last chunk and the trailer section.
pub fn write_last_chunk(trailers: &Headers, out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n");
    trailers.write_to(out);
    out.extend_from_slice(b"\r\n");
}
