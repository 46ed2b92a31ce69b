//! The part of X.509 (RFC 5280 section 4.1) that both sides of TLS need: a certificate's parts, its names as
//! text, and whether it is trusted. Versions are ignored: nginx accepts certificates of version 1 as well.
//!
//! | file | content |
//! |---|---|
//! | der | elements and times |
//! | names | distinguished names: their texts, and their comparison |
//! | ocsp | requests whether a certificate was revoked, and responses |
//! | path | from a certificate to a trusted one |
//! | possession | whether a peer has its certificate's key |
//! | revocation | lists of revoked certificates |
//! | fault | the reasons why a certificate is not trusted, in OpenSSL's words |

mod der;
mod fault;
pub mod names;
pub(crate) mod ocsp;
#[cfg(test)]
pub(crate) mod ocsp_tests;
mod path;
pub(crate) mod possession;
mod revocation;
#[cfg(test)]
mod tests;

use aws_lc_rs::digest;
use der::{BIT_STRING, BOOLEAN, INTEGER, OBJECT_ID, OCTET_STRING, SEQUENCE, SET, any, element};

pub(crate) use der::whole as first_element;
pub use fault::VerifyError;
pub(crate) use path::{Purpose, Trust};
pub(crate) use revocation::RevocationList;
use rustls_pki_types::SignatureVerificationAlgorithm;

/// The explicit version, which certificates of version 1 lack.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
/// Kinds of names in a SubjectAltName (RFC 5280 section 4.2.1.6).
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;

const COMMON_NAME_ID: &[u8] = &[0x55, 4, 3];
const SUBJECT_ALT_NAME_ID: &[u8] = &[0x55, 29, 17];

/// Algorithms by which signatures are verified.
pub(crate) type Algorithms = &'static [&'static dyn SignatureVerificationAlgorithm];

/// The parts of a certificate: those that variables show, and those that decide whether it is trusted. It
/// borrows the DER and has no copy. Parsing verifies nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certificate<'a> {
    /// The signed part.
    signed: &'a [u8],
    signature: Signature<'a>,
    /// The number as it is encoded: big-endian, perhaps with a leading zero.
    serial: &'a [u8],
    has_version: bool,
    /// The issuer's name: the content of its Name.
    pub issuer: &'a [u8],
    validity: &'a [u8],
    /// The subject's name: the content of its Name.
    pub subject: &'a [u8],
    /// The whole SubjectPublicKeyInfo.
    key_info: &'a [u8],
    extensions: &'a [u8],
}

/// A signature with its algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Signature<'a> {
    algorithm: &'a [u8],
    bytes: &'a [u8],
}

/// An extension (RFC 5280 section 4.2).
struct Extension<'a> {
    id: &'a [u8],
    critical: bool,
    value: &'a [u8],
}

