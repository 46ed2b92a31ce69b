//! Signatures, checked by the cryptographic library; thumbprints; external accounts.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ParsedPublicKey,
    RSA_PKCS1_2048_8192_SHA256, VerificationAlgorithm,
};
use serde_json::{Value, json};

use super::{AccountKey, ExternalAccount, Signing};
use crate::encoding::from_base64url;
use crate::key::{Key, KeyKind};

fn part(body: &Value, name: &str) -> Vec<u8> {
    from_base64url(body[name].as_str().unwrap_or("!")).expect(name)
}

#[test]
fn signatures_verify() {
    let cases: [(KeyKind, &str, &'static dyn VerificationAlgorithm); 4] = [
        (KeyKind::Ecdsa256, "ES256", &ECDSA_P256_SHA256_FIXED),
        (KeyKind::Ecdsa384, "ES384", &ECDSA_P384_SHA384_FIXED),
        (KeyKind::Ecdsa521, "ES512", &ECDSA_P521_SHA512_FIXED),
        (KeyKind::Rsa2048, "RS256", &RSA_PKCS1_2048_8192_SHA256),
    ];
    for (kind, algorithm, verification) in cases {
        let key = Key::generate(kind).expect("a key");
        let account = AccountKey::new(key.clone()).expect("a key that signs");
        let payload = json!({ "a": 1 });
        let body = account
            .sign(&Signing::Key, "nonce", "https://ca.test/x", Some(&payload))
            .expect("a signature");
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        let header: Value = serde_json::from_slice(&part(&body, "protected")).expect("JSON");
        assert_eq!(header["alg"], algorithm);
        assert_eq!(header["url"], "https://ca.test/x");
        assert_eq!(header["nonce"], "nonce");
        assert_eq!(part(&body, "payload"), b"{\"a\":1}");
        let text = |name: &str| body[name].as_str().map(str::to_owned).unwrap_or_default();
        let input = format!("{}.{}", text("protected"), text("payload"));
        let public = ParsedPublicKey::new(verification, key.public_der()).expect("a public key");
        public.verify_sig(input.as_bytes(), &part(&body, "signature")).expect("it verifies");
        let changed = input + "x";
        assert!(public.verify_sig(changed.as_bytes(), &part(&body, "signature")).is_err());
    }
}

#[test]
fn a_request_of_an_account_has_its_url_and_perhaps_no_payload() {
    let key = AccountKey::new(Key::generate(KeyKind::Ecdsa256).expect("a key")).expect("it signs");
    let signing = Signing::Account("https://ca.test/account/1");
    let body = key.sign(&signing, "n", "https://ca.test/order", None).expect("a signature");
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(body["payload"], "");
    let header: Value = serde_json::from_slice(&part(&body, "protected")).expect("JSON");
    assert_eq!(header["kid"], "https://ca.test/account/1");
    assert_eq!(header.get("jwk"), None);
}

/// The key and the thumbprint of RFC 8037 are not ECDSA; those of RFC 7638 section 3.1 are RSA, without a private key.
/// So the thumbprint is computed a second time, from a text written by hand.
#[test]
fn thumbprints() {
    let key = AccountKey::new(Key::generate(KeyKind::Ecdsa256).expect("a key")).expect("it signs");
    let (x, y) = (key.jwk["x"].as_str(), key.jwk["y"].as_str());
    let text = format!(
        "{{\"crv\":\"P-256\",\"kty\":\"EC\",\"x\":\"{}\",\"y\":\"{}\"}}",
        x.unwrap_or_default(),
        y.unwrap_or_default()
    );
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    assert_eq!(from_base64url(key.thumbprint()).as_deref(), Some(hash.as_ref()));
}

#[test]
fn external_accounts() {
    let external = ExternalAccount::new(
        "kid-1",
        "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W",
    );
    let external = external.expect("a MAC key");
    assert!(!format!("{external:?}").contains("mac"));
    let key = AccountKey::new(Key::generate(KeyKind::Ecdsa256).expect("a key")).expect("it signs");
    let bound = key.bind(&external, "https://ca.test/new-account").expect("a binding");
    let header: Value = serde_json::from_slice(&part(&bound, "protected")).expect("JSON");
    let expected = json!({ "alg": "HS256", "kid": "kid-1", "url": "https://ca.test/new-account" });
    assert_eq!(header, expected);
    assert_eq!(part(&bound, "payload"), key.jwk.to_string().into_bytes());
    for (identifier, mac_key) in [("", "AAAA"), ("k", ""), ("k", "a/b+"), ("k", "A")] {
        assert!(ExternalAccount::new(identifier, mac_key).is_err(), "{identifier} {mac_key}");
    }
    assert!(ExternalAccount::new("k", "AAA=").is_ok());
}
