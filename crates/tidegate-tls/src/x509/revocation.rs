//! Lists of revoked certificates (CRLs, RFC 5280 section 5).

use std::collections::HashSet;
use std::sync::OnceLock;

use super::der::{INTEGER, SEQUENCE, any, element, optional, time, whole};
use super::{Algorithms, Certificate, Signature, VerifyError, extensions, names};

const EXTENSIONS: u8 = 0xa0;

/// A parsed list.
#[derive(Debug)]
pub(crate) struct RevocationList {
    issuer: Vec<u8>,
    signed: Vec<u8>,
    algorithm: Vec<u8>,
    signature: Vec<u8>,
    first_unix_seconds: i64,
    last_unix_seconds: Option<i64>,
    serials: HashSet<Box<[u8]>>,
    /// Whether it, or an entry, has a critical extension. None is supported here: lists for some of the
    /// issuer's certificates, delta lists, and lists of other issuers all have a critical one.
    critical: bool,
    /// The key that was found to have signed it, so that this is checked once.
    signer: OnceLock<Box<[u8]>>,
}

impl RevocationList {
    /// Parses a list; returns `None` for anything else.
    pub(crate) fn parse(der: &[u8]) -> Option<RevocationList> {
        let (list, _) = element(der, SEQUENCE)?;
        let signed = whole(list)?;
        let (mut rest, behind) = element(list, SEQUENCE)?;
        let signature = Signature::parse(behind)?;
        (_, rest) = optional(rest, INTEGER);
        (_, rest) = element(rest, SEQUENCE)?;
        let issuer;
        (issuer, rest) = element(rest, SEQUENCE)?;
        let (tag, first, after) = any(rest)?;
        let first_unix_seconds = time(tag, first)?;
        rest = after;
        let mut last_unix_seconds = None;
        if let Some((tag, last, after)) = any(rest)
            && let Some(last) = time(tag, last)
        {
            (last_unix_seconds, rest) = (Some(last), after);
        }
        let (entries, rest) = optional(rest, SEQUENCE);
        let (serials, entries_critical) =
            entries.map_or(Some((HashSet::new(), false)), entry_serials)?;
        let mut critical = entries_critical;
        if let (Some(content), _) = optional(rest, EXTENSIONS) {
            let (list, _) = element(content, SEQUENCE)?;
            critical |= extensions(list).any(|extension| extension.critical);
        }
        Some(RevocationList {
            issuer: issuer.to_vec(),
            signed: signed.to_vec(),
            algorithm: signature.algorithm.to_vec(),
            signature: signature.bytes.to_vec(),
            first_unix_seconds,
            last_unix_seconds,
            serials,
            critical,
            signer: OnceLock::new(),
        })
    }

    fn is_current(&self, now_unix_seconds: i64) -> bool {
        self.first_unix_seconds <= now_unix_seconds
            && self.last_unix_seconds.is_none_or(|last| now_unix_seconds <= last)
    }

    fn is_signed_by(&self, algorithms: Algorithms, issuer: &Certificate<'_>) -> bool {
        if self.signer.get().is_some_and(|key| **key == *issuer.key_info) {
            return true;
        }
        let by = Signature { algorithm: &self.algorithm, bytes: &self.signature };
        let signed = issuer.has_signed(algorithms, &self.signed, by);
        if signed {
            let _ = self.signer.set(issuer.key_info.into());
        }
        signed
    }
}

/// Returns the serial numbers of the entries, and whether one of them has a critical extension.
fn entry_serials(mut entries: &[u8]) -> Option<(HashSet<Box<[u8]>>, bool)> {
    let mut serials = HashSet::new();
    let mut critical = false;
    while let Some((entry, after)) = element(entries, SEQUENCE) {
        let (serial, rest) = element(entry, INTEGER)?;
        let (_, _, rest) = any(rest)?;
        if let (Some(list), _) = optional(rest, SEQUENCE) {
            critical |= extensions(list).any(|extension| extension.critical);
        }
        serials.insert(serial.into());
        entries = after;
    }
    entries.is_empty().then_some((serials, critical))
}

/// Returns the result of the lists for a certificate: the last of the errors that OpenSSL would find.
pub(super) fn check(
    lists: &[RevocationList],
    certificate: &Certificate<'_>,
    issuer: Option<&Certificate<'_>>,
    algorithms: Algorithms,
    now_unix_seconds: i64,
) -> Option<VerifyError> {
    let own = lists.iter().filter(|list| names::same(&list.issuer, certificate.issuer));
    // A current list before an expired one, then the newest.
    let list = own.max_by_key(|list| (list.is_current(now_unix_seconds), list.first_unix_seconds));
    let (Some(list), Some(issuer)) = (list, issuer) else {
        return Some(VerifyError::NoRevocationList);
    };
    let mut fault = None;
    if !issuer.may_sign_lists() {
        fault = Some(VerifyError::MayNotSignLists);
    }
    if now_unix_seconds < list.first_unix_seconds {
        fault = Some(VerifyError::RevocationListNotYetValid);
    }
    if list.last_unix_seconds.is_some_and(|last| last < now_unix_seconds) {
        fault = Some(VerifyError::RevocationListExpired);
    }
    if !list.is_signed_by(algorithms, issuer) {
        fault = Some(VerifyError::RevocationListSignature);
    }
    if list.critical {
        fault = Some(VerifyError::UnknownCriticalListExtension);
    }
    if list.serials.contains(certificate.serial) {
        fault = Some(VerifyError::Revoked);
    }
    fault
}