/// A name for which a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AltName<'a> {
    Dns(&'a [u8]),
    Ip(&'a [u8]),
}

impl<'a> Certificate<'a> {
    /// Parses a certificate; returns `None` for anything else.
    pub fn parse(der: &'a [u8]) -> Option<Certificate<'a>> {
        let (whole, _) = element(der, SEQUENCE)?;
        let signed = der::whole(whole)?;
        let (mut rest, behind) = element(whole, SEQUENCE)?;
        let signature = Signature::parse(behind)?;
        let (version, after) = der::optional(rest, VERSION);
        rest = after;
        let serial;
        (serial, rest) = element(rest, INTEGER)?;
        let mut parts: [&[u8]; 4] = [&[]; 4];
        for part in &mut parts {
            (*part, rest) = element(rest, SEQUENCE)?;
        }
        let [_, issuer, validity, subject] = parts;
        let (_, after) = element(rest, SEQUENCE)?;
        let key_info = rest.get(..rest.len() - after.len())?;
        let mut extensions: &[u8] = &[];
        // Unique identifiers may precede the extensions.
        rest = after;
        while let Some((tag, content, after)) = any(rest) {
            if tag == EXTENSIONS {
                (extensions, _) = element(content, SEQUENCE)?;
            }
            rest = after;
        }
        let has_version = version.is_some();
        Some(Certificate {
            signed,
            signature,
            serial,
            has_version,
            issuer,
            validity,
            subject,
            key_info,
            extensions,
        })
    }

    /// Returns the first and last second of the certificate's validity, since 1970.
    pub fn validity(&self) -> Option<(i64, i64)> {
        let (tag, first, rest) = any(self.validity)?;
        let first = der::time(tag, first)?;
        let (tag, last, _) = any(rest)?;
        Some((first, der::time(tag, last)?))
    }

    /// Returns the names that it is for: those of the SubjectAltName extension, or else the common names.
    pub fn names(&self) -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let name = |name: &AltName<'_>| match name {
            AltName::Dns(name) => text(name),
            AltName::Ip(address) => {
                match (<[u8; 4]>::try_from(*address), <[u8; 16]>::try_from(*address)) {
                    (Ok(octets), _) => std::net::Ipv4Addr::from(octets).to_string(),
                    (_, Ok(octets)) => std::net::Ipv6Addr::from(octets).to_string(),
                    _ => names::hexadecimal(address),
                }
            }
        };
        let names: Vec<String> = self.alt_names().iter().map(name).collect();
        match names.is_empty() {
            true => self.common_names().into_iter().map(text).collect(),
            false => names,
        }
    }

    /// Returns the serial number in hexadecimal, as OpenSSL writes it.
    pub fn serial_text(&self) -> String {
        match self.serial {
            [0, rest @ ..] if !rest.is_empty() => names::hexadecimal(rest),
            all => names::hexadecimal(all),
        }
    }

    /// Returns whether subject and issuer are equal.
    pub(crate) fn is_self_issued(&self) -> bool {
        names::same(self.issuer, self.subject)
    }

    /// Returns the names of the SubjectAltName extension.
    pub(crate) fn alt_names(&self) -> Vec<AltName<'a>> {
        let mut names = Vec::new();
        let found = self.extension(SUBJECT_ALT_NAME_ID);
        let found = found.and_then(|extension| element(extension.value, SEQUENCE));
        let Some((mut rest, _)) = found else { return names };
        while let Some((tag, content, after)) = any(rest) {
            match tag {
                DNS_NAME => names.push(AltName::Dns(content)),
                IP_ADDRESS => names.push(AltName::Ip(content)),
                _ => {}
            }
            rest = after;
        }
        names
    }

    /// Returns the common names of the subject.
    pub(crate) fn common_names(&self) -> Vec<&'a [u8]> {
        let mut names = Vec::new();
        let mut sets = self.subject;
        while let Some((mut set, after)) = element(sets, SET) {
            while let Some((pair, next)) = element(set, SEQUENCE) {
                if let Some((COMMON_NAME_ID, value)) = element(pair, OBJECT_ID)
                    && let Some((_, text, _)) = any(value)
                {
                    names.push(text);
                }
                set = next;
            }
            sets = after;
        }
        names
    }

    fn extension(&self, id: &[u8]) -> Option<Extension<'a>> {
        extensions(self.extensions).find(|extension| extension.id == id)
    }

    /// Returns whether this certificate's key has made a signature.
    fn has_signed(&self, algorithms: Algorithms, signed: &[u8], by: Signature<'_>) -> bool {
        let fitting =
            algorithms.iter().filter(|known| known.signature_alg_id().as_ref() == by.algorithm);
        has_made(self.key_info, fitting.copied(), signed, by.bytes)
    }
}

impl<'a> Signature<'a> {
    fn parse(der: &'a [u8]) -> Option<Signature<'a>> {
        let (algorithm, rest) = element(der, SEQUENCE)?;
        match element(rest, BIT_STRING)?.0 {
            [0, bytes @ ..] => Some(Signature { algorithm, bytes }),
            _ => None,
        }
    }
}

/// Returns whether the key of a SubjectPublicKeyInfo has made a signature, by one of these algorithms.
fn has_made(
    key_info: &[u8],
    mut algorithms: impl Iterator<Item = &'static dyn SignatureVerificationAlgorithm>,
    signed: &[u8],
    signature: &[u8],
) -> bool {
    let (Some(kind), Some([0, key @ ..])) = (key_algorithm(key_info), key_bits(key_info)) else {
        return false;
    };
    algorithms.any(|candidate| {
        candidate.public_key_alg_id().as_ref() == kind
            && candidate.verify_signature(key, signed, signature).is_ok()
    })
}

/// Returns the extensions of a certificate or of a list; an invalid one ends them.
fn extensions(mut rest: &[u8]) -> impl Iterator<Item = Extension<'_>> {
    std::iter::from_fn(move || {
        let (extension, after) = element(rest, SEQUENCE)?;
        rest = after;
        let (id, value) = element(extension, OBJECT_ID)?;
        let (critical, value) = der::optional(value, BOOLEAN);
        let critical = critical.is_some_and(|flag| flag != [0]);
        let (value, _) = element(value, OCTET_STRING)?;
        Some(Extension { id, critical, value })
    })
}

/// Returns the SHA-1 hash of bytes, which identifies certificates (`$ssl_client_fingerprint`, RFC 5019).
pub fn fingerprint(bytes: &[u8]) -> [u8; 20] {
    let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, bytes);
    digest.as_ref().first_chunk().copied().unwrap_or_default()
}

/// Returns the bits of a certificate's public key.
pub(crate) fn public_key(certificate: &[u8]) -> Option<&[u8]> {
    key_bits(Certificate::parse(certificate)?.key_info)
}

/// Returns the bits of a SubjectPublicKeyInfo, which may be followed by more.
pub(crate) fn key_bits(info: &[u8]) -> Option<&[u8]> {
    let (info, _) = element(info, SEQUENCE)?;
    let (_, rest) = element(info, SEQUENCE)?;
    element(rest, BIT_STRING).map(|(bits, _)| bits)
}

/// Returns the algorithm of a SubjectPublicKeyInfo: the content of its AlgorithmIdentifier.
pub(crate) fn key_algorithm(info: &[u8]) -> Option<&[u8]> {
    let (info, _) = element(info, SEQUENCE)?;
    element(info, SEQUENCE).map(|(algorithm, _)| algorithm)
}
