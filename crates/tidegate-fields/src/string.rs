//! String literals: a length with a prefix, then bytes, plain or Huffman coded (RFC 7541 section 5.2). HPACK's have a
//! prefix of 7 bits; QPACK's have others too (RFC 9204 section 4.1.2). The bit above the prefix says which code it is.

use crate::huffman;
use crate::integer::{self, IntegerError};

/// The reason why a string cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringError {
    /// The input ends within it.
    Truncated,
    /// Its length is an integer above the limit.
    Integer,
    /// It is no Huffman code.
    Huffman,
}

impl From<IntegerError> for StringError {
    fn from(error: IntegerError) -> StringError {
        match error {
            IntegerError::Truncated => StringError::Truncated,
            IntegerError::Overflow => StringError::Integer,
        }
    }
}

/// A string literal: its place in the input, or in the text that it was decoded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text<'a> {
    /// The bytes as they were sent.
    Plain(&'a [u8]),
    /// Begin and end in the text with decoded strings.
    Decoded(usize, usize),
}

impl<'a> Text<'a> {
    /// Returns the bytes; `decoded` is the text that was given to [`decode`].
    pub fn of(self, decoded: &'a [u8]) -> &'a [u8] {
        match self {
            Text::Plain(bytes) => bytes,
            Text::Decoded(start, end) => decoded.get(start..end).unwrap_or(&[]),
        }
    }
}

/// Reads a string whose length has a prefix of `prefix_bits` (1 to 7), and moves `input` behind it. What is Huffman
/// coded is appended to `text`.
///
/// # Errors
/// The string is incomplete or invalid.
pub fn decode<'a>(
    input: &mut &'a [u8],
    prefix_bits: u32,
    text: &mut Vec<u8>,
) -> Result<Text<'a>, StringError> {
    let is_coded = input.first().is_some_and(|first| first & 1 << prefix_bits != 0);
    let length = integer::decode(input, prefix_bits)? as usize;
    let (bytes, rest) = input.split_at_checked(length).ok_or(StringError::Truncated)?;
    *input = rest;
    if !is_coded {
        return Ok(Text::Plain(bytes));
    }
    let start = text.len();
    huffman::decode(bytes, text).map_err(|_| StringError::Huffman)?;
    Ok(Text::Decoded(start, text.len()))
}

/// How a string is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// The bits of the first byte above the prefix and its Huffman bit.
    pub first: u8,
    /// Bits of the length in the first byte, 1 to 7.
    pub prefix_bits: u32,
    /// It is Huffman coded, unless that makes it longer.
    pub huffman: bool,
    /// It is written in lower case.
    pub lower: bool,
}

/// Appends a string.
#[inline]
pub fn encode(out: &mut Vec<u8>, form: Form, text: &[u8]) {
    let Form { first, prefix_bits, huffman, lower } = form;
    if huffman {
        let coded = huffman::encoded_len(text);
        // A name in upper case changes, and its length with it.
        let changes = lower && text.iter().any(u8::is_ascii_uppercase);
        if coded <= text.len() && !text.is_empty() && !changes {
            integer::encode(out, first | 1 << prefix_bits, prefix_bits, coded as u64);
            return huffman::encode(text.iter().copied(), out);
        }
    }
    integer::encode(out, first, prefix_bits, text.len() as u64);
    let start = out.len();
    out.extend_from_slice(text);
    if lower {
        out[start..].make_ascii_lowercase();
    }
}
