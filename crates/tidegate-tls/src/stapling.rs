//! Responses of OCSP responders that are sent with the server's certificates (RFC 6066 section 8): the
//! request, and the verification of a response. The caller sends the requests and decides when.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::sign::CertifiedKey;

use crate::key_pair::KeyPair;
use crate::suites::algorithms;
use crate::x509::ocsp;
pub use crate::x509::ocsp::StatusError;
use crate::x509::{Certificate, Purpose, Trust};

/// A certificate with its present OCSP response (`ssl_stapling`). Handshakes do not wait for one: they take
/// the present response. A newer one replaces it for all servers that share this.
pub struct Stapled {
    plain: KeyPair,
    current: RwLock<Arc<CertifiedKey>>,
}

/// The OCSP request for one certificate, and the verification of its response. It holds no connection and no
/// timer: the caller sends the request to the responder, passes the response, and gets the time of the next
/// request.
#[derive(Debug)]
pub struct StatusCheck {
    own: Arc<Stapled>,
    /// The issuer (DER).
    issuer: Vec<u8>,
    /// The trust in the issuer, where responses are verified.
    verify: Option<Trust>,
    /// When the present response ends, in seconds since 1970; 0 where there is none or it names no end.
    until: AtomicI64,
}

/// The most certificates between the issuer and a trusted certificate.
const TRUST_DEPTH_MAX: u64 = 10;

impl Stapled {
    /// Makes a certificate without a response.
    pub fn new(plain: KeyPair) -> Stapled {
        Stapled { current: RwLock::new(plain.0.clone()), plain }
    }

    /// Sets the response (DER) that is sent from now on, or none.
    pub fn staple(&self, response: Option<Vec<u8>>) {
        let key = CertifiedKey { ocsp: response, ..(*self.plain.0).clone() };
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(key);
    }

    pub(crate) fn current(&self) -> Arc<CertifiedKey> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn pair(&self) -> &KeyPair {
        &self.plain
    }
}

impl fmt::Debug for Stapled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stapled").field("plain", &self.plain).finish_non_exhaustive()
    }
}

/// Returns whether the content of a file is an OCSP response.
pub fn is_response(der: &[u8]) -> bool {
    ocsp::is_response(der)
}

impl StatusCheck {
    /// Finds a certificate's issuer in its chain or among `trusted` ones (DER). With `verify`, responses must
    /// be signed by the issuer or a responder it has named, and the issuer must be trusted.
    ///
    /// Returns `None` where there is no issuer.
    pub fn new(own: Arc<Stapled>, trusted: &[Vec<u8>], verify: bool) -> Option<StatusCheck> {
        let mut chain = own.plain.chain();
        let leaf = Certificate::parse(chain.next()?)?;
        let mut candidates = chain.chain(trusted.iter().map(Vec::as_slice));
        let is_issuer =
            |der: &&[u8]| Certificate::parse(der).is_some_and(|issuer| leaf.is_issued_by(&issuer));
        let issuer = candidates.find(is_issuer)?.to_vec();
        drop(candidates);
        let trust = || Trust::new(Purpose::Any, trusted, &[], TRUST_DEPTH_MAX, algorithms().all);
        Some(StatusCheck { verify: verify.then(trust), own, issuer, until: AtomicI64::new(0) })
    }

    /// Returns the URL of the responder in the certificate.
    pub fn responder(&self) -> Option<String> {
        ocsp::responder(&self.leaf()?)
    }

    /// Returns the request (RFC 6960 section 4.1, DER); `None` where the issuer has no key.
    pub fn question(&self) -> Option<Vec<u8>> {
        ocsp::request(&self.leaf()?, &Certificate::parse(&self.issuer)?)
    }

    /// Verifies a response (DER) and sends it with the certificate from now on. Returns the second since 1970
    /// when newer information will be available; `None` if it always is.
    ///
    /// # Errors
    /// The response is not usable; the present one is kept.
    pub fn take(
        &self,
        response: Vec<u8>,
        now_unix_seconds: i64,
    ) -> Result<Option<i64>, StatusError> {
        let leaf = self.leaf().ok_or(StatusError::NO_CERTIFICATE)?;
        let good = ocsp::verify_response(&response, &leaf, now_unix_seconds)?;
        if let Some(trust) = &self.verify
            && !ocsp::is_authentic(
                &response,
                &self.issuer,
                trust,
                algorithms().all,
                now_unix_seconds,
            )
        {
            return Err(StatusError::NOT_AUTHENTIC);
        }
        self.own.staple(Some(response));
        self.until.store(good.next_unix_seconds.unwrap_or(0), Ordering::Relaxed);
        Ok(good.next_unix_seconds)
    }

    /// Removes the response.
    pub fn clear(&self) {
        self.until.store(0, Ordering::Relaxed);
        self.own.staple(None);
    }

    /// Removes the response if it has ended, or has no end: no newer one could be fetched.
    pub fn expire(&self, now_unix_seconds: i64) {
        if self.until.load(Ordering::Relaxed) <= now_unix_seconds {
            self.clear();
        }
    }

    fn leaf(&self) -> Option<Certificate<'_>> {
        Certificate::parse(self.own.plain.chain().next()?)
    }
}
