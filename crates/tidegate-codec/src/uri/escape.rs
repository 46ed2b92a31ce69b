//! Percent-encoding in nginx's modes, HTML escapes, and decoding.

use super::hex_digit;

/// The set of bytes that are encoded. Controls and bytes above 0x7E always are, except with `Memcached`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escape {
    /// A path: space and ``"#%<>?\^`{|}``.
    Uri,
    /// A value within arguments: as `Uri`, and `&`, `+` and `;`.
    Args,
    /// All but letters, digits and `-._~` (RFC 3986 section 2.3).
    Component,
    /// A reference within an HTML attribute: space and `"#%'`.
    Html,
    /// The path of a `rewrite … redirect` and of the server's own redirects: space and `"#%`.
    Redirect,
    /// A memcached key: space, `%` and controls up to 0x1F.
    Memcached,
}

impl Escape {
    fn escapes(self, byte: u8) -> bool {
        match self {
            Escape::Memcached => byte <= b' ' || byte == b'%',
            _ if byte <= b' ' || byte >= 0x7f => true,
            Escape::Uri => b"\"#%<>?\\^`{|}".contains(&byte),
            Escape::Args => b"\"#%&+;<>?\\^`{|}".contains(&byte),
            Escape::Component => !byte.is_ascii_alphanumeric() && !b"-._~".contains(&byte),
            Escape::Html => b"\"#%'".contains(&byte),
            Escape::Redirect => b"\"#%".contains(&byte),
        }
    }
}

/// Appends `bytes` to `out`; bytes of the mode's set are encoded as `%XX` in upper case.
pub fn escape(bytes: &[u8], mode: Escape, out: &mut Vec<u8>) {
    escape_where(bytes, |byte| mode.escapes(byte), out);
}

/// Appends `bytes` to `out`; those for which `escapes` is true are encoded as `%XX` in upper case.
pub fn escape_where(bytes: &[u8], escapes: impl Fn(u8) -> bool, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.reserve(bytes.len());
    for byte in bytes {
        if escapes(*byte) {
            let digits = [DIGITS[(byte >> 4) as usize], DIGITS[(byte & 15) as usize]];
            out.extend_from_slice(&[b'%', digits[0], digits[1]]);
        } else {
            out.push(*byte);
        }
    }
}

/// Returns the length that `escape` would append; `bytes.len()` when nothing is encoded.
pub fn escaped_len(bytes: &[u8], mode: Escape) -> usize {
    bytes.len() + 2 * bytes.iter().filter(|byte| mode.escapes(**byte)).count()
}

/// Appends `bytes` with `<`, `>`, `&` and `"` as HTML entities.
pub fn escape_html(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        match byte {
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            other => out.push(*other),
        }
    }
}

/// Appends `bytes` with `%XX` decoded; an invalid code is copied unchanged. `+` stays.
pub fn unescape(bytes: &[u8], out: &mut Vec<u8>) {
    let mut rest = bytes;
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        let code = match (first, behind) {
            (b'%', [high, low, ..]) => hex_digit(*high).zip(hex_digit(*low)),
            _ => None,
        };
        match code {
            Some((high, low)) => {
                out.push(high << 4 | low);
                rest = &behind[2..];
            }
            None => out.push(*first),
        }
    }
}
