//! What a server tells a peer about a response besides the terms of its storage: further parameters of `Cache-Peer`.
//!
//! ```text
//! Cache-Peer: 10.0.0.2:8080; failed
//! ```
//! `failed`: the sender's origin did not respond, and the status is the sender's own. The peer fails in the same way.

use super::field::parameters;

/// The remarks of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PeerRemarks {
    /// The sender's origin has failed.
    pub failed: bool,
}

impl PeerRemarks {
    /// Appends the parameters to the value of the field.
    pub(crate) fn append(&self, text: &mut Vec<u8>) {
        if self.failed {
            text.extend_from_slice(b"; failed");
        }
    }

    /// Reads them from a value of the field. What is unknown or has another form is no remark.
    pub(crate) fn read(value: &[u8]) -> PeerRemarks {
        let mut remarks = PeerRemarks::default();
        for (name, value) in parameters(value).into_iter().flatten() {
            match (name, value) {
                ("failed", None) => remarks.failed = true,
                _ => {}
            }
        }
        remarks
    }
}
