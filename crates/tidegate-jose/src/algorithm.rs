//! The algorithms of signatures (RFC 7518 section 3, RFC 8037 section 3.1), as the library has them.

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ED25519,
    EcdsaVerificationAlgorithm, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384,
    RSA_PSS_2048_8192_SHA512, RsaParameters, VerificationAlgorithm,
};

/// An algorithm of RSA, with its name.
pub(crate) type RsaAlgorithm = (&'static str, &'static RsaParameters);

/// The algorithms for which an RSA key can be used.
pub(crate) static RSA: [RsaAlgorithm; 6] = [
    ("RS256", &RSA_PKCS1_2048_8192_SHA256),
    ("RS384", &RSA_PKCS1_2048_8192_SHA384),
    ("RS512", &RSA_PKCS1_2048_8192_SHA512),
    ("PS256", &RSA_PSS_2048_8192_SHA256),
    ("PS384", &RSA_PSS_2048_8192_SHA384),
    ("PS512", &RSA_PSS_2048_8192_SHA512),
];

/// A curve of signatures.
pub(crate) struct Curve {
    /// The name of the curve (`crv`).
    pub(crate) name: &'static str,
    /// The name of its only algorithm.
    pub(crate) algorithm: &'static str,
    pub(crate) verification: &'static dyn VerificationAlgorithm,
    /// Bytes of a coordinate.
    pub(crate) bytes: usize,
}

const P256: &EcdsaVerificationAlgorithm = &ECDSA_P256_SHA256_FIXED;
const P384: &EcdsaVerificationAlgorithm = &ECDSA_P384_SHA384_FIXED;
const P521: &EcdsaVerificationAlgorithm = &ECDSA_P521_SHA512_FIXED;

/// The curves of keys of the type `EC`.
pub(crate) static ELLIPTIC: [Curve; 3] = [
    Curve { name: "P-256", algorithm: "ES256", verification: P256, bytes: 32 },
    Curve { name: "P-384", algorithm: "ES384", verification: P384, bytes: 48 },
    Curve { name: "P-521", algorithm: "ES512", verification: P521, bytes: 66 },
];

/// The curve of keys of the type `OKP`.
pub(crate) static EDWARDS: Curve =
    Curve { name: "Ed25519", algorithm: "EdDSA", verification: &ED25519, bytes: 32 };

/// Returns the algorithm of HMAC of this name.
pub(crate) fn mac(name: &str) -> Option<hmac::Algorithm> {
    match name {
        "HS256" => Some(hmac::HMAC_SHA256),
        "HS384" => Some(hmac::HMAC_SHA384),
        "HS512" => Some(hmac::HMAC_SHA512),
        _ => None,
    }
}

/// Says whether tokens may be signed by the algorithm of this name. `none` is not among them.
pub(crate) fn is_signature(name: &str) -> bool {
    mac(name).is_some()
        || RSA.iter().any(|(other, _)| *other == name)
        || ELLIPTIC.iter().chain([&EDWARDS]).any(|curve| curve.algorithm == name)
}
