//! Bytes for streams as scripts write them: raw, frames, heads and instructions of QPACK.

use tidegate_fields::integer;
use tidegate_h3::frame::{kind, write};
use tidegate_h3::{ErrorCode, varint};

use crate::bell::Failure;
use crate::words::{Cursor, Word};

/// Reads the parts of a payload, as far as they go: `"bytes"`, `frame TYPE "payload"`, `head Name: value …`,
/// `insert Name: value`, `capacity N`, `integer N`.
pub(super) fn payload(cursor: &mut Cursor<'_>) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    loop {
        if matches!(cursor.peek_word(), Some(Word::Text(_))) {
            bytes.extend(cursor.text("bytes")?);
        } else if cursor.accept("frame") {
            let number = frame_kind(cursor)?;
            let content = cursor.text("a payload")?;
            write::header(&mut bytes, number, content.len() as u64);
            bytes.extend(content);
        } else if cursor.accept("head") {
            let mut lines = Vec::new();
            while let Some((name, value)) = field(cursor)? {
                literal(&mut lines, 0x20, 3, name.as_bytes());
                literal(&mut lines, 0, 7, &value);
            }
            write::headers(&mut bytes, &[0, 0], &lines);
        } else if cursor.accept("insert") {
            let (name, value) =
                field(cursor)?.ok_or_else(|| Failure::new("`Name: value` is missing"))?;
            literal(&mut bytes, 0x40, 5, name.as_bytes());
            literal(&mut bytes, 0, 7, &value);
        } else if cursor.accept("capacity") {
            let capacity: u64 = cursor.number("a number of bytes")?;
            integer::encode(&mut bytes, 0x20, 5, capacity);
        } else if cursor.accept("integer") {
            varint::encode(&mut bytes, number(cursor)?);
        } else {
            return Ok(bytes);
        }
    }
}

/// `Name: value`, if that is next. The name is sent as it is written.
fn field<'a>(cursor: &mut Cursor<'a>) -> Result<Option<(&'a str, Vec<u8>)>, Failure> {
    match cursor.field_name() {
        Some(name) => Ok(Some((name, cursor.text("a field value")?))),
        None => Ok(None),
    }
}

/// The type of a frame: its name, or a number.
fn frame_kind(cursor: &mut Cursor<'_>) -> Result<u64, Failure> {
    let known = match cursor.peek() {
        Some("DATA") => kind::DATA,
        Some("HEADERS") => kind::HEADERS,
        Some("CANCEL_PUSH") => kind::CANCEL_PUSH,
        Some("SETTINGS") => kind::SETTINGS,
        Some("PUSH_PROMISE") => kind::PUSH_PROMISE,
        Some("GOAWAY") => kind::GOAWAY,
        Some("MAX_PUSH_ID") => kind::MAX_PUSH_ID,
        Some("PRIORITY_UPDATE") => kind::PRIORITY_UPDATE,
        _ => return number(cursor),
    };
    cursor.word();
    Ok(known)
}

/// A number, decimal or after `0x`.
pub(super) fn number(cursor: &mut Cursor<'_>) -> Result<u64, Failure> {
    let word = cursor.bare("a number")?;
    let parsed = match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => word.parse(),
    };
    let number = parsed.ok().filter(|number| *number <= varint::MAX);
    number.ok_or_else(|| Failure::new(format!("`{word}` is no number")))
}

/// An error code: a number, or its name (RFC 9114 section 8.1, RFC 9204 section 6).
pub(super) fn code(cursor: &mut Cursor<'_>) -> Result<u64, Failure> {
    let named = |code: &u64| cursor.peek() == Some(ErrorCode(*code).name());
    match (0x100..=0x110).chain(0x200..=0x202).chain([0x33]).find(named) {
        Some(code) => {
            cursor.word();
            Ok(code)
        }
        None => number(cursor),
    }
}

/// A string without Huffman code.
fn literal(out: &mut Vec<u8>, first: u8, prefix_bits: u32, text: &[u8]) {
    integer::encode(out, first, prefix_bits, text.len() as u64);
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::split;

    #[test]
    fn payloads_are_bytes() {
        for (line, expected) in [
            (r#""a" "b""#, &b"ab"[..]),
            (r#"frame DATA "xy" frame 0x21 """#, b"\0\x02xy\x21\0"),
            (r#"frame PRIORITY_UPDATE "\0""#, b"\x80\x0f\x07\0\x01\0"),
            ("integer 0x21 integer 16384", b"\x21\x80\0\x40\0"),
            ("head :path: / A: bc", b"\x01\x0f\0\0\x25:path\x01/\x21A\x02bc"),
            ("insert name: v capacity 220", b"\x44name\x01v\x3f\xbd\x01"),
            (r#"insert x: "0123456789""#, b"\x41x\x0a0123456789"),
        ] {
            let words = split(line).expect("words");
            let bytes = payload(&mut Cursor::new(&words)).expect("a payload");
            assert_eq!(bytes, expected, "{line}");
        }
    }

    #[test]
    fn codes_have_names() {
        for (word, expected) in [
            ("H3_NO_ERROR", Some(0x100)),
            ("QPACK_DECODER_STREAM_ERROR", Some(0x202)),
            ("0x10c", Some(0x10c)),
            ("7", Some(7)),
            ("H3_NONE", None),
            ("0xffffffffffffffff", None),
        ] {
            let words = split(word).expect("words");
            assert_eq!(code(&mut Cursor::new(&words)).ok(), expected, "{word}");
        }
    }
}
