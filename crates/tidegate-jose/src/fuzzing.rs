//! Plain functions for fuzzers, which the smoke test of `xtask` calls with seeds.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use aws_lc_rs::hmac;

use crate::{EncryptedToken, KeySet, Object, SignedToken, base64url, check_times};

/// The key of tokens that the fuzzer has signed.
const SECRET: &[u8] = b"0123456789abcdef";

/// Parses a key set, and uses its keys for tokens that they have not made.
pub fn fuzz_key_set(data: &[u8]) {
    let Ok(set) = KeySet::parse(data) else { return };
    for key in set.unusable() {
        assert!(!key.to_string().is_empty());
    }
    let set = [Arc::new(set)];
    for token in TOKENS.iter() {
        if let Ok(token) = SignedToken::parse(token) {
            let _ = token.is_costly(&set);
            let _ = token.verify(&set);
        }
        if let Ok(token) = EncryptedToken::parse(token) {
            let _ = token.decrypt(&set);
        }
    }
}

/// Parses a token as it is; then signs header and payload, which a line feed separates, to get further.
pub fn fuzz_token(data: &[u8]) {
    check(data);
    let mut lines = data.splitn(2, |byte| *byte == b'\n');
    let (head, payload) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let signed = format!("{}.{}", base64url::encode(head), base64url::encode(payload));
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET);
    let tag = hmac::sign(&key, signed.as_bytes());
    check(format!("{signed}.{}", base64url::encode(tag.as_ref())).as_bytes());
}

fn check(token: &[u8]) {
    if let Ok(token) = SignedToken::parse(token)
        && token.verify(&*KEYS).is_ok()
        && let Ok(claims) = Object::parse(token.payload())
    {
        assert_eq!(token.header().string("alg"), Some("HS256"));
        let _ = check_times(&claims, u64::MAX, Duration::MAX);
        let _ = claims.text(&["a", "b"]);
        let _ = claims.text_without_case("sub");
    }
    if let Ok(token) = EncryptedToken::parse(token) {
        let _ = token.is_costly(&*KEYS);
        let _ = token.decrypt(&*KEYS);
    }
}

static KEYS: LazyLock<[Arc<KeySet>; 1]> = LazyLock::new(|| {
    let secret = base64url::encode(SECRET);
    let text = format!(r#"{{"keys":[{{"kty":"oct","k":"{secret}","kid":"1"}}]}}"#);
    // cannot fail: the text is a key set
    [Arc::new(KeySet::parse(text.as_bytes()).unwrap_or_else(|_| unreachable!()))]
});

static TOKENS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let signed = ["HS256", "RS256", "PS512", "ES256", "ES512", "EdDSA"].map(|algorithm| {
        let header = base64url::encode(format!(r#"{{"alg":"{algorithm}"}}"#).as_bytes());
        format!("{header}.e30.{}", base64url::encode(&[1; 64])).into_bytes()
    });
    let encrypted = ["dir", "A128KW", "A192KW", "RSA-OAEP"].map(|algorithm| {
        let header = format!(r#"{{"alg":"{algorithm}","enc":"A128GCM"}}"#);
        let key = if algorithm == "dir" { String::new() } else { base64url::encode(&[1; 24]) };
        let (vector, tag) = (base64url::encode(&[1; 12]), base64url::encode(&[1; 16]));
        let header = base64url::encode(header.as_bytes());
        format!("{header}.{key}.{vector}.AAAA.{tag}").into_bytes()
    });
    signed.into_iter().chain(encrypted).collect()
});
