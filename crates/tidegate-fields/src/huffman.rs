//! The Huffman code of strings (RFC 7541 section 5.2 and appendix B).
//!
//! The code is canonical: within one length, codes follow each other in the order of symbols, and lengths in theirs.
//! So the lengths of the appendix are all that is written down here, and the tables are made from them at build time.

/// Bits of the code of each byte, then of the end of the string (EOS).
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5,
    5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6,
    6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22,
    23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22,
    21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20,
    22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19,
    21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22,
    22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

/// Bytes, and EOS.
const SYMBOLS: usize = 257;
const LENGTH_MIN: usize = 5;
const LENGTH_MAX: usize = 30;
const EOS: u16 = 256;

/// The code of each symbol, in its lowest bits.
static CODES: [u32; SYMBOLS] = {
    let mut codes = [0; SYMBOLS];
    let mut index = 0;
    let (mut code, mut length) = (0u32, LENGTH_MIN as u32);
    while index < SYMBOLS {
        let symbol = ORDER[index] as usize;
        code <<= LENGTHS[symbol] as u32 - length;
        length = LENGTHS[symbol] as u32;
        codes[symbol] = code;
        code += 1;
        index += 1;
    }
    assert!(code == 1 << LENGTH_MAX, "the code is complete");
    codes
};

