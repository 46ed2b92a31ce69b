//! Whether the certificates of a client's chain were revoked, as their OCSP responders say (`ssl_ocsp`): the
//! requests, the verification of responses, and a cache of their results. The caller sends the requests.
//!
//! ```text
//! ClientTrust::with_statuses ──> ShownCertificate::statuses: one StatusQuery for each certificate to ask about
//! StatusQuery::request ── the caller ──> response ──> StatusQuery::verify ──> CertificateStatus
//! ```

#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::sessions::SessionCache;
use crate::suites::algorithms;
use crate::x509::ocsp::{self, StatusError};
use crate::x509::{Certificate, Trust};

/// The certificates of a chain whose status is queried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatusScope {
    /// None.
    #[default]
    None,
    /// The client's own certificate.
    Leaf,
    /// All but the root.
    Chain,
}

/// A certificate of a trusted chain, and its issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusQuery {
    /// DER.
    certificate: Vec<u8>,
    /// DER.
    issuer: Vec<u8>,
}

/// What a responder says about a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateStatus {
    /// Whether it was revoked.
    pub revoked: bool,
    /// The second since 1970 until which that holds; `None` if newer information is always available.
    pub next_unix_seconds: Option<i64>,
}

/// Statuses by certificate (`ssl_ocsp_cache`), each as long as its response says. The oldest is replaced when
/// there is no room. All threads share it, and a lock is held for a copy of nine bytes.
#[derive(Debug)]
pub struct StatusCache(SessionCache);

impl StatusQuery {
    /// Returns the queries of a scope for a chain that `trust` accepts, the client's own certificate first.
    pub(crate) fn of_chain(
        scope: StatusScope,
        trust: &Trust,
        chain: &[impl AsRef<[u8]>],
        now_unix_seconds: i64,
    ) -> Vec<StatusQuery> {
        let most = match scope {
            StatusScope::None => return Vec::new(),
            StatusScope::Leaf => 1,
            StatusScope::Chain => usize::MAX,
        };
        let path = trust.path(chain, now_unix_seconds);
        let pairs = path.windows(2).take(most);
        let query = |pair: &[&[u8]]| match pair {
            [own, issuer] => {
                Some(StatusQuery { certificate: own.to_vec(), issuer: issuer.to_vec() })
            }
            _ => None,
        };
        pairs.filter_map(query).collect()
    }

    /// Returns the URL of the responder in the certificate.
    pub fn responder(&self) -> Option<String> {
        ocsp::responder(&Certificate::parse(&self.certificate)?)
    }

    /// Returns the request (RFC 6960 section 4.1, DER), which is equal for equal certificates; `None` where the
    /// issuer has no key.
    pub fn request(&self) -> Option<Vec<u8>> {
        ocsp::request(&Certificate::parse(&self.certificate)?, &Certificate::parse(&self.issuer)?)
    }

    /// Verifies a response (DER): it must be about this certificate and of this time, and signed by the issuer or
    /// a responder that the issuer has named.
    ///
    /// # Errors
    /// The response says nothing about the certificate that can be trusted.
    pub fn verify(
        &self,
        response: &[u8],
        now_unix_seconds: i64,
    ) -> Result<CertificateStatus, StatusError> {
        let own = Certificate::parse(&self.certificate).ok_or(StatusError::NO_CERTIFICATE)?;
        let issuer = Certificate::parse(&self.issuer).ok_or(StatusError::NO_CERTIFICATE)?;
        let status = ocsp::status(response, &own, now_unix_seconds)?;
        match ocsp::is_signed_for(response, &issuer, algorithms().all, now_unix_seconds) {
            true => Ok(status),
            false => Err(StatusError::NOT_AUTHENTIC),
        }
    }
}

impl StatusCache {
    /// Makes the cache of `shared:name:size`, with the size in bytes.
    pub fn with_bytes(bytes: u64) -> StatusCache {
        StatusCache(SessionCache::with_bytes(bytes))
    }

    /// Stores a status under its request. One without an end is not stored.
    pub fn put(&self, request: &[u8], status: CertificateStatus) {
        let Some(until) = status.next_unix_seconds else { return };
        let value = [&[u8::from(status.revoked)][..], &until.to_be_bytes()].concat();
        self.0.put(request.to_vec(), value, 0);
    }

    /// Returns whether the certificate of a request was revoked, where that is known at this time.
    pub fn find(&self, request: &[u8], now_unix_seconds: i64) -> Option<bool> {
        let value = self.0.find(request, false, Duration::MAX, 0)?;
        let (revoked, until) = value.split_first()?;
        let until = i64::from_be_bytes(until.try_into().ok()?);
        (now_unix_seconds < until).then_some(*revoked != 0)
    }
}
