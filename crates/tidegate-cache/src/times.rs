//! The times of an object: when it was made, and how long it may be used.

/// When an object was made and how long it may be used, in Unix milliseconds. The store keeps these for its
/// callers and decides nothing by them.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Times {
    /// When the object was made.
    pub created: u64,
    /// Fresh before this moment.
    pub valid_until: u64,
    /// May be served stale while it is updated (`stale-while-revalidate`), before this moment.
    pub updating_until: u64,
    /// May be served stale on errors (`stale-if-error`), before this moment.
    pub error_until: u64,
}

impl Times {
    /// Returns the times of an object that is stale since a moment; the later times move along.
    pub(crate) fn stale_since(self, at: u64) -> Times {
        let valid_until = self.valid_until.min(at);
        let earlier = self.valid_until - valid_until;
        Times {
            created: self.created,
            valid_until,
            updating_until: self.updating_until.saturating_sub(earlier),
            error_until: self.error_until.saturating_sub(earlier),
        }
    }
}
