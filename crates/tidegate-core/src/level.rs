//! The severity of error log lines.

/// Severity, the most severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The server cannot go on.
    Emerg,
    /// Must be corrected at once.
    Alert,
    /// A critical condition, such as a failing system call.
    Crit,
    /// A request failed.
    Error,
    /// Something unexpected that changes no response.
    Warn,
    /// A normal event that is worth a line, such as a reload.
    Notice,
    /// An event of a client or a connection.
    Info,
    /// For debugging.
    Debug,
}

/// Names in the directive and in log lines, ordered as [`Level`].
pub const LEVELS: &[(&str, Level)] = &[
    ("emerg", Level::Emerg),
    ("alert", Level::Alert),
    ("crit", Level::Crit),
    ("error", Level::Error),
    ("warn", Level::Warn),
    ("notice", Level::Notice),
    ("info", Level::Info),
    ("debug", Level::Debug),
];

impl Level {
    /// Returns the level's name in the directive and in log lines.
    pub fn name(self) -> &'static str {
        LEVELS[self as usize].0
    }
}
