//! Validations in progress, for all issuers and threads; they outlive reloads.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use tidegate_acme::{Challenge, ChallengeKind, HTTP_PREFIX, Key, KeyKind};
use tidegate_codec::Known;
use tidegate_codec::request::Method;
use tidegate_core::{Body, Exchange, Step};
use tidegate_front::HandshakeChallenges;
use tidegate_tls::{KeyPair, pem};

/// The validations in progress.
#[derive(Default)]
pub(super) struct Challenges {
    /// Proofs of http-01 by their tokens.
    proofs: RwLock<HashMap<String, Bytes>>,
    /// The number of proofs: with none, requests take no lock.
    count: AtomicUsize,
    /// Certificates of tls-alpn-01.
    pub(super) handshakes: Arc<HandshakeChallenges>,
}

impl Challenges {
    /// Presents a challenge to requests and handshakes from now on.
    ///
    /// # Errors
    /// The cryptographic library makes no certificate for it.
    pub(super) fn present(&self, challenge: &Challenge) -> Result<(), String> {
        match challenge.kind {
            ChallengeKind::Http01 => self.change(|proofs| {
                let proof = Bytes::from(challenge.key_authorization.clone().into_bytes());
                proofs.insert(challenge.token.clone(), proof);
            }),
            ChallengeKind::TlsAlpn01 => {
                let name = challenge.identifier.server_name();
                self.handshakes.present(&name, pair(challenge)?);
            }
            // A record, which a program sets.
            ChallengeKind::Dns01 => {}
        }
        Ok(())
    }

    /// Ends the presentation of a challenge.
    pub(super) fn withdraw(&self, challenge: &Challenge) {
        match challenge.kind {
            ChallengeKind::Http01 => self.change(|proofs| drop(proofs.remove(&challenge.token))),
            ChallengeKind::TlsAlpn01 => {
                self.handshakes.withdraw(&challenge.identifier.server_name());
            }
            ChallengeKind::Dns01 => {}
        }
    }

    fn change(&self, change: impl FnOnce(&mut HashMap<String, Bytes>)) {
        let mut proofs = self.proofs.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut proofs);
        self.count.store(proofs.len(), Ordering::Release);
    }

    /// Responds to a validation by http-01 (RFC 8555 section 8.3). Requests for unknown tokens go on: another program
    /// may have written their files.
    pub(super) fn respond<'x>(&self, x: &'x mut Exchange) -> Step<'x> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Step::Decline;
        }
        let Some(token) = x.request.path.strip_prefix(HTTP_PREFIX.as_bytes()) else {
            return Step::Decline;
        };
        let is_known_method = matches!(x.request.method, Method::Get | Method::Head);
        let proofs = self.proofs.read().unwrap_or_else(PoisonError::into_inner);
        let proof = str::from_utf8(token).ok().and_then(|token| proofs.get(token)).cloned();
        drop(proofs);
        let Some(proof) = proof.filter(|_| is_known_method) else { return Step::Decline };
        x.disposition.set_status(200);
        x.response.headers.set_known(Known::ContentType, b"application/octet-stream");
        Step::Respond(Body::Bytes(proof))
    }
}

/// Makes the certificate of tls-alpn-01 with a key of its own.
fn pair(challenge: &Challenge) -> Result<KeyPair, String> {
    let key = Key::generate(KeyKind::Ecdsa256).map_err(|error| error.to_string())?;
    let chain = challenge.certificate(&key).map_err(|error| error.to_string())?;
    let failed = |error: pem::PemError| error.message("certificate", "tls-alpn-01");
    let chain = pem::certificates(chain.as_bytes()).map_err(failed)?;
    let private = pem::private_key(key.to_pem().as_bytes(), &[]).map_err(failed)?;
    KeyPair::new(chain, &private).map_err(|error| error.to_string())
}
