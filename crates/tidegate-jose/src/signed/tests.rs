//! Tokens of RFC 7515 and of another implementation, hostile ones, and the choice of keys.

use aws_lc_rs::hmac;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::SignedToken;
use crate::limits::TOKEN_BYTES_MAX;
use crate::testing::{keys, set, vectors};
use crate::{TokenError, base64url};

fn parse(token: &str) -> Result<SignedToken, TokenError> {
    SignedToken::parse(token.as_bytes())
}

/// Signs by HMAC.
fn sign(header: &str, payload: &str, secret: &[u8]) -> String {
    let signed = format!(
        "{}.{}",
        base64url::encode(header.as_bytes()),
        base64url::encode(payload.as_bytes())
    );
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), signed.as_bytes());
    format!("{signed}.{}", base64url::encode(tag.as_ref()))
}

#[test]
fn examples_of_rfc_7515() {
    const PAYLOAD: &str = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
    for (header, signature, key) in [
        (
            "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9",
            "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
            json!({"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"}),
        ),
        (
            "eyJhbGciOiJFUzI1NiJ9",
            "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
            json!({"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
                "y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}),
        ),
    ] {
        let token = parse(&format!("{header}.{PAYLOAD}.{signature}")).expect("a token");
        assert_eq!(token.verify(&set(&key)), Ok(()), "{key}");
        assert!(token.payload().starts_with(b"{\"iss\":\"joe\""));
    }
}

#[test]
fn every_algorithm() {
    let vectors = vectors();
    let signed = vectors["signed"].as_object().expect("tokens");
    assert_eq!(signed.len(), 13);
    for (algorithm, token) in signed {
        let text = token.as_str().expect("a text");
        let token = parse(text).expect("a token");
        assert_eq!(token.header().text(&["alg"]).as_ref(), Some(algorithm));
        assert_eq!(token.payload(), vectors["claims"].as_str().expect("claims").as_bytes());
        assert_eq!(token.verify(&keys(|_| {})), Ok(()), "{algorithm}");
        // Without identifiers, each key of the type is tried.
        let nameless = keys(|key| drop(key.as_object_mut().map(|key| key.remove("kid"))));
        assert_eq!(token.verify(&nameless), Ok(()), "{algorithm}");
        let (signed, signature) = text.rsplit_once('.').expect("a signature");
        let mut bytes = base64url::decode(signature).expect("base64");
        bytes[0] ^= 1;
        let wrong = parse(&format!("{signed}.{}", base64url::encode(&bytes))).expect("a token");
        assert_eq!(wrong.verify(&keys(|_| {})), Err(TokenError::Signature), "{algorithm}");
        let none = parse(&format!("{signed}.")).expect("a token");
        assert_eq!(none.verify(&keys(|_| {})), Err(TokenError::Signature), "{algorithm}");
    }
}

#[test]
fn forms_that_are_refused() {
    let head = |header: &str| format!("{}.e30.AA", base64url::encode(header.as_bytes()));
    for (token, expected) in [
        (String::new(), TokenError::Parts(3)),
        ("a.b".into(), TokenError::Parts(3)),
        ("a.b.c.d".into(), TokenError::Parts(3)),
        (
            "..".into(),
            TokenError::Json("header", "EOF while parsing a value at line 1 column 0".into()),
        ),
        ("e30=.e30.".into(), TokenError::Base64("header")),
        ("e30.e30.".into(), TokenError::Header("alg")),
        (head(r#"{"alg":1}"#), TokenError::Header("alg")),
        (head(r#"{"alg":"HS256","kid":1}"#), TokenError::Header("kid")),
        (head(r#"{"alg":"none"}"#), TokenError::Algorithm("none".into())),
        (head(r#"{"alg":"hs256"}"#), TokenError::Algorithm("hs256".into())),
        (head(r#"{"alg":"ES256K"}"#), TokenError::Algorithm("ES256K".into())),
        (head(r#"{"alg":"HS256","crit":["exp"]}"#), TokenError::Critical),
        (head(r#"{"alg":"HS256","crit":[]}"#), TokenError::Critical),
        (head(r#"{"alg":"HS256","b64":false,"crit":["b64"]}"#), TokenError::Critical),
        ("eyJhbGciOiJIUzI1NiJ9.e30=.AA".into(), TokenError::Base64("payload")),
        ("eyJhbGciOiJIUzI1NiJ9.e30.+/".into(), TokenError::Base64("signature")),
        ("eyJhbGciOiJIUzI1NiJ9.e30.AB".into(), TokenError::Base64("signature")),
        ("a".repeat(TOKEN_BYTES_MAX + 1), TokenError::TooLong),
    ] {
        assert_eq!(parse(&token).expect_err(&token), expected);
    }
    let duplicate = parse(&head(r#"{"alg":"HS256","alg":"none"}"#)).expect_err("two algorithms");
    assert!(matches!(duplicate, TokenError::Json("header", _)));
}

/// A public key is no secret: a token that is signed with its text, or its numbers, is not verified with it.
#[test]
fn an_algorithm_takes_keys_of_its_type_alone() {
    let vectors = vectors();
    let rsa = &vectors["keys"][1];
    let public = json!({"kty":"RSA","n":rsa["n"],"e":rsa["e"],"kid":"rsa"});
    let number = base64url::decode(rsa["n"].as_str().expect("n")).expect("base64");
    for secret in [number.as_slice(), public.to_string().as_bytes()] {
        let token = parse(&sign(r#"{"alg":"HS256","kid":"rsa"}"#, "{}", secret)).expect("a token");
        assert_eq!(token.verify(&set(&public)), Err(TokenError::NoKey));
    }
}

#[test]
fn keys_are_chosen_by_identifier_algorithm_and_use() {
    let named = |members: Value| {
        let mut key = json!({"kty":"oct","k":"c2VjcmV0"});
        key.as_object_mut().expect("").extend(members.as_object().expect("").clone());
        set(&key)
    };
    let with = r#"{"alg":"HS256","kid":"1"}"#;
    let without = r#"{"alg":"HS256"}"#;
    for (header, key, expected) in [
        (with, json!({"kid":"1"}), Ok(())),
        (with, json!({}), Ok(())),
        (with, json!({"kid":"2"}), Err(TokenError::NoKey)),
        (without, json!({"kid":"2"}), Ok(())),
        (without, json!({"alg":"HS256"}), Ok(())),
        (without, json!({"alg":"HS512"}), Err(TokenError::NoKey)),
        (without, json!({"use":"sig"}), Ok(())),
        (without, json!({"use":"enc"}), Err(TokenError::NoKey)),
        (without, json!({"key_ops":["sign","verify"]}), Ok(())),
        (without, json!({"key_ops":["decrypt"]}), Err(TokenError::NoKey)),
        (without, json!({"key_ops":[]}), Err(TokenError::NoKey)),
    ] {
        let token = parse(&sign(header, "{}", b"secret")).expect("a token");
        assert_eq!(token.verify(&named(key.clone())), expected, "{header} {key}");
    }
    let two = [named(json!({"kid":"1"})), named(json!({}))].map(|[set]| set);
    let wrong = parse(&sign(with, "{}", b"other")).expect("a token");
    assert_eq!(wrong.verify(&two), Err(TokenError::Signature));
    assert_eq!(wrong.verify(&[]), Err(TokenError::NoKey));
}

#[test]
fn many_keys_are_costly() {
    let vectors = vectors();
    let many = |count| vec![keys(|_| {})[0].clone(); count];
    for algorithm in ["ES256", "HS256"] {
        let token = parse(vectors["signed"][algorithm].as_str().expect("")).expect("a token");
        assert!(!token.is_costly(&many(4)), "{algorithm}");
        assert!(token.is_costly(&many(5)), "{algorithm}");
    }
    let slow = parse(vectors["signed"]["ES384"].as_str().expect("")).expect("a token");
    assert!(slow.is_costly(&many(1)) && !slow.is_costly(&[]));
}

proptest! {
    #[test]
    fn no_change_of_a_token_is_accepted(place in 0_usize..150, byte: u8) {
        let mut token = sign(r#"{"alg":"HS256"}"#, r#"{"sub":"ann"}"#, b"secret").into_bytes();
        let place = place % token.len();
        prop_assume!(token[place] != byte);
        token[place] = byte;
        let keys = set(&json!({"kty":"oct","k":"c2VjcmV0"}));
        prop_assert!(SignedToken::parse(&token).and_then(|token| token.verify(&keys)).is_err());
    }
}
