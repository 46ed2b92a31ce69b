//! Health checks that a group's servers have to pass, and their results.

/// The result of health checks for a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// No check, or the last checks passed.
    #[default]
    Fine,
    /// The first check has not ended, and it has to pass (`mandatory`).
    Checking,
    /// The last checks failed: no request is sent to it.
    Unhealthy,
}

/// A check that a group's servers have to pass (`health_check`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckRule {
    /// Tells it from the group's other checks, in this configuration and the next.
    pub name: Box<str>,
    /// No request is sent to a server that has not passed it yet.
    pub mandatory: bool,
    /// Results from before a reload remain valid for a mandatory check as well.
    pub persistent: bool,
}

impl CheckRule {
    /// Returns the state of a server before its first check.
    pub(super) fn initial_health(&self) -> Health {
        if self.mandatory { Health::Checking } else { Health::Fine }
    }
}
