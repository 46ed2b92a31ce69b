//! Whom a server's clients are trusted by.

use std::iter;

use aws_lc_rs::digest;
use tokio_rustls::rustls::DistinguishedName;

use crate::suites::algorithms;
use crate::verify::ClientVerifier;
use crate::x509::possession::Possession;
use crate::x509::{Certificate, Fault, Purpose, Trust};

/// What a server trusts its clients' certificates by. Handshakes ask for a certificate and take any whose key the
/// client has; the verdict comes with what was negotiated, and it is the caller who refuses.
#[derive(Debug)]
pub struct ClientTrust {
    trust: Trust,
    /// Contents of the names that are sent to clients, each once.
    names: Vec<Vec<u8>>,
    /// The same for servers that trust the same.
    identity: [u8; 8],
}

impl ClientTrust {
    /// Trusts these certificates (DER) as roots. The names of those in `announced` are sent to clients, so that
    /// they can choose a certificate; `silent` ones are trusted as well. `revocation_lists` (DER) may be empty for no
    /// checks. At most `depth_max` certificates may stand between a client's and a root.
    pub fn new(
        announced: &[Vec<u8>],
        silent: &[Vec<u8>],
        revocation_lists: &[Vec<u8>],
        depth_max: u64,
    ) -> ClientTrust {
        let mut names: Vec<Vec<u8>> = Vec::new();
        for name in announced.iter().filter_map(|der| Certificate::parse(der)).map(|c| c.subject) {
            if !names.iter().any(|known| known == name) {
                names.push(name.to_vec());
            }
        }
        let trusted = [announced, silent].concat();
        let lists = revocation_lists;
        let trust = Trust::new(Purpose::Client, &trusted, lists, depth_max, algorithms().all);
        let mut digest = digest::Context::new(&digest::SHA256);
        digest.update(&depth_max.to_be_bytes());
        for part in trusted.iter().chain(lists) {
            digest.update(&(part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        let identity = digest.finish().as_ref().first_chunk().copied();
        ClientTrust { trust, names, identity: identity.unwrap_or_default() }
    }

    /// The same eight bytes for servers that trust the same, others for others.
    pub fn identity(&self) -> [u8; 8] {
        self.identity
    }

    /// What tells this server's sessions from those of others.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        iter::once(&self.identity[..]).chain(self.names.iter().map(Vec::as_slice))
    }

    /// What the library asks while a handshake goes on.
    pub(crate) fn verifier(&self) -> ClientVerifier {
        let names = self.names.iter().map(|name| DistinguishedName::in_sequence(name));
        ClientVerifier::new(Possession::new(algorithms()), names.collect())
    }

    /// Why a chain as the client sent it is not trusted.
    pub(crate) fn fault(&self, chain: &[impl AsRef<[u8]>], now_unix_seconds: i64) -> Option<Fault> {
        self.trust.check(chain, now_unix_seconds).err()
    }
}
