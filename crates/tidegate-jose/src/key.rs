//! A JSON Web Key (RFC 7517 section 4, RFC 7518 section 6, RFC 8037 section 2), made ready for the library.

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
use aws_lc_rs::rsa::{
    KeyPair, KeyPairComponents, OaepPrivateDecryptingKey, PrivateDecryptingKey, PublicKeyComponents,
};
use aws_lc_rs::signature::ParsedPublicKey;
use serde_json::Value;

use crate::algorithm::{Curve, EDWARDS, ELLIPTIC, RSA};
use crate::base64url;
use crate::error::shown;
use crate::header::Header;
use crate::json::Object;
use crate::limits::{RSA_BITS_MAX, RSA_BITS_MIN};

/// A key.
pub(crate) struct Key {
    pub(crate) key_id: Option<String>,
    /// The only algorithm for which it may be used.
    pub(crate) algorithm: Option<String>,
    /// Whether it may verify signatures, by `use` and `key_ops`.
    pub(crate) verifies: bool,
    /// Whether it may decrypt, by `use` and `key_ops`.
    pub(crate) decrypts: bool,
    pub(crate) material: Material,
}

/// The numbers of a key.
pub(crate) enum Material {
    /// `oct`: for HMAC, as a key of AES, or as the content's key.
    Secret(Vec<u8>),
    /// `RSA`, by the names of algorithms; to decrypt, if the private numbers are there.
    Rsa(Vec<(&'static str, ParsedPublicKey)>, Option<OaepPrivateDecryptingKey>),
    /// `EC` and `OKP`, with the name of the algorithm.
    Curve(&'static str, ParsedPublicKey),
}

impl Key {
    /// Makes a key of a JWK.
    ///
    /// # Errors
    /// What makes it unusable.
    pub(crate) fn new(jwk: &Object) -> Result<Key, String> {
        let (algorithm, key_id) = (optional(jwk, "alg")?, optional(jwk, "kid")?);
        let purpose = optional(jwk, "use")?;
        let operations = operations(jwk)?;
        let may = |purposes: &str, names: &[&str]| {
            purpose.as_deref().is_none_or(|purpose| purpose == purposes)
                && operations.as_ref().is_none_or(|all| all.iter().any(|one| names.contains(one)))
        };
        let (verifies, decrypts) = (may("sig", &["verify"]), may("enc", &["decrypt", "unwrapKey"]));
        let material = match jwk.string("kty") {
            Some("oct") => secret(jwk)?,
            Some("RSA") => rsa(jwk, algorithm.as_deref())?,
            Some("EC") => {
                let curve = jwk.string("crv").unwrap_or_default();
                let known = ELLIPTIC.iter().find(|known| known.name == curve);
                elliptic(jwk, known.ok_or_else(|| unsupported(curve))?)?
            }
            Some("OKP") => match jwk.string("crv").unwrap_or_default() {
                "Ed25519" => point(&EDWARDS, &member(jwk, "x")?)?,
                curve => return Err(unsupported(curve)),
            },
            Some(kind) => {
                return Err(format!("keys of the type {} are not supported", shown(kind)));
            }
            None => return Err("the member \"kty\" is missing or not a string".to_owned()),
        };
        Ok(Key { key_id, algorithm, verifies, decrypts, material })
    }

    /// Says whether a token names this key, or none, and this key is meant for one of the algorithms.
    pub(crate) fn suits(&self, header: &Header, algorithms: &[&str]) -> bool {
        let named = match (&self.key_id, &header.key_id) {
            (Some(own), Some(wanted)) => own == wanted,
            _ => true,
        };
        named && self.algorithm.as_deref().is_none_or(|own| algorithms.contains(&own))
    }
}

fn unsupported(curve: &str) -> String {
    format!("keys on the curve {} are not supported", shown(curve))
}

fn optional(jwk: &Object, name: &str) -> Result<Option<String>, String> {
    match jwk.member(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("the member \"{name}\" is not a string")),
    }
}

fn operations(jwk: &Object) -> Result<Option<Vec<&str>>, String> {
    let invalid = || "the member \"key_ops\" is not an array of strings".to_owned();
    match jwk.member("key_ops") {
        None => Ok(None),
        Some(value) => {
            let names = value.as_array().ok_or_else(invalid)?.iter().map(Value::as_str);
            names.collect::<Option<Vec<&str>>>().map(Some).ok_or_else(invalid)
        }
    }
}

/// Returns the bytes of a member that is needed.
fn member(jwk: &Object, name: &str) -> Result<Vec<u8>, String> {
    let bytes = jwk.string(name).and_then(base64url::decode).filter(|bytes| !bytes.is_empty());
    bytes.ok_or_else(|| format!("the member \"{name}\" is missing or not base64url"))
}

fn secret(jwk: &Object) -> Result<Material, String> {
    Ok(Material::Secret(member(jwk, "k")?))
}

/// Makes an RSA key. Zeros that precede the public numbers are tolerated (RFC 7518 section 6.3.1.1 forbids them).
fn rsa(jwk: &Object, algorithm: Option<&str>) -> Result<Material, String> {
    let number = |name| {
        let bytes = member(jwk, name)?;
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        Ok::<Vec<u8>, String>(bytes[zeros..].to_vec())
    };
    let public = PublicKeyComponents { n: number("n")?, e: number("e")? };
    let bits =
        public.n.len() * 8 - public.n.first().map_or(0, |byte| byte.leading_zeros() as usize);
    if !(RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits) {
        return Err(format!(
            "the RSA key has {bits} bits, and {RSA_BITS_MIN} to {RSA_BITS_MAX} are supported"
        ));
    }
    let mut verifiers = Vec::new();
    for (name, parameters) in &RSA {
        if algorithm.is_none_or(|own| own == *name) {
            let parsed = public.to_parsed_public_key(parameters);
            verifiers.push((*name, parsed.map_err(|_| "the RSA key is invalid".to_owned())?));
        }
    }
    let decrypter = match jwk.member("d") {
        None => None,
        Some(_) => Some(private(jwk, public)?),
    };
    Ok(Material::Rsa(verifiers, decrypter))
}

/// Makes a private RSA key. The library needs all of its numbers.
fn private(
    jwk: &Object,
    public_key: PublicKeyComponents<Vec<u8>>,
) -> Result<OaepPrivateDecryptingKey, String> {
    if jwk.member("oth").is_some() {
        return Err("RSA keys of more than two primes are not supported".to_owned());
    }
    let components = KeyPairComponents {
        public_key,
        d: member(jwk, "d")?,
        p: member(jwk, "p")?,
        q: member(jwk, "q")?,
        dP: member(jwk, "dp")?,
        dQ: member(jwk, "dq")?,
        qInv: member(jwk, "qi")?,
    };
    let invalid = || "the private RSA key is invalid".to_owned();
    let pair = KeyPair::from_components(&components).map_err(|_| invalid())?;
    let der: Pkcs8V1Der<'_> = pair.as_der().map_err(|_| invalid())?;
    let key = PrivateDecryptingKey::from_pkcs8(der.as_ref()).map_err(|_| invalid())?;
    OaepPrivateDecryptingKey::new(key).map_err(|_| invalid())
}

/// Makes a key of two coordinates, as an uncompressed point (RFC 5480 section 2.2).
fn elliptic(jwk: &Object, curve: &'static Curve) -> Result<Material, String> {
    let mut bytes = vec![4];
    for name in ["x", "y"] {
        let coordinate = member(jwk, name)?;
        if coordinate.len() != curve.bytes {
            return Err(format!("the member \"{name}\" does not have {} bytes", curve.bytes));
        }
        bytes.extend_from_slice(&coordinate);
    }
    point(curve, &bytes)
}

fn point(curve: &'static Curve, bytes: &[u8]) -> Result<Material, String> {
    let parsed = ParsedPublicKey::new(curve.verification, bytes);
    let parsed = parsed.map_err(|_| format!("the key is not a point of {}", curve.name))?;
    Ok(Material::Curve(curve.algorithm, parsed))
}