/// The symbols by length, and by their number within one length.
static ORDER: [u16; SYMBOLS] = {
    let mut order = [0; SYMBOLS];
    let (mut length, mut at) = (LENGTH_MIN, 0);
    while length <= LENGTH_MAX {
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == length {
                order[at] = symbol as u16;
                at += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    order
};

/// The codes of one length.
#[derive(Clone, Copy)]
struct Length {
    /// The first code of the next length, at the upper end of 32 bits: what is below belongs to this length or to a
    /// shorter one.
    end: u64,
    /// The first code, at the upper end of 32 bits.
    first: u32,
    /// Place of the first symbol in `ORDER`.
    at: u16,
}

static BY_LENGTH: [Length; LENGTH_MAX + 1] = {
    let mut table = [Length { end: 0, first: 0, at: 0 }; LENGTH_MAX + 1];
    let (mut first, mut at) = (0u64, 0u16);
    let mut length = LENGTH_MIN;
    while length <= LENGTH_MAX {
        let mut count = 0;
        let mut symbol = 0;
        while symbol < SYMBOLS {
            count += (LENGTHS[symbol] as usize == length) as u16;
            symbol += 1;
        }
        let end = first + ((count as u64) << (32 - length));
        table[length] = Length { end, first: first as u32, at };
        (first, at) = (end, at + count);
        length += 1;
    }
    table
};

/// Bits that the first lookup takes: no printable character that is common has a longer code.
const FAST_BITS: usize = 8;

/// Symbol and length for each first byte whose code is not longer than it; length 0 for the others.
static FAST: [(u8, u8); 1 << FAST_BITS] = {
    let mut table = [(0, 0); 1 << FAST_BITS];
    let mut symbol = 0;
    while symbol < SYMBOLS - 1 {
        let length = LENGTHS[symbol] as usize;
        if length <= FAST_BITS {
            let first = (CODES[symbol] as usize) << (FAST_BITS - length);
            let mut suffix = 0;
            while suffix < 1 << (FAST_BITS - length) {
                table[first + suffix] = (symbol as u8, length as u8);
                suffix += 1;
            }
        }
        symbol += 1;
    }
    table
};

/// The string is no Huffman code: it contains EOS, or does not end with at most 8 bits of ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidCode;

/// Appends the decoded string: at most 8 bytes for each 5 of the input, as no code is shorter than 5 bits.
///
/// # Errors
/// The input is none; `out` may have a part of it.
pub fn decode(input: &[u8], out: &mut Vec<u8>) -> Result<(), InvalidCode> {
    let start = out.len();
    out.resize(start + input.len() * 8 / LENGTH_MIN, 0);
    let room = out.get_mut(start..).unwrap_or_default();
    let (mut rest, mut missing) = (input, room.len());
    let mut symbols = room.iter_mut();
    // The bits not yet decoded, at the upper end. What is below them is zero, or the begin of what comes next.
    let (mut bits, mut count) = (0u64, 0usize);
    loop {
        if count <= LENGTH_MAX && !rest.is_empty() {
            let bytes = rest.len().min((64 - count) / 8);
            bits |= word(rest) >> count;
            count += bytes * 8;
            rest = rest.get(bytes..).unwrap_or(&[]);
        }
        let (symbol, length) = FAST[(bits >> (64 - FAST_BITS)) as usize];
        let (symbol, length) = match length {
            0 => long_code((bits >> 32) as u32).ok_or(InvalidCode)?,
            length => (symbol, usize::from(length)),
        };
        if length > count {
            break;
        }
        let Some(place) = symbols.next() else { break };
        *place = symbol;
        missing -= 1;
        bits <<= length;
        count -= length;
    }
    out.truncate(out.len() - missing);
    // The padding is a prefix of EOS: ones (RFC 7541 section 5.2). The RFC allows 7 bits; nginx accepts a whole byte
    // behind a string that ends with a byte, and some encoders write it.
    let ones = !(u64::MAX >> count);
    if count <= 8 && bits == ones { Ok(()) } else { Err(InvalidCode) }
}

/// Returns the first 8 bytes as a number, with zeros behind fewer.
#[inline]
fn word(bytes: &[u8]) -> u64 {
    if let Some(first) = bytes.first_chunk() {
        return u64::from_be_bytes(*first);
    }
    match (bytes.first_chunk(), bytes.last_chunk()) {
        // They overlap where there are fewer than 8.
        (Some(first), Some(last)) => {
            let behind = 64 - 8 * bytes.len();
            u64::from(u32::from_be_bytes(*first)) << 32
                | u64::from(u32::from_be_bytes(*last)) << behind
        }
        _ => bytes.iter().rev().fold(0, |word, byte| word >> 8 | u64::from(*byte) << 56),
    }
}

/// Symbol and length of a code of more than [`FAST_BITS`] bits; `None` for EOS.
#[cold]
fn long_code(bits: u32) -> Option<(u8, usize)> {
    let mut lengths = FAST_BITS + 1..=LENGTH_MAX;
    let length = lengths.find(|length| u64::from(bits) < BY_LENGTH[*length].end)?;
    let Length { first, at, .. } = BY_LENGTH[length];
    let index = usize::from(at) + ((bits - first) >> (32 - length)) as usize;
    match ORDER.get(index) {
        // Missing bits read as zeros at the input's end: the caller compares the length with what is there.
        Some(&symbol) if symbol != EOS => Some((symbol as u8, length)),
        _ => None,
    }
}

/// Returns the bytes that the encoded string has.
pub fn encoded_len(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|byte| usize::from(LENGTHS[usize::from(*byte)])).sum();
    bits.div_ceil(8)
}

/// Appends the encoded string.
pub fn encode(text: impl Iterator<Item = u8>, out: &mut Vec<u8>) {
    let (mut bits, mut count) = (0u64, 0u32);
    for byte in text {
        let length = u32::from(LENGTHS[usize::from(byte)]);
        bits = bits << length | u64::from(CODES[usize::from(byte)]);
        count += length;
        while count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    if count > 0 {
        // Filled up with the first bits of EOS.
        out.push((bits << (8 - count)) as u8 | 0xff >> count);
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::{decode, encode, encoded_len};

    proptest! {
        #[test]
        fn huffman_strings_come_back(text: Vec<u8>) {
            let (mut coded, mut back) = (Vec::new(), Vec::new());
            encode(text.iter().copied(), &mut coded);
            prop_assert_eq!(coded.len(), encoded_len(&text));
            prop_assert_eq!(decode(&coded, &mut back), Ok(()));
            prop_assert_eq!(back, text);
        }

        #[test]
        fn whatever_decodes_as_huffman_is_the_only_code_of_it(coded in vec(any::<u8>(), 0..40)) {
            let (mut text, mut again) = (Vec::new(), Vec::new());
            if decode(&coded, &mut text).is_ok() {
                encode(text.iter().copied(), &mut again);
                // But for a byte of padding behind a whole number of bytes.
                if again.len() + 1 == coded.len() {
                    again.push(0xff);
                }
                prop_assert_eq!(again, coded);
            }
        }
    }
}
