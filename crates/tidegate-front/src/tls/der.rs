//! As much of X.509 (RFC 5280 section 4.1) as tells a certificate's public key. Versions and contents are
//! none of a server's business: nginx serves certificates of version 1 as well.

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const SEQUENCE: u8 = 0x30;
/// The explicit version, which certificates of version 1 lack.
const VERSION: u8 = 0xa0;

/// The bits of a certificate's public key.
pub fn public_key(certificate: &[u8]) -> Option<&[u8]> {
    let (certificate, _) = element(certificate, SEQUENCE)?;
    let (mut rest, _) = element(certificate, SEQUENCE)?;
    if let Some((_, after)) = element(rest, VERSION) {
        rest = after;
    }
    (_, rest) = element(rest, INTEGER)?;
    // Signature algorithm, issuer, validity, subject.
    for _ in 0..4 {
        (_, rest) = element(rest, SEQUENCE)?;
    }
    key_bits(rest)
}

/// The bits of a SubjectPublicKeyInfo, which may have more behind it.
pub fn key_bits(info: &[u8]) -> Option<&[u8]> {
    let (info, _) = element(info, SEQUENCE)?;
    let (_, rest) = element(info, SEQUENCE)?;
    element(rest, BIT_STRING).map(|(bits, _)| bits)
}

/// The content of an element with this tag, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    if *found != tag {
        return None;
    }
    let (length, rest) = match first {
        short @ 0..=0x7f => (usize::from(*short), rest),
        // Four bytes of length are more than any certificate needs.
        long @ 0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            (bytes.iter().fold(0, |sum, byte| (sum << 8) | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}
