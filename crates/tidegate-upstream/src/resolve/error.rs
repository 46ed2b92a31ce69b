//! The reason why a name has no address, and the errors of a `resolver` directive.

use std::fmt;

use super::host_port::HostPortError;

/// Why a name has no address: the code and text of nginx's log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResolveError {
    code: u16,
    text: &'static str,
}

impl ResolveError {
    /// The answer says that there is no such name.
    pub(super) const NOT_FOUND: ResolveError = ResolveError::new(3, "Host not found");
    /// No answer arrived within `resolver_timeout`.
    pub(super) const TIMED_OUT: ResolveError = ResolveError::new(110, "Operation timed out");
    /// The name server, or this one, cannot answer.
    pub(super) const FAILED: ResolveError = ResolveError::new(2, "Server failure");

    const fn new(code: u16, text: &'static str) -> ResolveError {
        ResolveError { code, text }
    }

    /// Returns the error of a name server's response code (RFC 1035 section 4.1.1).
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

    pub(super) fn code(self) -> usize {
        usize::from(self.code)
    }

    /// Returns whether the answer says that there is no such name.
    pub fn is_not_found(self) -> bool {
        self.code == ResolveError::NOT_FOUND.code
    }

    /// Returns whether no answer arrived in time.
    pub fn is_timeout(self) -> bool {
        self.code == ResolveError::TIMED_OUT.code
    }
}

impl fmt::Display for ResolveError {
    /// Writes `3: Host not found`, as nginx's log lines have it in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.text)
    }
}

impl std::error::Error for ResolveError {}

/// The error of a `resolver` directive. Displayed in nginx's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolverError {
    /// A word that is no parameter, or a parameter with an invalid value.
    Parameter(String),
    /// An invalid or unknown address of a name server.
    Server {
        /// As written.
        word: String,
        /// The error of the address.
        wrong: HostPortError,
    },
    /// Both families are off.
    NoFamily,
    /// The arguments contain no name server.
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
