//! Why a name has no address, and what is wrong with a `resolver` directive.

use std::fmt;

/// Why a name has no address: the code and text of nginx's log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResolveError {
    code: u16,
    text: &'static str,
}

impl ResolveError {
    /// There is an answer, and it says that there is no such name.
    pub(super) const NOT_FOUND: ResolveError = ResolveError::new(3, "Host not found");
    /// No answer came within `resolver_timeout`.
    pub(super) const TIMED_OUT: ResolveError = ResolveError::new(110, "Operation timed out");
    /// The name server, or this one, cannot answer.
    pub(super) const FAILED: ResolveError = ResolveError::new(2, "Server failure");

    const fn new(code: u16, text: &'static str) -> ResolveError {
        ResolveError { code, text }
    }

    /// The name server has refused with this code (RFC 1035 section 4.1.1).
    pub(super) fn refused(code: u8) -> ResolveError {
        const TEXTS: [&str; 6] = [
            "",
            "Format error",
            "Server failure",
            "Host not found",
            "Unimplemented",
            "Operation refused",
        ];
        let text = TEXTS.get(usize::from(code)).copied().unwrap_or("Unknown error");
        ResolveError::new(u16::from(code), text)
    }

    /// There is an answer, and it says that there is no such name.
    pub fn is_not_found(self) -> bool {
        self.code == ResolveError::NOT_FOUND.code
    }

    /// No answer came in time.
    pub fn is_timeout(self) -> bool {
        self.code == ResolveError::TIMED_OUT.code
    }
}

impl fmt::Display for ResolveError {
    /// `3: Host not found`, as nginx's log lines have it in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.text)
    }
}

impl std::error::Error for ResolveError {}

/// What is wrong with a `resolver` directive. Displayed in nginx's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolverError {
    /// A word that is no parameter, or a parameter with a value that it does not take.
    Parameter(String),
    /// A name server's address that cannot be read or found.
    Server {
        /// As written.
        word: String,
        /// In nginx's words.
        wrong: &'static str,
    },
    /// Neither family is to be asked for.
    NoFamily,
    /// There is no name server among the words.
    NoServers,
}

impl fmt::Display for ResolverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResolverError::Parameter(word) => write!(f, "invalid parameter: {word}"),
            ResolverError::Server { word, wrong } => write!(f, "{wrong} in resolver \"{word}\""),
            ResolverError::NoFamily => f.write_str("\"ipv4\" and \"ipv6\" cannot both be \"off\""),
            ResolverError::NoServers => f.write_str("no name servers defined"),
        }
    }
}

impl std::error::Error for ResolverError {}
