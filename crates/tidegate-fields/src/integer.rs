//! Integers with a prefix (RFC 7541 section 5.1, RFC 9204 section 4.1.1).

/// Bytes behind the prefix that an integer of HPACK may have: five hold 32 bits, and more would only be zeros.
const CONTINUED_BYTES_MAX: u32 = 5;

/// Bytes behind the prefix that a long integer may have: nine hold 62 bits.
const LONG_CONTINUED_BYTES_MAX: u32 = 9;

/// The largest long integer: 62 bits, as QUIC has for stream identifiers (RFC 9204 section 4.1.1).
pub const LONG_MAX: u64 = (1 << 62) - 1;

/// What stops the reading of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntegerError {
    /// The input ends within it.
    Truncated,
    /// It is above the limit, or is written with more bytes than that needs.
    Overflow,
}

/// Reads an integer of at most 32 bits whose first byte has `prefix_bits` of it (1 to 8), and moves `input` behind it.
///
/// # Errors
/// The input is incomplete, or the integer is larger.
#[inline]
pub fn decode(input: &mut &[u8], prefix_bits: u32) -> Result<u32, IntegerError> {
    let (first, rest) = input.split_first().ok_or(IntegerError::Truncated)?;
    *input = rest;
    let prefix_max = (1u32 << prefix_bits) - 1;
    let prefix = u32::from(*first) & prefix_max;
    if prefix < prefix_max {
        return Ok(prefix);
    }
    let value = continued(input, prefix_max, CONTINUED_BYTES_MAX)?;
    u32::try_from(value).map_err(|_| IntegerError::Overflow)
}

/// Reads an integer as [`decode`] does, of at most 62 bits.
///
/// # Errors
/// The input is incomplete, or the integer is larger.
#[inline]
pub fn decode_long(input: &mut &[u8], prefix_bits: u32) -> Result<u64, IntegerError> {
    let (first, rest) = input.split_first().ok_or(IntegerError::Truncated)?;
    *input = rest;
    let prefix_max = (1u32 << prefix_bits) - 1;
    let prefix = u32::from(*first) & prefix_max;
    if prefix < prefix_max {
        return Ok(u64::from(prefix));
    }
    match continued(input, prefix_max, LONG_CONTINUED_BYTES_MAX)? {
        value @ ..=LONG_MAX => Ok(value),
        _ => Err(IntegerError::Overflow),
    }
}

fn continued(input: &mut &[u8], prefix: u32, bytes_max: u32) -> Result<u64, IntegerError> {
    let mut value = u64::from(prefix);
    for index in 0..bytes_max {
        let (byte, rest) = input.split_first().ok_or(IntegerError::Truncated)?;
        *input = rest;
        value += u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(IntegerError::Overflow)
}

/// Appends an integer; the bits of `first` above the prefix go into its first byte.
#[inline]
pub fn encode(out: &mut Vec<u8>, first: u8, prefix_bits: u32, value: impl Into<u64>) {
    let value = value.into();
    let prefix_max = (1u64 << prefix_bits) - 1;
    if value < prefix_max {
        return out.push(first | value as u8);
    }
    out.push(first | prefix_max as u8);
    let mut rest = value - prefix_max;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{LONG_MAX, decode, decode_long, encode};

    #[test]
    fn integers_of_rfc_7541_appendix_c1() {
        for (prefix, value, encoded) in
            [(5, 10u32, &b"\x0a"[..]), (5, 1337, b"\x1f\x9a\x0a"), (8, 42, b"\x2a")]
        {
            let mut out = Vec::new();
            encode(&mut out, 0, prefix, value);
            assert_eq!(out, encoded);
            let mut input = out.as_slice();
            assert_eq!(decode(&mut input, prefix), Ok(value));
            assert!(input.is_empty());
        }
    }

    #[test]
    fn integers_have_a_limit() {
        for (input, expected) in [
            (&b"\x1f\xe0\xff\xff\xff\x0f"[..], Some(u32::MAX)),
            (b"\x1f\xe1\xff\xff\xff\x0f", None),
            (b"\x1f\xff\xff\xff\xff\xff\x01", None),
            (b"\x1f\x80\x80\x80\x80\x80\x00", None),
            (b"\x1f\x80", None),
            (b"", None),
        ] {
            assert_eq!(decode(&mut &input[..], 5).ok(), expected, "{input:x?}");
        }
        for (input, expected) in [
            (&b"\x1f\xe0\xff\xff\xff\xff\xff\xff\xff\x3f"[..], Some(LONG_MAX)),
            (b"\x1f\xe1\xff\xff\xff\xff\xff\xff\xff\x3f", None),
            (b"\x1f\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", None),
            (b"\x1f\x80", None),
        ] {
            assert_eq!(decode_long(&mut &input[..], 5).ok(), expected, "{input:x?}");
        }
    }

    proptest! {
        #[test]
        fn integers_come_back(prefix in 1u32..=8, value: u32, long in 0..=LONG_MAX) {
            let mut out = Vec::new();
            encode(&mut out, 0, prefix, value);
            prop_assert_eq!(decode(&mut out.as_slice(), prefix), Ok(value));
            prop_assert_eq!(decode_long(&mut out.as_slice(), prefix), Ok(u64::from(value)));
            out.clear();
            encode(&mut out, 0, prefix, long);
            prop_assert_eq!(decode_long(&mut out.as_slice(), prefix), Ok(long));
        }
    }
}
