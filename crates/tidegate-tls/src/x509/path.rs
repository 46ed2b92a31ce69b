//! From a peer's certificate to a trusted one (RFC 5280 section 6), with OpenSSL's results.
//!
//! OpenSSL continues after an error if it is configured to, as nginx does, and the last error is the result.
//! So the steps here are in its order: the chain, extensions, revocation, then signatures and times from the
//! top down.

use super::der::{
    BIT_STRING, BOOLEAN, INTEGER, OBJECT_ID, OCTET_STRING, SEQUENCE, any, element, optional,
};
use super::{Algorithms, Certificate, RevocationList, VerifyError, extensions, names, revocation};

/// The purpose of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Client,
    Server,
    /// Any purpose.
    Any,
}

/// The trusted certificates and the limits of a path.
#[derive(Debug)]
pub(crate) struct Trust {
    purpose: Purpose,
    /// Certificates (DER) with their subjects.
    trusted: Vec<(names::Canonical, Vec<u8>)>,
    revocation_lists: Vec<RevocationList>,
    /// The most certificates between the peer's and the trusted one.
    depth_max: u64,
    algorithms: Algorithms,
}

/// The longest chain that is accepted (OpenSSL's own limit).
const DEPTH_MAX: u64 = 100;

const SUBJECT_KEY_ID: &[u8] = &[0x55, 29, 14];
const KEY_USAGE_ID: &[u8] = &[0x55, 29, 15];
const BASIC_CONSTRAINTS_ID: &[u8] = &[0x55, 29, 19];
const NAME_CONSTRAINTS_ID: &[u8] = &[0x55, 29, 30];
const AUTHORITY_KEY_ID: &[u8] = &[0x55, 29, 35];
const EXTENDED_KEY_USAGE_ID: &[u8] = &[0x55, 29, 37];
/// The last bytes of `2.5.29.N` for extensions that may be critical: besides those above SubjectAltName,
/// policies (which are not evaluated) and the location of revocation lists.
const KNOWN: &[u8] = &[14, 15, 17, 18, 19, 30, 31, 32, 33, 35, 36, 37, 54];
/// The start of id-kp-serverAuth and similar ids (RFC 5280 section 4.2.1.12), and their last bytes.
const KEY_PURPOSE_ID: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3];
const SERVER: u8 = 1;
const CLIENT: u8 = 2;
const OCSP_SIGNING: u8 = 9;

/// Bits of a KeyUsage (RFC 5280 section 4.2.1.3), the first one as 1 << 0.
const DIGITAL_SIGNATURE: u16 = 1 << 0;
const KEY_ENCIPHERMENT: u16 = 1 << 2;
const KEY_AGREEMENT: u16 = 1 << 4;
const CERTIFICATE_SIGN: u16 = 1 << 5;
const LIST_SIGN: u16 = 1 << 6;

impl Trust {
    /// Trusts these certificates (DER); unreadable ones are left out. The revocation lists (DER) are searched
    /// for each certificate of a chain; none disables the check. `depth_max` is the most certificates between
    /// the peer's and the trusted one.
    pub(crate) fn new(
        purpose: Purpose,
        trusted: &[Vec<u8>],
        revocation_lists: &[Vec<u8>],
        depth_max: u64,
        algorithms: Algorithms,
    ) -> Trust {
        let subject =
            |der: &Vec<u8>| Some((names::canonical(Certificate::parse(der)?.subject), der.clone()));
        let lists = revocation_lists.iter().filter_map(|der| RevocationList::parse(der));
        Trust {
            purpose,
            trusted: trusted.iter().filter_map(subject).collect(),
            revocation_lists: lists.collect(),
            depth_max,
            algorithms,
        }
    }

    /// Checks whether a chain as the peer sent it, its own certificate first, leads to a trusted certificate.
    ///
    /// # Errors
    /// The reason that OpenSSL would report.
    pub(crate) fn check(
        &self,
        chain: &[impl AsRef<[u8]>],
        now_unix_seconds: i64,
    ) -> Result<(), VerifyError> {
        let mut sent = chain.iter().map_while(|der| Certificate::parse(der.as_ref()));
        let Some(leaf) = sent.next() else { return Err(VerifyError::InvalidExtension) };
        let untrusted: Vec<Certificate<'_>> = sent.collect();
        let (path, mut fault) = self.build(leaf, untrusted, now_unix_seconds);
        let trusted = fault.is_none();
        fault = self.check_extensions(&path).or(fault);
        if !self.revocation_lists.is_empty() {
            fault = self.check_revocation(&path, now_unix_seconds).or(fault);
        }
        fault = self.check_signatures(&path, trusted, now_unix_seconds).or(fault);
        if path.iter().any(|certificate| certificate.extension(NAME_CONSTRAINTS_ID).is_some()) {
            // The names are not compared here, so it is unknown whether they satisfy the constraints.
            fault = Some(VerifyError::ConstrainedNames);
        }
        fault.map_or(Ok(()), Err)
    }

