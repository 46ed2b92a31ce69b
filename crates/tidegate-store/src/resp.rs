//! The protocol of the engine: commands out, replies in. There is no I/O here.
//!
//! Replies are those of RESP3, of which RESP2 is a part (<https://redis.io/docs/latest/develop/reference/protocol-spec/>).
//! Both forms of a reply become the same [`Value`]: a map is a list of keys and values, a number with a fraction is its
//! text, and attributes are left out.
//!
//! ```
//! use tidegate_store::resp::{Decoder, Value};
//! let mut decoder = Decoder::default();
//! decoder.buffer().extend_from_slice(b"*2\r\n$2\r\nhi\r\n:7\r\n");
//! let expected = Value::List(vec![Value::Text(b"hi".to_vec()), Value::Integer(7)]);
//! assert_eq!(decoder.next_reply(), Ok(Some(expected)));
//! ```

use std::{error, fmt};

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Nothing, in any of its forms.
    Null,
    /// A number, or a flag as 0 or 1.
    Integer(i64),
    /// A text of any form.
    Text(Vec<u8>),
    /// The engine has refused the command; begins with a code, such as `OOM`.
    Error(Vec<u8>),
    /// A list or a set, or the keys and values of a map.
    List(Vec<Value>),
    /// A message that belongs to no command.
    Push(Vec<Value>),
}

/// The bytes are no reply, or one above a limit. Nothing behind it can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes are not of the protocol.
    Syntax,
    /// A text, a list or the whole reply is larger than a limit.
    TooLarge,
    /// Lists in lists, deeper than [`DEPTH_MAX`].
    TooDeep,
}

/// Splits bytes into replies. A reply is complete or absent.
///
/// Invariant: what was read of an incomplete reply is in `open`, and `buffer` begins, at `at`, with its next part; so
/// each byte is read once, but for the line that announces a text that has not arrived as a whole.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    at: usize,
    open: Vec<Frame>,
    /// What the incomplete reply has taken so far, in bytes.
    taken: usize,
}

/// Bytes of the largest text.
pub const TEXT_BYTES_MAX: usize = 16 << 20;
/// Bytes of the largest reply, with `VALUE_BYTES` for each of its values.
pub const REPLY_BYTES_MAX: usize = 32 << 20;
/// The deepest list in lists: replies of the commands in use have four levels.
pub const DEPTH_MAX: usize = 8;
/// Bytes of the longest line: a number, an error or a status.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Memory of a value beside its text.
const VALUE_BYTES: usize = size_of::<Value>();
/// Values for which room is made before they arrive.
const VALUES_EXPECTED_MAX: usize = 64;

