//! Strings and numbers of JSON (RFC 8259) for logs: whatever the bytes of a value are, the text is valid.

#[cfg(test)]
mod tests;

/// Appends a value as a string with its quotes. Bytes that are not UTF-8 become U+FFFD; controls and line separators, of which
/// readers of lines and terminals make something else, are escaped.
pub fn write_string(value: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    // Most values are plain ASCII.
    if value.iter().all(|byte| is_plain(*byte)) {
        out.extend_from_slice(value);
    } else {
        for chunk in value.utf8_chunks() {
            write_text(chunk.valid(), out);
            if !chunk.invalid().is_empty() {
                out.extend_from_slice("\u{fffd}".as_bytes());
            }
        }
    }
    out.push(b'"');
}

/// Whether a byte stands for itself.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\'
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for letter in text.chars() {
        let short = match letter {
            '"' | '\\' => letter as u8,
            '\n' => b'n',
            '\r' => b'r',
            '\t' => b't',
            '\u{8}' => b'b',
            '\u{c}' => b'f',
            _ if letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}') => {
                out.extend_from_slice(b"\\u");
                // All of these have at most four digits.
                for shift in [12, 8, 4, 0] {
                    out.push(DIGITS[(u32::from(letter) >> shift & 15) as usize]);
                }
                continue;
            }
            _ => {
                let mut bytes = [0; 4];
                out.extend_from_slice(letter.encode_utf8(&mut bytes).as_bytes());
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', short]);
    }
}

/// Longest number: programs read numbers as 64 bits, and longer ones are rather texts.
const NUMBER_BYTES_MAX: usize = 24;

/// Returns whether a text is a number of JSON that programs read without losing more than its last digits: digits, perhaps
/// with a sign, a fraction and an exponent (RFC 8259 section 6).
pub fn is_number(text: &[u8]) -> bool {
    fn digits(text: &[u8]) -> (usize, &[u8]) {
        let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        (count, &text[count..])
    }
    if text.len() > NUMBER_BYTES_MAX {
        return false;
    }
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let (whole, mut rest) = digits(text);
    if whole == 0 || (whole > 1 && text[0] == b'0') {
        return false;
    }
    if let Some(fraction) = rest.strip_prefix(b".") {
        let (count, behind) = digits(fraction);
        if count == 0 {
            return false;
        }
        rest = behind;
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let exponent = match exponent {
            [b'+' | b'-', digits @ ..] => digits,
            _ => exponent,
        };
        let (count, behind) = digits(exponent);
        // Two digits are in the range of a double of any fraction that fits here.
        if count == 0 || count > 2 {
            return false;
        }
        rest = behind;
    }
    rest.is_empty()
}
