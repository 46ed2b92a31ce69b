//! The conversions: pure functions of bytes.

use hmac::{Hmac, KeyInit, Mac};
use md5::{Digest, Md5};
use sha1::Sha1;
use sha2::Sha256;
use tidegate_codec::uri::{self, hex_digit};
use tidegate_core::credentials;

/// The default digits of Base32: those of RFC 4648 section 7, in lower case.
pub(super) const BASE32_HEX: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

/// A form of Base32 (RFC 4648 section 6).
#[derive(Clone, Debug)]
pub(super) struct Base32 {
    pub alphabet: [u8; 32],
    /// Whether the last group is filled up with `=`.
    pub pads: bool,
}

impl Base32 {
    pub(super) fn encode(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len().div_ceil(5) * 8);
        for five in bytes.chunks(5) {
            let group = five.iter().fold(0_u64, |group, byte| group << 8 | u64::from(*byte));
            let group = group << (8 * (5 - five.len()));
            for place in 0..(five.len() * 8).div_ceil(5) {
                out.push(self.alphabet[(group >> (35 - 5 * place) & 31) as usize]);
            }
        }
        if self.pads {
            out.resize(out.len().next_multiple_of(8), b'=');
        }
        out
    }

    /// Returns the bytes of a text, padding optional; `None` where it has other bytes than the digits. Bits that make no
    /// byte do not count.
    pub(super) fn decode(&self, text: &[u8]) -> Option<Vec<u8>> {
        let digits = text.split(|byte| *byte == b'=').next().unwrap_or_default();
        let mut out = Vec::with_capacity(digits.len() * 5 / 8);
        for eight in digits.chunks(8) {
            let mut group = 0_u64;
            for digit in eight {
                let value = self.alphabet.iter().position(|one| one == digit)?;
                group = group << 5 | value as u64;
            }
            let group = group << (5 * (8 - eight.len()));
            out.extend_from_slice(&group.to_be_bytes()[3..][..eight.len() * 5 / 8]);
        }
        Some(out)
    }
}

/// Returns the digits of `bytes` in the Base64 of URLs, without padding (RFC 4648 section 5).
pub(super) fn encode_base64url(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    credentials::encode_base64(bytes, &mut out);
    for digit in &mut out {
        match digit {
            b'+' => *digit = b'-',
            b'/' => *digit = b'_',
            _ => {}
        }
    }
    out
}

/// Returns the bytes of a text in the Base64 of URLs.
pub(super) fn decode_base64url(text: &[u8]) -> Option<Vec<u8>> {
    decode_base64(&credentials::plain_from_base64url(text)?)
}

/// Returns the bytes of a text in Base64, which ends with the first `=`.
pub(super) fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    credentials::decode_base64(text.split(|byte| *byte == b'=').next().unwrap_or_default())
}

pub(super) fn encode_hex(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = |byte: &u8| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
    bytes.iter().flat_map(digits).collect()
}

pub(super) fn decode_hex(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.chunks(2).map(|pair| Some(hex_digit(pair[0])? << 4 | hex_digit(pair[1])?)).collect()
}

pub(super) fn md5_sum(bytes: &[u8]) -> Vec<u8> {
    encode_hex(&Md5::digest(bytes))
}

pub(super) fn sha1_sum(bytes: &[u8]) -> Vec<u8> {
    encode_hex(&Sha1::digest(bytes))
}

/// Returns the 20 bytes of HMAC-SHA1 (RFC 2104).
pub(super) fn hmac_sha1(key: &[u8], bytes: &[u8]) -> Option<Vec<u8>> {
    let mut mac = Hmac::<Sha1>::new_from_slice(key).ok()?;
    mac.update(bytes);
    Some(mac.finalize().into_bytes().to_vec())
}

/// Returns the 32 bytes of HMAC-SHA256 (RFC 2104).
pub(super) fn hmac_sha256(key: &[u8], bytes: &[u8]) -> Option<Vec<u8>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(bytes);
    Some(mac.finalize().into_bytes().to_vec())
}

/// Returns a string of MySQL.
pub(super) fn quote_sql(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    out.push(b'\'');
    for byte in text {
        let escaped: &[u8] = match byte {
            b'\'' => b"\\'",
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            b'\t' => b"\\t",
            0x08 => b"\\b",
            0 => b"\\0",
            0x1a => b"\\Z",
            b'$' => b"\\$",
            byte => std::slice::from_ref(byte),
        };
        out.extend_from_slice(escaped);
    }
    out.push(b'\'');
    out
}

/// Returns a string of PostgreSQL.
pub(super) fn quote_pgsql(text: &[u8]) -> Vec<u8> {
    let quoted = quote_sql(text);
    if text.is_empty() { quoted } else { [b"E", &quoted[..]].concat() }
}

/// Returns a string of JSON (RFC 8259 section 7).
pub(super) fn quote_json(text: &[u8]) -> Vec<u8> {
    if text.is_empty() {
        return b"null".to_vec();
    }
    let mut out = Vec::with_capacity(text.len() + 2);
    out.push(b'"');
    for byte in text {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            0..b' ' => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            byte => out.push(*byte),
        }
    }
    out.push(b'"');
    out
}

/// Encodes a component of a URI. The bytes that stay are those of the module.
pub(super) fn escape_uri(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let stays = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.!~*'()@,`|".contains(&byte);
    uri::escape_where(text, |byte| !stays(byte), &mut out);
    out
}

/// Decodes a component of a URI. Of an invalid code the percent sign is dropped, and with it a valid first digit and what
/// stands in the place of the second.
pub(super) fn unescape_uri(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        match (first, behind) {
            (b'+', _) => out.push(b' '),
            (b'%', [high, ..]) if hex_digit(*high).is_none() => {
                out.push(*high);
                rest = &behind[1..];
            }
            (b'%', [high, low, behind @ ..]) => {
                out.extend(
                    hex_digit(*high).zip(hex_digit(*low)).map(|(high, low)| high << 4 | low),
                );
                rest = behind;
            }
            (b'%', _) => break,
            (byte, _) => out.push(*byte),
        }
    }
    out
}

/// Returns the place of a text in a list of this length: a hash of its lower-case form, by simple modulo.
pub(super) fn hashed(text: &[u8], length: usize) -> Option<usize> {
    let step = |hash: u32, byte: &u8| {
        hash.wrapping_mul(31).wrapping_add(u32::from(byte.to_ascii_lowercase()))
    };
    let hash = text.iter().fold(0, step);
    usize::try_from(hash).ok()?.checked_rem(length)
}
