//! The certificates in use, by the beginnings of the names of their files. They outlive reloads.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use tidegate_core::figures::OrderState;

/// The certificates of an issuer.
#[derive(Default)]
pub(super) struct Certificates {
    pairs: RwLock<HashMap<String, Arc<Pair>>>,
    /// What happened last with each, and when, in Unix milliseconds.
    events: RwLock<HashMap<String, (String, u64)>>,
}

/// A certificate with its key, as values of directives.
#[derive(PartialEq, Eq)]
struct Pair {
    chain: Vec<u8>,
    key: Vec<u8>,
}

/// The certificate of a server.
#[derive(Clone)]
pub(super) struct ServerCertificate {
    certificates: Arc<Certificates>,
    stem: String,
}

/// The part of a pair that a variable has.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Chain,
    Key,
}

/// The form of a value that is a PEM text itself (`ssl_certificate`).
const TEXT: &str = "data:";
/// The first line of a certificate, in front of which a file has its key.
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";

impl Certificates {
    /// Takes a certificate into use, in PEM.
    pub(super) fn install(&self, stem: &str, key: &str, chain: &str) {
        let value = |text: &str| format!("{TEXT}{text}").into_bytes();
        let pair = Pair { chain: value(chain), key: value(key) };
        let known = self.pairs.read().unwrap_or_else(PoisonError::into_inner).get(stem).cloned();
        if known.is_none_or(|known| *known != pair) {
            let mut all = self.pairs.write().unwrap_or_else(PoisonError::into_inner);
            all.insert(stem.to_owned(), Arc::new(pair));
        }
    }

    /// Takes a certificate into use as its file has it: the key, then the chain. A damaged one is left out; the run of
    /// the issuer reports it.
    pub(super) fn install_file(&self, stem: &str, contents: &[u8]) {
        let Ok(text) = str::from_utf8(contents) else { return };
        let Some((key, chain)) = text.find(BEGIN).and_then(|begin| text.split_at_checked(begin))
        else {
            return;
        };
        let is_chain = tidegate_tls::pem::certificates(chain.as_bytes()).is_ok();
        if is_chain && tidegate_tls::pem::private_key(key.as_bytes(), &[]).is_ok() {
            self.install(stem, key, chain);
        }
    }

    /// Notes what has happened with a certificate.
    pub(super) fn note(&self, stem: &str, event: &str, now: u64) {
        let mut events = self.events.write().unwrap_or_else(PoisonError::into_inner);
        events.insert(stem.to_owned(), (event.to_owned(), now));
    }

    /// Returns the certificate in use, and what has happened last, for status pages.
    pub(super) fn state(&self, stem: &str) -> OrderState {
        let pair = self.find(stem);
        let text = pair.as_ref().and_then(|pair| pair.chain.strip_prefix(TEXT.as_bytes()));
        let chain = text.and_then(|text| tidegate_tls::pem::certificates(text).ok());
        let certificate = chain.and_then(|chain| tidegate_front::shown_certificate(chain.first()?));
        let events = self.events.read().unwrap_or_else(PoisonError::into_inner);
        OrderState { certificate, last: events.get(stem).cloned() }
    }

    /// Returns whether there is a certificate.
    pub(super) fn has(&self, stem: &str) -> bool {
        self.pairs.read().unwrap_or_else(PoisonError::into_inner).contains_key(stem)
    }

    fn find(&self, stem: &str) -> Option<Arc<Pair>> {
        self.pairs.read().unwrap_or_else(PoisonError::into_inner).get(stem).cloned()
    }
}

impl ServerCertificate {
    pub(super) fn new(certificates: Arc<Certificates>, stem: &str) -> ServerCertificate {
        ServerCertificate { certificates, stem: stem.to_owned() }
    }

    /// Appends a part; `false` while there is no certificate.
    pub(super) fn append(&self, part: Part, out: &mut Vec<u8>) -> bool {
        let Some(pair) = self.certificates.find(&self.stem) else { return false };
        out.extend_from_slice(match part {
            Part::Chain => &pair.chain,
            Part::Key => &pair.key,
        });
        true
    }
}

/// Shows the name, and no key.
impl fmt::Debug for ServerCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerCertificate").field(&self.stem).finish()
    }
}
