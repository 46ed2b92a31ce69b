//! Certificates with their private keys, from PEM files.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_conf::{Diagnostic, Word};
use tidegate_core::builder::PlanBuilder;
use tidegate_tls::key_files::{certificates, private_key};
use tidegate_tls::x509 as der;
use tokio_rustls::rustls::SignatureAlgorithm;
use tokio_rustls::rustls::crypto::aws_lc_rs::sign::any_supported_type;
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

use super::stapling::Stapled;

/// Pairs that were loaded already in this build: `http` level certificates serve many servers.
#[derive(Default)]
struct Loaded(HashMap<(Vec<u8>, Vec<u8>), Arc<CertifiedKey>>);

/// The certificates of one server, the preferred kind first.
#[derive(Debug)]
pub struct Certificates(Vec<Arc<Stapled>>);

impl Certificates {
    /// ECDSA before others: it is what OpenSSL prefers, and costs the server a tenth of RSA.
    pub fn new(mut pairs: Vec<Arc<Stapled>>) -> Certificates {
        pairs.sort_by_key(|pair| match pair.current().key.algorithm() {
            SignatureAlgorithm::ECDSA => 0,
            SignatureAlgorithm::RSA => 2,
            _ => 1,
        });
        Certificates(pairs)
    }

    /// All certificates' bytes, which tell one server's sessions from another's.
    pub fn parts(&self) -> Vec<Vec<u8>> {
        let pairs = self.0.iter().map(|pair| pair.current());
        pairs
            .flat_map(|pair| pair.cert.iter().map(|der| der.to_vec()).collect::<Vec<_>>())
            .collect()
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let schemes = hello.signature_schemes();
        let fits = |pair: &Arc<CertifiedKey>| pair.key.choose_scheme(schemes).is_some();
        // Without a fitting one the handshake fails with a better reason than "no certificate".
        let mut all = self.0.iter().map(|pair| pair.current());
        all.find(fits).or_else(|| self.0.first().map(|pair| pair.current()))
    }
}

/// Loads one pair.
///
/// # Errors
/// In nginx's words, at the directive.
pub fn load(
    plan: &mut PlanBuilder<'_>,
    certificate: &Word,
    key: &Word,
    passwords: &[Vec<u8>],
) -> Result<Arc<CertifiedKey>, Diagnostic> {
    let place = (certificate.bytes.clone(), key.bytes.clone());
    if let Some(loaded) = plan.shared::<Loaded>().0.get(&place) {
        return Ok(loaded.clone());
    }
    let chain = certificates(plan, certificate)?;
    let (name, private) = private_key(plan, key, passwords)?;
    let failed = |reason: &str| {
        let message = format!("SSL_CTX_use_PrivateKey(\"{name}\") failed (SSL: {reason})");
        Diagnostic::emerg(message).at(key.span)
    };
    let signing = any_supported_type(&private).map_err(|error| failed(&error.to_string()))?;
    let public = chain.first().and_then(|certificate| der::public_key(certificate));
    let Some(public) = public else {
        let name = certificate.display();
        let message = format!("cannot load certificate \"{name}\": no X.509 certificate");
        return Err(Diagnostic::emerg(message).at(certificate.span));
    };
    // Only the bits are compared: the algorithm beside them can be written in several ways.
    let own = signing.public_key();
    if own.is_some_and(|own| der::key_bits(own.as_ref()) != Some(public)) {
        let certificate = certificate.display();
        return Err(failed("key values mismatch")
            .label("this key belongs to another certificate")
            .help(format!("the certificate is \"{certificate}\"")));
    }
    let pair = CertifiedKey::new(chain, signing);
    let pair = Arc::new(pair);
    plan.shared::<Loaded>().0.insert(place, pair.clone());
    Ok(pair)
}
