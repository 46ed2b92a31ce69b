//! The reasons why a certificate is not trusted.

/// The reason why a certificate is not trusted, with OpenSSL's number and words ([`Fault::words`]), which
/// appear in logs and in `$ssl_client_verify`. Of several reasons it is the one that OpenSSL would report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The issuer of a trusted certificate in the chain is missing.
    NoIssuer,
    /// There is no revocation list of a certificate's issuer.
    NoRevocationList,
    /// A certificate is not signed by its issuer.
    BadSignature,
    /// A revocation list is not signed by its issuer.
    RevocationListSignature,
    /// The validity of a certificate has not begun.
    NotYetValid,
    /// The validity of a certificate has ended, or cannot be read.
    Expired,
    /// A revocation list is of a later time.
    RevocationListNotYetValid,
    /// A newer revocation list is due.
    RevocationListExpired,
    /// The certificate is self-signed, and is not trusted.
    SelfSigned,
    /// The chain ends at a self-signed certificate, which is not trusted.
    SelfSignedInChain,
    /// The chain ends at a certificate whose issuer is unknown.
    NoLocalIssuer,
    /// There is only the certificate, and no issuer to verify it by.
    Unverifiable,
    /// A certificate was revoked.
    Revoked,
    /// An issuer may not issue certificates.
    NotAuthority,
    /// There are more certificates below an authority than it allows.
    PathTooLong,
    /// A certificate is for other purposes than this side of TLS.
    Purpose,
    /// A critical extension is unknown.
    UnknownCriticalExtension,
    /// An issuer may not sign revocation lists.
    MayNotSignLists,
    /// A critical extension of a revocation list is unknown.
    UnknownCriticalListExtension,
    /// A certificate, or one of its extensions, cannot be read.
    InvalidExtension,
    /// A certificate constrains names, which are not compared here.
    ConstrainedNames,
}

impl Fault {
    /// Returns OpenSSL's number and text.
    pub fn words(self) -> (u16, &'static str) {
        match self {
            Fault::NoIssuer => (2, "unable to get issuer certificate"),
            Fault::NoRevocationList => (3, "unable to get certificate CRL"),
            Fault::BadSignature => (7, "certificate signature failure"),
            Fault::RevocationListSignature => (8, "CRL signature failure"),
            Fault::NotYetValid => (9, "certificate is not yet valid"),
            Fault::Expired => (10, "certificate has expired"),
            Fault::RevocationListNotYetValid => (11, "CRL is not yet valid"),
            Fault::RevocationListExpired => (12, "CRL has expired"),
            Fault::SelfSigned => (18, "self-signed certificate"),
            Fault::SelfSignedInChain => (19, "self-signed certificate in certificate chain"),
            Fault::NoLocalIssuer => (20, "unable to get local issuer certificate"),
            Fault::Unverifiable => (21, "unable to verify the first certificate"),
            Fault::Revoked => (23, "certificate revoked"),
            Fault::NotAuthority => (24, "invalid CA certificate"),
            Fault::PathTooLong => (25, "path length constraint exceeded"),
            Fault::Purpose => (26, "unsuitable certificate purpose"),
            Fault::UnknownCriticalExtension => (34, "unhandled critical extension"),
            Fault::MayNotSignLists => (35, "key usage does not include CRL signing"),
            Fault::UnknownCriticalListExtension => (36, "unhandled critical CRL extension"),
            Fault::InvalidExtension => (41, "invalid or inconsistent certificate extension"),
            Fault::ConstrainedNames => (51, "unsupported name constraint type"),
        }
    }

    /// Returns whether the only reason is a missing trusted issuer, which `ssl_verify_client optional_no_ca`
    /// allows.
    pub fn is_about_trust(self) -> bool {
        matches!(
            self,
            Fault::SelfSigned
                | Fault::SelfSignedInChain
                | Fault::NoLocalIssuer
                | Fault::Unverifiable
        )
    }
}

impl std::fmt::Display for Fault {
    /// Writes it as nginx logs it: `20:unable to get local issuer certificate`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (number, text) = self.words();
        write!(f, "{number}:{text}")
    }
}

impl std::error::Error for Fault {}
