//! Integers with a prefix (RFC 7541 section 5.1).

/// Bytes behind the prefix that an integer may have: five hold 32 bits, and more would only be zeros.
const CONTINUED_BYTES_MAX: u32 = 5;

/// What stops the reading of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntegerError {
    /// The input ends within it.
    Truncated,
    /// It does not fit into 32 bits, or is written with more bytes than that needs.
    Overflow,
}

/// Reads an integer whose first byte has `prefix_bits` of it (1 to 8), and moves `input` behind it.
#[inline]
pub(crate) fn decode(input: &mut &[u8], prefix_bits: u32) -> Result<u32, IntegerError> {
    let (first, rest) = input.split_first().ok_or(IntegerError::Truncated)?;
    *input = rest;
    let prefix_max = (1u32 << prefix_bits) - 1;
    let prefix = u32::from(*first) & prefix_max;
    if prefix < prefix_max {
        return Ok(prefix);
    }
    continued(input, prefix_max)
}

fn continued(input: &mut &[u8], prefix: u32) -> Result<u32, IntegerError> {
    let mut value = u64::from(prefix);
    for index in 0..CONTINUED_BYTES_MAX {
        let (byte, rest) = input.split_first().ok_or(IntegerError::Truncated)?;
        *input = rest;
        value += u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return u32::try_from(value).map_err(|_| IntegerError::Overflow);
        }
    }
    Err(IntegerError::Overflow)
}

/// Appends an integer; the bits of `first` above the prefix go into its first byte.
#[inline]
pub(crate) fn encode(out: &mut Vec<u8>, first: u8, prefix_bits: u32, value: u32) {
    let prefix_max = (1u32 << prefix_bits) - 1;
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
