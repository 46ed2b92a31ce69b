//! The chunked coding (RFC 9112 section 7.1): a strict incremental decoder, and an encoder.

#[cfg(test)]
mod tests;

use std::fmt;

use crate::headers::Headers;
use crate::lines::{FieldRules, Line, read_field};
use crate::uri::hex_digit;
use std::ops::Range;

/// Extensions are ignored, so nobody needs long ones; per chunk.
const EXTENSION_BYTES_MAX: usize = 1024;
/// And per body, against bodies that are mostly extensions.
const EXTENSION_BYTES_TOTAL: usize = 64 * 1024;
/// Sixteen hexadecimal digits hold any 64-bit length.
const SIZE_DIGITS_MAX: u8 = 16;

/// Why a chunked body is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkError {
    /// No hexadecimal size, or one beyond 63 bits.
    Size,
    /// An extension with controls, or too long.
    Extension,
    /// A line or a chunk that does not end with CRLF.
    LineEnd,
    /// A trailer line that is no field.
    Trailer,
    /// More trailer than the limit.
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

/// What one call of `decode` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// So many input bytes are done with.
    pub consumed: usize,
    /// The body bytes among them; empty when there are none yet.
    pub data: Range<usize>,
    /// The body is whole; the rest of the input belongs to the next message.
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

/// Decodes a chunked body piece by piece. Holds no data but the trailer.
#[derive(Clone, Debug)]
pub struct ChunkedDecoder {
    state: State,
    /// Of the size being read, then of the chunk's data left.
    size: u64,
    digits: u8,
    extension: usize,
    extension_total: usize,
    trailer: Vec<u8>,
    trailer_bytes_max: usize,
    /// Where in `trailer` the current line begins.
    trailer_line: usize,
    /// Found behind data that was given out before.
    failed: Option<ChunkError>,
}

impl ChunkedDecoder {
    /// `trailer_bytes_max` bounds the trailer section, its last empty line included.
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

    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Something was broken behind data that was given out: the next call says what.
    pub fn is_broken(&self) -> bool {
        self.failed.is_some()
    }

    /// Reads on until there is data, the end of the body or the end of `input`. Call again with
    /// what is behind `consumed`.
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

    /// Decodes all of `buffer` in place: its first bytes are then the body's data, as many as is answered, and behind
    /// them stands what follows a whole body. Many small chunks cost no more than a large one. What is broken behind
    /// data is told by the next call.
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

    /// The trailer fields of a whole body, appended to `headers`. Which of them mean something
    /// is the caller's to decide (RFC 9110 section 6.5.1).
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

    /// One byte that is neither data nor trailer (RFC 9112 section 7.1).
    ///
    /// `Size` → (`Extension`) → `SizeLf` → `Data`, or `Trailer` behind size 0; behind the data `DataCr` → `DataLf` →
    /// `Size`. Each line must end with CR LF: a bare LF is refused, as another reader may see another end (request
    /// smuggling). A size has at most 63 bits and sixteen digits, zeros in front included; extensions are bounded per
    /// chunk and per body.
    fn line_byte(&mut self, byte: u8) -> Result<(), ChunkError> {
        match (self.state, byte) {
            (State::Size, b'\r') if self.digits > 0 => self.state = State::SizeLf,
            (State::Size, b';' | b' ' | b'\t') if self.digits > 0 => {
                self.state = State::Extension;
                self.extension = 0;
            }
            (State::Size, b'\n') if self.digits > 0 => return Err(ChunkError::LineEnd),
            (State::Size, _) => {
                let digit = hex_digit(byte).ok_or(ChunkError::Size)?;
                self.digits += 1;
                let larger = self.size.checked_mul(16).map(|size| size | u64::from(digit));
                self.size =
                    larger.filter(|size| *size <= i64::MAX as u64).ok_or(ChunkError::Size)?;
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

/// The line before a chunk's data, in a buffer of its own so that it can be one part of a vectored
/// write.
#[derive(Clone, Copy, Debug)]
pub struct ChunkHeader {
    bytes: [u8; 18],
    start: u8,
}

impl ChunkHeader {
    /// For a chunk of this many bytes. Size 0 would end the body: use `LAST_CHUNK` for that.
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

    /// Size in hexadecimal and CRLF.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[usize::from(self.start)..]
    }
}

/// What follows a chunk's data.
pub const CHUNK_END: &[u8] = b"\r\n";
/// Ends a body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Appends the last chunk and the trailer section.
pub fn write_last_chunk(trailers: &Headers, out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n");
    trailers.write_to(out);
    out.extend_from_slice(b"\r\n");
}