    /// Returns the certificates (DER) from the peer's to a trusted one, as [`Trust::check`] finds them; as far as there
    /// are any.
    pub(crate) fn path<'a>(
        &'a self,
        chain: &'a [impl AsRef<[u8]>],
        now_unix_seconds: i64,
    ) -> Vec<&'a [u8]> {
        let mut sent = chain.iter().map_while(|der| Certificate::parse(der.as_ref()));
        let Some(leaf) = sent.next() else { return Vec::new() };
        let untrusted: Vec<Certificate<'_>> = sent.collect();
        let (path, _) = self.build(leaf, untrusted, now_unix_seconds);
        let sent = chain.iter().map(AsRef::as_ref);
        let known: Vec<&[u8]> =
            sent.chain(self.trusted.iter().map(|(_, der)| der.as_slice())).collect();
        let bytes_of = |certificate: &Certificate<'_>| {
            known.iter().find(|der| Certificate::parse(der).as_ref() == Some(certificate)).copied()
        };
        path.iter().map_while(bytes_of).collect()
    }

    /// Returns the chain as far as it can be found, and the reason why it does not end at a trusted one (RFC
    /// 5280 section 6.1, in OpenSSL's order and with its errors).
    ///
    /// Invariant: each certificate of `path` is issued by the next one, by name and key identifiers;
    /// signatures are checked later. Trusted certificates are preferred to those of the peer, and once one is
    /// in the path only trusted ones follow. It ends: an untrusted one is used once, and no more than
    /// `depth_max` are between leaf and root.
    fn build<'a>(
        &'a self,
        leaf: Certificate<'a>,
        mut untrusted: Vec<Certificate<'a>>,
        now: i64,
    ) -> (Vec<Certificate<'a>>, Option<VerifyError>) {
        let longest = self.depth_max.min(DEPTH_MAX) as usize + 1;
        let mut path = vec![leaf];
        let mut by_trusted = false;
        loop {
            let last = path[path.len() - 1];
            let itself = last.is_issued_by(&last);
            if itself && self.trusts(&last) {
                return (path, None);
            }
            if itself {
                let alone = path.len() == 1;
                return (
                    path,
                    Some(if alone {
                        VerifyError::SelfSigned
                    } else {
                        VerifyError::SelfSignedInChain
                    }),
                );
            }
            // Trusted certificates are preferred, as in OpenSSL.
            let issuer = match path.len() > longest {
                true => None,
                false => self.trusted_issuer(&last, now),
            };
            if let Some(issuer) = issuer {
                by_trusted = true;
                path.push(issuer);
                continue;
            }
            // Behind a trusted certificate the untrusted ones of the peer are not used.
            let found = match by_trusted || path.len() > longest {
                true => None,
                false => untrusted.iter().position(|candidate| last.is_issued_by(candidate)),
            };
            match found {
                Some(index) => path.push(untrusted.swap_remove(index)),
                None if by_trusted => return (path, Some(VerifyError::NoIssuer)),
                None => return (path, Some(VerifyError::NoLocalIssuer)),
            }
        }
    }

    fn trusts(&self, certificate: &Certificate<'_>) -> bool {
        self.named(certificate.subject).any(|trusted| trusted == *certificate)
    }

    /// Returns the trusted certificates with this subject.
    fn named<'a>(&'a self, subject: &[u8]) -> impl Iterator<Item = Certificate<'a>> + use<'a> {
        let wanted = names::canonical(subject);
        let fitting = self.trusted.iter().filter(move |(subject, _)| *subject == wanted);
        fitting.filter_map(|(_, der)| Certificate::parse(der))
    }

    /// Returns, of several with the right name, the one that has signed, preferably a valid one.
    fn trusted_issuer(&self, of: &Certificate<'_>, now: i64) -> Option<Certificate<'_>> {
        let named = self.named(of.issuer);
        let mut fitting: Vec<_> = named.filter(|candidate| of.is_issued_by(candidate)).collect();
        fitting.sort_by_key(|candidate| candidate.time_fault(now).is_some());
        let signed = match fitting.len() {
            0 | 1 => None,
            _ => fitting.iter().find(|issuer| of.is_signed_by(self.algorithms, issuer)),
        };
        signed.or(fitting.first()).copied()
    }

    fn check_extensions(&self, path: &[Certificate<'_>]) -> Option<VerifyError> {
        let mut fault = None;
        let mut between = 0;
        for (index, certificate) in path.iter().enumerate() {
            if !certificate.has_sound_extensions() {
                fault = Some(VerifyError::InvalidExtension);
            }
            if certificate.has_unknown_critical() {
                fault = Some(VerifyError::UnknownCriticalExtension);
            }
            if index > 0 && !certificate.is_authority() {
                fault = Some(VerifyError::NotAuthority);
            }
            if !certificate.is_for(self.purpose, index > 0) {
                fault = Some(VerifyError::Purpose);
            }
            let longest = certificate.path_length_max();
            if index > 1 && longest.is_some_and(|longest| between > longest) {
                fault = Some(VerifyError::PathTooLong);
            }
            between += u64::from(index > 0 && !certificate.is_self_issued());
        }
        fault
    }

    fn check_revocation(&self, path: &[Certificate<'_>], now: i64) -> Option<VerifyError> {
        let mut fault = None;
        for (index, certificate) in path.iter().enumerate() {
            let itself = certificate.is_issued_by(certificate).then_some(certificate);
            let issuer = path.get(index + 1).or(itself);
            let lists = &self.revocation_lists;
            let found = revocation::check(lists, certificate, issuer, self.algorithms, now);
            fault = found.or(fault);
        }
        fault
    }

    fn check_signatures(
        &self,
        path: &[Certificate<'_>],
        trusted: bool,
        now: i64,
    ) -> Option<VerifyError> {
        let mut fault = None;
        for (index, certificate) in path.iter().enumerate().rev() {
            match path.get(index + 1) {
                Some(issuer) if !certificate.is_signed_by(self.algorithms, issuer) => {
                    fault = Some(VerifyError::BadSignature);
                }
                Some(_) => {}
                None if index == 0 && !trusted && !certificate.is_issued_by(certificate) => {
                    fault = Some(VerifyError::Unverifiable);
                }
                None => {}
            }
            // At the top, only a self-signed one or a lone one is examined, as in OpenSSL.
            let judged =
                index == 0 || path.len() > index + 1 || certificate.is_issued_by(certificate);
            fault = certificate.time_fault(now).filter(|_| judged).or(fault);
        }
        fault
    }
}

/// Returns whether an issuer has named this certificate to sign responses about its certificates.
pub(super) fn may_sign_responses_for(
    own: &Certificate<'_>,
    issuer: &Certificate<'_>,
    algorithms: Algorithms,
    now_unix_seconds: i64,
) -> bool {
    own.has_key_purpose(OCSP_SIGNING)
        && own.is_issued_by(issuer)
        && own.is_signed_by(algorithms, issuer)
        && own.time_fault(now_unix_seconds).is_none()
}

impl Certificate<'_> {
    /// Returns whether names and key identifiers of both match; signatures are not checked.
    pub(crate) fn is_issued_by(&self, issuer: &Certificate<'_>) -> bool {
        if !names::same(self.issuer, issuer.subject) {
            return false;
        }
        let (id, serial) = self.authority_key();
        let differs = |wanted: Option<&[u8]>, has: Option<&[u8]>| matches!((wanted, has), (Some(wanted), Some(has)) if wanted != has);
        let own = issuer.extension(SUBJECT_KEY_ID);
        let own = own.and_then(|extension| element(extension.value, OCTET_STRING));
        !differs(id, own.map(|(id, _)| id)) && !differs(serial, Some(issuer.serial))
    }

    fn is_signed_by(&self, algorithms: Algorithms, issuer: &Certificate<'_>) -> bool {
        issuer.has_signed(algorithms, self.signed, self.signature)
    }

    /// Returns key identifier and serial number of the issuer, as this certificate has them.
    fn authority_key(&self) -> (Option<&[u8]>, Option<&[u8]>) {
        const KEY: u8 = 0x80;
        const ISSUER: u8 = 0xa1;
        const SERIAL: u8 = 0x82;
        let found = self.extension(AUTHORITY_KEY_ID);
        let Some((rest, _)) = found.and_then(|e| element(e.value, SEQUENCE)) else {
            return (None, None);
        };
        let (key, rest) = optional(rest, KEY);
        let (_, rest) = optional(rest, ISSUER);
        (key, optional(rest, SERIAL).0)
    }

    /// Returns whether no extension is repeated, and those that decide can be parsed.
    fn has_sound_extensions(&self) -> bool {
        let ids = extensions(self.extensions).map(|extension| extension.id);
        let mut ids: Vec<&[u8]> = ids.collect();
        ids.sort_unstable();
        let twice = ids.windows(2).any(|pair| pair[0] == pair[1]);
        let mut rest = self.extensions;
        let mut count = 0;
        while let Some((_, _, after)) = any(rest) {
            (rest, count) = (after, count + 1);
        }
        let readable = |id: &[u8], read: bool| self.extension(id).is_none() || read;
        !twice
            && rest.is_empty()
            && count == ids.len()
            && readable(KEY_USAGE_ID, self.key_usage().is_some())
            && readable(BASIC_CONSTRAINTS_ID, self.basic_constraints().is_some())
    }

    fn has_unknown_critical(&self) -> bool {
        let known = |id: &[u8]| matches!(id, [0x55, 29, last] if KNOWN.contains(last));
        extensions(self.extensions).any(|extension| extension.critical && !known(extension.id))
    }

    fn key_usage(&self) -> Option<u16> {
        let extension = self.extension(KEY_USAGE_ID)?;
        let (bits, _) = element(extension.value, BIT_STRING)?;
        let (_, bytes) = bits.split_first()?;
        let usage = bytes.iter().take(2).zip([0, 8]);
        Some(usage.fold(0, |sum, (byte, shift)| sum | u16::from(byte.reverse_bits()) << shift))
    }

    pub(super) fn may_sign_lists(&self) -> bool {
        self.key_usage().is_none_or(|usage| usage & LIST_SIGN != 0)
    }

    /// Returns whether it is marked as an authority, and the most others below it.
    fn basic_constraints(&self) -> Option<(bool, Option<u64>)> {
        let extension = self.extension(BASIC_CONSTRAINTS_ID)?;
        let (rest, _) = element(extension.value, SEQUENCE)?;
        let (authority, rest) = optional(rest, BOOLEAN);
        let authority = authority.is_some_and(|flag| flag != [0]);
        let (length, rest) = optional(rest, INTEGER);
        let length = match length {
            None => None,
            // Negative numbers, and those that are too long, are invalid.
            Some([first, ..]) if *first >= 0x80 => return None,
            Some(bytes) if bytes.len() > 8 => return None,
            Some(bytes) => Some(bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))),
        };
        rest.is_empty().then_some((authority, length))
    }

    fn path_length_max(&self) -> Option<u64> {
        self.basic_constraints()?.1
    }

    /// Returns whether it may issue certificates. Of version 1 only self-issued ones may: others have no
    /// mark.
    fn is_authority(&self) -> bool {
        let usage = self.key_usage();
        if usage.is_some_and(|usage| usage & CERTIFICATE_SIGN == 0) {
            return false;
        }
        match self.extension(BASIC_CONSTRAINTS_ID) {
            Some(_) => self.basic_constraints().is_some_and(|(authority, _)| authority),
            None => usage.is_some() || !self.has_version && self.is_issued_by(self),
        }
    }

    /// Returns whether key usages allow TLS at this side, or authority over such certificates.
    fn is_for(&self, purpose: Purpose, as_authority: bool) -> bool {
        let (wanted, usage) = match purpose {
            Purpose::Client => (CLIENT, DIGITAL_SIGNATURE | KEY_AGREEMENT),
            Purpose::Server => (SERVER, DIGITAL_SIGNATURE | KEY_ENCIPHERMENT | KEY_AGREEMENT),
            Purpose::Any => return !as_authority || self.is_authority(),
        };
        if self.extension(EXTENDED_KEY_USAGE_ID).is_some() && !self.has_key_purpose(wanted) {
            return false;
        }
        match as_authority {
            true => self.is_authority(),
            false => self.key_usage().is_none_or(|own| own & usage != 0),
        }
    }

    fn has_key_purpose(&self, wanted: u8) -> bool {
        let found = self.extension(EXTENDED_KEY_USAGE_ID);
        let Some((mut rest, _)) = found.and_then(|e| element(e.value, SEQUENCE)) else {
            return false;
        };
        while let Some((id, after)) = element(rest, OBJECT_ID) {
            if id.strip_prefix(KEY_PURPOSE_ID) == Some(&[wanted]) {
                return true;
            }
            rest = after;
        }
        false
    }

    fn time_fault(&self, now: i64) -> Option<VerifyError> {
        match self.validity() {
            None => Some(VerifyError::Expired),
            Some((first, _)) if now < first => Some(VerifyError::NotYetValid),
            Some((_, last)) if now > last => Some(VerifyError::Expired),
            Some(_) => None,
        }
    }
}
