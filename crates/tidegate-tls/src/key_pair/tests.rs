//! Keys and certificates that match, and that do not.

use super::KeyPair;
use crate::error::KeyPairError;
use crate::pem;

/// Returns a certificate (DER) and its key (PEM).
fn made() -> (Vec<u8>, String) {
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::new(vec!["a".to_owned()]).expect("a name");
    (params.self_signed(&key).expect("signed").der().to_vec(), key.serialize_pem())
}

#[test]
fn keys_belong_to_the_first_certificate() {
    let (own, other) = (made(), made());
    for (chain, key, expected) in [
        (vec![own.0.clone()], &own.1, None),
        (vec![own.0.clone(), other.0.clone()], &own.1, None),
        (vec![other.0.clone(), own.0.clone()], &own.1, Some(KeyPairError::Mismatch)),
        (vec![own.0.clone()], &other.1, Some(KeyPairError::Mismatch)),
        (vec![], &own.1, Some(KeyPairError::NoCertificate)),
        (vec![b"none".to_vec()], &own.1, Some(KeyPairError::NoCertificate)),
    ] {
        let key = pem::private_key(key.as_bytes(), &[]).expect("a key");
        let sent = chain.clone();
        match KeyPair::new(chain, &key) {
            Ok(pair) => {
                assert_eq!(expected, None);
                assert!(pair.chain().eq(sent.iter().map(Vec::as_slice)));
            }
            Err(error) => assert_eq!(Some(error), expected),
        }
    }
    let broken = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    let key = pem::private_key(broken.as_bytes(), &[]).expect("a PEM text");
    let error = KeyPair::new(vec![own.0], &key).expect_err("no key");
    assert!(matches!(error, KeyPairError::Unusable(_)), "{error}");
}
