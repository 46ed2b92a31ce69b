//! The reasons why a certificate is not trusted.

/// The reason why a certificate is not trusted, with OpenSSL's number and words ([`VerifyError::words`]), which
/// appear in logs and in `$ssl_client_verify`. Of several reasons it is the one that OpenSSL would report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyError {
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

impl VerifyError {
    /// Returns OpenSSL's number and text.
    pub fn words(self) -> (u16, &'static str) {
        match self {
            VerifyError::NoIssuer => (2, "unable to get issuer certificate"),
            VerifyError::NoRevocationList => (3, "unable to get certificate CRL"),
            VerifyError::BadSignature => (7, "certificate signature failure"),
            VerifyError::RevocationListSignature => (8, "CRL signature failure"),
            VerifyError::NotYetValid => (9, "certificate is not yet valid"),
            VerifyError::Expired => (10, "certificate has expired"),
            VerifyError::RevocationListNotYetValid => (11, "CRL is not yet valid"),
            VerifyError::RevocationListExpired => (12, "CRL has expired"),
            VerifyError::SelfSigned => (18, "self-signed certificate"),
            VerifyError::SelfSignedInChain => (19, "self-signed certificate in certificate chain"),
            VerifyError::NoLocalIssuer => (20, "unable to get local issuer certificate"),
            VerifyError::Unverifiable => (21, "unable to verify the first certificate"),
            VerifyError::Revoked => (23, "certificate revoked"),
            VerifyError::NotAuthority => (24, "invalid CA certificate"),
            VerifyError::PathTooLong => (25, "path length constraint exceeded"),
            VerifyError::Purpose => (26, "unsuitable certificate purpose"),
            VerifyError::UnknownCriticalExtension => (34, "unhandled critical extension"),
            VerifyError::MayNotSignLists => (35, "key usage does not include CRL signing"),
            VerifyError::UnknownCriticalListExtension => (36, "unhandled critical CRL extension"),
            VerifyError::InvalidExtension => (41, "invalid or inconsistent certificate extension"),
            VerifyError::ConstrainedNames => (51, "unsupported name constraint type"),
        }
    }

    /// Returns whether the only reason is a missing trusted issuer, which `ssl_verify_client optional_no_ca`
    /// allows.
    pub fn is_about_trust(self) -> bool {
        matches!(
            self,
            VerifyError::SelfSigned
                | VerifyError::SelfSignedInChain
                | VerifyError::NoLocalIssuer
                | VerifyError::Unverifiable
        )
    }
}

impl std::fmt::Display for VerifyError {
    /// Writes it as nginx logs it: `20:unable to get local issuer certificate`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (number, text) = self.words();
        write!(f, "{number}:{text}")
    }
}

impl std::error::Error for VerifyError {}
