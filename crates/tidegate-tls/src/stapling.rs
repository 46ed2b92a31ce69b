//! Answers of OCSP responders that go along with our certificates (RFC 6066 section 8): what to ask, and what an
//! answer is worth. Who asks, and when, is the caller's.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use tokio_rustls::rustls::sign::CertifiedKey;

use crate::key_pair::KeyPair;
use crate::suites::algorithms;
use crate::x509::ocsp;
pub use crate::x509::ocsp::StatusError;
use crate::x509::{Certificate, Purpose, Trust};

/// A certificate with the OCSP response that goes along with it at the moment (`ssl_stapling`). No handshake waits for
/// one: they take what there is, and whoever has a newer one puts it in its place, for all servers that share this.
pub struct Stapled {
    plain: KeyPair,
    current: RwLock<Arc<CertifiedKey>>,
}

/// What is asked about one certificate, and who may answer. It holds no connection and no timer: the caller sends the
/// question to the responder, brings the response back, and is told when to ask again.
#[derive(Debug)]
pub struct StatusCheck {
    own: Arc<Stapled>,
    /// DER.
    issuer: Vec<u8>,
    /// Whom the issuer is trusted by, where answers are verified.
    verify: Option<Trust>,
}

/// How far the issuer may be from a trusted certificate.
const TRUST_DEPTH_MAX: u64 = 10;

impl Stapled {
    /// A certificate without an answer.
    pub fn new(plain: KeyPair) -> Stapled {
        Stapled { current: RwLock::new(plain.0.clone()), plain }
    }

    /// Lets an answer (DER) go along from now on, or none.
    pub fn staple(&self, answer: Option<Vec<u8>>) {
        let key = CertifiedKey { ocsp: answer, ..(*self.plain.0).clone() };
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

/// Whether a file's content is an answer at all.
pub fn is_answer(der: &[u8]) -> bool {
    ocsp::is_answer(der)
}

impl StatusCheck {
    /// Finds a certificate's issuer in its chain or among `trusted` ones (DER). With `verify`, answers must be by the
    /// issuer or somebody it has named, and the issuer must be trusted.
    ///
    /// `None` where there is no issuer.
    pub fn new(own: Arc<Stapled>, trusted: &[Vec<u8>], verify: bool) -> Option<StatusCheck> {
        let mut chain = own.plain.chain();
        let leaf = Certificate::parse(chain.next()?)?;
        let mut candidates = chain.chain(trusted.iter().map(Vec::as_slice));
        let is_issuer =
            |der: &&[u8]| Certificate::parse(der).is_some_and(|issuer| leaf.is_issued_by(&issuer));
        let issuer = candidates.find(is_issuer)?.to_vec();
        drop(candidates);
        let trust = || Trust::new(Purpose::Any, trusted, &[], TRUST_DEPTH_MAX, algorithms().all);
        Some(StatusCheck { verify: verify.then(trust), own, issuer })
    }

    /// The URL of the responder that the certificate names.
    pub fn responder(&self) -> Option<String> {
        ocsp::responder(&self.leaf()?)
    }

    /// The question (RFC 6960 section 4.1, DER); `None` where the issuer has no key.
    pub fn question(&self) -> Option<Vec<u8>> {
        ocsp::request(&self.leaf()?, &Certificate::parse(&self.issuer)?)
    }

    /// Takes an answer (DER) and lets it go along with the certificate. Returns the second since 1970 when newer
    /// information comes; `None` if it is always there.
    ///
    /// # Errors
    /// The answer is of no use; the one before stays.
    pub fn take(&self, answer: Vec<u8>, now_unix_seconds: i64) -> Result<Option<i64>, StatusError> {
        let leaf = self.leaf().ok_or(StatusError::NO_CERTIFICATE)?;
        let good = ocsp::answer(&answer, &leaf, now_unix_seconds)?;
        if let Some(trust) = &self.verify
            && !ocsp::is_authentic(&answer, &self.issuer, trust, algorithms().all, now_unix_seconds)
        {
            return Err(StatusError::NOT_AUTHENTIC);
        }
        self.own.staple(Some(answer));
        Ok(good.next_unix_seconds)
    }

    /// Lets no answer go along.
    pub fn clear(&self) {
        self.own.staple(None);
    }

    fn leaf(&self) -> Option<Certificate<'_>> {
        Certificate::parse(self.own.plain.chain().next()?)
    }
}
