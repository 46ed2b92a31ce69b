//! User name and password of `Authorization: Basic` (RFC 7617).

/// Parses the field's value into name and password; `None` for another scheme, for invalid Base64, and without a
/// colon or a name.
pub fn basic(field: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (scheme, encoded) = field.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    let mut user = decode_base64(encoded.trim_ascii())?;
    let colon = user.iter().position(|byte| *byte == b':')?;
    let password = user.split_off(colon + 1);
    user.pop();
    (!user.is_empty()).then_some((user, password))
}

/// Decodes Base64 (RFC 4648 section 4), padding optional; `None` for invalid text.
pub fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    let end = text.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
    let digits = &text[..end];
    if digits.len() % 4 == 1 || text.len() - end > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for group in digits.chunks(4) {
        let mut bits = 0_u32;
        for digit in group {
            bits = bits << 6 | u32::from(base64_digit(*digit)?);
        }
        bits <<= 6 * (4 - group.len());
        let bytes = bits.to_be_bytes();
        out.extend_from_slice(&bytes[1..group.len()]);
    }
    Some(out)
}

/// Appends `bytes` in Base64 (RFC 4648 section 4) without padding.
pub fn encode_base64(bytes: &[u8], out: &mut Vec<u8>) {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for three in bytes.chunks(3) {
        let word = three.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
        let word = word << (8 * (3 - three.len()));
        for place in 0..=three.len() {
            out.push(ALPHABET[(word >> (18 - 6 * place) & 63) as usize]);
        }
    }
}

/// Returns a text in the Base64 of URLs (RFC 4648 section 5) with the digits of plain Base64; `None` where it has one of
/// the two digits that only plain Base64 has.
pub fn plain_from_base64url(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: &u8| match byte {
        b'-' => Some(b'+'),
        b'_' => Some(b'/'),
        b'+' | b'/' => None,
        other => Some(*other),
    };
    text.iter().map(digit).collect()
}

/// Returns `bytes` in Base64 (RFC 4648 section 4) with padding.
pub fn padded_base64(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    encode_base64(bytes, &mut out);
    out.resize(out.len().next_multiple_of(4), b'=');
    out
}

fn base64_digit(digit: u8) -> Option<u8> {
    match digit {
        b'A'..=b'Z' => Some(digit - b'A'),
        b'a'..=b'z' => Some(digit - b'a' + 26),
        b'0'..=b'9' => Some(digit - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
