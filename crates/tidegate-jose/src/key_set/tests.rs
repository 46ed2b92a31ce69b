//! Sets, single keys, and keys that cannot be used.

use serde_json::{Value, json};

use super::KeySet;
use crate::limits::{KEY_SET_BYTES_MAX, KEYS_MAX};
use crate::testing::vectors;
use crate::{KeySetError, SignedToken};

#[test]
fn forms_of_a_set() {
    let many = json!({ "keys": vec![json!({"kty":"oct","k":"AA"}); KEYS_MAX + 1] }).to_string();
    for (text, expected) in [
        ("[]", "it is not a JSON object: another type of value"),
        ("{}", "it has no array \"keys\" of objects"),
        (r#"{"keys":{}}"#, "it has no array \"keys\" of objects"),
        (r#"{"keys":[1]}"#, "it has no array \"keys\" of objects"),
        (r#"{"keys":null,"kty":"oct","k":"AA"}"#, "it has no array \"keys\" of objects"),
        (&many, "it has more than 512 keys"),
        (&" ".repeat(KEY_SET_BYTES_MAX + 1), "it is longer than 1048576 bytes"),
    ] {
        let error = KeySet::parse(text.as_bytes()).expect_err(expected);
        assert_eq!(error.to_string(), expected);
    }
    for duplicate in [r#"{"keys":[],"keys":[]}"#, r#"{"keys":[{"kty":"oct","k":"AA","k":"AQ"}]}"#] {
        assert!(matches!(KeySet::parse(duplicate.as_bytes()), Err(KeySetError::Json(_))));
    }
    assert!(KeySet::parse(br#"{"keys":[]}"#).is_ok());
}

#[test]
fn a_key_stands_for_a_set_of_its_own() {
    let vectors = vectors();
    let set = KeySet::parse(vectors["keys"][0].to_string().as_bytes()).expect("a key");
    let token = vectors["signed"]["HS256"].as_str().expect("a token");
    let token = SignedToken::parse(token.as_bytes()).expect("a token");
    assert_eq!(token.verify(&[set.into()]), Ok(()));
}

/// Returns why the only key of a set is not used; an empty text for a good key.
fn reason(key: &Value) -> String {
    let set = KeySet::parse(json!({ "keys": [key] }).to_string().as_bytes()).expect("a set");
    set.unusable().first().map(|unusable| unusable.to_string()).unwrap_or_default()
}

#[test]
fn keys_that_cannot_be_used() {
    for (key, expected) in [
        (json!({}), "\"kty\" is missing"),
        (json!({"kty":"new"}), "key 1 cannot be used: keys of the type \"new\" are not supported"),
        (json!({"kty":"oct"}), "\"k\" is missing or not base64url"),
        (json!({"kty":"oct","k":""}), "\"k\" is missing or not base64url"),
        (json!({"kty":"oct","k":"AA=="}), "\"k\" is missing or not base64url"),
        (json!({"kty":"oct","k":"+/"}), "\"k\" is missing or not base64url"),
        (json!({"kty":"oct","k":"AA","kid":1}), "\"kid\" is not a string"),
        (json!({"kty":"oct","k":"AA","alg":[]}), "\"alg\" is not a string"),
        (
            json!({"kty":"oct","k":"AA","key_ops":"verify"}),
            "\"key_ops\" is not an array of strings",
        ),
        (
            json!({"kty":"OKP","crv":"Ed448","kid":"e\n"}),
            "key 1 (\"e\\n\") cannot be used: keys on the curve \"Ed448\"",
        ),
        (json!({"kty":"OKP","crv":"X25519"}), "\"X25519\" are not supported"),
        (json!({"kty":"OKP","crv":"Ed25519","x":"AA"}), "not a point of Ed25519"),
        (json!({"kty":"EC","crv":"secp256k1"}), "\"secp256k1\" are not supported"),
        (json!({"kty":"EC","crv":"P-256","x":"AA","y":"AA"}), "\"x\" does not have 32 bytes"),
        (
            json!({"kty":"EC","crv":"P-256","x":"A".repeat(43),"y":"A".repeat(43)}),
            "not a point of P-256",
        ),
        (json!({"kty":"RSA","n":"AQAB","e":"AQAB"}), "the RSA key has 17 bits"),
        (json!({"kty":"RSA","n":"gA","e":"AQAB"}), "the RSA key has 8 bits"),
        (json!({"kty":"RSA","e":"AQAB"}), "\"n\" is missing"),
    ] {
        let reason = reason(&key);
        assert!(reason.contains(expected), "{key}: {reason}");
    }
}

#[test]
fn private_numbers_are_checked() {
    let rsa = vectors()["keys"][1].clone();
    assert_eq!(reason(&rsa), "");
    for (name, value) in [("dp", Value::Null), ("d", json!("AQAB")), ("p", rsa["q"].clone())] {
        let mut wrong = rsa.clone();
        wrong[name] = value;
        assert!(reason(&wrong).contains(if name == "dp" { "\"dp\"" } else { "invalid" }), "{name}");
    }
    let mut zero = rsa.clone();
    zero["e"] = json!("AAEAAQ");
    assert_eq!(reason(&zero), "", "a zero precedes the exponent");
    let mut more = rsa;
    more["oth"] = json!([]);
    assert!(reason(&more).contains("more than two primes"));
}

#[test]
fn other_keys_are_used_beside_one_that_cannot_be() {
    let vectors = vectors();
    let keys = json!({ "keys": [{"kty":"new"}, vectors["keys"][0]] });
    let set = KeySet::parse(keys.to_string().as_bytes()).expect("a set");
    assert_eq!((set.keys.len(), set.unusable().len()), (1, 1));
    assert!(!format!("{set:?}").contains("oct"));
}
