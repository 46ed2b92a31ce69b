//! Requests for a certificate, and responses of OpenSSL.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::CertifiedKey;

use super::{Stapled, StatusCheck, is_response};
use crate::key_pair::KeyPair;
use crate::x509::ocsp_tests::{
    BY_OTHER, GONE, GOOD, LEAF, NOW, OTHER, QUESTION, REVOKED, ROOT, bytes,
};

/// Makes a chain with an arbitrary key: nothing is signed here.
fn stapled(chain: &[&str]) -> Arc<Stapled> {
    let key = rcgen::KeyPair::generate().expect("a key");
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let chain = chain.iter().map(|base64| bytes(base64).into()).collect();
    let key = CertifiedKey::new(chain, any_supported_type(&key).expect("a key"));
    Arc::new(Stapled::new(KeyPair(Arc::new(key))))
}

#[test]
fn issuers_are_in_the_chain_or_trusted() {
    let find = |chain: &[&str], trusted: &[&str]| {
        let trusted: Vec<Vec<u8>> = trusted.iter().map(|base64| bytes(base64)).collect();
        StatusCheck::new(stapled(chain), &trusted, false)
    };
    for (chain, trusted, found) in [
        (&[LEAF, ROOT][..], &[][..], true),
        (&[LEAF], &[ROOT], true),
        (&[LEAF, OTHER], &[ROOT], true),
        (&[LEAF], &[OTHER], false),
        (&[LEAF], &[], false),
        (&[], &[ROOT], false),
    ] {
        let check = find(chain, trusted);
        assert_eq!(check.is_some(), found, "{} {}", chain.len(), trusted.len());
        let Some(check) = check else { continue };
        assert_eq!(check.responder().as_deref(), Some("http://ocsp.test/a"));
        assert_eq!(check.question(), Some(bytes(QUESTION)));
    }
}

#[test]
fn good_responses_are_stapled() {
    for (chain, trusted, verify, response, expected) in [
        (&[LEAF, ROOT], ROOT, false, GOOD, None),
        (&[LEAF, ROOT], ROOT, true, GOOD, None),
        (&[LEAF, ROOT], OTHER, false, GOOD, None),
        (&[LEAF, ROOT], OTHER, true, GOOD, Some("OCSP_basic_verify() failed")),
        (&[LEAF, ROOT], ROOT, true, BY_OTHER, Some("OCSP_basic_verify() failed")),
        (
            &[REVOKED, ROOT],
            ROOT,
            false,
            GONE,
            Some("certificate status \"revoked\" in the OCSP response"),
        ),
    ] {
        let own = stapled(chain);
        let check = StatusCheck::new(own.clone(), &[bytes(trusted)], verify).expect("an issuer");
        let taken = check.take(bytes(response), NOW);
        assert_eq!(taken.map_err(|error| error.to_string()).err().as_deref(), expected);
        assert_eq!(own.current().ocsp, expected.is_none().then(|| bytes(response)));
    }
}

#[test]
fn a_response_stays_until_the_next() {
    let own = stapled(&[LEAF, ROOT]);
    let check = StatusCheck::new(own.clone(), &[], false).expect("an issuer");
    let next = check.take(bytes(GOOD), NOW).expect("good").expect("a time");
    assert!(next > NOW);
    assert!(check.take(bytes(GONE), NOW).is_err(), "about another certificate");
    check.expire(next - 1);
    assert_eq!(own.current().ocsp, Some(bytes(GOOD)));
    check.expire(next);
    assert_eq!(own.current().ocsp, None);
    check.take(bytes(GOOD), NOW).expect("good");
    check.clear();
    assert_eq!(own.current().ocsp, None);
}

#[test]
fn files_contain_responses() {
    assert!(is_response(&bytes(GOOD)));
    for other in [&b""[..], b"text", &bytes(LEAF)] {
        assert!(!is_response(other));
    }
}
