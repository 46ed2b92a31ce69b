//! The checks of links: pure functions.

use md5::{Digest, Md5};
use tidegate_core::credentials::{decode_base64, plain_from_base64url};

/// The result of checking a signed link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkStatus {
    Wrong,
    Expired,
    Good,
}

/// Bytes of an MD5 checksum.
const SUM_BYTES: usize = 16;
/// Characters of an MD5 checksum in base64 with its padding: a longer text is invalid.
const DIGITS_MAX: usize = 24;

/// Returns the link of a path `/prefix/hash/link`, if the hash is that of link and secret.
pub(super) fn by_secret<'p>(path: &'p [u8], secret: &[u8]) -> Option<&'p [u8]> {
    let behind_prefix = path.strip_prefix(b"/")?;
    let slash = behind_prefix.iter().position(|byte| *byte == b'/')?;
    let rest = &behind_prefix[slash + 1..];
    let (hash, behind) = rest.split_at_checked(2 * SUM_BYTES)?;
    let link = behind.strip_prefix(b"/")?;
    let sum = Md5::new().chain_update(link).chain_update(secret).finalize();
    let mut wanted = [0; SUM_BYTES];
    for (byte, digits) in wanted.iter_mut().zip(hash.chunks(2)) {
        let text = std::str::from_utf8(digits).ok()?;
        *byte = u8::from_str_radix(text, 16).ok().filter(|_| !digits.starts_with(b"+"))?;
    }
    same(&wanted, &sum).then_some(link)
}

/// Splits into the checksum and the text behind the first comma.
pub(super) fn split(link: &[u8]) -> (&[u8], Option<&[u8]>) {
    match link.iter().position(|byte| *byte == b',') {
        Some(comma) => (&link[..comma], Some(&link[comma + 1..])),
        None => (link, None),
    }
}

/// Parses a link's expiry, seconds since 1970; `None` if it is invalid or not positive.
pub(super) fn ends(text: &[u8]) -> Option<u64> {
    tidegate_conf::parse_number(text).filter(|seconds| *seconds > 0)
}

/// Decodes a checksum in base64url, with or without padding.
pub(super) fn decode_checksum(text: &[u8]) -> Option<[u8; SUM_BYTES]> {
    if text.len() > DIGITS_MAX {
        return None;
    }
    decode_base64(&plain_from_base64url(text)?)?.try_into().ok()
}

/// Compares a checksum with that of the signed text, and the expiry with the time.
pub(super) fn link_status(
    checksum: &[u8; SUM_BYTES],
    signed: &[u8],
    ends: Option<u64>,
    now: u64,
) -> LinkStatus {
    let sum = Md5::digest(signed);
    match () {
        () if !same(checksum, &sum) => LinkStatus::Wrong,
        () if ends.is_some_and(|ends| ends < now) => LinkStatus::Expired,
        () => LinkStatus::Good,
    }
}

/// Compares in constant time: the time does not depend on where the first difference is.
fn same(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |sum, (one, other)| sum | (one ^ other));
    one.len() == other.len() && differences == 0
}
