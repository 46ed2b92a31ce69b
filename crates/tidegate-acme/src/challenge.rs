//! Challenges as the caller presents them: http-01 and dns-01 (RFC 8555 sections 8.3 and 8.4), and tls-alpn-01 (RFC 8737).
//!
//! ```
//! use tidegate_acme::{Challenge, ChallengeKind, Identifier, Key, KeyKind};
//!
//! let challenge = Challenge {
//!     kind: ChallengeKind::Http01,
//!     identifier: Identifier::parse("example.com")?,
//!     token: "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA".to_owned(),
//!     key_authorization: "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA.NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"
//!         .to_owned(),
//! };
//! // http-01: the body of the response to GET of this path, on port 80 of the name.
//! assert!(challenge.path().starts_with("/.well-known/acme-challenge/evaGxf"));
//! // tls-alpn-01: the certificate of a handshake with this name and no protocol but `acme-tls/1`.
//! let key = Key::generate(KeyKind::Ecdsa256)?;
//! assert!(challenge.certificate(&key)?.starts_with("-----BEGIN CERTIFICATE-----"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(test)]
mod tests;

use std::fmt;

use aws_lc_rs::digest;
use rcgen::{CertificateParams, CustomExtension, DistinguishedName};

use crate::csr::{alternative_names, failed};
use crate::encoding::base64url;
use crate::identifier::Identifier;
use crate::jws::AccountKey;
use crate::key::{Key, KeyError};
use crate::message::ChallengeKind;

/// A challenge that the caller presents until it is withdrawn.
#[derive(Clone, PartialEq, Eq)]
pub struct Challenge {
    /// The kind: where it is presented.
    pub kind: ChallengeKind,
    /// The name or address that is validated.
    pub identifier: Identifier,
    /// The token: it names the challenge of http-01.
    pub token: String,
    /// The proof: token and thumbprint of the account's key (RFC 8555 section 8.1).
    pub key_authorization: String,
}

/// The protocol that a validation by tls-alpn-01 offers, and the only one (RFC 8737 section 6.2).
pub const ALPN_PROTOCOL: &[u8] = b"acme-tls/1";

/// The directory of challenges of http-01.
pub const HTTP_PREFIX: &str = "/.well-known/acme-challenge/";

impl Challenge {
    pub(crate) fn new(
        kind: ChallengeKind,
        identifier: Identifier,
        token: &str,
        key: &AccountKey,
    ) -> Challenge {
        let key_authorization = format!("{token}.{}", key.thumbprint());
        Challenge { kind, identifier, token: token.to_owned(), key_authorization }
    }

    /// Returns the path of http-01. The response's body is [`Challenge::key_authorization`].
    pub fn path(&self) -> String {
        format!("{HTTP_PREFIX}{}", self.token)
    }

    /// Returns name and value of the TXT record of dns-01 (RFC 8555 section 8.4). A name and its wildcard have records of
    /// the same name, with two values.
    pub fn record(&self) -> (String, String) {
        let hash = digest::digest(&digest::SHA256, self.key_authorization.as_bytes());
        (format!("_acme-challenge.{}", self.identifier), base64url(hash.as_ref()))
    }

    /// Returns the certificate of tls-alpn-01 in PEM, for a key of the caller (RFC 8737 section 3): self-signed, for the
    /// identifier alone, with the hash of the key authorization in a critical extension.
    ///
    /// # Errors
    /// rcgen makes no certificate.
    pub fn certificate(&self, key: &Key) -> Result<String, KeyError> {
        let hash = digest::digest(&digest::SHA256, self.key_authorization.as_bytes());
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = DistinguishedName::new();
        parameters.subject_alt_names = alternative_names(std::slice::from_ref(&self.identifier))?;
        parameters.custom_extensions = vec![CustomExtension::new_acme_identifier(hash.as_ref())];
        Ok(parameters.self_signed(key.pair()).map_err(failed)?.pem())
    }
}

impl fmt::Debug for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.kind, self.identifier, self.token)
    }
}
