//! The identifier in the cookie: four 32-bit numbers, in base64.

use std::fmt;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};

use tidegate_core::credentials::{decode_base64, encode_base64};

/// Characters of 16 bytes in base64, without padding.
const ENCODED_BYTES: usize = 22;
/// Increment of version 2: as in mod_uid, a sequence of three bytes above one byte that gives the version.
const SEQUENCE_STEP: u32 = 0x100;
const SEQUENCE_FIRST: u32 = 0x0303_0302;

/// The formats of mod_uid: numbers as little-endian bytes, or as big-endian ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdFormat {
    One,
    Two,
}

/// An identifier and the mark behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id {
    bytes: [u8; 16],
    /// The first character behind the identifier: padding, or that of `userid_mark`.
    pub mark: u8,
}

/// Why a cookie is not an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadCookie {
    TooShort,
    Invalid,
}

impl fmt::Display for BadCookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadCookie::TooShort => "too short userid cookie",
            BadCookie::Invalid => "invalid userid cookie",
        })
    }
}

impl std::error::Error for BadCookie {}

impl Id {
    /// Makes a new identifier of the number of this service, the time, a number of this process, and a counter.
    pub(super) fn new(version: IdFormat, service: u32, seconds: u32) -> Id {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let sequence = match version {
            IdFormat::One => count.wrapping_add(1),
            IdFormat::Two => SEQUENCE_FIRST.wrapping_add(count.wrapping_mul(SEQUENCE_STEP)),
        };
        let mut bytes = [0; 16];
        let numbers = [service, seconds, process_mark(), sequence];
        for (place, number) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(numbers) {
            *place = match version {
                IdFormat::One => number.to_le_bytes(),
                IdFormat::Two => number.to_be_bytes(),
            };
        }
        Id { bytes, mark: b'=' }
    }

    /// Parses a cookie's value; characters behind the identifier and its mark are ignored.
    pub(super) fn parse(value: &[u8]) -> Result<Id, BadCookie> {
        let encoded = value.get(..ENCODED_BYTES).ok_or(BadCookie::TooShort)?;
        let decoded = decode_base64(encoded).ok_or(BadCookie::Invalid)?;
        let bytes = decoded[..].try_into().map_err(|_| BadCookie::Invalid)?;
        Ok(Id { bytes, mark: value.get(ENCODED_BYTES).copied().unwrap_or(0) })
    }

    /// Appends the cookie's value, with `mark` if there is one.
    pub(super) fn write(&self, mark: Option<u8>, out: &mut Vec<u8>) {
        encode_base64(&self.bytes, out);
        out.extend_from_slice(&[mark.unwrap_or(b'='), b'=']);
    }

    /// Formats the identifier for the variables: `=` and four numbers in hexadecimal digits.
    pub(super) fn shown(&self) -> String {
        let mut out = String::from("=");
        for number in self.bytes.as_chunks::<4>().0 {
            // Writing to a string cannot fail.
            let _ = write!(out, "{:08X}", u32::from_le_bytes(*number));
        }
        out
    }
}

/// Returns a number of this process that other processes are unlikely to have.
fn process_mark() -> u32 {
    static MARK: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    *MARK.get_or_init(|| {
        let mut bytes = [0; 4];
        tidegate_rt::random::unpredictable(&mut bytes);
        u32::from_le_bytes(bytes)
    })
}
