//! Queries about the certificates of a chain, and their responses.

use super::{CertificateStatus, StatusCache, StatusQuery, StatusScope};
use crate::suites::algorithms;
use crate::x509::ocsp_tests::{
    BY_NAMED, BY_OTHER, GONE, GOOD, LEAF, NOW, OTHER, QUESTION, REVOKED, ROOT, bytes,
};
use crate::x509::{Purpose, Trust};

fn queries(scope: StatusScope, chain: &[&str]) -> Vec<StatusQuery> {
    let trust = Trust::new(Purpose::Any, &[bytes(ROOT)], &[], 1, algorithms().all);
    let chain: Vec<Vec<u8>> = chain.iter().map(|text| bytes(text)).collect();
    StatusQuery::of_chain(scope, &trust, &chain, NOW)
}

fn query(own: &str) -> StatusQuery {
    let mut found = queries(StatusScope::Leaf, &[own]);
    assert_eq!(found.len(), 1);
    found.remove(0)
}

#[test]
fn all_but_the_root_are_queried() {
    assert_eq!(queries(StatusScope::None, &[LEAF]).len(), 0);
    assert_eq!(queries(StatusScope::Leaf, &[LEAF]).len(), 1);
    assert_eq!(queries(StatusScope::Chain, &[LEAF, ROOT]).len(), 1);
    // A self-signed certificate that is trusted itself has no responder.
    assert_eq!(queries(StatusScope::Chain, &[ROOT]).len(), 0);
    // Without an issuer there is no responder.
    assert_eq!(queries(StatusScope::Chain, &[OTHER]).len(), 0);
    assert_eq!(queries(StatusScope::Chain, &[]).len(), 0);
}

#[test]
fn requests_name_the_certificate() {
    let query = query(LEAF);
    assert_eq!(query.request(), Some(bytes(QUESTION)));
    assert_eq!(query.responder().as_deref(), Some("http://ocsp.test/a"));
}

#[test]
fn only_the_issuer_and_its_responders_decide() {
    let leaf = query(LEAF);
    let revoked = |response: &str| leaf.verify(&bytes(response), NOW).ok().map(|s| s.revoked);
    assert_eq!(revoked(GOOD), Some(false));
    assert_eq!(revoked(BY_NAMED), Some(false));
    assert_eq!(revoked(BY_OTHER), None);
    // About another certificate, by the same issuer.
    assert_eq!(revoked(GONE), None);
    assert_eq!(leaf.verify(b"no response", NOW).ok(), None);
    assert_eq!(leaf.verify(&bytes(GOOD), 0).ok(), None);
    let gone = query(REVOKED).verify(&bytes(GONE), NOW).expect("a status");
    assert!(gone.revoked);
    // A bit of the response is changed anywhere.
    let good = bytes(GOOD);
    for index in 0..good.len() {
        let mut changed = good.clone();
        changed[index] ^= 1;
        if let Ok(status) = leaf.verify(&changed, NOW) {
            let same = leaf.verify(&good, NOW).expect("a status");
            assert_eq!(status, same, "byte {index}");
        }
    }
}

#[test]
fn statuses_are_kept_until_their_end() {
    let cache = StatusCache::with_bytes(64 * 1024);
    let status = |revoked, next_unix_seconds| CertificateStatus { revoked, next_unix_seconds };
    cache.put(b"a", status(false, Some(100)));
    cache.put(b"b", status(true, Some(100)));
    cache.put(b"c", status(true, None));
    assert_eq!(cache.find(b"a", 99), Some(false));
    assert_eq!(cache.find(b"b", 99), Some(true));
    assert_eq!(cache.find(b"c", 99), None);
    assert_eq!(cache.find(b"a", 100), None);
    // A later status replaces an earlier one.
    cache.put(b"a", status(true, Some(200)));
    assert_eq!(cache.find(b"a", 100), Some(true));
}
