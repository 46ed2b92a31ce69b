//! The framing of a body: how its end is known, and the bytes that belong to it.

use bytes::{Buf, Bytes};
use tidegate_codec::Headers;
use tidegate_codec::chunked::ChunkedDecoder;
use tidegate_codec::fastcgi::{Decoder, RecordError};
use tidegate_codec::memcached;
use tidegate_codec::response::ResponseFraming;
use tidegate_rt::share;

use super::scratch;

/// How the end of a body is known.
pub(crate) enum Framing {
    Length(u64),
    Chunked(Box<ChunkedDecoder>),
    UntilClose,
    Records(Box<Records>),
    Value(Value),
    Frames(Frames),
}

/// The next part of the input.
pub(crate) enum Piece {
    Data(Bytes),
    /// The body is complete. `true`: no foreign bytes followed it.
    End(bool),
    /// More has to be received.
    More,
    /// The body ends before its end; the text is for the log.
    Broken(&'static str),
    /// Ignored bytes behind the body: to be logged, then polled again.
    Excess,
}

impl Framing {
    /// Takes a piece out of the received bytes.
    pub(crate) fn take(&mut self, input: &mut Bytes, trailers: &mut Option<Headers>) -> Piece {
        match self {
            Framing::Length(0) => Piece::End(input.is_empty()),
            Framing::Length(_) | Framing::UntilClose if input.is_empty() => Piece::More,
            Framing::Length(left) => Piece::Data(split(input, left)),
            Framing::UntilClose => Piece::Data(std::mem::take(input)),
            Framing::Chunked(decoder) => chunk(decoder, input, trailers),
            Framing::Records(records) => records.take(input),
            Framing::Value(value) => value.take(input),
            Framing::Frames(frames) => frames.take(input),
        }
    }

    /// Returns the number of missing bytes, if known.
    pub(crate) fn length_left(&self) -> Option<u64> {
        match self {
            Framing::Length(left) | Framing::Value(Value { left, .. }) => Some(*left),
            Framing::Records(records) => records.left,
            Framing::Frames(frames) => frames.left,
            Framing::Chunked(_) | Framing::UntilClose => None,
        }
    }

    /// Returns whether the body is complete with this piece, so that its connection is free already.
    pub(crate) fn is_over(&self, input: &Bytes) -> bool {
        match self {
            Framing::Length(left) => *left == 0,
            Framing::Records(records) => records.is_over() && input.is_empty(),
            Framing::Frames(frames) => frames.ended && input.is_empty(),
            _ => false,
        }
    }

    /// Handles a closed connection: the body is complete, or broken for this reason.
    pub(crate) fn closed(&self) -> Result<(), &'static str> {
        match self {
            Framing::UntilClose => Ok(()),
            Framing::Records(records) if records.needs_nothing() => Ok(()),
            Framing::Records(_) => Err("upstream prematurely closed FastCGI request"),
            Framing::Value(value) if value.left == 0 => Ok(()),
            _ => Err("upstream prematurely closed connection"),
        }
    }
}

/// Takes up to `left` bytes of the input.
fn split(input: &mut Bytes, left: &mut u64) -> Bytes {
    let count = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
    *left -= count as u64;
    input.split_to(count)
}

fn chunk(decoder: &mut ChunkedDecoder, input: &mut Bytes, trailers: &mut Option<Headers>) -> Piece {
    loop {
        if decoder.is_done() {
            let mut fields = Headers::new();
            decoder.trailers(&mut fields);
            *trailers = (!fields.is_empty()).then_some(fields);
            return Piece::End(input.is_empty());
        }
        if input.is_empty() && !decoder.is_broken() {
            return Piece::More;
        }
        let Ok(decoded) = decoder.decode(input) else {
            return Piece::Broken("upstream sent invalid chunked response");
        };
        let data = input.slice(decoded.data);
        input.advance(decoded.consumed);
        if data.is_empty() {
            continue;
        }
        return match data.len() < GATHERED_BELOW && !input.is_empty() {
            true => gather(decoder, input, data),
            false => Piece::Data(data),
        };
    }
}

/// Smaller chunks are gathered with those behind them: each piece costs as much as some hundred bytes, and holds the
/// buffer that it was received in.
const GATHERED_BELOW: usize = 1024;

