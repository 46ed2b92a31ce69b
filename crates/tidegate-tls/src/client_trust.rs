//! The trust of a server in its clients' certificates.

use std::iter;

use aws_lc_rs::digest;
use rustls::DistinguishedName;

use crate::client_status::{StatusQuery, StatusScope};
use crate::suites::algorithms;
use crate::verify::ClientVerifier;
use crate::x509::possession::Possession;
use crate::x509::{Certificate, Purpose, Trust, VerifyError};

/// The trusted authorities for certificates of a server's clients. Handshakes request a certificate and
/// accept any whose key the client has. The result of the verification is in the negotiated values, and the
/// caller refuses.
#[derive(Debug)]
pub struct ClientTrust {
    trust: Trust,
    /// Contents of the names that are sent to clients, each once.
    names: Vec<Vec<u8>>,
    /// Equal for servers with equal trust.
    identity: [u8; 8],
    /// The certificates whose status is queried.
    statuses: StatusScope,
}

impl ClientTrust {
    /// Trusts these certificates (DER) as roots. The names of those in `announced` are sent to clients, so
    /// that they can choose a certificate; `silent` ones are trusted as well. Empty `revocation_lists` (DER)
    /// disable the revocation check. At most `depth_max` certificates may be between a client's and a root.
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
        let (identity, statuses) = (identity.unwrap_or_default(), StatusScope::None);
        ClientTrust { trust, names, identity, statuses }
    }

    /// Sets the certificates of trusted chains whose status is to be queried (`ssl_ocsp`).
    #[must_use]
    pub fn with_statuses(self, statuses: StatusScope) -> ClientTrust {
        ClientTrust { statuses, ..self }
    }

    /// Returns eight bytes that are equal for servers with equal trust, and differ for others.
    pub fn identity(&self) -> [u8; 8] {
        self.identity
    }

    /// Returns the bytes that separate this server's sessions from those of others.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        iter::once(&self.identity[..]).chain(self.names.iter().map(Vec::as_slice))
    }

    /// Returns the verifier that the library calls during a handshake.
    pub(crate) fn verifier(&self) -> ClientVerifier {
        let names = self.names.iter().map(|name| DistinguishedName::in_sequence(name));
        ClientVerifier::new(Possession::new(algorithms()), names.collect())
    }

    /// Returns the reason why a chain, as the client sent it, is not trusted, and for a trusted one the queries that
    /// decide further.
    pub(crate) fn judge(
        &self,
        chain: &[impl AsRef<[u8]>],
        now_unix_seconds: i64,
    ) -> (Option<VerifyError>, Vec<StatusQuery>) {
        match self.trust.check(chain, now_unix_seconds) {
            Err(fault) => (Some(fault), Vec::new()),
            Ok(()) => {
                let scope = self.statuses;
                (None, StatusQuery::of_chain(scope, &self.trust, chain, now_unix_seconds))
            }
        }
    }
}
