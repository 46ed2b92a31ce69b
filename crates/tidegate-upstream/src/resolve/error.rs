//! Why a name has no address.

/// Why a name has no address: the code and text of nginx's log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResolveError(pub u16, pub &'static str);

impl ResolveError {
    /// There is an answer, and it says that there is no such name.
    pub fn is_not_found(self) -> bool {
        self.0 == NOT_FOUND.0
    }

    /// No answer came in time.
    pub fn is_timeout(self) -> bool {
        self.0 == TIMED_OUT.0
    }
}

/// There is an answer, and it says that there is no such name.
pub(super) const NOT_FOUND: ResolveError = ResolveError(3, "Host not found");
/// No answer came within `resolver_timeout`.
pub(super) const TIMED_OUT: ResolveError = ResolveError(110, "Operation timed out");
