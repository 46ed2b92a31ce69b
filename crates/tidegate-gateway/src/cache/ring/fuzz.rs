//! Any bytes as a value of `Cache-Peer`, for fuzzers: what is read survives being written and read again.

use super::field::{PeerClaim, PeerTerms};
use super::remarks::PeerRemarks;

/// A moment, in Unix milliseconds, behind which the longest time has begun.
const NOW: u64 = u64::MAX / 2;

/// Reads bytes as what a request says, and as what a response does.
pub fn fuzz_peer_field(data: &[u8]) {
    if let Some(claim) = PeerClaim::parse(data) {
        let text = claim.text("a");
        assert_eq!(PeerClaim::parse(text.as_bytes()), Some(claim));
    }
    if let Some(Some(terms)) = PeerTerms::parse(data) {
        let text = PeerTerms::text(Some(&terms), "a");
        // Longer than the value that was read, as all times are written, it may not fit.
        let fits = text != b"a";
        assert!(!fits || PeerTerms::parse(&text) == Some(Some(terms.clone())));
        let on_clock = PeerTerms::of(terms.times(NOW), NOW).with_age(Some(terms.age));
        let (must_revalidate, vary) = (terms.must_revalidate, terms.vary.clone());
        assert_eq!(PeerTerms { must_revalidate, vary, ..on_clock }, terms);
    }
    let remarks = PeerRemarks::read(data);
    let mut text = b"a".to_vec();
    remarks.append(&mut text);
    assert_eq!(PeerRemarks::read(&text), remarks);
}