/// Takes a small chunk, and those behind it that have arrived.
fn gather(decoder: &mut ChunkedDecoder, input: &mut Bytes, first: Bytes) -> Piece {
    let mut behind = scratch::buffer();
    behind.extend_from_slice(input);
    // An error is reported behind the data.
    let count = decoder.gather(&mut behind).unwrap_or(0);
    share::is_over();
    input.advance(input.len() - (behind.len() - count));
    let data = match count {
        0 => first,
        _ => Bytes::from([&first, &behind[..count]].concat()),
    };
    scratch::give_buffer(behind);
    Piece::Data(data)
}

/// FastCGI's records; the input holds only their output.
pub(crate) struct Records {
    pub decoder: Box<Decoder>,
    /// Missing bytes of a `Content-Length`.
    left: Option<u64>,
    excess: bool,
}

impl Records {
    pub(crate) fn new(decoder: Box<Decoder>, framing: ResponseFraming) -> Records {
        let left = match framing {
            ResponseFraming::None => Some(0),
            ResponseFraming::Length(length) => Some(length),
            ResponseFraming::Chunked | ResponseFraming::UntilClose => None,
        };
        Records { decoder, left, excess: false }
    }

    /// Takes the records in `buffer` apart, in place; returns where the output begins.
    pub(crate) fn decode(&mut self, buffer: &mut Vec<u8>) -> Result<usize, RecordError> {
        self.decoder.decode(buffer, 0)
    }

    fn take(&mut self, input: &mut Bytes) -> Piece {
        match &mut self.left {
            _ if input.is_empty() => {}
            None => return Piece::Data(std::mem::take(input)),
            Some(0) => {
                input.clear();
                let reported = std::mem::replace(&mut self.excess, true);
                return if reported { self.take(input) } else { Piece::Excess };
            }
            Some(left) => return Piece::Data(split(input, left)),
        }
        match (self.decoder.is_ended(), self.left) {
            (false, _) => Piece::More,
            (true, Some(1..)) => Piece::Broken("upstream prematurely closed FastCGI stdout"),
            (true, _) => Piece::End(self.decoder.is_clean()),
        }
    }

    fn is_over(&self) -> bool {
        self.decoder.is_clean() && !matches!(self.left, Some(1..))
    }

    /// Returns whether no byte of the body is missing, though the application has not ended the request.
    fn needs_nothing(&self) -> bool {
        self.left == Some(0) || (self.left.is_none() && self.decoder.is_output_closed())
    }
}

/// The body of a stream of HTTP/2, whose frames are taken apart elsewhere.
pub(crate) struct Frames {
    /// Missing bytes of a `Content-Length`, which the protocol's layer compares.
    pub left: Option<u64>,
    /// What is in the input is the last of it.
    pub ended: bool,
}

impl Frames {
    fn take(&mut self, input: &mut Bytes) -> Piece {
        if input.is_empty() {
            return if self.ended { Piece::End(true) } else { Piece::More };
        }
        let length = input.len() as u64;
        self.left = self.left.map(|left| left.saturating_sub(length));
        Piece::Data(std::mem::take(input))
    }
}

/// A value of memcached: its bytes, then a line end and `END`.
pub(crate) struct Value {
    left: u64,
    /// Received bytes of the trailer.
    trailer: usize,
}

impl Value {
    pub(crate) fn new(length: u64) -> Value {
        Value { left: length, trailer: 0 }
    }

    fn take(&mut self, input: &mut Bytes) -> Piece {
        if self.left > 0 {
            return match input.is_empty() {
                true => Piece::More,
                false => Piece::Data(split(input, &mut self.left)),
            };
        }
        let wanted = memcached::TRAILER.get(self.trailer..).unwrap_or_default();
        let count = wanted.len().min(input.len());
        let fits = input[..count] == wanted[..count];
        input.advance(count);
        self.trailer += count;
        match (fits, count == wanted.len()) {
            (true, true) => Piece::End(input.is_empty()),
            (true, false) => Piece::More,
            // The connection is given up: bytes behind the value are no response.
            (false, _) => Piece::End(false),
        }
    }
}
