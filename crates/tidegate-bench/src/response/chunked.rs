//! An incremental decoder of the chunked transfer coding (RFC 9112 section 7.1).

use super::{HEAD_BYTES_MAX, ResponseError};

/// Incremental decoder of one body.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chunked {
    state: State,
    /// The size of the chunk in progress as read so far, then its remaining bytes.
    left: u64,
    digits: u32,
    /// Bytes of extensions and trailers, which are skipped.
    skipped: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Size,
    Extension,
    SizeEnd,
    Data,
    DataEnd,
    DataEndLine,
    TrailerStart,
    Trailer,
    TrailerEnd,
    LastEnd,
    Done,
}

impl Chunked {
    /// Takes the bytes of one read; `data` gets the decoded ones in order.
    ///
    /// # Errors
    /// Invalid framing, and bytes past its end.
    pub(super) fn feed(
        &mut self,
        mut bytes: &[u8],
        data: &mut impl FnMut(&[u8]),
    ) -> Result<(), ResponseError> {
        while let Some(&byte) = bytes.first() {
            if self.state == State::Data {
                let count = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
                data(&bytes[..count]);
                bytes = &bytes[count..];
                self.left -= count as u64;
                if self.left == 0 {
                    self.state = State::DataEnd;
                }
                continue;
            }
            self.state = self.step(byte)?;
            bytes = &bytes[1..];
        }
        Ok(())
    }

    /// Whether the last chunk and the trailers were read to their end.
    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// The state after one byte of framing.
    fn step(&mut self, byte: u8) -> Result<State, ResponseError> {
        let next = match (self.state, byte) {
            (State::Size, b'\r') if self.digits > 0 => State::SizeEnd,
            (State::Size, b';' | b' ' | b'\t') if self.digits > 0 => State::Extension,
            (State::Size, digit) => self.size_digit(digit)?,
            (State::Extension, b'\r') => State::SizeEnd,
            (State::Extension, _) => self.skip(State::Extension)?,
            (State::SizeEnd, b'\n') if self.left == 0 => State::TrailerStart,
            (State::SizeEnd, b'\n') => State::Data,
            (State::DataEnd, b'\r') => State::DataEndLine,
            (State::DataEndLine, b'\n') => {
                self.digits = 0;
                State::Size
            }
            (State::TrailerStart, b'\r') => State::LastEnd,
            (State::TrailerStart | State::Trailer, b'\n') => {
                return Err(ResponseError::ChunkMalformed);
            }
            (State::Trailer, b'\r') => State::TrailerEnd,
            (State::TrailerStart | State::Trailer, _) => self.skip(State::Trailer)?,
            (State::TrailerEnd, b'\n') => State::TrailerStart,
            (State::LastEnd, b'\n') => State::Done,
            (State::Done, _) => return Err(ResponseError::BytesAfterEnd),
            _ => return Err(ResponseError::ChunkMalformed),
        };
        Ok(next)
    }

    fn size_digit(&mut self, byte: u8) -> Result<State, ResponseError> {
        let digit = char::from(byte).to_digit(16).ok_or(ResponseError::ChunkMalformed)?;
        self.digits += 1;
        if self.digits > SIZE_DIGITS_MAX {
            return Err(ResponseError::ChunkMalformed);
        }
        self.left = self.left * 16 + u64::from(digit);
        Ok(State::Size)
    }

    fn skip(&mut self, state: State) -> Result<State, ResponseError> {
        self.skipped += 1;
        if self.skipped > HEAD_BYTES_MAX { Err(ResponseError::HeadTooLong) } else { Ok(state) }
    }
}

/// This number of hexadecimal digits fits into 64 bits.
const SIZE_DIGITS_MAX: u32 = 15;
