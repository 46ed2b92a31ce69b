//! Conversions between charsets: byte to byte, byte to UTF-8, and UTF-8 to byte.

use std::collections::HashMap;

use tidegate_conf::{Diagnostic, Statement};

/// One direction of a `charset_map`.
#[derive(Debug)]
pub(super) enum Recoder {
    /// Byte to byte; the length does not change.
    Bytes(Box<[u8; 256]>),
    /// The UTF-8 text of each byte.
    ToUtf8(Box<[Vec<u8>; 256]>),
    /// The byte of each character. Other characters become numeric references, invalid UTF-8 becomes `?`.
    FromUtf8(HashMap<char, u8>),
}

/// Bytes of the longest UTF-8 text of a character.
const UTF8_BYTES_MAX: usize = 4;

impl Recoder {
    /// Makes the recoders of both directions of a map, the one from the first charset to the second first.
    pub(super) fn pair(
        entries: &[Statement],
        to_utf8: bool,
    ) -> Result<(Recoder, Recoder), Diagnostic> {
        if to_utf8 { utf8_pair(entries) } else { byte_pair(entries) }
    }

    /// Returns whether recoding keeps the length of a body.
    pub(super) fn keeps_length(&self) -> bool {
        matches!(self, Recoder::Bytes(_))
    }

    /// Appends `text` recoded. `left` holds the first bytes of a character whose rest has not arrived yet.
    pub(super) fn recode(&self, text: &[u8], left: &mut Vec<u8>, out: &mut Vec<u8>) {
        match self {
            Recoder::Bytes(table) => out.extend(text.iter().map(|byte| table[usize::from(*byte)])),
            Recoder::ToUtf8(table) => {
                out.reserve(text.len() * 2);
                text.iter().for_each(|byte| out.extend_from_slice(&table[usize::from(*byte)]));
            }
            Recoder::FromUtf8(table) => {
                out.reserve(text.len());
                match left.is_empty() {
                    true => from_utf8(table, text, left, out),
                    false => {
                        let mut joined = std::mem::take(left);
                        joined.extend_from_slice(text);
                        from_utf8(table, &joined, left, out);
                    }
                }
            }
        }
    }

    /// Appends the replacement of a character that the end of the body cut off.
    pub(super) fn finish(&self, left: &mut Vec<u8>, out: &mut Vec<u8>) {
        if !std::mem::take(left).is_empty() {
            out.push(b'?');
        }
    }
}

fn from_utf8(table: &HashMap<char, u8>, text: &[u8], left: &mut Vec<u8>, out: &mut Vec<u8>) {
    let mut chunks = text.utf8_chunks().peekable();
    while let Some(chunk) = chunks.next() {
        for character in chunk.valid().chars() {
            match table.get(&character) {
                Some(byte) => out.push(*byte),
                None if character.is_ascii() => out.push(character as u8),
                None => out.extend_from_slice(format!("&#{};", character as u32).as_bytes()),
            }
        }
        let invalid = chunk.invalid();
        if invalid.is_empty() {
            continue;
        }
        match chunks.peek().is_none() && may_go_on(invalid) {
            true => left.extend_from_slice(invalid),
            false => out.push(b'?'),
        }
    }
}

/// Returns whether these bytes at the end of a text may be the beginning of a character.
fn may_go_on(bytes: &[u8]) -> bool {
    match std::str::from_utf8(bytes) {
        Err(error) => error.error_len().is_none() && bytes.len() < UTF8_BYTES_MAX,
        Ok(_) => false,
    }
}

fn byte_pair(entries: &[Statement]) -> Result<(Recoder, Recoder), Diagnostic> {
    // ASCII is the same in all charsets unless the map says otherwise.
    let table = || -> Box<[u8; 256]> {
        Box::new(std::array::from_fn(|byte| if byte < 128 { byte as u8 } else { b'?' }))
    };
    let (mut there, mut back) = (table(), table());
    for entry in entries {
        let (from, to) = (byte(entry)?, value(entry)?);
        let [to] = to[..] else { return Err(invalid_value(entry)) };
        there[usize::from(from)] = to;
        back[usize::from(to)] = from;
    }
    Ok((Recoder::Bytes(there), Recoder::Bytes(back)))
}

fn utf8_pair(entries: &[Statement]) -> Result<(Recoder, Recoder), Diagnostic> {
    let mut there: Box<[Vec<u8>; 256]> =
        Box::new(std::array::from_fn(|byte| vec![if byte < 128 { byte as u8 } else { b'?' }]));
    let mut back = HashMap::new();
    for entry in entries {
        let (from, to) = (byte(entry)?, value(entry)?);
        let text = std::str::from_utf8(&to).map_err(|_| invalid_value(entry))?;
        let mut characters = text.chars();
        let (Some(character), None) = (characters.next(), characters.next()) else {
            return Err(invalid_value(entry));
        };
        back.insert(character, from);
        there[usize::from(from)] = to;
    }
    Ok((Recoder::ToUtf8(there), Recoder::FromUtf8(back)))
}

/// Reads the byte on the left of an entry.
fn byte(entry: &Statement) -> Result<u8, Diagnostic> {
    match hexadecimal(&entry.name.bytes)[..] {
        [byte] => Ok(byte),
        _ => {
            let message = format!("invalid value \"{}\"", entry.name.display());
            Err(Diagnostic::emerg(message).at(entry.name.span).line_at(entry.terminator()))
        }
    }
}

/// Reads the bytes on the right of an entry.
fn value(entry: &Statement) -> Result<Vec<u8>, Diagnostic> {
    let [word] = &entry.args[..] else {
        let error = Diagnostic::emerg("invalid parameters number");
        return Err(error.at(entry.name.span).line_at(entry.terminator()));
    };
    let bytes = hexadecimal(&word.bytes);
    match bytes.len() {
        1..=UTF8_BYTES_MAX => Ok(bytes),
        _ => Err(invalid_value(entry)),
    }
}

fn invalid_value(entry: &Statement) -> Diagnostic {
    let word = entry.args.first().unwrap_or(&entry.name);
    let message = format!("invalid value \"{}\"", word.display());
    Diagnostic::emerg(message)
        .at(word.span)
        .line_at(entry.terminator())
        .label("expected bytes in hexadecimal")
}

/// Parses hexadecimal bytes; empty if the text is invalid.
fn hexadecimal(text: &[u8]) -> Vec<u8> {
    let padded = if text.len().is_multiple_of(2) { text.to_vec() } else { [b"0", text].concat() };
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pairs = padded.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?));
    pairs.collect::<Option<Vec<u8>>>().unwrap_or_default()
}
