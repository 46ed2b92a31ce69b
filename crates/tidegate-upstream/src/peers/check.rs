//! Checks that a group's servers have to pass, and what they say.

/// What checks say of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// Nobody checks it, or the last checks passed.
    #[default]
    Fine,
    /// The first check is still to come, and it has to pass (`mandatory`).
    Checking,
    /// The last checks failed: no request goes to it.
    Unhealthy,
}

/// A check that a group's servers have to pass (`health_check`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckRule {
    /// Tells it from the group's other checks, in this configuration and the next.
    pub name: Box<str>,
    /// No request goes to a server that has not passed it yet.
    pub mandatory: bool,
    /// What was known before a reload holds for a mandatory check as well.
    pub persistent: bool,
}

impl CheckRule {
    /// What is known of a server in the beginning.
    pub(super) fn first_verdict(&self) -> Health {
        if self.mandatory { Health::Checking } else { Health::Fine }
    }
}
