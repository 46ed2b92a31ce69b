//! What a server tells a peer about a response besides the terms of its storage: further parameters of `Cache-Peer`.
//!
//! ```text
//! Cache-Peer: 10.0.0.2:8080; failed
//! Cache-Peer: 10.0.0.2:8080; age=1500; stored=1400; fresh=0; updating=0; error=8600; status=STALE
//! Cache-Peer: 10.0.0.2:8080; unstorable; age=0
//! ```
//! `failed`: the sender's origin did not respond, and the status is the sender's own. The peer fails in the same way.
//! `unstorable`: the response has no terms since it is one that no cache stores. Without this, the reason lies in the one request,
//! and the next one may be stored (`*_cache_min_uses`, `Authorization` by RFC 9111).
//! `status`: a stale response, whose use the sender allows (`STALE`, `UPDATING` of `$upstream_cache_status`).
//! `age`, where the terms are missing: since the request to the origin began, so that no purge is undone.

use super::field::{parameters, time};
use crate::cache::status::CacheStatus;

/// The statuses of stale responses.
pub(super) const STALE: [CacheStatus; 2] = [CacheStatus::Stale, CacheStatus::Updating];

/// The remarks of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PeerRemarks {
    /// The sender's origin has failed.
    pub failed: bool,
    /// No request for this key gets a response that is stored, as far as the sender knows.
    pub unstorable: bool,
    /// Milliseconds since the request to the origin began, where there are no terms that say so.
    pub age: Option<u64>,
    /// A stale response.
    pub stale: Option<CacheStatus>,
}

impl PeerRemarks {
    /// Appends the parameters to the value of the field.
    pub(crate) fn append(&self, text: &mut Vec<u8>) {
        if self.failed {
            text.extend_from_slice(b"; failed");
        }
        if self.unstorable {
            text.extend_from_slice(b"; unstorable");
        }
        if let Some(age) = self.age {
            text.extend_from_slice(format!("; age={age}").as_bytes());
        }
        if let Some(status) = self.stale {
            text.extend_from_slice(b"; status=");
            text.extend_from_slice(status.text());
        }
    }

    /// Reads them from a value of the field. What is unknown or has another form is no remark.
    pub(crate) fn read(value: &[u8]) -> PeerRemarks {
        let mut remarks = PeerRemarks::default();
        for (name, value) in parameters(value).into_iter().flatten() {
            match (name, value) {
                ("failed", None) => remarks.failed = true,
                ("unstorable", None) => remarks.unstorable = true,
                ("age", Some(text)) => remarks.age = time(text),
                ("status", Some(text)) => {
                    remarks.stale = STALE.into_iter().find(|one| one.text() == text.as_bytes());
                }
                _ => {}
            }
        }
        remarks
    }
}
