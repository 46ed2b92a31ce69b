//! Signed requests: JWS in the flattened form (RFC 7515 section 7.2.2, RFC 8555 section 6.2), the key of an account as
//! a JWK with its thumbprint (RFC 7638), and external account binding (RFC 8555 section 7.3.4).

#[cfg(test)]
mod tests;

use std::fmt;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING,
    ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair as _,
    RSA_PKCS1_SHA256, RsaKeyPair,
};
use aws_lc_rs::{digest, hmac};
use serde_json::{Map, Value, json};
use x509_cert::der::{self, Decode as _, Reader as _, SliceReader, asn1::UintRef};

use crate::encoding::{base64url, from_base64url};
use crate::key::{Key, KeyError, KeyKind};

/// The key of an account, ready to sign.
pub struct AccountKey {
    key: Key,
    signer: Signer,
    /// The public key as a JWK. Its members are in the order of RFC 7638.
    jwk: Value,
    thumbprint: String,
}

/// The key that an authority has given to its customer, to bind the account to the customer.
#[derive(Clone)]
pub struct ExternalAccount {
    /// The identifier of the key (`kid`).
    pub identifier: String,
    mac_key: Vec<u8>,
}

/// Who signs: an account by its URL, or a key that has no account yet.
pub(crate) enum Signing<'a> {
    Account(&'a str),
    Key,
}

enum Signer {
    Ecdsa(&'static str, EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

impl AccountKey {
    /// Makes a key ready to sign.
    ///
    /// # Errors
    /// The cryptographic library refuses the key.
    pub fn new(key: Key) -> Result<AccountKey, KeyError> {
        let der = key.pair().serialized_der();
        let (signer, jwk) = match key.kind() {
            KeyKind::Ecdsa256 => ecdsa(der, &ECDSA_P256_SHA256_FIXED_SIGNING, "ES256", "P-256")?,
            KeyKind::Ecdsa384 => ecdsa(der, &ECDSA_P384_SHA384_FIXED_SIGNING, "ES384", "P-384")?,
            KeyKind::Ecdsa521 => ecdsa(der, &ECDSA_P521_SHA512_FIXED_SIGNING, "ES512", "P-521")?,
            KeyKind::Rsa2048 | KeyKind::Rsa3072 | KeyKind::Rsa4096 => rsa(der)?,
        };
        let thumbprint = digest::digest(&digest::SHA256, jwk.to_string().as_bytes());
        Ok(AccountKey { key, signer, jwk, thumbprint: base64url(thumbprint.as_ref()) })
    }

    /// Returns the thumbprint of the public key (RFC 7638, SHA-256, base64 for URLs).
    pub fn thumbprint(&self) -> &str {
        &self.thumbprint
    }

    /// Returns the key.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the body of a signed request: `payload`, or none for POST-as-GET (RFC 8555 section 6.3).
    ///
    /// # Errors
    /// The cryptographic library makes no signature.
    pub(crate) fn sign(
        &self,
        signing: &Signing<'_>,
        nonce: &str,
        url: &str,
        payload: Option<&Value>,
    ) -> Result<Vec<u8>, KeyError> {
        let mut header = Map::new();
        header.insert("alg".to_owned(), self.signer.algorithm().into());
        header.insert("nonce".to_owned(), nonce.into());
        header.insert("url".to_owned(), url.into());
        match signing {
            Signing::Account(account) => header.insert("kid".to_owned(), (*account).into()),
            Signing::Key => header.insert("jwk".to_owned(), self.jwk.clone()),
        };
        let payload = payload.map(Value::to_string).unwrap_or_default();
        let body = flattened(&Value::Object(header), &payload, |input| self.signer.sign(input))?;
        Ok(body.to_string().into_bytes())
    }

    /// Returns the binding of the account to a customer: the public key, signed with the customer's key.
    ///
    /// # Errors
    /// None by HMAC.
    pub(crate) fn bind(&self, external: &ExternalAccount, url: &str) -> Result<Value, KeyError> {
        let header = json!({ "alg": "HS256", "kid": external.identifier, "url": url });
        let key = hmac::Key::new(hmac::HMAC_SHA256, &external.mac_key);
        flattened(&header, &self.jwk.to_string(), |input| {
            Ok(hmac::sign(&key, input).as_ref().to_vec())
        })
    }
}

impl fmt::Debug for AccountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccountKey").field("thumbprint", &self.thumbprint).finish_non_exhaustive()
    }
}

