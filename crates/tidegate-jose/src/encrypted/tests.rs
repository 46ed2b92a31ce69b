//! Tokens of another implementation by every algorithm, and hostile ones.

use serde_json::json;

use super::EncryptedToken;
use crate::testing::{keys, set, vectors};
use crate::{SignedToken, TokenError, base64url};

fn parse(token: &str) -> Result<EncryptedToken, TokenError> {
    EncryptedToken::parse(token.as_bytes())
}

#[test]
fn every_algorithm() {
    let vectors = vectors();
    let tokens = vectors["encrypted"].as_array().expect("tokens");
    let part =
        |token: &serde_json::Value, index: usize| token[index].as_str().expect("a text").to_owned();
    for vector in tokens {
        let (algorithm, encryption, text) = (part(vector, 0), part(vector, 1), part(vector, 2));
        let token = parse(&text).expect("a token");
        assert_eq!(token.header().text(&["enc"]), Some(encryption.clone()));
        let content = token.decrypt(&keys(|_| {}));
        assert_eq!(
            content.as_deref(),
            Ok(vectors["claims"].as_str().expect("").as_bytes()),
            "{algorithm} {encryption}"
        );
        let is_rsa = algorithm.starts_with("RSA");
        assert_eq!(token.is_costly(&keys(|_| {})), is_rsa, "{algorithm}");
        // Each part but the first takes part in the authentication; the key of `dir` is empty.
        let parts: Vec<&str> = text.split('.').collect();
        for index in 1..5 {
            let mut bytes = base64url::decode(parts[index]).expect("base64");
            match bytes.first_mut() {
                Some(byte) => *byte ^= 1,
                None => bytes.push(0),
            }
            let changed = base64url::encode(&bytes);
            let mut parts = parts.clone();
            parts[index] = &changed;
            let wrong = parse(&parts.join(".")).expect("a token");
            assert_eq!(
                wrong.decrypt(&keys(|_| {})),
                Err(TokenError::Decryption),
                "{algorithm} {index}"
            );
        }
    }
    let names: std::collections::BTreeSet<_> = tokens.iter().map(|token| part(token, 0)).collect();
    assert_eq!(names.len(), 11, "{names:?}");
}

#[test]
fn a_nested_token() {
    let vectors = vectors();
    let token = parse(vectors["nested"].as_str().expect("a token")).expect("a token");
    let inner = token.decrypt(&keys(|_| {})).expect("a token");
    assert_eq!(SignedToken::parse(&inner).expect("a token").verify(&keys(|_| {})), Ok(()));
}

#[test]
fn forms_that_are_refused() {
    let head = |header: &str| format!("{}.AA.AA.AA.AA", base64url::encode(header.as_bytes()));
    for (token, expected) in [
        ("a.b.c".to_owned(), TokenError::Parts(5)),
        (head(r#"{"alg":"dir"}"#), TokenError::Header("enc")),
        (head(r#"{"alg":"dir","enc":"A512GCM"}"#), TokenError::ContentEncryption("A512GCM".into())),
        (head(r#"{"alg":"RSA1_5","enc":"A128GCM"}"#), TokenError::Algorithm("RSA1_5".into())),
        (head(r#"{"alg":"HS256","enc":"A128GCM"}"#), TokenError::Algorithm("HS256".into())),
        (
            head(r#"{"alg":"PBES2-HS256+A128KW","enc":"A128GCM"}"#),
            TokenError::Algorithm("PBES2-HS256+A128KW".into()),
        ),
        (head(r#"{"alg":"dir","enc":"A128GCM","zip":"DEF"}"#), TokenError::Compressed),
        (head(r#"{"alg":"dir","enc":"A128GCM","crit":["x"]}"#), TokenError::Critical),
        (head(r#"{"alg":"A128GCMKW","enc":"A128GCM"}"#), TokenError::Header("iv")),
        (
            head(r#"{"alg":"A128GCMKW","enc":"A128GCM","iv":"AA","tag":"="}"#),
            TokenError::Header("tag"),
        ),
    ] {
        assert_eq!(parse(&token).expect_err(&token), expected);
    }
}

#[test]
fn keys_are_chosen_by_length_and_use() {
    let vectors = vectors();
    let token = vectors["encrypted"][0][2].as_str().expect("a token");
    let token = parse(token).expect("a token");
    let secret = vectors["keys"][6]["k"].as_str().expect("a key");
    for (key, expected) in [
        (json!({"kty":"oct","k":secret}), true),
        (json!({"kty":"oct","k":secret,"alg":"dir"}), true),
        (json!({"kty":"oct","k":secret,"alg":"A128GCM","use":"enc"}), true),
        (json!({"kty":"oct","k":secret,"alg":"A128KW"}), false),
        (json!({"kty":"oct","k":secret,"use":"sig"}), false),
        (json!({"kty":"oct","k":secret,"key_ops":["verify"]}), false),
        (json!({"kty":"oct","k":secret,"kid":"other"}), false),
        (json!({"kty":"oct","k":format!("{secret}AA")}), false),
    ] {
        let result = token.decrypt(&set(&key));
        assert_eq!(result.is_ok(), expected, "{key}");
        assert!(expected || result == Err(TokenError::NoKey), "{key}");
    }
}
