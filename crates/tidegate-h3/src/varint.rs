//! Integers of variable length (RFC 9000 section 16): the first two bits are the length, 1, 2, 4 or 8 bytes.

/// The largest value: 62 bits.
pub const MAX: u64 = (1 << 62) - 1;

/// The most bytes of one integer.
pub const BYTES_MAX: usize = 8;

/// Reads an integer and moves `input` behind it. `None` where the input ends within it.
#[inline]
pub fn decode(input: &mut &[u8]) -> Option<u64> {
    let first = *input.first()?;
    let length = 1 << (first >> 6);
    let (bytes, rest) = input.split_at_checked(length)?;
    *input = rest;
    let value = bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    // The length's bits are the highest of the value.
    Some(value & (u64::MAX >> (66 - 8 * length as u32)))
}

/// Returns the bytes that an integer has.
#[inline]
pub fn encoded_len(value: u64) -> usize {
    match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

/// Appends an integer of at most [`MAX`], in as few bytes as it needs.
#[inline]
pub fn encode(out: &mut Vec<u8>, value: u64) {
    match encoded_len(value) {
        1 => out.push(value as u8),
        2 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        4 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value & MAX | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{MAX, decode, encode, encoded_len};

    #[test]
    fn examples_of_rfc_9000_appendix_a1() {
        for (bytes, value) in [
            (&b"\xc2\x19\x7c\x5e\xff\x14\xe8\x8c"[..], 151_288_809_941_952_652),
            (b"\x9d\x7f\x3e\x7d", 494_878_333),
            (b"\x7b\xbd", 15_293),
            (b"\x40\x25", 37),
            (b"\x25", 37),
        ] {
            let mut input = bytes;
            assert_eq!((decode(&mut input), input), (Some(value), &[][..]));
            let cut = bytes.get(..bytes.len() - 1).unwrap_or(&[]);
            assert_eq!(decode(&mut &cut[..]), None);
        }
    }

    proptest! {
        #[test]
        fn integers_come_back(value in 0..=MAX, shift in 0u32..62) {
            let (mut out, value) = (Vec::new(), value >> shift);
            encode(&mut out, value);
            prop_assert_eq!(out.len(), encoded_len(value));
            prop_assert_eq!(decode(&mut out.as_slice()), Some(value));
        }
    }
}
