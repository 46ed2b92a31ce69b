//! Why a certificate is not trusted.

/// A reason, with OpenSSL's number and words: they stand in logs and in `$ssl_client_verify`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    NoIssuer,
    NoRevocationList,
    BadSignature,
    RevocationListSignature,
    NotYetValid,
    Expired,
    RevocationListNotYetValid,
    RevocationListExpired,
    SelfSigned,
    SelfSignedInChain,
    NoLocalIssuer,
    Unverifiable,
    Revoked,
    NotAuthority,
    PathTooLong,
    Purpose,
    UnknownCriticalExtension,
    MayNotSignLists,
    UnknownCriticalListExtension,
    InvalidExtension,
    ConstrainedNames,
}

impl Fault {
    /// OpenSSL's number and text.
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

    /// Whether it only says that nobody trusted stands behind the certificate, which
    /// `ssl_verify_client optional_no_ca` allows.
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
    /// As nginx logs it: `20:unable to get local issuer certificate`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (number, text) = self.words();
        write!(f, "{number}:{text}")
    }
}

impl std::error::Error for Fault {}