/// A list whose end has not arrived.
#[derive(Debug)]
struct Frame {
    kind: FrameKind,
    missing: usize,
    values: Vec<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameKind {
    List,
    Push,
    /// Properties of the next value, which are not used.
    Attribute,
}

/// The next part of a reply.
enum Part {
    Whole(Value),
    Open(FrameKind, usize),
}

/// Appends the beginning of a command: the number of its words, its name included.
pub fn write_count(out: &mut Vec<u8>, words: usize) {
    out.push(b'*');
    write_number(out, words);
}

/// Appends a word of a command.
pub fn write_word(out: &mut Vec<u8>, word: &[u8]) {
    out.push(b'$');
    write_number(out, word.len());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

fn write_number(out: &mut Vec<u8>, number: usize) {
    out.extend_from_slice(number.to_string().as_bytes());
    out.extend_from_slice(b"\r\n");
}

impl Decoder {
    /// Returns the buffer: what arrives is appended to it.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Returns the next reply; `None` until it is complete.
    ///
    /// # Errors
    /// The bytes are no reply, or one above a limit. The decoder is of no use then.
    pub fn next_reply(&mut self) -> Result<Option<Value>, DecodeError> {
        loop {
            let Some((part, end)) = part(&self.buffer[self.at..])? else {
                self.compact();
                return Ok(None);
            };
            self.at += end;
            self.taken = self.taken.saturating_add(end).saturating_add(VALUE_BYTES);
            if self.taken > REPLY_BYTES_MAX {
                return Err(DecodeError::TooLarge);
            }
            let value = match part {
                Part::Whole(value) => value,
                Part::Open(kind, count) => match self.begin(kind, count)? {
                    Some(value) => value,
                    None => continue,
                },
            };
            if let Some(reply) = self.add(value) {
                self.taken = 0;
                self.compact();
                return Ok(Some(reply));
            }
        }
    }

    /// Begins a list; returns it if it is empty.
    fn begin(&mut self, kind: FrameKind, count: usize) -> Result<Option<Value>, DecodeError> {
        if self.open.len() >= DEPTH_MAX {
            return Err(DecodeError::TooDeep);
        }
        if count.saturating_mul(VALUE_BYTES) > REPLY_BYTES_MAX {
            return Err(DecodeError::TooLarge);
        }
        if count == 0 {
            return Ok(match kind {
                FrameKind::List => Some(Value::List(Vec::new())),
                FrameKind::Push => Some(Value::Push(Vec::new())),
                FrameKind::Attribute => None,
            });
        }
        let values = Vec::with_capacity(count.min(VALUES_EXPECTED_MAX));
        self.open.push(Frame { kind, missing: count, values });
        Ok(None)
    }

    /// Adds a value to the innermost list, and so on outwards; returns the reply when it is complete.
    fn add(&mut self, value: Value) -> Option<Value> {
        let mut value = value;
        while let Some(frame) = self.open.last_mut() {
            frame.values.push(value);
            frame.missing -= 1;
            if frame.missing > 0 {
                return None;
            }
            // cannot fail: it is the frame of this turn.
            let Frame { kind, values, .. } = self.open.pop()?;
            value = match kind {
                FrameKind::List => Value::List(values),
                FrameKind::Push => Value::Push(values),
                FrameKind::Attribute => return None,
            };
        }
        Some(value)
    }

    /// Removes what was read, once it is most of the buffer.
    fn compact(&mut self) {
        if self.at * 2 >= self.buffer.len() {
            self.buffer.drain(..self.at);
            self.at = 0;
        }
    }
}

/// Reads the next part of a reply and the number of its bytes; `None` until it has arrived.
fn part(bytes: &[u8]) -> Result<Option<(Part, usize)>, DecodeError> {
    let Some(kind) = bytes.first().copied() else { return Ok(None) };
    if !b"+-:$*_,#!=(%~>|".contains(&kind) {
        return Err(DecodeError::Syntax);
    }
    let window = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    let Some(end) = window.windows(2).position(|pair| pair == b"\r\n") else {
        return if bytes.len() < LINE_BYTES_MAX { Ok(None) } else { Err(DecodeError::TooLarge) };
    };
    let (line, end) = (&bytes[1..end], end + 2);
    let whole = |value| Ok(Some((Part::Whole(value), end)));
    match kind {
        b'+' | b',' | b'(' => whole(Value::Text(line.to_vec())),
        b'-' => whole(Value::Error(line.to_vec())),
        b':' => whole(Value::Integer(number(line).ok_or(DecodeError::Syntax)?)),
        b'_' if line.is_empty() => whole(Value::Null),
        b'#' if line == b"t" => whole(Value::Integer(1)),
        b'#' if line == b"f" => whole(Value::Integer(0)),
        b'$' | b'!' | b'=' => text(kind, line, &bytes[end..], end),
        b'*' | b'%' | b'~' | b'>' | b'|' => match number(line) {
            // RESP2's form of nothing.
            Some(-1) if kind == b'*' => whole(Value::Null),
            Some(count) => {
                let count = usize::try_from(count).map_err(|_| DecodeError::Syntax)?;
                let pairs = matches!(kind, b'%' | b'|');
                let count = if pairs { count.saturating_mul(2) } else { count };
                let kind = match kind {
                    b'>' => FrameKind::Push,
                    b'|' => FrameKind::Attribute,
                    _ => FrameKind::List,
                };
                Ok(Some((Part::Open(kind, count), end)))
            }
            None => Err(DecodeError::Syntax),
        },
        _ => Err(DecodeError::Syntax),
    }
}

/// Reads a text whose length was announced.
fn text(
    kind: u8,
    line: &[u8],
    rest: &[u8],
    begin: usize,
) -> Result<Option<(Part, usize)>, DecodeError> {
    let length = number(line).ok_or(DecodeError::Syntax)?;
    if length == -1 && kind == b'$' {
        return Ok(Some((Part::Whole(Value::Null), begin)));
    }
    let length = usize::try_from(length).map_err(|_| DecodeError::Syntax)?;
    if length > TEXT_BYTES_MAX {
        return Err(DecodeError::TooLarge);
    }
    let Some(found) = rest.get(..length + 2) else { return Ok(None) };
    let Some(found) = found.strip_suffix(b"\r\n") else { return Err(DecodeError::Syntax) };
    let value = match kind {
        b'!' => Value::Error(found.to_vec()),
        // The three letters of a format and a colon.
        b'=' => Value::Text(found.get(4..).ok_or(DecodeError::Syntax)?.to_vec()),
        _ => Value::Text(found.to_vec()),
    };
    Ok(Some((Part::Whole(value), begin + length + 2)))
}

fn number(line: &[u8]) -> Option<i64> {
    // The standard library accepts a plus sign as well, which RESP3 allows.
    std::str::from_utf8(line).ok()?.parse().ok()
}

impl Value {
    /// Returns a number, also one that was sent as text.
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Value::Integer(number) => Some(*number),
            Value::Text(text) => number(text),
            _ => None,
        }
    }

    /// Returns a text.
    pub fn as_text(&self) -> Option<&[u8]> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the values of a list.
    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Value::List(values) => Some(values),
            _ => None,
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DecodeError::Syntax => "the reply is not of the engine's protocol",
            DecodeError::TooLarge => "the reply is too large",
            DecodeError::TooDeep => "the reply has too many levels",
        })
    }
}

impl error::Error for DecodeError {}

/// Reads arbitrary bytes as replies, in one piece and in pieces of a length that the first byte says: both are the same.
#[doc(hidden)]
pub fn fuzz_replies(bytes: &[u8]) {
    let Some((piece, bytes)) = bytes.split_first() else { return };
    let read = |piece: usize| {
        let (mut decoder, mut replies) = (Decoder::default(), Vec::new());
        for piece in bytes.chunks(piece) {
            decoder.buffer().extend_from_slice(piece);
            loop {
                match decoder.next_reply() {
                    Ok(Some(reply)) => replies.push(reply),
                    Ok(None) => break,
                    Err(error) => return (replies, Some(error)),
                }
            }
        }
        (replies, None)
    };
    let whole = read(bytes.len().max(1));
    let pieces = read(usize::from(*piece).max(1));
    assert_eq!(whole, pieces);
}

#[cfg(test)]
mod tests;