impl ExternalAccount {
    /// Makes a binding of the identifier and the MAC key (base64 for URLs), as the authority has given them.
    ///
    /// # Errors
    /// The identifier is empty, or the key is not base64 for URLs.
    pub fn new(identifier: &str, mac_key: &str) -> Result<ExternalAccount, KeyError> {
        match from_base64url(mac_key) {
            Some(mac_key) if !mac_key.is_empty() && !identifier.is_empty() => {
                Ok(ExternalAccount { identifier: identifier.to_owned(), mac_key })
            }
            _ => Err(KeyError::Unreadable),
        }
    }
}

impl fmt::Debug for ExternalAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalAccount")
            .field("identifier", &self.identifier)
            .finish_non_exhaustive()
    }
}

impl Signer {
    fn algorithm(&self) -> &'static str {
        match self {
            Signer::Ecdsa(algorithm, _) => algorithm,
            Signer::Rsa(_) => "RS256",
        }
    }

    fn sign(&self, input: &[u8]) -> Result<Vec<u8>, KeyError> {
        let failed = |_| KeyError::Generate("the signature failed".to_owned());
        let random = SystemRandom::new();
        match self {
            Signer::Ecdsa(_, pair) => {
                pair.sign(&random, input).map(|signature| signature.as_ref().to_vec())
            }
            Signer::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, input, &mut signature).map(|()| signature)
            }
        }
        .map_err(failed)
    }
}

fn flattened(
    header: &Value,
    payload: &str,
    sign: impl FnOnce(&[u8]) -> Result<Vec<u8>, KeyError>,
) -> Result<Value, KeyError> {
    let protected = base64url(header.to_string().as_bytes());
    let payload = base64url(payload.as_bytes());
    let signature = sign(format!("{protected}.{payload}").as_bytes())?;
    Ok(json!({ "protected": protected, "payload": payload, "signature": base64url(&signature) }))
}

fn ecdsa(
    der: &[u8],
    algorithm: &'static EcdsaSigningAlgorithm,
    name: &'static str,
    curve: &'static str,
) -> Result<(Signer, Value), KeyError> {
    let pair =
        EcdsaKeyPair::from_private_key_der(algorithm, der).map_err(|_| KeyError::Unreadable)?;
    // The point is uncompressed: 4, x, y (RFC 5480 section 2.2).
    let point = pair.public_key().as_ref();
    let coordinates = point.strip_prefix(&[4]).ok_or(KeyError::Unreadable)?;
    let (x, y) = coordinates.split_at(coordinates.len() / 2);
    let jwk = json!({ "crv": curve, "kty": "EC", "x": base64url(x), "y": base64url(y) });
    Ok((Signer::Ecdsa(name, pair), jwk))
}

fn rsa(der: &[u8]) -> Result<(Signer, Value), KeyError> {
    let pair = RsaKeyPair::from_pkcs8(der).or_else(|_| RsaKeyPair::from_der(der));
    let pair = pair.map_err(|_| KeyError::Unreadable)?;
    // RSAPublicKey (RFC 8017 appendix A.1.1).
    let numbers = SliceReader::new(pair.public_key().as_ref()).and_then(|mut reader| {
        reader.sequence(|inner| Ok((UintRef::decode(inner)?, UintRef::decode(inner)?)))
    });
    let (modulus, exponent) = numbers.map_err(|_: der::Error| KeyError::Unreadable)?;
    let (modulus, exponent) = (base64url(modulus.as_bytes()), base64url(exponent.as_bytes()));
    Ok((Signer::Rsa(pair), json!({ "e": exponent, "kty": "RSA", "n": modulus })))
}
